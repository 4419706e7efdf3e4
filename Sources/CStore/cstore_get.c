#include "cstore_internal.h"
#include <string.h>

/* Looking up: the filter and the front first, and RocksDB for the rest. */

/* Copy a value behind the others. */
static bool take_value(cstore *store, const void *value, size_t len)
{
    if (!buffer_reserve(&store->values, len))
        return false;
    if (len > 0)
        memcpy(store->values.bytes + store->values.len, value, len);
    store->values.len += len;
    return true;
}

/* Copy a result behind the others and release it. */
static bool take_slice(cstore *store, rocksdb_pinnableslice_t *slice, int64_t *value_len)
{
    if (slice == NULL) {
        *value_len = -1;
        return true;
    }
    size_t len;
    const char *value = rocksdb_pinnableslice_value(slice, &len);
    *value_len = (int64_t)len;
    bool has_room = take_value(store, value, len);
    rocksdb_pinnableslice_destroy(slice);
    return has_room;
}

/* What there is of one look-up in the scratch memory; `list` and what follows are of the keys that
 * RocksDB is asked for. */
struct lookup {
    uint64_t *hashes;
    const char **list;
    char **messages;
    rocksdb_pinnableslice_t **slices;
    size_t *lens;
    uint8_t *keys; /* behind each other, as RocksDB has them */
    size_t count;
};

/* What is known of a value before its length is. */
#define UNKNOWN_KEY (-1)
#define IN_FRONT (-2)
#define ON_LIST (-3)

static bool lookup_begin(cstore *store, size_t count, size_t keys_len, struct lookup *lookup)
{
    store->scratch.len = 0;
    if (!buffer_reserve(&store->scratch,
                        count * (sizeof(uint64_t) + 2 * sizeof(char *) + sizeof(size_t)
                                 + sizeof(rocksdb_pinnableslice_t *) + 1) + keys_len))
        return false;
    lookup->hashes = (uint64_t *)store->scratch.bytes;
    lookup->list = (const char **)(lookup->hashes + count);
    lookup->messages = (char **)(lookup->list + count);
    lookup->slices = (rocksdb_pinnableslice_t **)(lookup->messages + count);
    lookup->lens = (size_t *)(lookup->slices + count);
    lookup->keys = (uint8_t *)(lookup->lens + count);
    lookup->count = 0;
    return true;
}

static bool find_in_memory(const cstore *store, int table, const uint8_t *key, size_t len,
                           uint64_t hash, struct change *change)
{
    return front_find(&store->front, table, key, len, hash, change)
        || front_find(&store->leaving.front, table, key, len, hash, change);
}

/* Ask the filter and the fronts; what they do not know goes on the list for RocksDB. */
static void ask_memory(cstore *store, int table, const uint8_t *keys, const uint32_t *key_lens,
                       size_t count, int64_t *value_lens, struct lookup *lookup)
{
    const uint8_t *key = keys, *ahead = keys;
    uint8_t *end = lookup->keys;
    size_t ahead_count = 0;
    for (size_t i = 0; i < count; key += key_lens[i++]) {
        for (; ahead_count < count && ahead_count <= i + FILTER_KEYS_AHEAD;
             ahead += key_lens[ahead_count++]) {
            lookup->hashes[ahead_count] = key_hash(table, ahead, key_lens[ahead_count]);
            if (table == CSTORE_STATE)
                filter_prefetch(&store->filter, lookup->hashes[ahead_count]);
        }
        struct change change;
        uint64_t hash = lookup->hashes[i];
        value_lens[i] = UNKNOWN_KEY;
        if (table == CSTORE_STATE && !filter_may_have(&store->filter, hash))
            continue;
        if (find_in_memory(store, table, key, key_lens[i], hash, &change)) {
            value_lens[i] = IN_FRONT;
            continue;
        }
        value_lens[i] = ON_LIST;
        end[0] = (uint8_t)table;
        memcpy(end + 1, key, key_lens[i]);
        lookup->list[lookup->count] = (const char *)end;
        lookup->lens[lookup->count] = key_lens[i] + 1;
        end += key_lens[i] + 1;
        lookup->messages[lookup->count] = NULL;
        lookup->slices[lookup->count] = NULL;
        lookup->count++;
    }
}

const uint8_t *cstore_get(cstore *store, int table, const uint8_t *keys, const uint32_t *key_lens,
                          size_t count, int64_t *value_lens, cstore_error *error)
{
    struct lookup lookup;
    size_t keys_len = 0;
    for (size_t i = 0; i < count; i++)
        keys_len += key_lens[i];
    store->values.len = 0;
    /* One byte more than nothing, so that the result of an empty look-up is no NULL. */
    if (!buffer_reserve(&store->values, 1) || !lookup_begin(store, count, keys_len, &lookup)) {
        fail_with(error, CSTORE_FAILED, "no memory");
        return NULL;
    }
    ask_memory(store, table, keys, key_lens, count, value_lens, &lookup);
    if (lookup.count > 0)
        rocksdb_batched_multi_get_cf(store->db, store->shared->read_options, store->family,
                                     lookup.count, lookup.list, lookup.lens,
                                     lookup.slices, lookup.messages, false);
    char *first = NULL;
    bool has_room = true;
    const uint8_t *key = keys;
    size_t asked = 0;
    for (size_t i = 0; i < count; key += key_lens[i++]) {
        struct change change;
        if (value_lens[i] == ON_LIST) {
            has_room = take_slice(store, lookup.slices[asked], &value_lens[i]) && has_room;
            if (first == NULL)
                first = lookup.messages[asked];
            else
                rocksdb_free(lookup.messages[asked]);
            asked++;
        } else if (value_lens[i] == IN_FRONT) {
            find_in_memory(store, table, key, key_lens[i], lookup.hashes[i], &change);
            value_lens[i] = change.is_removal ? -1 : (int64_t)change.value_len;
            has_room = take_value(store, change.value, change.value_len) && has_room;
        }
    }
    if (first != NULL) {
        fail(error, first, false);
        return NULL;
    }
    if (!has_room) {
        fail_with(error, CSTORE_FAILED, "no memory");
        return NULL;
    }
    return store->values.bytes;
}
