#define _GNU_SOURCE
#include "cstore_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A restore in sorted files.  Changes are collected, sorted and written as one file a table. */

#define BULK_ENTRY_COUNT_MAX (704 * 1024)
#define BULK_CHANGES_LEN_MAX (40 * 1024 * 1024)
/* Fewer changes than this cost less in one write than in files. */
#define BULK_ENTRY_COUNT_MIN (32 * 1024)

int cstore_bulk_begin(cstore *store, const uint8_t *marker, size_t len, cstore_error *error)
{
    struct bulk *bulk = &store->bulk;
    bulk_free(bulk);
    bulk->entries = malloc(BULK_ENTRY_COUNT_MAX * sizeof *bulk->entries);
    if (bulk->entries == NULL || !buffer_reserve(&bulk->marker, len)
        || !buffer_reserve(&bulk->changes, BULK_CHANGES_LEN_MAX)) {
        bulk_free(bulk);
        return fail_with(error, CSTORE_FAILED, "no memory");
    }
    memcpy(bulk->marker.bytes, marker, len);
    bulk->marker.len = len;
    bulk->is_active = true;
    return 0;
}

/* Write the entries from ${first} on that are of one table to the file ${path}; returns the index
 * after them, or 0 with ${message}. */
static size_t write_file(cstore *store, const char *path, size_t first, char **message)
{
    struct bulk *bulk = &store->bulk;
    const uint8_t *changes = bulk->changes.bytes;
    rocksdb_envoptions_t *env_options = rocksdb_envoptions_create();
    rocksdb_sstfilewriter_t *writer =
        rocksdb_sstfilewriter_create(env_options, store->shared->options);
    size_t index = first;
    struct change change, next;

    rocksdb_sstfilewriter_open(writer, path, message);
    change_read(changes, bulk->entries[index].position, &change);
    while (*message == NULL) {
        index++;
        bool is_last = index == bulk->entry_count
            || bulk->entries[index].table != bulk->entries[first].table;
        if (!is_last)
            change_read(changes, bulk->entries[index].position, &next);
        bool is_superseded = !is_last && compare_keys(&change, &next) == 0;
        if (!is_superseded && change.is_removal)
            rocksdb_sstfilewriter_delete(writer, (const char *)change.key, change.key_len, message);
        else if (!is_superseded)
            rocksdb_sstfilewriter_put(writer, (const char *)change.key, change.key_len,
                                      (const char *)change.value, change.value_len, message);
        if (is_last)
            break;
        change = next;
    }
    if (*message == NULL)
        rocksdb_sstfilewriter_finish(writer, message);
    rocksdb_sstfilewriter_destroy(writer);
    rocksdb_envoptions_destroy(env_options);
    return *message == NULL ? index : 0;
}

static int spill(cstore *store, cstore_error *error)
{
    struct bulk *bulk = &store->bulk;
    char *message = NULL;
    if (bulk->entry_count == 0)
        return 0;
    if (bulk->file_count == 0
        && (cstore_apply(store, NULL, 0, bulk->marker.bytes, bulk->marker.len, error) != 0
            || flush_meta(store, error) != 0))
        return -1;
    sort_changes(bulk->entries, bulk->entry_count, bulk->changes.bytes);
    rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
    for (size_t first = 0; first < bulk->entry_count && message == NULL;) {
        char name[32], path[STORE_PATH_LEN];
        snprintf(name, sizeof name, "bulk-%u.sst", bulk->file_count++);
        if (!path_in(store->path, name, path)) {
            rocksdb_ingestexternalfileoptions_destroy(options);
            return fail_with(error, CSTORE_FAILED, "the path of the store is too long");
        }
        const char *const paths[1] = {path};
        int table = bulk->entries[first].table;
        first = write_file(store, path, first, &message);
        /* What goes in by files goes past the filter: it denies nothing until it is made anew. */
        filter_free(&store->filter);
        if (message == NULL)
            rocksdb_ingest_external_file_cf(store->db, store->families[table], paths, 1, options,
                                            &message);
    }
    rocksdb_ingestexternalfileoptions_destroy(options);
    bulk->changes.len = 0;
    bulk->entry_count = 0;
    return message == NULL ? 0 : fail(error, message, false);
}

int cstore_bulk_add(cstore *store, const uint8_t *changes, size_t len, cstore_error *error)
{
    struct bulk *bulk = &store->bulk;
    for (size_t position = 0; position < len;) {
        struct change change;
        size_t next = change_read(changes, position, &change);
        size_t change_len = next - position;
        if ((bulk->entry_count == BULK_ENTRY_COUNT_MAX
             || bulk->changes.len + change_len > BULK_CHANGES_LEN_MAX)
            && spill(store, error) != 0)
            return -1;
        /* A single change larger than the whole buffer makes it grow; its position still fits. */
        if (!buffer_reserve(&bulk->changes, change_len))
            return fail_with(error, CSTORE_FAILED, "no memory");
        memcpy(bulk->changes.bytes + bulk->changes.len, changes + position, change_len);
        bulk->entries[bulk->entry_count++] =
            sorted_change_at(bulk->changes.bytes, bulk->changes.len);
        bulk->changes.len += change_len;
        position = next;
    }
    return 0;
}

int cstore_bulk_end(cstore *store, const uint8_t *final, size_t len, cstore_error *error)
{
    struct bulk *bulk = &store->bulk;
    bool is_small = bulk->file_count == 0 && bulk->entry_count < BULK_ENTRY_COUNT_MIN;
    int result;
    if (is_small) {
        /* One write with the final changes: nothing was torn, so nothing needs a flush. */
        result = cstore_apply(store, bulk->changes.bytes, bulk->changes.len, final, len, error);
    } else {
        result = spill(store, error);
        if (result == 0)
            result = cstore_apply(store, NULL, 0, final, len, error);
        if (result == 0)
            result = flush_meta(store, error);
    }
    bool has_files = bulk->file_count > 0;
    bulk_free(bulk);
    return result == 0 && has_files ? filter_make(store, error) : result;
}
