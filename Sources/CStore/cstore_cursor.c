#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

struct cstore_cursor {
    rocksdb_iterator_t *iterator;
    /* With the end, which they refer to. */
    rocksdb_readoptions_t *options;
    char *end;
    struct buffer entries;
};

cstore_cursor *cstore_cursor_open(cstore *store, int table, const uint8_t *start, size_t len,
                                  const uint8_t *end, size_t end_len, cstore_error *error)
{
    if (front_spill(store, error) != 0)
        return NULL;
    cstore_cursor *cursor = calloc(1, sizeof *cursor);
    if (cursor == NULL) {
        fail_with(error, CSTORE_FAILED, "no memory");
        return NULL;
    }
    /* Both with the byte of the table before them; without an end, that of the next one. */
    cursor->end = malloc(end_len + len + 2);
    if (cursor->end == NULL) {
        free(cursor);
        fail_with(error, CSTORE_FAILED, "no memory");
        return NULL;
    }
    char *first = cursor->end + end_len + 1;
    cursor->end[0] = (char)(end_len > 0 ? table : table + 1);
    first[0] = (char)table;
    if (end_len > 0)
        memcpy(cursor->end + 1, end, end_len);
    if (len > 0)
        memcpy(first + 1, start, len);
    cursor->options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_iterate_upper_bound(cursor->options, cursor->end, end_len + 1);
    if (end_len == 0)
        rocksdb_readoptions_set_fill_cache(cursor->options, 0);
    cursor->iterator = rocksdb_create_iterator_cf(store->db, cursor->options, store->family);
    rocksdb_iter_seek(cursor->iterator, first, len + 1);
    return cursor;
}

static bool append_entry(cstore_cursor *cursor)
{
    size_t key_len, value_len;
    const char *key = rocksdb_iter_key(cursor->iterator, &key_len);
    const char *value = rocksdb_iter_value(cursor->iterator, &value_len);
    struct buffer *entries = &cursor->entries;
    /* A key of RocksDB begins with its table, as an entry's does. */
    size_t len = CHANGE_PREFIX_LEN - 1 + key_len + value_len;
    if (!buffer_reserve(entries, len))
        return false;
    uint8_t *end = entries->bytes + entries->len;
    uint32_t key_prefix = (uint32_t)key_len - 1, value_prefix = (uint32_t)value_len;
    memcpy(end, &key_prefix, 4);
    memcpy(end + 4, &value_prefix, 4);
    memcpy(end + CHANGE_PREFIX_LEN - 1, key, key_len);
    if (value_len > 0)
        memcpy(end + len - value_len, value, value_len);
    entries->len += len;
    return true;
}

int cstore_cursor_read(cstore_cursor *cursor, size_t count_max, cstore_entries *entries,
                       cstore_error *error)
{
    char *message = NULL;
    size_t count = 0;
    cursor->entries.len = 0;
    while (count < count_max && rocksdb_iter_valid(cursor->iterator)) {
        if (!append_entry(cursor))
            return fail_with(error, CSTORE_FAILED, "no memory");
        count++;
        rocksdb_iter_next(cursor->iterator);
    }
    rocksdb_iter_get_error(cursor->iterator, &message);
    if (message != NULL)
        return fail(error, message, false);
    *entries = (cstore_entries){cursor->entries.bytes, cursor->entries.len, count};
    return 0;
}

void cstore_cursor_close(cstore_cursor *cursor)
{
    rocksdb_iter_destroy(cursor->iterator);
    rocksdb_readoptions_destroy(cursor->options);
    free(cursor->end);
    buffer_free(&cursor->entries);
    free(cursor);
}

uint64_t cstore_entry_hash(const uint8_t *key, size_t key_len, const uint8_t *value,
                           size_t value_len)
{
    return cstore_hash(value, value_len, cstore_hash(key, key_len, key_len) + value_len);
}

int cstore_checksum(cstore *store, int table, uint64_t *sum, cstore_error *error)
{
    char *message = NULL;
    if (front_spill(store, error) != 0)
        return -1;
    rocksdb_iterator_t *iterator = rocksdb_create_iterator_cf(
        store->db, store->shared->scan_options, store->family);
    const char first = (char)table;
    *sum = 0;
    for (rocksdb_iter_seek(iterator, &first, 1); rocksdb_iter_valid(iterator);
         rocksdb_iter_next(iterator)) {
        size_t key_len, value_len;
        const uint8_t *key = (const uint8_t *)rocksdb_iter_key(iterator, &key_len);
        const uint8_t *value = (const uint8_t *)rocksdb_iter_value(iterator, &value_len);
        if (key[0] != table)
            break;
        *sum += cstore_entry_hash(key + 1, key_len - 1, value, value_len);
    }
    rocksdb_iter_get_error(iterator, &message);
    rocksdb_iter_destroy(iterator);
    return message == NULL ? 0 : fail(error, message, false);
}
