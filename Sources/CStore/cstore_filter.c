#include "cstore_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Which keys of the state table there may be.  Most look-ups are for keys that nobody has seen, and
 * RocksDB asks a filter in each of its sorted runs: 1.5 us for the two keys of a token.  Here it is one
 * line of memory a layer, and RocksDB is asked for what is probably there.
 *
 * A Bloom filter in blocks of a cache line.  A full one gets another of its size beside it, a layer,
 * for the keys that it was made from are not at hand.  A key that is removed stays in it, and costs a
 * look-up in vain.
 *
 * It is made from all keys when a store is opened, 0.5 us each; a store that was closed in order left
 * it in a file.
 */

#define LINE_LEN 64
#define BITS_PER_KEY 10
#define PROBE_COUNT 6
/* 64 GiB of filter. */
#define LINE_COUNT_MAX (UINT64_C(1) << 30)
#define PROBE_BITS 9 /* of the hash, for one of the 512 bits of a line */
#define KEY_COUNT_MIN (64 * 1024)
/* Of what a store has when it is opened: room until the next layer. */
#define SPARE_PERCENT 25
/* One with more layers, each of which errs, is not kept. */
#define KEPT_LAYER_COUNT_MAX 3

static uint8_t *line_of(const struct filter_layer *layer, uint64_t hash)
{
    /* The upper half of the hash chooses the line, the lower half the bits in it. */
    return layer->lines + ((hash >> 32) * layer->line_count >> 32) * LINE_LEN;
}

/* The bits of a line that belong to a key, one after the other. */
static uint32_t next_bit(uint64_t *bits)
{
    uint32_t bit = (uint32_t)(*bits & (LINE_LEN * 8 - 1));
    *bits >>= PROBE_BITS;
    return bit;
}

/* The lower half of the hash has too few bits for all probes. */
static uint64_t probe_bits(uint64_t hash)
{
    return (uint32_t)hash * UINT64_C(0x9e3779b97f4a7c15) >> (64 - PROBE_COUNT * PROBE_BITS);
}

static bool has_all(const uint8_t *line, uint64_t hash)
{
    uint64_t bits = probe_bits(hash);
    for (int i = 0; i < PROBE_COUNT; i++) {
        uint32_t bit = next_bit(&bits);
        if ((line[bit / 8] & 1u << bit % 8) == 0)
            return false;
    }
    return true;
}

bool filter_may_have(const struct filter *filter, uint64_t hash)
{
    for (int i = 0; i < filter->layer_count; i++)
        if (has_all(line_of(&filter->layers[i], hash), hash))
            return true;
    return false;
}

void filter_prefetch(const struct filter *filter, uint64_t hash)
{
    for (int i = 0; i < filter->layer_count; i++)
        __builtin_prefetch(line_of(&filter->layers[i], hash));
}

/* One more layer, for ${key_count} keys.  false: no memory. */
static bool add_layer(struct filter *filter, uint64_t key_count)
{
    if (filter->layer_count == FILTER_LAYER_COUNT_MAX)
        return false;
    uint64_t room = key_count < KEY_COUNT_MIN ? KEY_COUNT_MIN : key_count;
    size_t line_count = room * BITS_PER_KEY / (LINE_LEN * 8) + 1;
    uint8_t *lines = aligned_alloc(LINE_LEN, line_count * LINE_LEN);
    if (lines == NULL)
        return false;
    memset(lines, 0, line_count * LINE_LEN);
    filter->layers[filter->layer_count++] = (struct filter_layer){lines, line_count, room};
    return true;
}

