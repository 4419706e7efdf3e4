#include "cstore_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_LEN (8 * 1024)
#define ARENA_BLOCK_LEN (16 * 1024)
#define FILE_LEN (8 * 1024 * 1024)
/* Files that differ by no more are of one size. */
#define SIZE_RATIO_PERCENT 25
/* What RocksDB has in memory, which is only what went there for a reader. */
#define WRITE_BUFFER_LEN (256 * 1024)
#define WRITE_BUFFER_COUNT_MAX 3
/* Each merge writes its files anew, and how many there are matters only to look-ups of what is
 * there. */
#define LEVEL0_COUNT 24
#define LEVEL0_COUNT_SLOWER 40
#define LEVEL0_COUNT_MAX 60
#define FLUSH_WAIT_TURNS 10000 /* of a millisecond */
#define MANIFEST_LEN (1024 * 1024)
/* A file is written by so much at once: RocksDB's own MiB is memory new from the system for each. */
#define FILE_BUFFER_LEN (128 * 1024)
#define LOG_LEVEL_FATAL 4 /* of RocksDB's InfoLogLevel */

cstore_shared *cstore_shared_create(size_t cache_len, size_t write_buffer_len,
                                    int file_filter_bits)
{
    cstore_shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL)
        return NULL;
    shared->cache = rocksdb_cache_create_lru(cache_len);
    shared->front_len_max = write_buffer_len;

    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, shared->cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_LEN);
    /* Takes over the policy.  Of what the filter in memory lets through, most is there: these say in
     * which file, and the last file that can have a key needs none. */
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(file_filter_bits));
    /* Indexes and filters are wanted at each look-up: in the cache they would push out each other. */
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 0);
    rocksdb_block_based_options_set_format_version(table, 5);
    shared->table_options = table;

    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER_LEN);
    rocksdb_options_set_max_write_buffer_number(options, WRITE_BUFFER_COUNT_MAX);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, LEVEL0_COUNT);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, LEVEL0_COUNT_SLOWER);
    rocksdb_options_set_level0_stop_writes_trigger(options, LEVEL0_COUNT_MAX);
    rocksdb_options_set_optimize_filters_for_hits(options, 1);
    rocksdb_options_set_arena_block_size(options, ARENA_BLOCK_LEN);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_target_file_size_base(options, FILE_LEN);
    /* Keys come in no order, so every new file overlaps all older ones.  By levels each merge writes
     * a whole level anew; here files of one size are merged with each other. */
    rocksdb_universal_compaction_options_t *universal =
        rocksdb_universal_compaction_options_create();
    rocksdb_universal_compaction_options_set_size_ratio(universal, SIZE_RATIO_PERCENT);
    rocksdb_options_set_compaction_style(options, rocksdb_universal_compaction);
    rocksdb_options_set_universal_compaction_options(options, universal);
    rocksdb_universal_compaction_options_destroy(universal);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_options_set_max_open_files(options, -1);
    rocksdb_options_set_writable_file_max_buffer_size(options, FILE_BUFFER_LEN);
    rocksdb_options_set_max_manifest_file_size(options, MANIFEST_LEN);
    rocksdb_options_set_paranoid_checks(options, 1);
    rocksdb_options_set_keep_log_file_num(options, 1);
    /* Nothing is logged: the call that fails returns why.  The log lies on the same disk, and
     * RocksDB 7.8 asserts that no write to it follows one that failed: a full disk ended the process. */
    rocksdb_options_set_info_log_level(options, LOG_LEVEL_FATAL);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    shared->options = options;

    shared->write_options = rocksdb_writeoptions_create();
    /* The changelog is the log.  What is lost in a crash is read again from there. */
    rocksdb_writeoptions_disable_WAL(shared->write_options, 1);
    shared->env_options = rocksdb_envoptions_create();
    shared->ingest_options = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(shared->ingest_options, 1);
    shared->read_options = rocksdb_readoptions_create();
    shared->scan_options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(shared->scan_options, 0);
    spiller_open(&shared->spiller);
    return shared;
}

void cstore_shared_destroy(cstore_shared *shared)
{
    spiller_close(&shared->spiller);
    rocksdb_readoptions_destroy(shared->scan_options);
    rocksdb_readoptions_destroy(shared->read_options);
    rocksdb_ingestexternalfileoptions_destroy(shared->ingest_options);
    rocksdb_envoptions_destroy(shared->env_options);
    rocksdb_writeoptions_destroy(shared->write_options);
    rocksdb_options_destroy(shared->options);
    rocksdb_block_based_options_destroy(shared->table_options);
    rocksdb_cache_destroy(shared->cache);
    free(shared);
}

static const char damage_marker[] = "DAMAGED";

