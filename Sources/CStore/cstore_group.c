#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * Keys that are scanned together.  Most scans are of one group and find nothing, or what has just been
 * put: the filter knows which groups RocksDB may have, and a group's changes in the front are found by its
 * hash, so that mostly RocksDB is not asked, and the front stays where it is.  All of a kind are linked too:
 * a scan of it sorts what came since the last one, and merges that into what was sorted then.
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
    struct front_kind *kind = &front->kinds[change->key[0]][change->key[1]];
    front->links[front->link_count++] =
        (struct front_link){(uint32_t)position, *bucket, kind->newest};
    *bucket = kind->newest = (uint32_t)front->link_count;
    return true;
}

void group_spilled(cstore *store, const struct change *change)
{
    size_t len = group_len(store->shared, change->key, change->key_len);
    if (len > 0 && !change->is_removal)
        filter_note(store, group_hash(change->key, len));
}

static void clear_kinds(struct front *front)
{
    for (size_t table = 0; table <= CSTORE_DUE; table++) {
        for (size_t i = 0; i < sizeof front->kinds[table] / sizeof *front->kinds[table]; i++)
            free(front->kinds[table][i].sorted);
    }
    memset(front->kinds, 0, sizeof front->kinds);
}

void group_free(struct front *front)
{
    clear_kinds(front);
    free(front->buckets);
    free(front->links);
}

/* -- what a scan finds in the front ----------------------------------------------------------- */

struct found {
    struct sorted_change *changes;
    size_t count, capacity;
};

/* Take in the change at ${position}.  false: no memory. */
static bool take(const struct front *front, size_t position, struct found *found)
{
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

static bool sort_found(const struct front *front, struct found *found)
{
    return found->count < 2 || sort_changes(found->changes, found->count, front->changes.bytes);
}

static bool is_in(const struct key_range *range, const struct change *change)
{
    return key_compare(change->key, change->key_len, range->first, range->first_len) >= 0
        && key_compare(change->key, change->key_len, range->end, range->end_len) < 0;
}

/* The newest changes of a range in a group by name, in order.  false: no memory. */
static bool find_in_bucket(const struct front *front, const struct key_range *range,
                           size_t group_len, struct found *found)
{
    uint32_t next = *bucket_of(front, group_hash(range->first, group_len));
    while (next != 0) {
        const struct front_link *link = &front->links[next - 1];
        struct change change;
        change_read(front->changes.bytes, link->position, &change);
        if (is_in(range, &change) && front_is_newest(front, &change, link->position)
            && !take(front, link->position, found))
            return false;
        next = link->next;
    }
    return sort_found(front, found);
}

/* The newest changes of a kind that came since its last scan, in order.  false: no memory. */
static bool find_since(const struct front *front, const struct front_kind *kind,
                       struct found *found)
{
    uint32_t next = kind->newest;
    while (next != kind->newest_sorted) {
        const struct front_link *link = &front->links[next - 1];
        struct change change;
        change_read(front->changes.bytes, link->position, &change);
        if (front_is_newest(front, &change, link->position)
            && !take(front, link->position, found))
            return false;
        next = link->next_of_kind;
    }
    return sort_found(front, found);
}

/* Have what came since the last scan of a kind among what was sorted then; of two changes to one key the
 * newer stays.  false: no memory. */
static bool merge_since(const struct front *front, struct front_kind *kind,
                        const struct found *since)
{
    const struct sorted_change *old = kind->sorted, *new = since->changes;
    size_t old_left = kind->sorted_count, new_left = since->count, count = 0;
    struct sorted_change *merged = malloc((old_left + new_left) * sizeof *merged);
    if (merged == NULL)
        return false;
    while (old_left > 0 && new_left > 0) {
        int order = compare_changes(old, new, front->changes.bytes);
        if (order < 0) {
            merged[count++] = *old++;
            old_left--;
            continue;
        }
        merged[count++] = *new++;
        new_left--;
        if (order == 0) {
            old++;
            old_left--;
        }
    }
    if (old_left > 0)
        memcpy(merged + count, old, old_left * sizeof *merged);
    if (new_left > 0)
        memcpy(merged + count, new, new_left * sizeof *merged);
    free(kind->sorted);
    kind->sorted = merged;
    kind->sorted_count = count + old_left + new_left;
    return true;
}

/* Bring what is sorted of a kind up to its newest change.  false: no memory. */
static bool sort_kind(const struct front *front, struct front_kind *kind)
{
    struct found since = {0};
    if (kind->newest == kind->newest_sorted)
        return true;
    bool is_sorted = find_since(front, kind, &since) && merge_since(front, kind, &since);
    free(since.changes);
    if (is_sorted)
        kind->newest_sorted = kind->newest;
    return is_sorted;
}

/* How many of the sorted changes of a kind lie before ${key}. */
static size_t count_before(const struct front *front, const struct front_kind *kind,
                           const uint8_t *key, size_t len)
{
    size_t first = 0, end = kind->sorted_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        struct change change;
        change_read(front->changes.bytes, kind->sorted[middle].position, &change);
        if (key_compare(change.key, change.key_len, key, len) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

bool is_kind(size_t group_len)
{
    return group_len == KIND_LEN;
}

bool front_range(struct front *front, const struct key_range *range, size_t group_len,
                 struct front_part *part)
{
    *part = (struct front_part){0};
    if (front->link_count == 0)
        return true;
    if (group_len > 0 && !is_kind(group_len)) {
        struct found found = {0};
        if (!find_in_bucket(front, range, group_len, &found)) {
            free(found.changes);
            return false;
        }
        *part = (struct front_part){found.changes, found.count, found.changes};
        return true;
    }
    struct front_kind *kind = &front->kinds[range->first[0]][range->first[1]];
    if (!sort_kind(front, kind))
        return false;
    size_t first = count_before(front, kind, range->first, range->first_len);
    size_t end = count_before(front, kind, range->end, range->end_len);
    if (end > first)
        *part = (struct front_part){kind->sorted + first, end - first, NULL};
    return true;
}
