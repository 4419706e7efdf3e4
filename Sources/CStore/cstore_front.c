#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * What was applied and is not in RocksDB yet.  Changes are collected here, by a hash of their keys, and
 * go to RocksDB as a file that is sorted already: 0.25 us of the processor a change, where a put of its
 * own into RocksDB's list in memory, the flush of that list and the merges of smaller files took 0.9.
 * A file comes in whole or not at all, and the caller's offset is in it.
 */

#define SLOT_COUNT_MIN 256
/* A front grows by this much more than it must, not by doubling: every partition has one. */
#define FRONT_SPARE (128 * 1024)
/* Of a store that is restored: every merge that a larger file saves is time. */
#define RESTORE_LEN_MAX (40 * 1024 * 1024)
/* Slots for one more key would be half as many again. */
#define RESTORE_KEY_COUNT_MAX (623 * 1024)

static uint32_t slot_hash(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

/* Where the search for a hash begins: slots are in the order of the hashes. */
static size_t slot_index(uint32_t hash, size_t slot_count)
{
    return (size_t)((uint64_t)hash * slot_count >> 32);
}

/* The slot that has the key, or the empty one where it would go. */
static struct front_slot *slot_of(const struct front *front, int table, const uint8_t *key,
                                  size_t len, uint32_t hash)
{
    for (size_t i = slot_index(hash, front->slot_count);; i++) {
        if (i == front->slot_count)
            i = 0;
        struct front_slot *slot = &front->slots[i];
        if (slot->end == 0)
            return slot;
        if (slot->hash != hash)
            continue;
        struct change change;
        change_read(front->changes.bytes, slot->end - 1, &change);
        if (change.key[0] == table && change.key_len == len + 1
            && memcmp(change.key + 1, key, len) == 0)
            return slot;
    }
}

bool front_find(const struct front *front, int table, const uint8_t *key, size_t len,
                uint64_t hash, struct change *change)
{
    if (front->key_count == 0)
        return false;
    const struct front_slot *slot = slot_of(front, table, key, len, slot_hash(hash));
    if (slot->end == 0)
        return false;
    change_read(front->changes.bytes, slot->end - 1, change);
    return true;
}

bool front_is_newest(const struct front *front, const struct change *change, size_t position)
{
    const uint8_t *key = change->key + 1;
    size_t len = change->key_len - 1;
    uint64_t hash = key_hash(change->key[0], key, len);
    return slot_of(front, change->key[0], key, len, slot_hash(hash))->end == position + 1;
}

/* Room for one more key, with a quarter of the slots empty.  They grow by half: twice as many would be a
 * third of all that stores have in memory. */
static bool reserve_slot(struct front *front)
{
    if ((front->key_count + 1) * 4 <= front->slot_count * 3)
        return true;
    size_t count = front->slot_count == 0 ? SLOT_COUNT_MIN : front->slot_count * 3 / 2;
    struct front_slot *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < front->slot_count; i++) {
        struct front_slot old = front->slots[i];
        if (old.end == 0)
            continue;
        size_t at = slot_index(old.hash, count);
        while (slots[at].end != 0)
            at = at + 1 == count ? 0 : at + 1;
        slots[at] = old;
    }
    free(front->slots);
    front->slots = slots;
    front->slot_count = count;
    return true;
}

/* Some changes that follow each other, so that the memory that each needs is on its way while those
 * before it are dealt with. */
#define GROUP_COUNT 16
struct group {
    size_t count;
    struct {
        struct change change;
        uint64_t hash;
        size_t position;
    } members[GROUP_COUNT];
};

/* Read the changes at ${position}, and have the slots and the lines of the filter fetched that they are
 * added to; returns the position after them. */
static size_t read_group(const cstore *store, const uint8_t *changes, size_t position, size_t end,
                         struct group *group)
{
    for (group->count = 0; group->count < GROUP_COUNT && position < end; group->count++) {
        struct change *change = &group->members[group->count].change;
        group->members[group->count].position = position;
        position = change_read(changes, position, change);
        uint64_t hash = key_hash(change->key[0], change->key + 1, change->key_len - 1);
        group->members[group->count].hash = hash;
        filter_prefetch(&store->filter, hash);
        if (store->front.slot_count > 0)
            __builtin_prefetch(
                &store->front.slots[slot_index(slot_hash(hash), store->front.slot_count)], 1);
    }
    return position;
}

static void add_to_filter(cstore *store, const struct change *change, uint64_t hash)
{
    if (change->key[0] == CSTORE_STATE && !change->is_removal)
        filter_note(store, hash);
}

bool front_add(cstore *store, const uint8_t *changes, size_t len)
{
    struct front *front = &store->front;
    size_t base = front->changes.len;
    /* Positions are kept in 32 bits, and a change begins below its end. */
    if (base + len >= UINT32_MAX || !buffer_grow(&front->changes, len, FRONT_SPARE))
        return false;
    if (len > 0)
        memcpy(front->changes.bytes + base, changes, len);
    front->changes.len += len;
    store->shared->front_len += len;
    struct group group;
    for (size_t position = base; position < front->changes.len;) {
        position = read_group(store, front->changes.bytes, position, front->changes.len, &group);
        for (size_t i = 0; i < group.count; i++) {
            const struct change *change = &group.members[i].change;
            uint64_t hash = group.members[i].hash;
            if (!reserve_slot(front) || !group_add(store, change, group.members[i].position))
                return false;
            add_to_filter(store, change, hash);
            if (change->key[0] == CSTORE_DUE)
                floor_lower(store, FLOOR_OF_ALL, change);
            struct front_slot *slot =
                slot_of(front, change->key[0], change->key + 1, change->key_len - 1,
                        slot_hash(hash));
            front->key_count += slot->end == 0;
            *slot = (struct front_slot){.hash = slot_hash(hash),
                                        .end = (uint32_t)group.members[i].position + 1};
        }
    }
    return true;
}

void front_free(struct front *front)
{
    buffer_free(&front->changes);
    group_free(front);
    free(front->slots);
    *front = (struct front){0};
}

void front_drop(cstore *store)
{
    store->shared->front_len -= store->front.changes.len;
    front_free(&store->front);
}

bool front_is_full(const cstore *store)
{
    const cstore_shared *shared = store->shared;
    const struct front *front = &store->front;
    if (store->is_restoring)
        return front->changes.len > RESTORE_LEN_MAX || front->key_count > RESTORE_KEY_COUNT_MAX;
    return shared->front_len > shared->front_len_max
        && front->changes.len >= shared->front_len / shared->store_count;
}

struct sorted_change *front_sorted(const struct front *front)
{
    struct sorted_change *sorted = malloc(front->key_count * sizeof *sorted);
    if (sorted == NULL)
        return NULL;
    size_t count = 0;
    for (size_t i = 0; i < front->slot_count; i++) {
        /* The slots are in no order of the changes. */
        if (i + SORTED_AHEAD < front->slot_count && front->slots[i + SORTED_AHEAD].end != 0)
            __builtin_prefetch(front->changes.bytes + front->slots[i + SORTED_AHEAD].end - 1);
        if (front->slots[i].end != 0)
            sorted[count++] = sorted_change_at(front->changes.bytes, front->slots[i].end - 1);
    }
    if (sort_changes(sorted, count, front->changes.bytes))
        return sorted;
    free(sorted);
    return NULL;
}
