#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A key-value store of three tables over RocksDB.  One call for a batch, never one for a record.
 * All stores that share are called from one thread; a thread of their own writes the files and
 * makes large filters (cstore_spill.c).  Nothing here calls back.
 *
 * A change waits in a table in memory (cstore_front.c) until the stores that share have too many, and then
 * goes to RocksDB in a file that is sorted already.  A look-up asks a filter of all keys
 * (cstore_filter.c), then that table, then RocksDB.  The three tables are one in RocksDB, a byte before
 * each key, so that one file has all changes to all of them.
 *
 * What was tried, with dedupe's pattern: twelve stores, look-ups of 2,000 tokens of two keys, a write after
 * 10,000 tokens, 97 of 100 of them new.  Processor time a token, RocksDB's threads included, on two busy
 * cores, each beside the first row and the last within minutes; means of two to five runs, which differ by
 * up to a quarter.  A million tokens are two million keys.
 *
 *                                                        look-ups  writes  threads    all   peak
 *   Changes to RocksDB's list in memory by sorted
 *   batches of 1 MB, Bloom filters of 12 and 7 bits       0.6 us    1.2     0.7     2.5 us  51 MB
 *     the same, batches not sorted                        0.6       4.8     1.2     6.7     50
 *     the same, RocksDB's vector in place of its list     0.6       0.7     0.7     2.0     66
 *   No table in memory and no filter of our own:
 *   RocksDB's list with memtable_whole_key_filtering,
 *   its Bloom of 10 bits in files                         2.9       3.1     0.7     6.7     38
 *   Files that are sorted already, 24 MB wait in all      0.7       0.8     0.0     1.6     81
 *     48 MB wait                                          0.5       1.1     0.0     1.6     99
 *     without a filter of our own, Bloom of 10 bits       1.9       0.8     0.0     2.7     74
 *     the same with RocksDB's ribbon filter               1.9       0.8     0.0     2.7     80
 *     our filter, and ribbon instead of Bloom in files    0.8       1.0     0.0     1.8     85
 *     sorted by comparing alone, not by digits            0.7       1.0     0.0     1.8     82
 *     one database, a column family for each store        0.7       0.8     0.0     1.5     80
 *
 *   Five million tokens, all of them new: ten million keys
 *   Before: 12 bits a key, and 7 of a large store         1.2       1.5     1.7     4.4     66
 *     12 bits a key always                                0.5       1.5     1.2     3.2     83
 *     12 bits, batches of 4 MB                            0.3       1.6     0.5     2.5    161
 *   Files that are sorted already, 12 MB wait in all      0.6       1.2     0.3     2.0     84
 *     24 MB wait                                          0.5       1.1     0.0     1.6    109
 *
 * So the filter and the sorting stay, and RocksDB's list and its flushes are only for changes that a scan
 * must see before a file is due.  One database for all stores saves 2 MB and 20 ms at the start, and nothing
 * of a token; a store of its own can be wiped, closed and handed over alone.
 */

enum cstore_table { CSTORE_STATE = 0, CSTORE_DUE = 1, CSTORE_META = 2, CSTORE_TABLE_COUNT = 3 };

/* What the caller must do about a failure, and the library's own sentence. */
enum cstore_kind {
    CSTORE_DISK_FULL = 1,
    CSTORE_DAMAGED = 2,
    CSTORE_LOCKED = 3,
    CSTORE_FAILED = 4,
};
typedef struct cstore_error {
    int32_t kind;
    char message[508];
} cstore_error;
_Static_assert(sizeof(cstore_error) == 512, "an error is copied as one flat struct");

typedef struct cstore_shared cstore_shared;
typedef struct cstore cstore;
typedef struct cstore_cursor cstore_cursor;

/**
 * cstore_shared_create(cache_len, write_buffer_len, file_filter_bits):
 * What stores share: one block cache of ${cache_len} bytes, the options, and memory for changes.  The
 * stores collect up to ${write_buffer_len} bytes of them together; with more, one that has its share or
 * more writes a file.  Each file says which keys it may have, in ${file_filter_bits} of memory a key.
 * NULL where there is no memory.  It must outlive its stores.
 */
cstore_shared *cstore_shared_create(size_t cache_len, size_t write_buffer_len,
                                    int file_filter_bits);
void cstore_shared_destroy(cstore_shared *shared);

enum cstore_grouping { CSTORE_NO_GROUP = 0, CSTORE_BY_KIND = 1, CSTORE_BY_NAME = 2 };
/**
 * cstore_shared_group(shared, table, grouping, kinds, count):
 * Keys of ${table} that begin with one of ${kinds} are scanned together: all of a kind, or by name those
 * that go on with the length of the same name (uint16, big-endian) and the name.  A cursor whose prefix has
 * that all asks a filter first.  Scans of such kinds leave changes in memory; others write them out, as
 * they would have to look at all of them.  Before a store is opened.
 */
void cstore_shared_group(cstore_shared *shared, int table, int grouping, const uint8_t *kinds,
                         size_t count);

/**
 * cstore_open(shared, path, error):
 * Open the store in the folder ${path}, or make it there; the parent folder exists.  NULL with
 * ${error} filled in: locked, damaged (missing, cut or altered files), disk full, or failed.
 */
cstore *cstore_open(cstore_shared *shared, const char *path, cstore_error *error);