int cstore_mark_damaged(cstore *store, cstore_error *error)
{
    char marker[STORE_PATH_LEN];
    int file = path_in(store->path, damage_marker, marker)
        ? open(marker, O_CREAT | O_WRONLY | O_CLOEXEC, 0640) : -1;
    int result = file < 0 ? fail_errno(error, "marking a damaged store") : 0;
    if (file >= 0)
        close(file);
    return result;
}

static bool is_marked_damaged(const char *path)
{
    char marker[STORE_PATH_LEN];
    return path_in(path, damage_marker, marker) && access(marker, F_OK) == 0;
}

static void close_files(cstore *store)
{
    rocksdb_column_family_handle_destroy(store->family);
    rocksdb_close(store->db);
}

cstore *cstore_open(cstore_shared *shared, const char *path, cstore_error *error)
{
    const char *const names[1] = {"default"};
    const rocksdb_options_t *options[1] = {shared->options};
    char *message = NULL;
    cstore *store = calloc(1, sizeof *store);
    if (store == NULL || (store->path = strdup(path)) == NULL) {
        fail_with(error, CSTORE_FAILED, "no memory");
        goto fail;
    }
    store->shared = shared;
    if (is_marked_damaged(path)) {
        fail_with(error, CSTORE_DAMAGED, "it was found damaged before");
        goto fail;
    }
    store->opened_at = store_state_of(store, 0);
    store->db = rocksdb_open_column_families(shared->options, path, 1, names, options,
                                             &store->family, &message);
    if (message != NULL) {
        fail(error, message, true);
        goto fail;
    }
    if (filter_open(store, error) != 0) {
        filter_drop(store);
        close_files(store);
        front_drop(store);
        goto fail;
    }
    shared->store_count++;
    return store;
fail:
    if (store != NULL)
        free(store->path);
    free(store);
    return NULL;
}

/* RocksDB 7.8 keeps one reason for a flush, asserts that it is the one that the flush was ordered for,
 * and a distribution's build has its assertions: no flush may be ordered, by a file that comes in or by
 * closing, while one of its own is under way.  One that failed stays pending and is not waited for. */
void await_flush(cstore *store)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int turn = 0; turn < FLUSH_WAIT_TURNS; turn++) {
        if ((store_property(store, "rocksdb.num-running-flushes") == 0
             && store_property(store, "rocksdb.mem-table-flush-pending") == 0)
            || store_property(store, "rocksdb.background-errors") > 0)
            return;
        nanosleep(&pause, NULL);
    }
}

int cstore_close(cstore *store, cstore_error *error)
{
    int result = spill_all(store, error);
    uint64_t sequence = rocksdb_get_latest_sequence_number(store->db);
    filter_stop(store);
    await_flush(store);
    /* RocksDB brings what it has in memory to the disk before it lets go.  Where it could not, the store
     * is at an earlier sequence number, and the filter is not its. */
    close_files(store);
    if (result == 0)
        filter_keep(store, sequence);
    filter_free(&store->filter);
    floors_free(store);
    store->shared->store_count--;
    front_drop(store);
    leaving_drop(store);
    buffer_free(&store->values);
    buffer_free(&store->scratch);
    free(store->path);
    free(store);
    return result;
}

int cstore_apply(cstore *store, const uint8_t *changes, size_t len, const uint8_t *last,
                 size_t last_len, cstore_error *error)
{
    if (spill_poll(store, error) != 0)
        return -1;
    if (!front_add(store, changes, len) || !front_add(store, last, last_len)) {
        /* Half a batch must not reach a file: the store is behind then, as after a crash. */
        front_drop(store);
        floors_free(store);
        return fail_with(error, CSTORE_FAILED, "no memory");
    }
    if (front_is_full(store) && spill_full(store, error) != 0)
        return -1;
    return store->is_restoring ? 0 : filter_renew(store, error);
}

void cstore_restore_begin(cstore *store)
{
    store->is_restoring = true;
    filter_drop(store);
}

int cstore_restore_end(cstore *store, cstore_error *error)
{
    if (!store->is_restoring)
        return 0;
    int result = filter_make(store, error);
    store->is_restoring = false;
    return result;
}

cstore_usage cstore_measure(const cstore *store)
{
    pthread_mutex_lock(&store->shared->spiller.filter_mutex);
    size_t making_len = filter_len(&store->making.filter);
    pthread_mutex_unlock(&store->shared->spiller.filter_mutex);
    return (cstore_usage){.filter_len = filter_len(&store->filter) + making_len,
                          .front_len = store->front.changes.len
                              + store->leaving.front.changes.len,
                          .is_filter_made = store->filter.is_whole && !store->wants_filter
                              && store->making.source == NULL};
}
