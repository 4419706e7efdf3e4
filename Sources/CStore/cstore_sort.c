#define _GNU_SOURCE
#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

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

void sort_changes(struct sorted_change *sorted, size_t count, uint8_t *changes)
{
    qsort_r(sorted, count, sizeof *sorted, compare, changes);
}
