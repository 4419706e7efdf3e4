#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/*
 * Which keys of the state table there may be.  Most look-ups are for keys that nobody has seen, and
 * RocksDB asks a filter in each of its sorted runs: 1.5 us for the two keys of a token.  Here it is one
 * line of memory a layer, and RocksDB is asked for what is probably there.
 *
 * A Bloom filter in blocks of a cache line.  A full one gets another beside it, a layer, for the keys
 * that it was made from are not at hand; with too many it is made anew.  A key that is removed stays in
 * it, and costs a look-up in vain.
 */

/* Layers err one by one, and what they let through in vain costs a read of a file, 13 us. */
#define BITS_PER_KEY 16
#define PROBE_COUNT 7
#define PROBE_BITS 9 /* of the hash, for one of the 512 bits of a line */
#define KEY_COUNT_MIN (64 * 1024)
/* Doubling makes few layers; a quarter of a large filter is memory enough to have in advance: those of ten
 * million tokens, of two keys each, take 45 MB. */
#define KEY_COUNT_DOUBLED (512 * 1024)

static uint8_t *line_of(const struct filter_layer *layer, uint64_t hash)
{
    /* The upper half of the hash chooses the line, the lower half the bits in it. */
    return layer->lines + ((hash >> 32) * layer->line_count >> 32) * FILTER_LINE_LEN;
}

/* The bits of a line that belong to a key, one after the other. */
static uint32_t next_bit(uint64_t *bits)
{
    uint32_t bit = (uint32_t)(*bits & (FILTER_LINE_LEN * 8 - 1));
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
    uint32_t all = 1;
    /* All of them: a branch that is taken by chance costs more than the probes that it would spare. */
    for (int i = 0; i < PROBE_COUNT; i++) {
        uint32_t bit = next_bit(&bits);
        all &= (uint32_t)line[bit / 8] >> bit % 8;
    }
    return all != 0;
}

static bool has(const struct filter *filter, uint64_t hash)
{
    for (int i = 0; i < filter->layer_count; i++)
        if (has_all(line_of(&filter->layers[i], hash), hash))
            return true;
    return false;
}

bool filter_may_have(const struct filter *filter, uint64_t hash)
{
    return !filter->is_whole || has(filter, hash);
}

void filter_prefetch(const struct filter *filter, uint64_t hash)
{
    for (int i = 0; i < filter->layer_count; i++)
        __builtin_prefetch(line_of(&filter->layers[i], hash));
}

bool filter_add_layer(struct filter *filter, uint64_t key_count)
{
    if (filter->layer_count == FILTER_LAYER_COUNT_MAX)
        return false;
    uint64_t room = key_count < KEY_COUNT_MIN ? KEY_COUNT_MIN : key_count;
    size_t line_count = room * BITS_PER_KEY / (FILTER_LINE_LEN * 8) + 1;
    uint8_t *lines = aligned_alloc(FILTER_LINE_LEN, line_count * FILTER_LINE_LEN);
    if (lines == NULL)
        return false;
    memset(lines, 0, line_count * FILTER_LINE_LEN);
    filter->layers[filter->layer_count++] = (struct filter_layer){lines, line_count, room};
    return true;
}

void filter_add(struct filter *filter, uint64_t hash)
{
    if ((!filter->is_whole && !filter->is_making) || has(filter, hash))
        return;
    bool is_full = filter->layer_count > 0 && filter->layers[filter->layer_count - 1].room == 0;
    if (filter->layer_count == 0 || is_full) {
        filter->has_grown = is_full;
        uint64_t count = filter->key_count;
        if (!filter_add_layer(filter, count < KEY_COUNT_DOUBLED ? count : count / 4)) {
            /* Every look-up goes to RocksDB from now on: slower, and as right as before. */
            filter_free(filter);
            return;
        }
    }
    struct filter_layer *layer = &filter->layers[filter->layer_count - 1];
    layer->room--;
    filter->key_count++;
    uint8_t *line = line_of(layer, hash);
    uint64_t bits = probe_bits(hash);
    for (int i = 0; i < PROBE_COUNT; i++) {
        uint32_t bit = next_bit(&bits);
        line[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

bool filter_is_worn(const struct filter *filter, uint64_t key_count)
{
    return filter->key_count / 2 > key_count + KEY_COUNT_MIN;
}

size_t filter_len(const struct filter *filter)
{
    size_t len = 0;
    for (int i = 0; i < filter->layer_count; i++)
        len += filter->layers[i].line_count * FILTER_LINE_LEN;
    return len;
}

void filter_free(struct filter *filter)
{
    for (int i = 0; i < filter->layer_count; i++)
        free(filter->layers[i].lines);
    *filter = (struct filter){0};
}
