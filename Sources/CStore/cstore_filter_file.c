#include "cstore_internal.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How a store comes by its filter: made from all keys once it is opened, 0.3 us each; a store that was
 * closed in order left it in a file. */

#define LINE_COUNT_MAX (UINT64_C(1) << 30) /* 64 GiB */
/* Of what a store has when it is opened: room until the next layer. */
#define SPARE_PERCENT 10
/* One with more, each of which errs, is made anew.  Layers cost little, and to make one costs much: until
 * it is whole, a look-up for a new key reads a file, 13 us.  Three times as many keys come between. */
#define GOOD_LAYER_COUNT_MAX 6
/* Of the keys that it is made from, in one call: a tenth of a second. */
#define STEP_KEY_COUNT (256 * 1024)

static bool table_has_groups(const cstore_shared *shared, int table)
{
    for (size_t kind = 0; kind < sizeof shared->groups[table]; kind++)
        if (shared->groups[table][kind] != CSTORE_NO_GROUP)
            return true;
    return false;
}

/* Goes on with it; the last step makes it whole. */
static int make_step(cstore *store, cstore_error *error)
{
    struct filter *filter = &store->filter;
    rocksdb_iterator_t *iterator = store->filter_source;
    const uint8_t last = table_has_groups(store->shared, CSTORE_DUE) ? CSTORE_DUE : CSTORE_STATE;
    char *message = NULL;
    bool is_done = false;
    for (uint64_t i = 0; filter->is_making && i < STEP_KEY_COUNT; i++) {
        size_t len;
        const uint8_t *key;
        is_done = !rocksdb_iter_valid(iterator)
            || (key = (const uint8_t *)rocksdb_iter_key(iterator, &len))[0] > last;
        if (is_done)
            break;
        if (key[0] == CSTORE_STATE)
            filter_add(filter, key_hash(CSTORE_STATE, key + 1, len - 1));
        size_t group = group_len(store->shared, key, len);
        if (group > 0)
            filter_add(filter, group_hash(key, group));
        rocksdb_iter_next(iterator);
    }
    rocksdb_iter_get_error(iterator, &message);
    if (message != NULL) {
        filter_drop(store);
        return fail(error, message, false);
    }
    if (is_done) {
        filter->is_making = false;
        filter->is_whole = true;
        filter->has_grown = false;
    }
    if (!filter->is_making) {
        rocksdb_iter_destroy(iterator);
        store->filter_source = NULL;
        /* The layers that went, and all keys that were read, leave holes that nothing fills for long. */
        malloc_trim(0);
    }
    return 0;
}

/* Hundreds of millions of keys take minutes: what comes of them in one call is bounded, and the rest is
 * made with the changes that follow.  Until it is whole nothing is denied; what is put meanwhile goes in
 * at once, and what was there before is in the iterator's view. */
int filter_make(cstore *store, cstore_error *error)
{
    const uint8_t first = CSTORE_STATE;
    uint64_t count = estimated_key_count(store);
    filter_drop(store);
    if (spill_all(store, error) != 0)
        return -1;
    store->filter.is_making =
        filter_add_layer(&store->filter, count + count * SPARE_PERCENT / 100);
    if (!store->filter.is_making)
        return 0;
    store->filter_source = rocksdb_create_iterator_cf(
        store->db, store->shared->scan_options, store->family);
    rocksdb_iter_seek(store->filter_source, (const char *)&first, 1);
    return make_step(store, error);
}

void filter_drop(cstore *store)
{
    if (store->filter_source != NULL)
        rocksdb_iter_destroy(store->filter_source);
    store->filter_source = NULL;
    filter_free(&store->filter);
}

int filter_renew(cstore *store, cstore_error *error)
{
    struct filter *filter = &store->filter;
    if (store->filter_source != NULL)
        return make_step(store, error);
    if (!filter->has_grown)
        return 0;
    filter->has_grown = false;
    bool is_poor = filter->layer_count > GOOD_LAYER_COUNT_MAX
        || filter_is_worn(filter, estimated_key_count(store));
    return is_poor ? filter_make(store, error) : 0;
}

/* -- the file --------------------------------------------------------------------------------- */

/* The file is of this machine and this version: it is read where it was written, or not at all. */
struct kept_filter {
    char magic[8];
    struct store_state state;
    uint64_t checksum; /* of all that follows */
    uint64_t key_count;
    uint64_t layer_count;
    struct {
        uint64_t line_count, room;
    } layers[FILTER_LAYER_COUNT_MAX];
};
/* Another one with each change of what a key sets. */
static const char magic[8] = "TWFILT7";
static const char file_name[] = "FILTER";

