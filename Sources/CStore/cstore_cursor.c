#include "cstore_internal.h"
#include <stdlib.h>
#include <string.h>

/* The newest first: what waits, and what is on its way to RocksDB, which may have it already. */
#define PART_COUNT 2
struct cursor_part {
    struct front *front;
    struct front_part found;
    size_t next;
};

struct cstore_cursor {
    cstore *store;
    rocksdb_iterator_t *iterator; /* NULL where RocksDB has nothing of the range */
    /* With the end, which they refer to. */
    rocksdb_readoptions_t *options;
    uint8_t *bounds;
    struct key_range range; /* as it was asked for */
    bool notes_floor;       /* with what is read first */
    struct floor_key stored; /* what RocksDB had next then; the end where it had none */
    struct cursor_part parts[PART_COUNT];
    struct buffer entries;
};

/* The first key behind all that begin with ${prefix}, which begins with its table. */
static size_t prefix_end(const uint8_t *prefix, size_t len, uint8_t *end)
{
    memcpy(end, prefix, len);
    while (end[len - 1] == UINT8_MAX)
        len--;
    end[len - 1]++;
    return len;
}

static void open_iterator(cstore_cursor *cursor, const struct key_range *range, bool is_whole_table)
{
    const cstore *store = cursor->store;
    cursor->options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_iterate_upper_bound(cursor->options, (const char *)range->end,
                                                range->end_len);
    if (is_whole_table)
        rocksdb_readoptions_set_fill_cache(cursor->options, 0);
    cursor->iterator = rocksdb_create_iterator_cf(store->db, cursor->options, store->family);
    rocksdb_iter_seek(cursor->iterator, (const char *)range->first, range->first_len);
}

static bool find_parts(cstore_cursor *cursor, const struct key_range *range, size_t group)
{
    for (size_t i = 0; i < PART_COUNT; i++)
        if (!front_range(cursor->parts[i].front, range, group, &cursor->parts[i].found))
            return false;
    return true;
}

cstore_cursor *cstore_cursor_open(cstore *store, int table, const uint8_t *start, size_t len,
                                  const uint8_t *prefix, size_t prefix_len, cstore_error *error)
{
    cstore_cursor *cursor = calloc(1, sizeof *cursor);
    /* Start, prefix and end, each with the byte of the table before it. */
    uint8_t *bounds = cursor == NULL ? NULL : malloc(len + 2 * prefix_len + 3);
    if (bounds == NULL) {
        free(cursor);
        fail_with(error, CSTORE_FAILED, "no memory");
        return NULL;
    }
    uint8_t *whole = bounds + len + 1;
    bounds[0] = whole[0] = (uint8_t)table;
    if (len > 0)
        memcpy(bounds + 1, start, len);
    if (prefix_len > 0)
        memcpy(whole + 1, prefix, prefix_len);
    struct key_range range = {.first = bounds, .first_len = len + 1, .end = whole + prefix_len + 1};
    range.end_len = prefix_end(whole, prefix_len + 1, whole + prefix_len + 1);
    if (key_compare(range.first, range.first_len, whole, prefix_len + 1) < 0) {
        range.first = whole;
        range.first_len = prefix_len + 1;
    }
    cursor->store = store;
    cursor->parts[0].front = &store->front;
    cursor->parts[1].front = &store->leaving.front;
    cursor->bounds = bounds;
    cursor->range = range;
    size_t group = group_len(store->shared, whole, prefix_len + 1);
    /* A group by name has few keys, and there are many of them. */
    cursor->notes_floor = table == CSTORE_DUE && (group == 0 || is_kind(group));
    floor_key_set(&cursor->stored, range.end, range.end_len);
    if (cursor->notes_floor && !floor_seek(store, FLOOR_OF_ALL, &range))
        return cursor;
    if (store->is_restoring || !has_groups(store->shared, whole, prefix_len + 1)) {
        /* To look through all of the front would cost more. */
        if (spill_all(store, error) != 0) {
            cstore_cursor_close(cursor);
            return NULL;
        }
    } else if (!find_parts(cursor, &range, group)) {
        cstore_cursor_close(cursor);
        fail_with(error, CSTORE_FAILED, "no memory");
        return NULL;
    }
    /* After the spill, which lowers it. */
    if (cursor->notes_floor && !floor_seek(store, FLOOR_OF_ROCKSDB, &range))
        return cursor;
    if (group == 0 || filter_may_have(&store->filter, group_hash(whole, group)))
        open_iterator(cursor, &range, prefix_len == 0);
    return cursor;
}

/* Keys begin with their table, as an entry's does. */
static bool append_entry(cstore_cursor *cursor, const uint8_t *key, size_t key_len,
                         const uint8_t *value, size_t value_len)
{
    struct buffer *entries = &cursor->entries;
    size_t len = CHANGE_PREFIX_LEN - 1 + key_len + value_len;
    if (!buffer_reserve(entries, len))
        return false;
    uint8_t *end = entries->bytes + entries->len;
    uint32_t key_prefix = (uint32_t)key_len - 1, value_prefix = (uint32_t)value_len;
    memcpy(end, &key_prefix, 4);
    memcpy(end + 4, &value_prefix, 4);
    memcpy(end + CHANGE_PREFIX_LEN - 1, key, key_len);
    if (value_len > 0)
        memcpy(end + len - value_len, value, value_len);
    entries->len += len;
    return true;
}

