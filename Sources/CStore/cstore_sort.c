#define _GNU_SOURCE
#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/* Keys begin with their table and the kind of record, and then are mostly hashes: the digits after that
 * tell nearly all of a million apart. */
#define DIGIT_COUNT 5
#define DIGIT_BITS 8
#define REST_BITS (64 - DIGIT_COUNT * DIGIT_BITS)
#define DIGITS_FROM 256 /* entries; below, comparing costs less */
#define INSERTION_COUNT_MAX 16

struct sorted_change sorted_change_at(const uint8_t *changes, size_t position)
{
    struct change change;
    change_read(changes, position, &change);
    uint64_t prefix = 0;
    memcpy(&prefix, change.key, change.key_len < 8 ? change.key_len : 8);
    return (struct sorted_change){__builtin_bswap64(prefix), (uint32_t)position};
}

int compare_changes(const struct sorted_change *left, const struct sorted_change *right,
                    const uint8_t *changes)
{
    if (left->prefix != right->prefix)
        return left->prefix < right->prefix ? -1 : 1;
    struct change left_read, right_read;
    change_read(changes, left->position, &left_read);
    change_read(changes, right->position, &right_read);
    return key_compare(left_read.key, left_read.key_len, right_read.key, right_read.key_len);
}

static int compare(const void *left, const void *right, void *changes)
{
    return compare_changes(left, right, changes);
}

/* Sort entries that have their digits in common: mostly one, or two. */
static void sort_run(struct sorted_change *sorted, size_t count, const uint8_t *changes)
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

/* By one digit, from ${from} to ${to}, where not all have the same.  Returns whether it moved them. */
static bool sort_digit(const struct sorted_change *from, struct sorted_change *to, size_t count,
                       int shift)
{
    size_t ends[1 << DIGIT_BITS] = {0};
    const uint64_t mask = (1 << DIGIT_BITS) - 1;
    for (size_t i = 0; i < count; i++)
        ends[from[i].prefix >> shift & mask]++;
    if (ends[from[0].prefix >> shift & mask] == count)
        return false;
    size_t start = 0;
    for (size_t digit = 0; digit <= mask; digit++) {
        size_t in_digit = ends[digit];
        ends[digit] = start;
        start += in_digit;
    }
    for (size_t i = 0; i < count; i++)
        to[ends[from[i].prefix >> shift & mask]++] = from[i];
    return true;
}

bool sort_changes(struct sorted_change *sorted, size_t count, const uint8_t *changes)
{
    if (count < DIGITS_FROM) {
        qsort_r(sorted, count, sizeof *sorted, compare, (void *)changes);
        return true;
    }
    struct sorted_change *other = malloc(count * sizeof *sorted);
    if (other == NULL)
        return false;
    struct sorted_change *from = sorted, *to = other;
    for (int shift = REST_BITS; shift < 64; shift += DIGIT_BITS) {
        if (sort_digit(from, to, count, shift)) {
            struct sorted_change *swapped = from;
            from = to;
            to = swapped;
        }
    }
    if (from != sorted)
        memcpy(sorted, from, count * sizeof *sorted);
    free(other);
    size_t start = 0;
    for (size_t i = 1; i <= count; i++) {
        if (i == count || sorted[i].prefix >> REST_BITS != sorted[start].prefix >> REST_BITS) {
            sort_run(sorted + start, i - start, changes);
            start = i;
        }
    }
    return true;
}
