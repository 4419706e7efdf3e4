#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * Keys that are scanned together.  Most scans are of one group and find nothing, or what has just been
 * put: the filter knows which groups RocksDB may have, and a group's changes in the front are found by its
 * hash, so that mostly RocksDB is not asked, and the front stays where it is.  All of a kind are linked too.
 */

#define BUCKET_COUNT 4096
/* The byte of the table and the kind; the length of a name behind them. */
#define KIND_LEN 2
#define HEAD_LEN 4

void cstore_shared_group(cstore_shared *shared, int table, int grouping, const uint8_t *kinds,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        shared->groups[table][kinds[i]] = (uint8_t)grouping;
}

bool has_groups(const cstore_shared *shared, const uint8_t *prefix, size_t len)
{
    return len >= KIND_LEN && prefix[0] <= CSTORE_DUE
        && shared->groups[prefix[0]][prefix[1]] != CSTORE_NO_GROUP;
}

size_t group_len(const cstore_shared *shared, const uint8_t *key, size_t len)
{
    if (!has_groups(shared, key, len))
        return 0;
    if (shared->groups[key[0]][key[1]] == CSTORE_BY_KIND)
        return KIND_LEN;
    if (len < HEAD_LEN)
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
    /* All of a restore's changes are in RocksDB before anybody asks. */
    if (store->is_restoring || !has_groups(store->shared, change->key, change->key_len))
        return true;
    if (!reserve_link(front))
        return false;
    /* A key that is too short for its group has none, and is of its kind all the same. */
    uint64_t hash = group_hash(change->key,
                               group_len(store->shared, change->key, change->key_len));
    uint32_t *bucket = bucket_of(front, hash);
    uint32_t *kind = &front->kinds[change->key[0]][change->key[1]];
    front->links[front->link_count++] = (struct front_link){(uint32_t)position, *bucket, *kind};
    *bucket = *kind = (uint32_t)front->link_count;
    return true;
}

void group_spilled(cstore *store, const struct change *change)
{
    size_t len = group_len(store->shared, change->key, change->key_len);
    if (len > 0 && !change->is_removal)
        filter_add(&store->filter, group_hash(change->key, len));
}

void group_clear(struct front *front)
{
    front->link_count = 0;
    memset(front->kinds, 0, sizeof front->kinds);
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

bool front_range(const cstore *store, const struct key_range *range, size_t group_len,
                 struct sorted_change **sorted, size_t *count)
{
    const struct front *front = &store->front;
    struct found found = {0};
    bool has_memory = true;
    uint32_t next = 0;
    if (front->link_count > 0)
        next = group_len > 0 ? *bucket_of(front, group_hash(range->first, group_len))
                             : front->kinds[range->first[0]][range->first[1]];
    while (next != 0 && has_memory) {
        const struct front_link *link = &front->links[next - 1];
        struct change change;
        change_read(front->changes.bytes, link->position, &change);
        has_memory = take(front, range, &change, link->position, &found);
        next = group_len > 0 ? link->next : link->next_of_kind;
    }
    if (!has_memory || (found.count > 1
                        && !sort_changes(found.changes, found.count, front->changes.bytes))) {
        free(found.changes);
        return false;
    }
    *sorted = found.changes;
    *count = found.count;
    return true;
}
