#pragma once
#include "cstore.h"
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdbool.h>

/* Bytes that grow. */
struct buffer {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
};
/* Make room for ${len} more bytes.  false: no memory. */
bool buffer_reserve(struct buffer *buffer, size_t len);
/* The same, but where it has to grow, by ${spare} at least and not to twice what it was. */
bool buffer_grow(struct buffer *buffer, size_t len, size_t spare);
void buffer_free(struct buffer *buffer);

/* One change or entry in its flat form.  Its key begins with the byte of its table: so they lie in
 * RocksDB, all tables in one. */
struct change {
    bool is_removal;
    uint32_t key_len;
    uint32_t value_len;
    const uint8_t *key;
    const uint8_t *value;
};
#define CHANGE_PREFIX_LEN 9
/* Read the change at ${position}; returns the position after it. */
size_t change_read(const uint8_t *changes, size_t position, struct change *change);

/* A change among others that are sorted by key. */
struct sorted_change {
    uint64_t prefix; /* the first eight bytes of the key, so that most comparisons end there */
    uint32_t position;
};
struct sorted_change sorted_change_at(const uint8_t *changes, size_t position);
/* By key, as memcmp does. */
int compare_changes(const struct sorted_change *left, const struct sorted_change *right,
                    const uint8_t *changes);
/* By key.  false: no memory. */
bool sort_changes(struct sorted_change *sorted, size_t count, const uint8_t *changes);

/* Of a key in a table; every bit of it may be used. */
uint64_t key_hash(int table, const uint8_t *key, size_t len);

#define FILTER_LAYER_COUNT_MAX 16
#define FILTER_LINE_LEN 64
struct filter_layer {
    uint8_t *lines;
    uint64_t line_count;
    uint64_t room; /* keys that may still be added */
};
/* Which keys of the state table there may be, and which groups RocksDB may have. */
struct filter {
    struct filter_layer layers[FILTER_LAYER_COUNT_MAX];
    int layer_count;
    uint64_t key_count;
    bool is_whole;  /* has every key that there is: else nothing is denied, and nothing kept */
    bool is_making; /* will be whole, and takes in what is put meanwhile */
    bool has_grown; /* got a layer since filter_renew */
};
/* A filter that will take the place of the store's. */
struct making {
    rocksdb_iterator_t *source; /* of the keys that are not in it yet; NULL where none is made */
    struct filter filter;       /* under filter_mutex while the spiller is at it */
    cstore_error error;
    bool has_failed;
};
/* By what a file is known to be of a store as it is: a copy, another store, one that was written to
 * differs. */
struct store_state {
    uint64_t sequence; /* RocksDB's; the first file that is brought in uses up none */
    /* Of the file CURRENT, which RocksDB makes anew each time it opens. */
    uint64_t current_inode, current_seconds, current_nanoseconds;
};
struct store_state store_state_of(const cstore *store, uint64_t sequence);
/* Make the filter from the keys that there are; where there are many, have it begun as soon as the spiller is
 * free.  All that waits in memory goes to RocksDB.  0, or -1. */
int filter_make(cstore *store, cstore_error *error);
/* The spiller's part: take in some keys.  Returns whether there are more. */
bool filter_make_step(cstore *store);
/* Without the one that is being made. */
void filter_stop(cstore *store);
/* Nor the one that serves. */
void filter_drop(cstore *store);
/* Have the one that was made serve; have it made anew where it has grown in many steps, or most of it is of
 * keys that were removed.  0, or -1. */
int filter_renew(cstore *store, cstore_error *error);
/* Take in a key, or a group, that is put. */
void filter_note(cstore *store, uint64_t hash);
/* Take the filter that filter_keep has left in a file, or make it.  0, or -1. */
int filter_open(cstore *store, cstore_error *error);
/* Leave the filter of a store that is closed, RocksDB being at ${sequence}, in a file for the next
 * filter_open, if that can be. */
void filter_keep(const cstore *store, uint64_t sequence);
/* One more layer, for ${key_count} keys.  false: no memory. */
bool filter_add_layer(struct filter *filter, uint64_t key_count);
/* Whether so many keys were removed that it is better made anew. */
bool filter_is_worn(const struct filter *filter, uint64_t key_count);
/* Where there is no memory for one more key, nothing is denied any more. */
void filter_add(struct filter *filter, uint64_t hash);
bool filter_may_have(const struct filter *filter, uint64_t hash);
/* Prefetch the memory that filter_may_have is about to read. */
void filter_prefetch(const struct filter *filter, uint64_t hash);
/* So many keys ahead: more than a thousand at once would push each other out of the nearest cache. */
#define FILTER_KEYS_AHEAD 12
size_t filter_len(const struct filter *filter);
void filter_free(struct filter *filter);