static uint64_t checksum_of(const struct filter *filter)
{
    uint64_t sum = filter->key_count;
    for (int i = 0; i < filter->layer_count; i++) {
        const struct filter_layer *layer = &filter->layers[i];
        sum = cstore_mix(sum ^ layer->line_count, layer->room | 1);
        for (size_t at = 0; at < layer->line_count * FILTER_LINE_LEN; at += sizeof sum) {
            uint64_t word;
            memcpy(&word, layer->lines + at, sizeof word);
            sum = cstore_mix(sum ^ word, UINT64_C(0x9e3779b97f4a7c15)) + at;
        }
    }
    return sum;
}

struct store_state store_state_of(const cstore *store, uint64_t sequence)
{
    struct store_state state = {.sequence = sequence};
    struct stat current;
    char path[STORE_PATH_LEN];
    if (path_in(store->path, "CURRENT", path) && stat(path, &current) == 0) {
        state.current_inode = current.st_ino;
        state.current_seconds = (uint64_t)current.st_ctim.tv_sec;
        state.current_nanoseconds = (uint64_t)current.st_ctim.tv_nsec;
    }
    return state;
}

void filter_keep(const cstore *store, uint64_t sequence)
{
    const struct filter *filter = &store->filter;
    struct kept_filter kept = {.state = store_state_of(store, sequence),
                               .key_count = filter->key_count,
                               .layer_count = (uint64_t)filter->layer_count};
    char path[STORE_PATH_LEN];
    if (!filter->is_whole || filter->layer_count < 1 || kept.state.current_inode == 0
        || !path_in(store->path, file_name, path))
        return;
    memcpy(kept.magic, magic, sizeof magic);
    kept.checksum = checksum_of(filter);
    for (int i = 0; i < filter->layer_count; i++) {
        kept.layers[i].line_count = filter->layers[i].line_count;
        kept.layers[i].room = filter->layers[i].room;
    }
    FILE *file = fopen(path, "wbe");
    if (file == NULL)
        return;
    bool is_whole = fwrite(&kept, sizeof kept, 1, file) == 1;
    for (int i = 0; is_whole && i < filter->layer_count; i++)
        is_whole = fwrite(filter->layers[i].lines, FILTER_LINE_LEN, filter->layers[i].line_count, file)
            == filter->layers[i].line_count;
    is_whole = fclose(file) == 0 && is_whole;
    /* One that a full disk or a crash has cut is known by its length or checksum; it only takes room. */
    if (!is_whole)
        unlink(path);
}

/* Whether the head of a file says that it is of the store as it is, and as long as it should be. */
static bool is_ours(cstore *store, const struct kept_filter *kept, uint64_t file_len)
{
    struct store_state now = store->opened_at;
    now.sequence = rocksdb_get_latest_sequence_number(store->db);
    uint64_t len = sizeof *kept;
    if (memcmp(kept->magic, magic, sizeof magic) != 0 || now.current_inode == 0
        || memcmp(&kept->state, &now, sizeof now) != 0 || kept->layer_count < 1
        || kept->layer_count > FILTER_LAYER_COUNT_MAX)
        return false;
    for (uint64_t i = 0; i < kept->layer_count; i++) {
        if (kept->layers[i].line_count < 1 || kept->layers[i].line_count > LINE_COUNT_MAX)
            return false;
        len += kept->layers[i].line_count * FILTER_LINE_LEN;
    }
    return len == file_len;
}

/* Take a filter from its file; false where it is not whole, or not of this store. */
static bool read_filter(cstore *store, FILE *file)
{
    struct kept_filter kept;
    struct stat status;
    struct filter read = {0};
    if (fstat(fileno(file), &status) != 0 || fread(&kept, sizeof kept, 1, file) != 1
        || !is_ours(store, &kept, (uint64_t)status.st_size))
        return false;
    bool is_read = true;
    for (uint64_t i = 0; is_read && i < kept.layer_count; i++) {
        uint64_t line_count = kept.layers[i].line_count;
        uint8_t *lines = aligned_alloc(FILTER_LINE_LEN, line_count * FILTER_LINE_LEN);
        if (lines == NULL)
            break;
        read.layers[read.layer_count++] =
            (struct filter_layer){lines, line_count, kept.layers[i].room};
        is_read = fread(lines, FILTER_LINE_LEN, line_count, file) == line_count;
    }
    read.key_count = kept.key_count;
    read.is_whole = is_read && (uint64_t)read.layer_count == kept.layer_count
        && checksum_of(&read) == kept.checksum && !filter_is_worn(&read, estimated_key_count(store));
    if (!read.is_whole) {
        filter_free(&read);
        return false;
    }
    store->filter = read;
    return true;
}

int filter_open(cstore *store, cstore_error *error)
{
    char path[STORE_PATH_LEN];
    FILE *file = path_in(store->path, file_name, path) ? fopen(path, "rbe") : NULL;
    if (file != NULL) {
        bool is_read = read_filter(store, file);
        fclose(file);
        /* It is of the store as it is now, and not of what the store becomes. */
        if (unlink(path) == 0 && is_read)
            return 0;
    }
    return filter_make(store, error);
}