static bool is_in_rocksdb(const cstore_cursor *cursor)
{
    return cursor->iterator != NULL && rocksdb_iter_valid(cursor->iterator);
}

/* What a part of the cursor has next; false at its end. */
static bool peek(const struct cursor_part *part, struct change *change)
{
    if (part->next == part->found.count)
        return false;
    change_read(part->front->changes.bytes, part->found.changes[part->next].position, change);
    return true;
}

/* Append what comes next, if that is no removal: of what has the same key the newest, which lies in the
 * first part.  false: no memory. */
static bool take_next(cstore_cursor *cursor, size_t *count)
{
    struct change next = {0}, change;
    bool is_next[PART_COUNT] = {false};
    for (size_t i = 0; i < PART_COUNT; i++) {
        if (!peek(&cursor->parts[i], &change))
            continue;
        int order = next.key == NULL
            ? -1 : key_compare(change.key, change.key_len, next.key, next.key_len);
        if (order < 0) {
            memset(is_next, 0, sizeof is_next);
            next = change;
        }
        is_next[i] = order <= 0;
    }
    const uint8_t *key = NULL;
    size_t key_len = 0, value_len;
    int order = -1; /* of what the parts have to what RocksDB has */
    if (is_in_rocksdb(cursor)) {
        key = (const uint8_t *)rocksdb_iter_key(cursor->iterator, &key_len);
        order = next.key == NULL ? 1 : key_compare(next.key, next.key_len, key, key_len);
    }
    bool has_room = true;
    bool is_appended = order > 0 || !next.is_removal;
    if (is_appended && cursor->notes_floor && *count == 0 && key != NULL)
        floor_key_set(&cursor->stored, key, key_len);
    if (order > 0) {
        const char *value = rocksdb_iter_value(cursor->iterator, &value_len);
        has_room = append_entry(cursor, key, key_len, (const uint8_t *)value, value_len);
    } else {
        if (is_appended)
            has_room = append_entry(cursor, next.key, next.key_len, next.value, next.value_len);
        for (size_t i = 0; i < PART_COUNT; i++)
            cursor->parts[i].next += is_next[i];
    }
    if (order >= 0)
        rocksdb_iter_next(cursor->iterator);
    *count += is_appended;
    return has_room;
}

static bool is_at_end(const cstore_cursor *cursor)
{
    for (size_t i = 0; i < PART_COUNT; i++)
        if (cursor->parts[i].next < cursor->parts[i].found.count)
            return false;
    return !is_in_rocksdb(cursor);
}

static void note_floor(cstore_cursor *cursor, size_t count)
{
    const struct key_range *range = &cursor->range;
    struct floor_key key;
    struct change first = {.key = range->end, .key_len = (uint32_t)range->end_len};
    if (count > 0)
        change_read(cursor->entries.bytes, 0, &first);
    floor_key_set(&key, first.key, first.key_len);
    floor_note(cursor->store, range->first, range->first_len, &key, &cursor->stored);
    cursor->notes_floor = false;
}

int cstore_cursor_read(cstore_cursor *cursor, size_t count_max, cstore_entries *entries,
                       cstore_error *error)
{
    char *message = NULL;
    size_t count = 0;
    cursor->entries.len = 0;
    while (count < count_max && !is_at_end(cursor)) {
        if (!take_next(cursor, &count))
            return fail_with(error, CSTORE_FAILED, "no memory");
    }
    if (cursor->iterator != NULL)
        rocksdb_iter_get_error(cursor->iterator, &message);
    if (message != NULL)
        return fail(error, message, false);
    *entries = (cstore_entries){cursor->entries.bytes, cursor->entries.len, count};
    if (cursor->notes_floor && count_max > 0)
        note_floor(cursor, count);
    return 0;
}

void cstore_cursor_close(cstore_cursor *cursor)
{
    if (cursor->iterator != NULL) {
        rocksdb_iter_destroy(cursor->iterator);
        rocksdb_readoptions_destroy(cursor->options);
    }
    for (size_t i = 0; i < PART_COUNT; i++)
        free(cursor->parts[i].found.owned);
    free(cursor->bounds);
    buffer_free(&cursor->entries);
    free(cursor);
}

uint64_t cstore_entry_hash(const uint8_t *key, size_t key_len, const uint8_t *value,
                           size_t value_len)
{
    return cstore_hash(value, value_len, cstore_hash(key, key_len, key_len) + value_len);
}

int cstore_checksum(cstore *store, int table, uint64_t *sum, cstore_error *error)
{
    char *message = NULL;
    if (spill_all(store, error) != 0)
        return -1;
    rocksdb_iterator_t *iterator = rocksdb_create_iterator_cf(
        store->db, store->shared->scan_options, store->family);
    const char first = (char)table;
    *sum = 0;
    for (rocksdb_iter_seek(iterator, &first, 1); rocksdb_iter_valid(iterator);
         rocksdb_iter_next(iterator)) {
        size_t key_len, value_len;
        const uint8_t *key = (const uint8_t *)rocksdb_iter_key(iterator, &key_len);
        const uint8_t *value = (const uint8_t *)rocksdb_iter_value(iterator, &value_len);
        if (key[0] != table)
            break;
        *sum += cstore_entry_hash(key + 1, key_len - 1, value, value_len);
    }
    rocksdb_iter_get_error(iterator, &message);
    rocksdb_iter_destroy(iterator);
    return message == NULL ? 0 : fail(error, message, false);
}
