#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * Where the first key behind the start of a scan lies.  A due table is a queue: keys are put at its end and
 * removed at its beginning, and RocksDB passes every removal again with each scan until a merge drops it,
 * up to 0.5 us each.  The floor of a start says that no key lies between the two, so that the next scan
 * begins there.  Where keys come in no order, each that is put lowers the floor to itself: of RocksDB alone
 * there is another one, which only a spill lowers.
 */

/* Of a store; the least recently used goes. */
#define FLOOR_COUNT_MAX 64

struct floor {
    uint64_t used_at; /* in scans of the store */
    struct floor_key start;
    struct floor_key first[FLOOR_OF_COUNT];
};

void floor_key_set(struct floor_key *key, const uint8_t *bytes, size_t len)
{
    key->len = len;
    if (len <= FLOOR_KEY_LEN_MAX)
        memcpy(key->bytes, bytes, len);
}

/* Whether there is no key from ${key} on to ${first} of the floor. */
static bool is_below(const struct floor *floor, const struct floor_key *first, const uint8_t *key,
                     size_t len)
{
    return key_compare(floor->start.bytes, floor->start.len, key, len) <= 0
        && key_compare(key, len, first->bytes, first->len) < 0;
}

bool floor_seek(cstore *store, enum floor_of of, struct key_range *range)
{
    struct floors *floors = &store->floors;
    struct floor *best = NULL;
    floors->scan_count++;
    for (size_t i = 0; i < floors->count; i++) {
        struct floor *floor = &floors->all[i];
        const struct floor_key *first = &floor->first[of];
        if (is_below(floor, first, range->first, range->first_len)
            && (best == NULL || key_compare(best->first[of].bytes, best->first[of].len,
                                            first->bytes, first->len) < 0))
            best = floor;
    }
    if (best == NULL)
        return true;
    best->used_at = floors->scan_count;
    range->first = best->first[of].bytes;
    range->first_len = best->first[of].len;
    return key_compare(range->first, range->first_len, range->end, range->end_len) < 0;
}

/* The floor of that start, one that is free, or the one that goes; NULL: no memory. */
static struct floor *floor_of(struct floors *floors, const uint8_t *start, size_t len)
{
    struct floor *oldest = floors->all;
    for (size_t i = 0; i < floors->count; i++) {
        struct floor *floor = &floors->all[i];
        if (key_compare(floor->start.bytes, floor->start.len, start, len) == 0)
            return floor;
        if (floor->used_at < oldest->used_at)
            oldest = floor;
    }
    if (floors->count == FLOOR_COUNT_MAX)
        return oldest;
    struct floor *all = realloc(floors->all, (floors->count + 1) * sizeof *all);
    if (all == NULL)
        return NULL;
    floors->all = all;
    return &all[floors->count++];
}

/* Whether it is a key behind the start: else it says nothing. */
static bool is_behind(const struct floor_key *key, const uint8_t *start, size_t start_len)
{
    return key->len <= FLOOR_KEY_LEN_MAX
        && key_compare(start, start_len, key->bytes, key->len) < 0;
}

void floor_note(cstore *store, const uint8_t *start, size_t start_len,
                const struct floor_key *first, const struct floor_key *stored)
{
    bool has_first = is_behind(first, start, start_len);
    bool has_stored = is_behind(stored, start, start_len);
    if (start_len > FLOOR_KEY_LEN_MAX || (!has_first && !has_stored))
        return;
    struct floor *floor = floor_of(&store->floors, start, start_len);
    /* Without one the next scan takes longer, and finds the same. */
    if (floor == NULL)
        return;
    floor->used_at = store->floors.scan_count;
    floor_key_set(&floor->start, start, start_len);
    floor->first[FLOOR_OF_ALL] = has_first ? *first : floor->start;
    floor->first[FLOOR_OF_ROCKSDB] = has_stored ? *stored : floor->start;
}

void floor_lower(cstore *store, enum floor_of of, const struct change *change)
{
    if (change->is_removal)
        return;
    for (size_t i = 0; i < store->floors.count; i++) {
        struct floor *floor = &store->floors.all[i];
        struct floor_key *first = &floor->first[of];
        if (!is_below(floor, first, change->key, change->key_len))
            continue;
        /* One with a key that is too long is of no use: nothing lies below it. */
        if (change->key_len <= FLOOR_KEY_LEN_MAX)
            floor_key_set(first, change->key, change->key_len);
        else
            *first = floor->start;
    }
}

void floors_free(cstore *store)
{
    free(store->floors.all);
    store->floors = (struct floors){0};
}
