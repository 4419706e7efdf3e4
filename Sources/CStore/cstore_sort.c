#define _GNU_SOURCE
#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

#define BUCKET_BITS_MAX 20
#define BUCKETS_FROM 256         /* entries; below, buckets cost more than they save */
#define INSERTION_COUNT_MAX 16

struct sorted_change sorted_change_at(const uint8_t *changes, size_t position)
{
    struct change change;
    change_read(changes, position, &change);
    uint64_t prefix = 0;
    for (uint32_t i = 0; i < 8; i++)
        prefix = prefix << 8 | (i < change.key_len ? change.key[i] : 0);
    return (struct sorted_change){prefix, (uint32_t)position, (uint8_t)change.table};
}

int compare_keys(const struct change *left, const struct change *right)
{
    uint32_t len = left->key_len < right->key_len ? left->key_len : right->key_len;
    int order = memcmp(left->key, right->key, len);
    if (order != 0)
        return order;
    return left->key_len < right->key_len ? -1 : left->key_len > right->key_len;
}

static int compare(const void *left_change, const void *right_change, void *changes)
{
    const struct sorted_change *left = left_change;
    const struct sorted_change *right = right_change;
    if (left->table != right->table)
        return left->table < right->table ? -1 : 1;
    if (left->prefix != right->prefix)
        return left->prefix < right->prefix ? -1 : 1;
    struct change left_read, right_read;
    change_read(changes, left->position, &left_read);
    change_read(changes, right->position, &right_read);
    int order = compare_keys(&left_read, &right_read);
    if (order != 0)
        return order;
    return left->position < right->position ? -1 : left->position > right->position;
}

/* Sort entries that lie close to their places: behind each other in buckets of a few. */
static void sort_bucket(struct sorted_change *sorted, size_t count, const uint8_t *changes)
{
    if (count > INSERTION_COUNT_MAX) {
        qsort_r(sorted, count, sizeof *sorted, compare, (void *)changes);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct sorted_change moved = sorted[i];
        size_t at = i;
        for (; at > 0 && compare(&sorted[at - 1], &moved, (void *)changes) > 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = moved;
    }
}

/* Sort entries of one table by the first bits in which their keys differ, from ${from} to ${sorted},
 * and then each bucket. */
static void sort_table(const struct sorted_change *from, struct sorted_change *sorted, size_t count,
                       uint32_t *ends, int bucket_bits, const uint8_t *changes)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = from[i].prefix < low ? from[i].prefix : low;
        high = from[i].prefix > high ? from[i].prefix : high;
    }
    int width = high == low ? 0 : 64 - __builtin_clzll(high - low);
    int shift = width > bucket_bits ? width - bucket_bits : 0;
    size_t bucket_count = (size_t)1 << bucket_bits;
    memset(ends, 0, bucket_count * sizeof *ends);
    for (size_t i = 0; i < count; i++)
        ends[(from[i].prefix - low) >> shift]++;
    uint32_t start = 0;
    for (size_t bucket = 0; bucket < bucket_count; bucket++) {
        uint32_t in_bucket = ends[bucket];
        ends[bucket] = start;
        start += in_bucket;
    }
    for (size_t i = 0; i < count; i++)
        sorted[ends[(from[i].prefix - low) >> shift]++] = from[i];
    start = 0;
    for (size_t bucket = 0; bucket < bucket_count; bucket++) {
        sort_bucket(sorted + start, ends[bucket] - start, changes);
        start = ends[bucket];
    }
}

/* Keys are mostly hashes, which fall into buckets evenly: a third of what comparing them all costs. */
void sort_changes(struct sorted_change *sorted, size_t count, const uint8_t *changes)
{
    int bucket_bits = 0;
    while (bucket_bits < BUCKET_BITS_MAX && (size_t)1 << bucket_bits < count)
        bucket_bits++;
    struct sorted_change *by_table = malloc(count * sizeof *sorted);
    uint32_t *ends = malloc(sizeof *ends << bucket_bits);
    if (by_table == NULL || ends == NULL || count < BUCKETS_FROM) {
        qsort_r(sorted, count, sizeof *sorted, compare, (void *)changes);
    } else {
        size_t end = 0;
        for (int table = 0; table < CSTORE_TABLE_COUNT; table++) {
            for (size_t i = 0; i < count; i++)
                if (sorted[i].table == table)
                    by_table[end++] = sorted[i];
        }
        end = 0;
        for (int table = 0; table < CSTORE_TABLE_COUNT; table++) {
            size_t start = end;
            while (end < count && by_table[end].table == table)
                end++;
            sort_table(by_table + start, sorted + start, end - start, ends, bucket_bits, changes);
        }
    }
    free(by_table);
    free(ends);
}