bool filter_add(struct filter *filter, uint64_t hash)
{
    if (filter_may_have(filter, hash))
        return true;
    if ((filter->layer_count == 0 || filter->layers[filter->layer_count - 1].room == 0)
        && !add_layer(filter, filter->key_count))
        return false;
    struct filter_layer *layer = &filter->layers[filter->layer_count - 1];
    layer->room--;
    filter->key_count++;
    uint8_t *line = line_of(layer, hash);
    uint64_t bits = probe_bits(hash);
    for (int i = 0; i < PROBE_COUNT; i++) {
        uint32_t bit = next_bit(&bits);
        line[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
    return true;
}

/* Whether so many keys were removed that it is better made anew. */
static bool is_worn(const struct filter *filter, uint64_t key_count)
{
    return filter->key_count / 2 > key_count + KEY_COUNT_MIN;
}

static uint64_t state_key_count(cstore *store)
{
    uint64_t count = 0;
    rocksdb_property_int_cf(store->db, store->families[CSTORE_STATE], "rocksdb.estimate-num-keys",
                            &count);
    return count;
}

int filter_make(cstore *store, cstore_error *error)
{
    uint64_t count = state_key_count(store);
    char *message = NULL;
    filter_free(&store->filter);
    if (front_spill(store, error) != 0)
        return -1;
    bool has_room = add_layer(&store->filter, count + count * SPARE_PERCENT / 100);
    rocksdb_iterator_t *iterator = rocksdb_create_iterator_cf(
        store->db, store->shared->scan_options, store->families[CSTORE_STATE]);
    for (rocksdb_iter_seek_to_first(iterator); has_room && rocksdb_iter_valid(iterator);
         rocksdb_iter_next(iterator)) {
        size_t len;
        const uint8_t *key = (const uint8_t *)rocksdb_iter_key(iterator, &len);
        has_room = filter_add(&store->filter, key_hash(CSTORE_STATE, key, len));
    }
    rocksdb_iter_get_error(iterator, &message);
    rocksdb_iter_destroy(iterator);
    if (message != NULL)
        return fail(error, message, false);
    return has_room ? 0 : fail_with(error, CSTORE_FAILED, "no memory");
}

/* -- the file --------------------------------------------------------------------------------- */

/* The file is of this machine and this version: it is read where it was written, or not at all. */
struct kept_filter {
    char magic[8];
    uint64_t sequence; /* RocksDB's, when it was closed: the filter is of these very files */
    uint64_t checksum; /* of all that follows */
    struct filter filter;
};
static const char magic[8] = "TWFILT1";

static uint64_t checksum_of(const struct filter *filter)
{
    uint64_t sum = filter->key_count;
    for (int i = 0; i < filter->layer_count; i++) {
        const struct filter_layer *layer = &filter->layers[i];
        sum = mix(sum ^ layer->line_count, layer->room | 1);
        for (size_t at = 0; at < layer->line_count * LINE_LEN; at += sizeof sum) {
            uint64_t word;
            memcpy(&word, layer->lines + at, sizeof word);
            sum = mix(sum ^ word, UINT64_C(0x9e3779b97f4a7c15)) + at;
        }
    }
    return sum;
}

static bool filter_path(const cstore *store, char *path, size_t len)
{
    int used = snprintf(path, len, "%s/FILTER", store->path);
    return used > 0 && (size_t)used < len;
}

void filter_keep(cstore *store)
{
    const struct filter *filter = &store->filter;
    char path[4096];
    if (filter->layer_count == 0 || filter->layer_count > KEPT_LAYER_COUNT_MAX
        || !filter_path(store, path, sizeof path))
        return;
    struct kept_filter kept = {.sequence = rocksdb_get_latest_sequence_number(store->db),
                               .checksum = checksum_of(filter),
                               .filter = *filter};
    memcpy(kept.magic, magic, sizeof magic);
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return;
    bool is_whole = fwrite(&kept, sizeof kept, 1, file) == 1;
    for (int i = 0; is_whole && i < filter->layer_count; i++)
        is_whole = fwrite(filter->layers[i].lines, LINE_LEN, filter->layers[i].line_count, file)
            == filter->layers[i].line_count;
    is_whole = fclose(file) == 0 && is_whole;
    /* One that a full disk or a crash has cut is known by its checksum; it only takes room. */
    if (!is_whole)
        unlink(path);
}

/* Take a filter from its file; false where it is not whole, or of other files. */
static bool read_filter(cstore *store, FILE *file)
{
    struct kept_filter kept;
    struct filter *filter = &store->filter;
    if (fread(&kept, sizeof kept, 1, file) != 1 || memcmp(kept.magic, magic, sizeof magic) != 0
        || kept.sequence != rocksdb_get_latest_sequence_number(store->db)
        || kept.filter.layer_count < 1 || kept.filter.layer_count > KEPT_LAYER_COUNT_MAX
        || is_worn(&kept.filter, state_key_count(store)))
        return false;
    for (int i = 0; i < kept.filter.layer_count; i++) {
        const struct filter_layer *layer = &kept.filter.layers[i];
        if (layer->line_count == 0 || layer->line_count > LINE_COUNT_MAX
            || layer->room > layer->line_count * LINE_LEN * 8)
            return false;
        uint8_t *lines = aligned_alloc(LINE_LEN, layer->line_count * LINE_LEN);
        if (lines == NULL)
            return false;
        filter->layers[filter->layer_count++] =
            (struct filter_layer){lines, layer->line_count, layer->room};
        if (fread(lines, LINE_LEN, layer->line_count, file) != layer->line_count)
            return false;
    }
    filter->key_count = kept.filter.key_count;
    return checksum_of(filter) == kept.checksum;
}

int filter_open(cstore *store, cstore_error *error)
{
    char path[4096];
    FILE *file = filter_path(store, path, sizeof path) ? fopen(path, "rb") : NULL;
    if (file != NULL) {
        bool is_read = read_filter(store, file);
        fclose(file);
        /* It is of the store as it is now, and not of what the store becomes. */
        if (unlink(path) == 0 && is_read)
            return 0;
    }
    return filter_make(store, error);
}

size_t filter_len(const struct filter *filter)
{
    size_t len = 0;
    for (int i = 0; i < filter->layer_count; i++)
        len += filter->layers[i].line_count * LINE_LEN;
    return len;
}

void filter_free(struct filter *filter)
{
    for (int i = 0; i < filter->layer_count; i++)
        free(filter->layers[i].lines);
    *filter = (struct filter){0};
}
