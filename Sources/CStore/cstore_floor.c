#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * Where the first key behind the start of a scan lies.  A due table is a queue: keys are put at its end and
 * removed at its beginning, and RocksDB passes every removal again with each scan until a merge drops it,
 * 0.1 us each.  The floor of a start says that no key lies between the two, so that the next scan begins
 * there.
 */

/* Of a store; the least recently used goes. */
#define FLOOR_COUNT_MAX 64
/* Longer keys have no floor. */
#define FLOOR_KEY_LEN_MAX 128

struct floor {
    uint64_t used_at; /* in scans of the store */
    uint32_t start_len, first_len;
    uint8_t start[FLOOR_KEY_LEN_MAX];
    uint8_t first[FLOOR_KEY_LEN_MAX];
};

/* Whether there is no key from ${key} on to the first of the floor. */
static bool is_below(const struct floor *floor, const uint8_t *key, size_t len)
{
    return key_compare(floor->start, floor->start_len, key, len) <= 0
        && key_compare(key, len, floor->first, floor->first_len) < 0;
}

bool floor_seek(cstore *store, struct key_range *range)
{
    struct floors *floors = &store->floors;
    struct floor *best = NULL;
    floors->scan_count++;
    for (size_t i = 0; i < floors->count; i++) {
        struct floor *floor = &floors->all[i];
        if (is_below(floor, range->first, range->first_len)
            && (best == NULL || key_compare(best->first, best->first_len, floor->first,
                                            floor->first_len) < 0))
            best = floor;
    }
    if (best == NULL)
        return true;
    best->used_at = floors->scan_count;
    range->first = best->first;
    range->first_len = best->first_len;
    return key_compare(range->first, range->first_len, range->end, range->end_len) < 0;
}

/* The floor of that start, one that is free, or the one that goes; NULL: no memory. */
static struct floor *floor_of(struct floors *floors, const uint8_t *start, size_t len)
{
    struct floor *oldest = floors->all;
    for (size_t i = 0; i < floors->count; i++) {
        struct floor *floor = &floors->all[i];
        if (key_compare(floor->start, floor->start_len, start, len) == 0)
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

void floor_note(cstore *store, const uint8_t *start, size_t start_len, const uint8_t *first,
                size_t first_len)
{
    if (start_len > FLOOR_KEY_LEN_MAX || first_len > FLOOR_KEY_LEN_MAX
        || key_compare(start, start_len, first, first_len) >= 0)
        return;
    struct floor *floor = floor_of(&store->floors, start, start_len);
    /* Without one the next scan takes longer, and finds the same. */
    if (floor == NULL)
        return;
    floor->used_at = store->floors.scan_count;
    floor->start_len = (uint32_t)start_len;
    floor->first_len = (uint32_t)first_len;
    memcpy(floor->start, start, start_len);
    memcpy(floor->first, first, first_len);
}

void floor_lower(cstore *store, const struct change *change)
{
    if (change->is_removal)
        return;
    for (size_t i = 0; i < store->floors.count; i++) {
        struct floor *floor = &store->floors.all[i];
        if (!is_below(floor, change->key, change->key_len))
            continue;
        /* One with a key that is too long is of no use: nothing lies below it. */
        bool has_room = change->key_len <= FLOOR_KEY_LEN_MAX;
        floor->first_len = has_room ? change->key_len : floor->start_len;
        memcpy(floor->first, has_room ? change->key : floor->start, floor->first_len);
    }
}

void floors_free(cstore *store)
{
    free(store->floors.all);
    store->floors = (struct floors){0};
}
