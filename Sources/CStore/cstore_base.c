#include "cstore_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every file here needs, and what needs none of them: bytes, changes, hashes, paths. */

bool buffer_reserve(struct buffer *buffer, size_t len)
{
    return buffer_grow(buffer, len, buffer->capacity);
}

bool buffer_grow(struct buffer *buffer, size_t len, size_t spare)
{
    if (buffer->capacity - buffer->len >= len)
        return true;
    size_t capacity = buffer->capacity + spare;
    if (capacity < buffer->len + len)
        capacity = buffer->len + len;
    uint8_t *bytes = realloc(buffer->bytes, capacity);
    if (bytes == NULL)
        return false;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

size_t change_read(const uint8_t *changes, size_t position, struct change *change)
{
    const uint8_t *prefix = changes + position;
    memcpy(&change->key_len, prefix, 4);
    memcpy(&change->value_len, prefix + 4, 4);
    change->is_removal = change->value_len == UINT32_MAX;
    if (change->is_removal)
        change->value_len = 0;
    change->key = prefix + CHANGE_PREFIX_LEN - 1;
    change->key_len++;
    change->value = change->key + change->key_len;
    return position + CHANGE_PREFIX_LEN - 1 + change->key_len + change->value_len;
}

int key_compare(const uint8_t *left, size_t left_len, const uint8_t *right, size_t right_len)
{
    int order = memcmp(left, right, left_len < right_len ? left_len : right_len);
    if (order != 0)
        return order;
    return left_len < right_len ? -1 : left_len > right_len;
}

uint64_t key_hash(int table, const uint8_t *key, size_t len)
{
    return cstore_hash(key, len, len * 4 + (uint64_t)table);
}

bool path_in(const char *folder, const char *name, char path[STORE_PATH_LEN])
{
    int used = snprintf(path, STORE_PATH_LEN, "%s/%s", folder, name);
    bool has_room = used > 0 && used < STORE_PATH_LEN;
    if (!has_room)
        errno = ENAMETOOLONG;
    return has_room;
}

uint64_t store_property(const cstore *store, const char *name)
{
    uint64_t value = 0;
    rocksdb_property_int_cf(store->db, store->family, name, &value);
    return value;
}

uint64_t estimated_key_count(const cstore *store)
{
    return store_property(store, "rocksdb.estimate-num-keys");
}
