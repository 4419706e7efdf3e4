#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * What was applied and is not in RocksDB yet.  A put of its own into RocksDB's list in memory
 * searches the list: 1.7 us with keys in no order.  Changes are collected here, by a hash of their
 * keys, and go in sorted by thousands, each next to the one before it: 0.5 us.  A large batch is
 * thousands by itself and goes past the front, which would only take the memory of a copy.
 */

#define SLOT_COUNT_MIN 256
/* A front grows by this much more than it must, not by doubling: every partition has one. */
#define FRONT_SPARE (128 * 1024)
/* So many changes ahead their memory is asked for where they are read in another order than they lie:
 * a front is larger than the nearer caches. */
#define SORTED_AHEAD 8

static uint32_t slot_hash(uint64_t hash)
{
    return (uint32_t)(hash ^ hash >> 32);
}

/* The slot that has the key, or the empty one where it would go. */
static struct front_slot *slot_of(const struct front *front, int table, const uint8_t *key,
                                  size_t len, uint32_t hash)
{
    for (size_t i = hash;; i++) {
        struct front_slot *slot = &front->slots[i & (front->slot_count - 1)];
        if (slot->end == 0)
            return slot;
        if (slot->hash != hash)
            continue;
        struct change change;
        change_read(front->changes.bytes, slot->end - 1, &change);
        if (change.table == table && change.key_len == len && memcmp(change.key, key, len) == 0)
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

/* Room for one more key, with a quarter of the slots empty. */
static bool reserve_slot(struct front *front)
{
    if ((front->key_count + 1) * 4 <= front->slot_count * 3)
        return true;
    size_t count = front->slot_count == 0 ? SLOT_COUNT_MIN : front->slot_count * 2;
    struct front_slot *slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return false;
    for (size_t i = 0; i < front->slot_count; i++) {
        struct front_slot old = front->slots[i];
        size_t at = old.hash;
        if (old.end == 0)
            continue;
        while (slots[at & (count - 1)].end != 0)
            at++;
        slots[at & (count - 1)] = old;
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

/* Read the changes at ${position}, and have the lines of the filter fetched that they are added to;
 * returns the position after them. */
static size_t read_group(const cstore *store, const uint8_t *changes, size_t position, size_t end,
                         struct group *group)
{
    for (group->count = 0; group->count < GROUP_COUNT && position < end; group->count++) {
        struct change *change = &group->members[group->count].change;
        group->members[group->count].position = position;
        position = change_read(changes, position, change);
        uint64_t hash = key_hash(change->table, change->key, change->key_len);
        group->members[group->count].hash = hash;
        filter_prefetch(&store->filter, hash);
    }
    return position;
}

static void add_to_filter(cstore *store, const struct change *change, uint64_t hash)
{
    if (change->table == CSTORE_STATE && !change->is_removal)
        filter_add(&store->filter, hash);
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
    struct group group;
    for (size_t position = base; position < front->changes.len;) {
        position = read_group(store, front->changes.bytes, position, front->changes.len, &group);
        for (size_t i = 0; i < group.count; i++) {
            const struct change *change = &group.members[i].change;
            uint64_t hash = group.members[i].hash;
            if (!reserve_slot(front))
                return false;
            add_to_filter(store, change, hash);
            struct front_slot *slot =
                slot_of(front, change->table, change->key, change->key_len, slot_hash(hash));
            front->key_count += slot->end == 0;
            *slot = (struct front_slot){.hash = slot_hash(hash),
                                        .end = (uint32_t)group.members[i].position + 1};
        }
    }
    return true;
}

static void put(rocksdb_writebatch_t *batch, const cstore *store, const struct change *change)
{
    rocksdb_column_family_handle_t *family = store->families[change->table];
    const char *key = (const char *)change->key;
    if (change->is_removal)
        rocksdb_writebatch_delete_cf(batch, family, key, change->key_len);
    else
        rocksdb_writebatch_put_cf(batch, family, key, change->key_len,
                                  (const char *)change->value, change->value_len);
}

/* Have the batch for the next write empty; its memory stays, but not that of a large one. */
static void clear_batch(cstore_shared *shared)
{
    size_t len;
    rocksdb_writebatch_data(shared->batch, &len);
    if (len <= 2 * shared->front_len_max) {
        rocksdb_writebatch_clear(shared->batch);
        return;
    }
    rocksdb_writebatch_destroy(shared->batch);
    shared->batch = rocksdb_writebatch_create();
}

/* Sort changes, and hand them over in one write, those at ${last} behind them. */
static int write_sorted(cstore *store, struct sorted_change *sorted, size_t count,
                        const uint8_t *changes, const uint8_t *last, size_t last_len,
                        cstore_error *error)
{
    struct change change;
    char *message = NULL;
    sort_changes(sorted, count, changes);
    rocksdb_writebatch_t *batch = store->shared->batch;
    for (size_t i = 0; i < count; i++) {
        if (i + SORTED_AHEAD < count)
            __builtin_prefetch(changes + sorted[i + SORTED_AHEAD].position);
        change_read(changes, sorted[i].position, &change);
        put(batch, store, &change);
    }
    for (size_t position = 0; position < last_len;) {
        position = change_read(last, position, &change);
        put(batch, store, &change);
    }
    rocksdb_write(store->db, store->shared->write_options, batch, &message);
    clear_batch(store->shared);
    return message == NULL ? 0 : fail(error, message, false);
}

int front_spill(cstore *store, cstore_error *error)
{
    struct front *front = &store->front;
    if (front->key_count == 0)
        return 0;
    struct sorted_change *sorted = malloc(front->key_count * sizeof *sorted);
    if (sorted == NULL)
        return fail_with(error, CSTORE_FAILED, "no memory");
    size_t count = 0;
    for (size_t i = 0; i < front->slot_count; i++) {
        /* The slots are in no order of the changes. */
        if (i + SORTED_AHEAD < front->slot_count && front->slots[i + SORTED_AHEAD].end != 0)
            __builtin_prefetch(front->changes.bytes + front->slots[i + SORTED_AHEAD].end - 1);
        if (front->slots[i].end != 0)
            sorted[count++] = sorted_change_at(front->changes.bytes, front->slots[i].end - 1);
    }
    int result = write_sorted(store, sorted, count, front->changes.bytes, NULL, 0, error);
    free(sorted);
    if (result != 0)
        return -1;
    /* The fronts of other partitions have the use of the memory while this one is small. */
    buffer_free(&front->changes);
    front->key_count = 0;
    memset(front->slots, 0, front->slot_count * sizeof *front->slots);
    return 0;
}

/* Add the keys of changes to the filter; returns how many changes there are. */
static size_t tell_filter(cstore *store, const uint8_t *changes, size_t len)
{
    struct group group;
    size_t count = 0;
    for (size_t position = 0; position < len; count += group.count) {
        position = read_group(store, changes, position, len, &group);
        for (size_t i = 0; i < group.count; i++)
            add_to_filter(store, &group.members[i].change, group.members[i].hash);
    }
    return count;
}

int front_pass(cstore *store, const uint8_t *changes, size_t len, const uint8_t *last,
               size_t last_len, cstore_error *error)
{
    /* Positions are kept in 32 bits. */
    if (len > UINT32_MAX)
        return fail_with(error, CSTORE_FAILED, "more than 4 GiB of changes at once");
    /* What lies in front is older. */
    if (front_spill(store, error) != 0)
        return -1;
    size_t count = tell_filter(store, changes, len);
    tell_filter(store, last, last_len);
    struct sorted_change *sorted = malloc(count * sizeof *sorted + 1);
    if (sorted == NULL)
        return fail_with(error, CSTORE_FAILED, "no memory");
    size_t position = 0;
    for (size_t i = 0; i < count; i++) {
        struct change change;
        sorted[i] = sorted_change_at(changes, position);
        position = change_read(changes, position, &change);
    }
    int result = write_sorted(store, sorted, count, changes, last, last_len, error);
    free(sorted);
    return result;
}

void front_free(struct front *front)
{
    buffer_free(&front->changes);
    free(front->slots);
    *front = (struct front){0};
}
