#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Many HTTP requests in flight.  One thread; nothing here waits, and nothing here calls back: what has
 * ended is collected and taken as an array.  libcurl opens every connection.  Where the peer of an
 * https one chooses HTTP/2, and no proxy lies between, nghttp2 has its requests, at two fifths of
 * libcurl's cost; libcurl has all others.
 */

struct chttp_client;

struct chttp_client_options {
    const char *user_agent;
    const char *authority_file;    /* PEM bundle to trust; NULL: that of the environment's
                                      SSL_CERT_FILE, else the system's */
    uint32_t concurrency_max;
    uint32_t connect_timeout_ms;
    uint32_t total_timeout_ms;
    size_t body_byte_count_max;    /* of an answer */
};

struct chttp_client_request {
    uint64_t id;                   /* the caller's; never used twice */
    const char *method;
    const char *url;
    const char *headers;           /* "Name: value", 0, "Name: value", 0, ... */
    size_t header_byte_count;
    const uint8_t *body;
    size_t body_byte_count;
};

enum chttp_client_outcome {
    CHTTP_CLIENT_ANSWERED = 0,
    CHTTP_CLIENT_NOT_SENT = 1,     /* nothing acted upon it: not one byte went out, or it was refused
                                      as a stream of HTTP/2 */
    CHTTP_CLIENT_DOUBTFUL = 2,     /* it may have been acted upon */
};

struct chttp_client_response {
    uint64_t id;
    enum chttp_client_outcome outcome;
    int error;                     /* CURLcode; 0 where answered */
    const char *message;           /* libcurl's sentence for it */
    unsigned int status;
    unsigned int http_major_version;
    int is_cut;                    /* the body was larger than the limit */
    const char *headers;           /* as they came, a line each, ended by \r\n */
    size_t header_byte_count;
    const uint8_t *body;
    size_t body_byte_count;
};

/**
 * chttp_client_open(options, client):
 * Put a client into ${client}; connect nowhere.  Return 0, or -1 where libcurl, its TLS or a
 * descriptor cannot be had.
 */
int chttp_client_open(const struct chttp_client_options *options, struct chttp_client **client);

/**
 * chttp_client_descriptor(client):
 * An epoll descriptor, readable when chttp_client_run has work, its timers included.
 */
int chttp_client_descriptor(const struct chttp_client *client);

/**
 * chttp_client_submit(client, request):
 * Queue ${request}, copying it.  Return 0, or -1 where memory is out.
 */
int chttp_client_submit(struct chttp_client *client, const struct chttp_client_request *request);

/**
 * chttp_client_run(client):
 * Do all that can be done without waiting.  Ends the lives of what chttp_client_take lent.
 */
void chttp_client_run(struct chttp_client *client);

/**
 * chttp_client_take(client, responses, capacity):
 * Fill ${responses} with what has ended, up to ${capacity}, and return how many.  Their pointers
 * live until the next chttp_client_run or chttp_client_close.
 */
size_t chttp_client_take(struct chttp_client *client, struct chttp_client_response *responses,
                         size_t capacity);

/**
 * chttp_client_cancel(client, id):
 * Give request ${id} up; no response will be taken for it.  Return 1, or 0 where it is not known.
 */
int chttp_client_cancel(struct chttp_client *client, uint64_t id);

/**
 * chttp_client_close(client):
 * Drop everything.
 */
void chttp_client_close(struct chttp_client *client);

/* Stable groups of CURLcode, for counting. */
enum chttp_client_error {
    CHTTP_CLIENT_ERROR_OTHER = 0,
    CHTTP_CLIENT_ERROR_URL,
    CHTTP_CLIENT_ERROR_RESOLVE,
    CHTTP_CLIENT_ERROR_CONNECT,
    CHTTP_CLIENT_ERROR_TLS,
    CHTTP_CLIENT_ERROR_TLS_UNTRUSTED, /* the peer's certificate does not verify */
    CHTTP_CLIENT_ERROR_TIMEOUT,
    CHTTP_CLIENT_ERROR_RESET,
    CHTTP_CLIENT_ERROR_PROTOCOL,
};

/**
 * chttp_client_error_of(error):
 * The group of a CURLcode.
 */
enum chttp_client_error chttp_client_error_of(int error);
