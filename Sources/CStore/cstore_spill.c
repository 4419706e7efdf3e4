#include "cstore_internal.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * From the front to RocksDB.  To sort a front and write its file takes some ten milliseconds, a seventh of
 * what dedupe's thread does; a thread of its own does it meanwhile.  The front is read where it is until RocksDB
 * has it and the store's thread has seen that: no look-up waits, and none misses a change.
 */

/* Most readers cannot wait for a front to fill up.  So little goes to RocksDB's own memory: a file of its
 * own costs a millisecond, and merges. */
#define MEMORY_LEN_MAX (512 * 1024)
/* Parts of what all stores may have in memory: a front larger than one is waited for, so that little
 * more is there while it is written. */
#define LEAVING_SHARE_MAX 3

/* -- writing ---------------------------------------------------------------------------------- */

static void write_to_memory(cstore *store, const struct front *front,
                            const struct sorted_change *sorted, char **message)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < front->key_count; i++) {
        struct change change;
        change_read(front->changes.bytes, sorted[i].position, &change);
        if (change.is_removal)
            rocksdb_writebatch_delete(batch, (const char *)change.key, change.key_len);
        else
            rocksdb_writebatch_put(batch, (const char *)change.key, change.key_len,
                                   (const char *)change.value, change.value_len);
    }
    rocksdb_write(store->db, store->shared->write_options, batch, message);
    rocksdb_writebatch_destroy(batch);
}

static void write_file(cstore *store, const struct front *front,
                       const struct sorted_change *sorted, const char *path, char **message)
{
    rocksdb_sstfilewriter_t *writer =
        rocksdb_sstfilewriter_create(store->shared->env_options, store->shared->options);
    rocksdb_sstfilewriter_open(writer, path, message);
    for (size_t i = 0; i < front->key_count && *message == NULL; i++) {
        if (i + SORTED_AHEAD < front->key_count)
            __builtin_prefetch(front->changes.bytes + sorted[i + SORTED_AHEAD].position);
        struct change change;
        change_read(front->changes.bytes, sorted[i].position, &change);
        if (change.is_removal)
            rocksdb_sstfilewriter_delete(writer, (const char *)change.key, change.key_len, message);
        else
            rocksdb_sstfilewriter_put(writer, (const char *)change.key, change.key_len,
                                      (const char *)change.value, change.value_len, message);
    }
    if (*message == NULL)
        rocksdb_sstfilewriter_finish(writer, message);
    rocksdb_sstfilewriter_destroy(writer);
}

/* An empty write: it waits where merges are behind, and a file that comes in does not. */
static void await_merges(cstore *store, char **message)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    rocksdb_write(store->db, store->shared->write_options, batch, message);
    rocksdb_writebatch_destroy(batch);
}

/* Write a file and bring it in, behind what RocksDB has in memory: that is flushed first, for the
 * caller's own key is in every write, and so the two overlap. */
static void write_and_bring_in(cstore *store, const struct front *front,
                               const struct sorted_change *sorted, const char *path,
                               char **message)
{
    const char *const paths[1] = {path};
    write_file(store, front, sorted, path, message);
    if (*message == NULL)
        await_merges(store, message);
    await_flush(store);
    if (*message == NULL)
        rocksdb_ingest_external_file_cf(store->db, store->family, paths, 1,
                                        store->shared->ingest_options, message);
    /* A full disk has its space back. */
    if (*message != NULL)
        unlink(path);
}

/* Write a front as one; ${sorted} becomes its changes in order.  0, or -1. */
static int write_front(cstore *store, const struct front *front, bool is_file,
                       struct sorted_change **sorted, cstore_error *error)
{
    char path[STORE_PATH_LEN];
    char *message = NULL;
    if (!path_in(store->path, "spill.sst", path))
        return fail_with(error, CSTORE_FAILED, "the path of the store is too long");
    /* One that a crash has left may be another name of a table that RocksDB took in: only the name
     * goes, and nothing is written over. */
    if (is_file && unlink(path) != 0 && errno != ENOENT)
        return fail_errno(error, "removing a file that was left");
    if (*sorted == NULL)
        *sorted = front_sorted(front);
    if (*sorted == NULL)
        return fail_with(error, CSTORE_FAILED, "no memory");
    if (is_file)
        write_and_bring_in(store, front, *sorted, path, &message);
    else
        write_to_memory(store, front, *sorted, &message);
    return message == NULL ? 0 : fail(error, message, false);
}

