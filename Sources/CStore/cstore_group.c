#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * Keys that are scanned together.  Most scans are of one group and find nothing, or what has just been
 * put: the filter knows which groups there may be, and a group's changes in the front are found by its
 * hash, so that neither RocksDB is asked nor the whole front is looked through.
 */

#define BUCKET_COUNT 4096
/* The byte of the table, the kind, and the length of what follows. */
#define HEAD_LEN 4

void cstore_shared_group(cstore_shared *shared, int table, const uint8_t *kinds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        shared->is_grouped[table][kinds[i]] = true;
}

size_t group_len(const cstore_shared *shared, const uint8_t *key, size_t len)
{
    if (len < HEAD_LEN || key[0] > CSTORE_DUE || !shared->is_grouped[key[0]][key[1]])
        return 0;
    size_t end = HEAD_LEN + ((size_t)key[2] << 8 | key[3]);
    return end <= len ? end : 0;
}

uint64_t group_hash(const uint8_t *group, size_t len)
{
    /* No table has this number. */
    return key_hash(CSTORE_TABLE_COUNT, group, len);
}

static uint32_t *bucket_of(const struct front *front, uint64_t hash)
{
    return &front->buckets[hash >> 32 & (BUCKET_COUNT - 1)];
}

static bool reserve_link(struct front *front)
{
    if (front->buckets == NULL) {
        front->buckets = calloc(BUCKET_COUNT, sizeof *front->buckets);
        if (front->buckets == NULL)
            return false;
    }
    if (front->link_count < front->link_capacity)
        return true;
    size_t capacity = front->link_capacity + front->link_capacity / 2 + BUCKET_COUNT;
    struct front_link *links = realloc(front->links, capacity * sizeof *links);
    if (links == NULL)
        return false;
    front->links = links;
    front->link_capacity = capacity;
    return true;
}

bool group_add(cstore *store, const struct change *change, size_t position)
{
    struct front *front = &store->front;
    size_t len = group_len(store->shared, change->key, change->key_len);
    if (len == 0)
        return true;
    uint64_t hash = group_hash(change->key, len);
    if (!change->is_removal)
        filter_add(&store->filter, hash);
    /* All of a restore's changes are in RocksDB before anybody asks. */
    if (store->is_restoring)
        return true;
    if (!reserve_link(front))
        return false;
    uint32_t *bucket = bucket_of(front, hash);
    front->links[front->link_count++] = (struct front_link){(uint32_t)position, *bucket};
    *bucket = (uint32_t)front->link_count;
    return true;
}

void group_clear(struct front *front)
{
    front->link_count = 0;
    if (front->buckets != NULL)
        memset(front->buckets, 0, BUCKET_COUNT * sizeof *front->buckets);
}

void group_free(struct front *front)
{
    free(front->buckets);
    free(front->links);
}

/* -- what a scan finds in the front ----------------------------------------------------------- */

struct found {
    struct sorted_change *changes;
    size_t count, capacity;
};

/* Take the change at ${position} where it is the newest to a key of the range.  false: no memory. */
static bool take(const struct front *front, const struct key_range *range,
                 const struct change *change, size_t position, struct found *found)
{
    if (key_compare(change->key, change->key_len, range->first, range->first_len) < 0
        || key_compare(change->key, change->key_len, range->end, range->end_len) >= 0
        || !front_is_newest(front, change, position))
        return true;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity * 2 + 16;
        struct sorted_change *changes = realloc(found->changes, capacity * sizeof *changes);
        if (changes == NULL)
            return false;
        found->changes = changes;
        found->capacity = capacity;
    }
    found->changes[found->count++] = sorted_change_at(front->changes.bytes, position);
    return true;
}

static bool take_group(const struct front *front, const struct key_range *range, size_t group_len,
                       struct found *found)
{
    if (front->link_count == 0)
        return true;
    uint32_t next = *bucket_of(front, group_hash(range->first, group_len));
    while (next != 0) {
        struct front_link link = front->links[next - 1];
        struct change change;
        change_read(front->changes.bytes, link.position, &change);
        if (!take(front, range, &change, link.position, found))
            return false;
        next = link.next;
    }
    return true;
}

static bool take_all(const struct front *front, const struct key_range *range, struct found *found)
{
    struct change change;
    for (size_t position = 0; position < front->changes.len;) {
        size_t end = change_read(front->changes.bytes, position, &change);
        if (!take(front, range, &change, position, found))
            return false;
        position = end;
    }
    return true;
}

bool front_range(const cstore *store, const struct key_range *range, size_t group_len,
                 struct sorted_change **sorted, size_t *count)
{
    const struct front *front = &store->front;
    struct found found = {0};
    bool has_memory = group_len > 0 ? take_group(front, range, group_len, &found)
                                    : take_all(front, range, &found);
    if (!has_memory || (found.count > 1
                        && !sort_changes(found.changes, found.count, front->changes.bytes))) {
        free(found.changes);
        return false;
    }
    *sorted = found.changes;
    *count = found.count;
    return true;
}
