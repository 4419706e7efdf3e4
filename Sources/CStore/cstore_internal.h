#pragma once
#include "cstore.h"
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
void buffer_free(struct buffer *buffer);

/* One change or entry in its flat form. */
struct change {
    int table;
    bool is_removal;
    uint32_t key_len;
    uint32_t value_len;
    const uint8_t *key;
    const uint8_t *value;
};
#define CHANGE_PREFIX_LEN 9
/* Read the change at ${position}; returns the position after it. */
size_t change_read(const uint8_t *changes, size_t position, struct change *change);

struct bulk_entry {
    uint64_t prefix; /* the first eight bytes of the key, so that most comparisons end there */
    uint32_t position;
    uint8_t table;
};
struct bulk {
    bool is_active;
    unsigned file_count;
    struct buffer changes;
    struct buffer marker;
    struct bulk_entry *entries;
    size_t entry_count;
};

struct cstore_shared {
    rocksdb_cache_t *cache;
    rocksdb_block_based_table_options_t *table_options;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write_options;
    rocksdb_readoptions_t *read_options;
    rocksdb_readoptions_t *scan_options;
};

struct cstore {
    cstore_shared *shared;
    char *path;
    rocksdb_t *db;
    rocksdb_column_family_handle_t *families[CSTORE_TABLE_COUNT];
    /* Of cstore_get: results, and one block of per-key pointers. */
    struct buffer values;
    struct buffer scratch;
    struct bulk bulk;
};

/* Fill in ${error} from the library's ${message}, which is freed.  Returns -1. */
int fail(cstore_error *error, char *message, bool is_opening);
/* Fill in ${error}.  Returns -1. */
int fail_with(cstore_error *error, int kind, const char *message);
/* After a system call failed. */
int fail_errno(cstore_error *error, const char *what);
void bulk_free(struct bulk *bulk);