/**
 * cstore_close(store, error):
 * Write what is in memory to a file, and close.  The store is gone also where
 * that failed, which is not always reported (-1): it is behind then, not wrong.
 */
int cstore_close(cstore *store, cstore_error *error);

/**
 * cstore_mark_damaged(store, error):
 * Leave a word for the next cstore_open, which then refuses the store: damage is found where it is
 * read, and not each time it is opened.  0, or -1.
 */
int cstore_mark_damaged(cstore *store, cstore_error *error);

/**
 * cstore_get(store, table, keys, key_lens, count, value_lens, error):
 * Look up ${count} keys that lie back to back at ${keys}.  ${value_lens}[i] becomes the length of
 * the i-th value, -1 where the key is unknown.  The values lie back to back at the pointer returned,
 * until the next call on this store.  NULL on failure.
 */
const uint8_t *cstore_get(cstore *store, int table, const uint8_t *keys, const uint32_t *key_lens,
                          size_t count, int64_t *value_lens, cstore_error *error);

/**
 * cstore_apply(store, changes, len, last, last_len, error):
 * Make the changes, and after them those at ${last}, all or none.  Each: key length, value length
 * (uint32, little-endian; UINT32_MAX removes the key), table (uint8), key, value.  They are seen at
 * once.  They reach the disk with a later file, and then too all or none.  ${last} puts the same key in
 * each call: by that key RocksDB knows which of two writes is the later one.  0, or -1: the store has to
 * be closed then.
 */
int cstore_apply(cstore *store, const uint8_t *changes, size_t len, const uint8_t *last,
                 size_t last_len, cstore_error *error);

/**
 * cstore_restore_begin(store):
 * Many changes follow before anybody looks something up: they are collected for larger files, up to
 * 40 MiB, and the filter is made from all keys at the end, or begun.  The end does nothing where no restore is
 * under way.
 */
void cstore_restore_begin(cstore *store);
int cstore_restore_end(cstore *store, cstore_error *error);

/* Entries in key order, each as in cstore_apply: lengths, table, key, value. */
typedef struct cstore_entries {
    const uint8_t *bytes;
    size_t len;
    size_t count;
} cstore_entries;

/**
 * cstore_cursor_open(store, table, start, len, prefix, prefix_len, error):
 * A cursor before the first key not below ${start} that begins with ${prefix}; it ends behind the last
 * one.  What was removed beyond those costs it nothing: a cursor without a prefix reads on through all of
 * that, until it meets a key.  Nothing is applied to any store that shares while it is open.  NULL with
 * ${error} filled in.
 */
cstore_cursor *cstore_cursor_open(cstore *store, int table, const uint8_t *start, size_t len,
                                  const uint8_t *prefix, size_t prefix_len, cstore_error *error);

/**
 * cstore_cursor_read(cursor, count_max, entries, error):
 * The next ${count_max} entries at most, none at the end; they live until the next read.  0, or -1.
 */
int cstore_cursor_read(cstore_cursor *cursor, size_t count_max, cstore_entries *entries,
                       cstore_error *error);
void cstore_cursor_close(cstore_cursor *cursor);

/* A multiplication whose halves are folded: every bit of the result depends on every bit of both. */
static inline uint64_t cstore_mix(uint64_t left, uint64_t right)
{
    unsigned __int128 product = (unsigned __int128)left * right;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* ${len} bytes, 8 at most, as the lower bytes of a word.  Loads that overlap, in registers: a word that is
 * written byte by byte and loaded at once waits until all of it has left the processor's store buffer. */
static inline uint64_t cstore_short_word(const uint8_t *bytes, size_t len)
{
    if (len >= 4) {
        uint32_t first, last;
        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + len - 4, 4);
        return first | (uint64_t)last << (len - 4) * 8;
    }
    if (len == 0)
        return 0;
    return bytes[0] | (uint64_t)bytes[len / 2] << len / 2 * 8
           | (uint64_t)bytes[len - 1] << (len - 1) * 8;
}

/* The one hash of keys and values here and above: for tables in memory, filters, checksums.  Not for
 * what somebody could forge.  ${seed} has the length in it. */
static inline uint64_t cstore_hash(const uint8_t *bytes, size_t len, uint64_t seed)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    for (; len > 8; bytes += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        seed = cstore_mix(seed ^ word, odd);
    }
    return cstore_mix(seed ^ cstore_short_word(bytes, len), odd);
}

/* The hash of one entry, and the wrapping sum of it over a whole table.  0, or -1. */
uint64_t cstore_entry_hash(const uint8_t *key, size_t key_len, const uint8_t *value,
                           size_t value_len);
int cstore_checksum(cstore *store, int table, uint64_t *sum, cstore_error *error);

/* What a store has in memory of its own; RocksDB is not asked. */
typedef struct cstore_usage {
    uint64_t filter_len;
    uint64_t front_len; /* of changes that RocksDB does not have yet */
    int is_filter_made; /* it denies what is not there, and no other one is being made */
} cstore_usage;
cstore_usage cstore_measure(const cstore *store);

/* A folder and its parents, made where missing; a folder and all below it, removed where there.
 * 0, or -1. */
int cstore_make_folder(const char *path, cstore_error *error);
int cstore_remove_folder(const char *path, cstore_error *error);