struct front_slot {
    uint32_t hash;
    uint32_t end; /* the position of the change and 1; 0: empty */
};
/* A change to a key that has a group. */
struct front_link {
    uint32_t position;
    /* The link before it in its bucket, and of its kind, and 1; 0: none. */
    uint32_t next, next_of_kind;
};
/* The changes of a kind whose keys have groups. */
struct front_kind {
    /* The newest to each key in order, as of the last scan of all of the kind. */
    struct sorted_change *sorted;
    size_t sorted_count;
    /* The newest link and 1, now and as of that scan. */
    uint32_t newest, newest_sorted;
};
/* Changes that wait in memory, the newest of each key to be found by its hash. */
struct front {
    struct buffer changes;
    struct front_slot *slots;
    size_t slot_count;
    size_t key_count;
    uint32_t *buckets; /* by a hash of the group: the newest link and 1 */
    struct front_kind kinds[CSTORE_DUE + 1][256]; /* by table */
    struct front_link *links;
    size_t link_count, link_capacity;
};
/* Take in changes, also in the filter.  false: no memory; the front is then of no use. */
bool front_add(cstore *store, const uint8_t *changes, size_t len);
/* Whether there is a change to a key of the hash ${hash}. */
bool front_find(const struct front *front, int table, const uint8_t *key, size_t len,
                uint64_t hash, struct change *change);
/* Whether the change at ${position} is the newest to its key. */
bool front_is_newest(const struct front *front, const struct change *change, size_t position);
/* Whether the stores that share have more than they may, and this one no less than others. */
bool front_is_full(const cstore *store);
/* The newest changes of all keys in their order; NULL: no memory. */
struct sorted_change *front_sorted(const struct front *front);
void front_free(struct front *front);
/* Free what a store has in memory for changes to come. */
void front_drop(cstore *store);
/* So many changes ahead their memory is asked for where they are read in another order than they lie:
 * a front is larger than the nearer caches. */
#define SORTED_AHEAD 8

/* A front on its way to RocksDB, until RocksDB has it: read as the front is, and changed no more. */
struct leaving {
    struct front front;
    struct sorted_change *sorted; /* NULL until its writer has them in order */
    cstore_error error;
    bool has_failed; /* RocksDB does not have it, and nobody writes it */
};
/* Writes what leaves the stores that share, one front at a time, and makes their filters in between, one at a
 * time too.  The store's thread makes the job and takes back what has become of it; between the two the store's
 * `leaving` is only read. */
struct spiller {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    cstore *job; /* NULL: none */
    cstore *making, *stepping; /* whose filter is made, and taking in some keys now; NULL: none */
    pthread_mutex_t filter_mutex; /* of the filter that is made */
    bool is_started, is_ended;
    /* Of the store's thread: the last store whose front left; NULL where RocksDB has it. */
    cstore *last;
};
void spiller_open(struct spiller *spiller);
/* Whether it is there and makes no filter. */
bool spiller_is_free(cstore_shared *shared);
/* Have it make the filter of a store that has begun to. */
void spiller_make(cstore *store);
bool spiller_is_making(const cstore *store);
/* Returns when it reads no more of the store's keys. */
void spiller_stop_making(cstore *store);
void spiller_close(struct spiller *spiller);
/* Hand all to RocksDB, as one: to its memory where it is little.  0, or -1: all that it does not have stays
 * where it was. */
int spill_all(cstore *store, cstore_error *error);
/* Have a front that is full go to RocksDB as a file, mostly by the spiller.  0, or -1. */
int spill_full(cstore *store, cstore_error *error);
/* Take note of what the spiller has brought to RocksDB.  0, or -1: it could not. */
int spill_poll(cstore *store, cstore_error *error);
/* Free what left a store that is closed and did not get to RocksDB. */
void leaving_drop(cstore *store);