/* RocksDB has a front: the filter knows its groups, and no floor lies above its keys, before it goes. */
static void note_written(cstore *store, const struct front *front,
                         const struct sorted_change *sorted)
{
    for (size_t i = 0; i < front->key_count; i++) {
        if (i + SORTED_AHEAD < front->key_count)
            __builtin_prefetch(front->changes.bytes + sorted[i + SORTED_AHEAD].position);
        struct change change;
        change_read(front->changes.bytes, sorted[i].position, &change);
        group_spilled(store, &change);
        if (change.key[0] == CSTORE_DUE)
            floor_lower(store, FLOOR_OF_ROCKSDB, &change);
    }
}

/* -- the spiller ------------------------------------------------------------------------------ */

/* Called with the mutex taken, as the next one is. */
static void write_job(struct spiller *spiller)
{
    cstore *store = spiller->job;
    struct leaving *leaving = &store->leaving;
    pthread_mutex_unlock(&spiller->mutex);
    leaving->has_failed =
        write_front(store, &leaving->front, true, &leaving->sorted, &leaving->error) != 0;
    pthread_mutex_lock(&spiller->mutex);
    spiller->job = NULL;
    pthread_cond_broadcast(&spiller->changed);
}

static void go_on_making(struct spiller *spiller)
{
    cstore *store = spiller->stepping = spiller->making;
    pthread_mutex_unlock(&spiller->mutex);
    bool has_more = filter_make_step(store);
    pthread_mutex_lock(&spiller->mutex);
    spiller->stepping = NULL;
    if (!has_more && spiller->making == store)
        spiller->making = NULL;
    pthread_cond_broadcast(&spiller->changed);
}

static void *run(void *argument)
{
    struct spiller *spiller = argument;
    pthread_mutex_lock(&spiller->mutex);
    while (!spiller->is_ended) {
        if (spiller->job != NULL)
            write_job(spiller);
        else if (spiller->making != NULL)
            go_on_making(spiller);
        else
            pthread_cond_wait(&spiller->changed, &spiller->mutex);
    }
    pthread_mutex_unlock(&spiller->mutex);
    return NULL;
}

void spiller_open(struct spiller *spiller)
{
    pthread_mutex_init(&spiller->mutex, NULL);
    pthread_cond_init(&spiller->changed, NULL);
    pthread_mutex_init(&spiller->filter_mutex, NULL);
}

void spiller_close(struct spiller *spiller)
{
    pthread_mutex_lock(&spiller->mutex);
    spiller->is_ended = true;
    pthread_cond_broadcast(&spiller->changed);
    pthread_mutex_unlock(&spiller->mutex);
    if (spiller->is_started)
        pthread_join(spiller->thread, NULL);
    pthread_cond_destroy(&spiller->changed);
    pthread_mutex_destroy(&spiller->mutex);
    pthread_mutex_destroy(&spiller->filter_mutex);
}

