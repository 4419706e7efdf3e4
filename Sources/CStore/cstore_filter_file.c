#include "cstore_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A store that was closed in order leaves its filter in a file: the next start reads no key. */

#define LINE_COUNT_MAX (UINT64_C(1) << 30) /* 64 GiB */

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
