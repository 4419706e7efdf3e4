#pragma once

#include <stddef.h>
#include <stdint.h>

/* The head of a request and the framing of a chunked body: pure, and as strict as RFC 9112 allows. */

enum { METHOD_BYTE_COUNT_MAX = 31 };

struct span {
    const char *bytes;
    size_t count;
};

/* Where the search for the end of a head stands; all zero at its first byte. */
struct head_scan {
    size_t scanned_count;
    size_t line_start;
};

struct head {
    struct span method;
    struct span target;
    /* Of a target that is a whole URL: its host and port; else empty. */
    struct span authority;
    /* All header lines, the empty one not included. */
    struct span fields;
    uint64_t body_byte_count;
    int has_body_byte_count;
    int is_chunked;
    int is_kept;            /* the client wants to keep the connection */
    int is_version_1_0;
    int wants_continue;
};

/**
 * chttp_head_scan(scan, bytes, length):
 * Look for the end of a head that starts with ${bytes.bytes}, on from the offset of ${scan}.  Put
 * its length, the empty line included, into ${length}, 0 while it is not whole.  Return 0, or 400
 * for a line that does not end in CR LF.
 */
unsigned int chttp_head_scan(struct head_scan *scan, struct span bytes, size_t *length);

/**
 * chttp_head_read(bytes, head):
 * Read the whole head ${bytes}; ${head} points into it.  Return 0, or the status to refuse with.
 */
unsigned int chttp_head_read(struct span bytes, struct head *head);

/**
 * chttp_field_next(fields, name, value):
 * Take the first header line off ${fields}, which chttp_head_read has found good, and split it, white
 * space trimmed.  Return 0 where there is none.
 */
int chttp_field_next(struct span *fields, struct span *name, struct span *value);

/** chttp_is_first_byte(byte): whether a request can begin with ${byte}. */
int chttp_is_first_byte(char byte);

enum chunk_stage {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_END,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER,
    CHUNK_TRAILER_LINE,
    CHUNK_TRAILER_END,
    CHUNK_LAST_LF,
    CHUNK_COMPLETE,
    CHUNK_BAD,
};

/* All zero at the first byte of a chunked body. */
struct chunks {
    enum chunk_stage stage;
    unsigned int digit_count;
    uint64_t missing_count;    /* of this chunk */
    uint64_t data_count;       /* of all chunks */
    uint64_t framing_count;    /* of everything else */
};

/**
 * chttp_chunks_read(chunks, bytes, data):
 * Read on in a chunked body, up to the end of ${bytes}, of the body, or of a piece of its data, which
 * is put into ${data}; trailers are thrown away.  Return how many bytes were read.
 */
size_t chttp_chunks_read(struct chunks *chunks, struct span bytes, struct span *data);