/* The first time that there is something to do.  false: no thread is to be had. */
static bool start(struct spiller *spiller)
{
    if (spiller->is_started)
        return true;
    /* The process's signals are for its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    spiller->is_started = pthread_create(&spiller->thread, NULL, run, spiller) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return spiller->is_started;
}

/* Wait until it does nothing, or nothing of ${store}. */
static void await_job(struct spiller *spiller, const cstore *store)
{
    pthread_mutex_lock(&spiller->mutex);
    while (spiller->job != NULL && (store == NULL || spiller->job == store))
        pthread_cond_wait(&spiller->changed, &spiller->mutex);
    pthread_mutex_unlock(&spiller->mutex);
}

static bool is_writing(struct spiller *spiller, const cstore *store)
{
    pthread_mutex_lock(&spiller->mutex);
    bool is_writing = spiller->job == store;
    pthread_mutex_unlock(&spiller->mutex);
    return is_writing;
}

bool spiller_is_free(cstore_shared *shared)
{
    struct spiller *spiller = &shared->spiller;
    if (!start(spiller))
        return false;
    pthread_mutex_lock(&spiller->mutex);
    bool is_free = spiller->making == NULL;
    pthread_mutex_unlock(&spiller->mutex);
    return is_free;
}

void spiller_make(cstore *store)
{
    struct spiller *spiller = &store->shared->spiller;
    pthread_mutex_lock(&spiller->mutex);
    spiller->making = store;
    pthread_cond_broadcast(&spiller->changed);
    pthread_mutex_unlock(&spiller->mutex);
}

bool spiller_is_making(const cstore *store)
{
    struct spiller *spiller = &store->shared->spiller;
    pthread_mutex_lock(&spiller->mutex);
    bool is_making = spiller->making == store;
    pthread_mutex_unlock(&spiller->mutex);
    return is_making;
}

void spiller_stop_making(cstore *store)
{
    struct spiller *spiller = &store->shared->spiller;
    pthread_mutex_lock(&spiller->mutex);
    /* It begins no other step: to wait first might be to wait for one after the other. */
    if (spiller->making == store)
        spiller->making = NULL;
    while (spiller->stepping == store)
        pthread_cond_wait(&spiller->changed, &spiller->mutex);
    pthread_mutex_unlock(&spiller->mutex);
}

/* -- the store's thread ----------------------------------------------------------------------- */

static bool is_leaving(const cstore *store)
{
    return store->leaving.front.key_count > 0;
}

void leaving_drop(cstore *store)
{
    struct spiller *spiller = &store->shared->spiller;
    if (spiller->last == store)
        spiller->last = NULL;
    front_free(&store->leaving.front);
    free(store->leaving.sorted);
    store->leaving = (struct leaving){0};
}

/* RocksDB has what left. */
static void arrive(cstore *store)
{
    note_written(store, &store->leaving.front, store->leaving.sorted);
    leaving_drop(store);
}

int spill_poll(cstore *store, cstore_error *error)
{
    if (!is_leaving(store) || is_writing(&store->shared->spiller, store))
        return 0;
    if (store->leaving.has_failed) {
        *error = store->leaving.error;
        return -1;
    }
    arrive(store);
    return 0;
}

/* Wait until RocksDB has what left; what could not be written is tried once more.  0, or -1. */
static int settle(cstore *store, cstore_error *error)
{
    struct leaving *leaving = &store->leaving;
    if (!is_leaving(store))
        return 0;
    await_job(&store->shared->spiller, store);
    if (leaving->has_failed
        && write_front(store, &leaving->front, true, &leaving->sorted, error) != 0)
        return -1;
    arrive(store);
    return 0;
}

/* Hand the front to RocksDB at once.  0, or -1. */
static int spill(cstore *store, bool is_file, cstore_error *error)
{
    struct sorted_change *sorted = NULL;
    /* What left before goes before it. */
    if (settle(store, error) != 0)
        return -1;
    if (store->front.key_count == 0)
        return 0;
    int result = write_front(store, &store->front, is_file, &sorted, error);
    if (result == 0) {
        note_written(store, &store->front, sorted);
        front_drop(store);
    }
    free(sorted);
    return result;
}

int spill_all(cstore *store, cstore_error *error)
{
    return spill(store, store->front.changes.len > MEMORY_LEN_MAX, error);
}

int spill_full(cstore *store, cstore_error *error)
{
    cstore_shared *shared = store->shared;
    struct spiller *spiller = &shared->spiller;
    struct front *front = &store->front;
    bool is_small = front->changes.len <= shared->front_len_max / LEAVING_SHARE_MAX;
    if (store->is_restoring || !is_small || !start(spiller))
        return spill(store, true, error);
    if (settle(store, error) != 0)
        return -1;
    /* One front at a time leaves, whosever it is; its failure is told to its own store. */
    await_job(spiller, NULL);
    if (spiller->last != NULL && !spiller->last->leaving.has_failed)
        arrive(spiller->last);
    shared->front_len -= front->changes.len;
    store->leaving.front = *front;
    *front = (struct front){0};
    spiller->last = store;
    pthread_mutex_lock(&spiller->mutex);
    spiller->job = store;
    pthread_cond_broadcast(&spiller->changed);
    pthread_mutex_unlock(&spiller->mutex);
    return 0;
}
