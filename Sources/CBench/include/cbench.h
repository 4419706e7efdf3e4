/*
 * What `tollway bench` compares with: the least programs that do a worker's outer work over the
 * same libraries, a client that loads an HTTP door, and a server that stands for Apple.
 *
 * They stand on librdkafka, libmicrohttpd, libcurl and OpenSSL directly and on nothing of ours: a
 * yardstick must not bend with what it measures. They are no part of the pipeline, and repair nothing: whatever fails
 * ends them with a sentence.
 *
 * A list of texts is one block of bytes: each text ended by a NUL, the list by an empty text.
 * Settings are such a list, name and value in turn; they come after the program's own.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * -- The copy loop: poll, produce, commit the transaction, wait for it, again ------------------
 *
 * Each record goes on with its headers as they came.  Plain, key and value are the input's own; else
 * they are what the worker itself wrote, in turn: as many records as its outputs, to as many topics and
 * partitions, of as many bytes and as hard to compress.
 */

typedef struct cbench_copy {
    const char *settings;
    const char *group;
    const char *instance;
    const char *source;
    const char *targets;       /* a list */
    int has_changelog;         /* the last target: its records go to their input's partition */
    size_t batch_record_max;
    int batch_wait_ms;         /* a batch that does not fill up is committed after this */
    const char *material;      /* a file, empty for the plain loop: for each input in turn how many
                                  outputs, and of each its target, the lengths of key and value, and
                                  both; numbers of 4 bytes, little-endian */
    int is_skipping;           /* copies nothing: commits the end of each partition and returns */
} cbench_copy;

/*
 * cbench_copy_run(copy, message, message_size):
 * Run until the process is ended, or, skipping, until the ends are committed: 0.  On a failure -1,
 * with ${message} filled in.
 */
int cbench_copy_run(const cbench_copy *copy, char *message, size_t message_size);

/* -- The bare server: a record a line, 202 after the last receipt ------------------------------ */

typedef struct cbench_server {
    const char *settings;
    const char *target;
    size_t record_byte_count; /* lines are cut or filled up to this; 0: as they came */
    size_t key_byte_count;    /* of these; 0: no key.  A key is made from its line, so that records go
                                 to all partitions, as those of many customers do */
} cbench_server;

/*
 * cbench_server_run(server, on_port, message, message_size):
 * Listen on a free port of 127.0.0.1, write it in digits and a line end to ${port_fd}, and run until
 * the process is ended.  On a failure -1, with ${message} filled in.
 */
int cbench_server_run(const cbench_server *server, int port_fd, char *message,
                      size_t message_size);

/* -- The load: requests from a file, each once, over connections that are kept ------------------ */

typedef struct cbench_load {
    const char *file;       /* whole requests, each behind its length as 4 bytes, little-endian */
    uint16_t port;          /* on 127.0.0.1 */
    unsigned connection_count;
    int deadline_ms;
} cbench_load;

typedef struct cbench_load_result {
    uint64_t accepted_count; /* answered with 202 */
    uint64_t refused_count;  /* answered with anything else, and sent again after a 503 */
    int64_t elapsed_us;      /* from the first byte sent to the last answer */
    /* From a request's first byte to its 202, whatever came between: of 1,000 requests so many were
     * as fast or faster.  0 where none was accepted. */
    int64_t p500_us, p990_us, p999_us;
} cbench_load_result;

/* cbench_load_run: 0 when each request was accepted; -1 with ${message} otherwise. */
int cbench_load_run(const cbench_load *load, cbench_load_result *result, char *message,
                    size_t message_size);

/*
 * cbench_idle_run(port, count, ready_fd, message, message_size):
 * Open ${count} connections to 127.0.0.1 that never say a word, which the server may close, write a
 * line to ${ready_fd}, and stay until the process is ended.  On a failure -1, with ${message} filled in.
 */
int cbench_idle_run(uint16_t port, unsigned count, int ready_fd, char *message, size_t message_size);

/* -- The bare Apple: every report is accepted at once -------------------------------------------- */

typedef struct cbench_apple {
    const char *arrivals;    /* a file that gets the externalPurchaseId of each report, one a line */
    const char *certificate; /* a file that gets the certificate: HTTP/2 or HTTP/1.1 over TLS, as the
                                client likes; empty: HTTP/1.1 without TLS */
} cbench_apple;

/*
 * cbench_apple_run(apple, port_fd, message, message_size):
 * Listen on a free port of 127.0.0.1, write it in digits and a line end to ${port_fd}, and run until
 * SIGTERM: 0, and the file of arrivals is whole.  On a failure -1, with ${message} filled in.
 */
int cbench_apple_run(const cbench_apple *apple, int port_fd, char *message, size_t message_size);

/* -- The least that reports cost: libcurl, one multi handle, a signature for each request --------- */

typedef struct cbench_reports {
    const char *url;
    const char *certificate; /* trusted; empty: the system's */
    size_t report_count;
    size_t flight_count; /* requests under way at a time */
    int is_http1;        /* 0: HTTP/2 where the server has it, all over one connection */
} cbench_reports;

typedef struct cbench_reports_result {
    uint64_t accepted_count;
    int64_t elapsed_us;   /* from the first connection to the last answer */
    int64_t processor_us; /* of this process meanwhile */
} cbench_reports_result;

/* cbench_reports_run: 0 when each was accepted; -1 with ${message} otherwise. */
int cbench_reports_run(const cbench_reports *reports, cbench_reports_result *result, char *message,
                       size_t message_size);