/* Whether keys that begin with ${prefix}, which begins with its table, have groups. */
bool has_groups(const cstore_shared *shared, const uint8_t *prefix, size_t len);
/* The bytes of the group of a key that begins with its table; 0 where it has none. */
size_t group_len(const cstore_shared *shared, const uint8_t *key, size_t len);
uint64_t group_hash(const uint8_t *group, size_t len);
/* Note the group of a change of the front.  false: no memory. */
bool group_add(cstore *store, const struct change *change, size_t position);
/* A change goes from the front to RocksDB: the filter takes in its group. */
void group_spilled(cstore *store, const struct change *change);
void group_free(struct front *front);
/* Keys from ${first} on that lie before ${end}, both with their table. */
struct key_range {
    const uint8_t *first, *end;
    size_t first_len, end_len;
};
/* Some changes of the front, in the order of their keys. */
struct front_part {
    const struct sorted_change *changes;
    size_t count;
    struct sorted_change *owned; /* to be freed; NULL: they are the front's, until it is changed */
};
/* The newest changes of the front in a range of keys of one kind that have groups: ${group_len} bytes are
 * those of the group that the range lies in, or 0.  false: no memory. */
bool front_range(struct front *front, const struct key_range *range, size_t group_len,
                 struct front_part *part);
/* Whether a group of so many bytes is all of a kind. */
bool is_kind(size_t group_len);
/* As memcmp does, the shorter of two that begin alike first. */
int key_compare(const uint8_t *left, size_t left_len, const uint8_t *right, size_t right_len);

struct floors {
    struct floor *all;
    size_t count;
    uint64_t scan_count;
};
/* Longer keys have no floor. */
#define FLOOR_KEY_LEN_MAX 128
/* A key, or what is none: longer than one that has a floor. */
struct floor_key {
    size_t len;
    uint8_t bytes[FLOOR_KEY_LEN_MAX];
};
void floor_key_set(struct floor_key *key, const uint8_t *bytes, size_t len);
/* Of what a floor says that nothing lies below it: all, or RocksDB alone as of the last spill, without what
 * the front removes or puts anew. */
enum floor_of { FLOOR_OF_ALL, FLOOR_OF_ROCKSDB, FLOOR_OF_COUNT };
/* Have a scan begin behind what is known to be empty: false where that is all of its range.  The range
 * refers to the floor then, until the next note. */
bool floor_seek(cstore *store, enum floor_of of, struct key_range *range);
/* A scan from ${start} has met ${first} as its first key, or as its end; RocksDB, where the front does not
 * say otherwise, has none before ${stored}. */
void floor_note(cstore *store, const uint8_t *start, size_t start_len,
                const struct floor_key *first, const struct floor_key *stored);
/* A change is made, or goes to RocksDB: if it puts a key, no floor may be above that. */
void floor_lower(cstore *store, enum floor_of of, const struct change *change);
void floors_free(cstore *store);

struct cstore_shared {
    struct spiller spiller;
    uint8_t groups[CSTORE_DUE + 1][256]; /* by table and kind, a cstore_grouping */
    size_t front_len_max; /* of the changes that wait in memory, of all stores */
    size_t front_len; /* of what waits now, without what is leaving */
    size_t store_count; /* that are open */
    rocksdb_cache_t *cache;
    rocksdb_block_based_table_options_t *table_options;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write_options;
    rocksdb_readoptions_t *read_options;
    rocksdb_readoptions_t *scan_options;
    rocksdb_envoptions_t *env_options;
    rocksdb_ingestexternalfileoptions_t *ingest_options;
};

struct cstore {
    cstore_shared *shared;
    char *path;
    rocksdb_t *db;
    rocksdb_column_family_handle_t *family;
    /* Of cstore_get: results, and one block of per-key pointers. */
    struct buffer values;
    struct buffer scratch;
    struct front front;
    struct leaving leaving;
    struct filter filter;
    struct making making;
    bool wants_filter; /* as soon as the spiller is free */
    struct floors floors; /* of the due table */
    struct store_state opened_at; /* before RocksDB opened it; without a sequence */
    bool is_restoring; /* has no filter meanwhile, and a large front */
};
/* A property that is a number; 0 where RocksDB has none. */
uint64_t store_property(const cstore *store, const char *name);
/* An estimate, of all tables together. */
uint64_t estimated_key_count(const cstore *store);
#define STORE_PATH_LEN 4096
/* The path of ${name} in ${folder}; false, and errno, where it is too long. */
bool path_in(const char *folder, const char *name, char path[STORE_PATH_LEN]);
/* Wait until no flush is under way. */
void await_flush(cstore *store);

/* Fill in ${error} from the library's ${message}, which is freed.  Returns -1. */
int fail(cstore_error *error, char *message, bool is_opening);
/* Fill in ${error}.  Returns -1. */
int fail_with(cstore_error *error, int kind, const char *message);
/* After a system call failed. */
int fail_errno(cstore_error *error, const char *what);
