#include "cstore_internal.h"
#include <malloc.h>

/*
 * A filter is made from all keys: of a store that was not closed in order, and where it has grown in many
 * steps or most of it is of keys that were removed.  Few keys are read at once.  Many are read by the
 * spiller's thread, between the fronts that it writes: read by the store's own thread, they brought dedupe
 * to a fifth of its rate for six seconds where twelve partitions had 820,000 each.  The filter before it
 * serves until then; where there is none nothing is denied.  What is put meanwhile goes into both, and what
 * was there before is in the iterator's view.
 */

/* Of what a store has when its filter is begun: room until the next layer. */
#define SPARE_PERCENT 10
/* One with more, each of which errs, is made anew. */
#define GOOD_LAYER_COUNT_MAX 6
/* So many are read at once: a tenth of a second. */
#define FEW_KEYS (256 * 1024)
/* Of one step of the spiller: a front waits for one at most, which passes over removals as well, and the store
 * for what one adds. */
#define STEP_KEY_COUNT 1024

/* -- the spiller's thread, or the store's where the keys are few ------------------------------ */

static bool table_has_groups(const cstore_shared *shared, int table)
{
    for (size_t kind = 0; kind < sizeof shared->groups[table]; kind++)
        if (shared->groups[table][kind] != CSTORE_NO_GROUP)
            return true;
    return false;
}

/* What some keys of the iterator add, one and a group each at most. */
struct step {
    size_t count;
    uint64_t hashes[2 * STEP_KEY_COUNT];
};

/* Returns whether there are more. */
static bool read_step(const cstore_shared *shared, rocksdb_iterator_t *iterator, struct step *step)
{
    const uint8_t last = table_has_groups(shared, CSTORE_DUE) ? CSTORE_DUE : CSTORE_STATE;
    step->count = 0;
    for (size_t i = 0; i < STEP_KEY_COUNT; i++) {
        size_t len;
        const uint8_t *key;
        if (!rocksdb_iter_valid(iterator)
            || (key = (const uint8_t *)rocksdb_iter_key(iterator, &len))[0] > last)
            return false;
        if (key[0] == CSTORE_STATE)
            step->hashes[step->count++] = key_hash(CSTORE_STATE, key + 1, len - 1);
        size_t group = group_len(shared, key, len);
        if (group > 0)
            step->hashes[step->count++] = group_hash(key, group);
        rocksdb_iter_next(iterator);
    }
    return true;
}

static void add_step(struct filter *filter, const struct step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        if (i + FILTER_KEYS_AHEAD < step->count)
            filter_prefetch(filter, step->hashes[i + FILTER_KEYS_AHEAD]);
        filter_add(filter, step->hashes[i]);
    }
}

bool filter_make_step(cstore *store)
{
    struct making *making = &store->making;
    pthread_mutex_t *mutex = &store->shared->spiller.filter_mutex;
    struct step step;
    char *message = NULL;
    bool has_more = read_step(store->shared, making->source, &step);
    rocksdb_iter_get_error(making->source, &message);
    if (message != NULL) {
        fail(&making->error, message, false);
        making->has_failed = true;
        return false;
    }
    pthread_mutex_lock(mutex);
    add_step(&making->filter, &step);
    bool has_memory = making->filter.is_making;
    pthread_mutex_unlock(mutex);
    return has_more && has_memory;
}

/* -- the store's thread ----------------------------------------------------------------------- */

static bool is_begun(const cstore *store)
{
    return store->making.source != NULL;
}

/* Have all that there is in the view of an iterator.  0, or -1. */
static int begin(cstore *store, uint64_t key_count, cstore_error *error)
{
    const uint8_t first = CSTORE_STATE;
    struct making *making = &store->making;
    if (spill_all(store, error) != 0)
        return -1;
    *making = (struct making){.filter = {.is_making = true}};
    if (!filter_add_layer(&making->filter, key_count + key_count * SPARE_PERCENT / 100))
        return 0;
    making->source = rocksdb_create_iterator_cf(store->db, store->shared->scan_options,
                                                store->family);
    rocksdb_iter_seek(making->source, (const char *)&first, 1);
    return 0;
}

/* Have the one that was made serve; where there was no memory for it, the one before it goes on.  0, or -1. */
static int take(cstore *store, cstore_error *error)
{
    struct making *making = &store->making;
    rocksdb_iter_destroy(making->source);
    making->source = NULL;
    if (making->has_failed) {
        *error = making->error;
        filter_free(&making->filter);
        return -1;
    }
    if (!making->filter.is_making)
        return 0;
    filter_free(&store->filter);
    store->filter = making->filter;
    store->filter.is_making = store->filter.has_grown = false;
    store->filter.is_whole = true;
    making->filter = (struct filter){0};
    /* The layers that went, and all keys that were read, leave holes that nothing fills for long. */
    malloc_trim(0);
    return 0;
}

/* Make it at once where the keys are few; else as soon as the spiller makes none, and never where no thread is to
 * be had.  0, or -1. */
static int make(cstore *store, cstore_error *error)
{
    uint64_t key_count = estimated_key_count(store);
    bool is_few = key_count <= FEW_KEYS, has_more = true;
    if (!is_few && !spiller_is_free(store->shared))
        return 0;
    store->wants_filter = false;
    if (begin(store, key_count, error) != 0)
        return -1;
    if (!is_begun(store))
        return 0;
    for (int i = 0; is_few && has_more && i < FEW_KEYS / STEP_KEY_COUNT; i++)
        has_more = filter_make_step(store);
    if (has_more && spiller_is_free(store->shared))
        return spiller_make(store), 0;
    /* More than was estimated, which is rare, beside another store's. */
    while (has_more)
        has_more = filter_make_step(store);
    return take(store, error);
}

int filter_make(cstore *store, cstore_error *error)
{
    filter_drop(store);
    /* Whatever comes of the filter now: of a restore's changes the front knows no groups, and what waits in
     * it is in no estimate. */
    if (spill_all(store, error) != 0)
        return -1;
    store->wants_filter = true;
    return make(store, error);
}

int filter_renew(cstore *store, cstore_error *error)
{
    struct filter *filter = &store->filter;
    if (is_begun(store))
        return spiller_is_making(store) ? 0 : take(store, error);
    if (filter->has_grown) {
        filter->has_grown = false;
        store->wants_filter |= filter->layer_count > GOOD_LAYER_COUNT_MAX
            || filter_is_worn(filter, estimated_key_count(store));
    }
    return store->wants_filter ? make(store, error) : 0;
}

void filter_note(cstore *store, uint64_t hash)
{
    pthread_mutex_t *mutex = &store->shared->spiller.filter_mutex;
    filter_add(&store->filter, hash);
    if (!is_begun(store))
        return;
    pthread_mutex_lock(mutex);
    filter_add(&store->making.filter, hash);
    pthread_mutex_unlock(mutex);
}

void filter_stop(cstore *store)
{
    store->wants_filter = false;
    if (!is_begun(store))
        return;
    spiller_stop_making(store);
    rocksdb_iter_destroy(store->making.source);
    filter_free(&store->making.filter);
    store->making.source = NULL;
}

void filter_drop(cstore *store)
{
    filter_stop(store);
    filter_free(&store->filter);
}
