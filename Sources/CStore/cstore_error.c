#define _GNU_SOURCE
#include "cstore_internal.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * RocksDB's C interface hands out its status as text only.  What is looked for are the names of its
 * codes ("Corruption: ", "IO error: ") and the system's own words for an errno, which it appends.
 */
static int kind_of(const char *message, bool is_opening)
{
    if (strstr(message, strerror(ENOSPC)) != NULL || strstr(message, strerror(EDQUOT)) != NULL)
        return CSTORE_DISK_FULL;
    if (strncmp(message, "Corruption", 10) == 0)
        return CSTORE_DAMAGED;
    if (is_opening && strncmp(message, "IO error", 8) == 0
        && (strstr(message, "While lock file") != NULL
            || strstr(message, "lock hold by current process") != NULL))
        return CSTORE_LOCKED;
    /* A file that the manifest names and the folder lacks. */
    if (strncmp(message, "IO error", 8) == 0 && strstr(message, strerror(ENOENT)) != NULL)
        return CSTORE_DAMAGED;
    /* A manifest of something else: other tables, another comparator, another format. */
    if (is_opening
        && (strncmp(message, "Invalid argument", 16) == 0
            || strncmp(message, "Not implemented", 15) == 0
            || strncmp(message, "NotFound", 8) == 0))
        return CSTORE_DAMAGED;
    return CSTORE_FAILED;
}

int fail_with(cstore_error *error, int kind, const char *message)
{
    error->kind = kind;
    snprintf(error->message, sizeof error->message, "%s", message);
    return -1;
}

int fail(cstore_error *error, char *message, bool is_opening)
{
    fail_with(error, kind_of(message, is_opening), message);
    rocksdb_free(message);
    return -1;
}

int fail_errno(cstore_error *error, const char *what)
{
    int code = errno;
    error->kind = code == ENOSPC || code == EDQUOT ? CSTORE_DISK_FULL : CSTORE_FAILED;
    snprintf(error->message, sizeof error->message, "%s: %s", what, strerror(code));
    return -1;
}

int cstore_make_folder(const char *path, cstore_error *error)
{
    char *part = strdup(path);
    if (part == NULL)
        return fail_with(error, CSTORE_FAILED, "no memory");
    int result = 0;
    for (char *slash = part; result == 0 && slash != NULL;) {
        slash = strchr(slash + 1, '/');
        if (slash != NULL)
            *slash = '\0';
        if (mkdir(part, 0750) != 0 && errno != EEXIST)
            result = fail_errno(error, part);
        if (slash != NULL)
            *slash = '/';
    }
    free(part);
    return result;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *position)
{
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

int cstore_remove_folder(const char *path, cstore_error *error)
{
    /* Depth first, symbolic links themselves and not where they lead. */
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
        return fail_errno(error, path);
    return 0;
}
