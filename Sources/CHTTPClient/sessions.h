/* The HTTP/2 connections of a client that are ours; libcurl opens them, and has all the others. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

struct chttp_client;
struct transfer;

/* Hosts whose requests may go over sessions; libcurl has those of any more. */
enum { ORIGIN_COUNT_MAX = 8 };
/* Of all hosts, those that only wait for their last answers among them. */
enum { SESSION_COUNT_MAX = 16 };
/* No more are opened only because the peer takes no more streams on those that there are. */
enum { SESSION_COUNT_SPREAD = 8 };
/* Before the peer has said how many it takes. */
enum { STREAM_COUNT_ASSUMED = 100 };
/* How often a request is handed to a connection until it goes out there and is not refused. */
enum { ATTEMPT_COUNT_MAX = 5 };
/* libcurl's own: no request goes out on a connection that was idle for longer. */
enum { IDLE_SECONDS_MAX = 118 };
/* What is written at once; one frame of 16 KiB and its head fit into what is left at the end. */
enum { OUTPUT_BYTE_COUNT = 64 << 10, FRAME_BYTE_COUNT_MAX = (16 << 10) + 512 };
enum { INPUT_BYTE_COUNT = 16 << 10, READ_COUNT_MAX = 64 };
/* Of answers that wait to be read, for a request and for a connection. */
enum { STREAM_WINDOW = 256 << 10, SESSION_WINDOW = 1 << 20 };

/* One connection. */
struct session {
    struct chttp_client *client;
    struct origin *origin;
    CURL *easy;                /* opened it; reads and writes it */
    nghttp2_session *http2;    /* NULL until it is open */
    int is_http2;              /* what the peer chose */
    int fd;
    int is_write_watched;
    int has_more;              /* to be read, without a word from the descriptor */
    int is_settled;            /* the peer has said how many streams it takes */
    int is_draining;           /* takes no more requests, and ends with its last one */
    size_t transfer_count;     /* requests that are to go over it */
    size_t stream_count;       /* those that nghttp2 has */
    uint64_t answer_count;
    int64_t idle_since_us;
    size_t output_start, output_end;
    uint8_t output[OUTPUT_BYTE_COUNT];
    char message[CURL_ERROR_SIZE];
};

/* Where requests go: a host and its port. */
struct origin {
    char *authority;           /* as in the URL */
    size_t named_byte_count;   /* of it, without the port of https */
    size_t stream_count_max;   /* on a connection, as the peer has said last */
    int is_left_to_libcurl;
    /* The last connection could not be opened: until then one will do.  0: it could. */
    int64_t narrow_until_us;
};

struct sessions {
    struct origin origins[ORIGIN_COUNT_MAX];
    size_t origin_count;
    struct session *list[SESSION_COUNT_MAX];
    size_t count;
    int64_t due_us;            /* until then none is to be looked at for the time; 0: for ever */
};

/* sessions.c */
void session_free(struct session *session);
size_t session_limit(const struct session *session);
void session_forget(struct session *session);
void session_submit_held(struct session *session, int64_t now_us);
void session_end(struct session *session, CURLcode error, const char *message);
void session_conclude(struct transfer *transfer);
void session_start_again(struct transfer *transfer);
int sessions_are_none(const struct chttp_client *client, const char *url);
int sessions_start(struct chttp_client *client, struct transfer *transfer, int64_t now_us);
void sessions_end_late(struct chttp_client *client, int64_t now_us);
void session_hears(struct transfer *transfer);
void session_give_up(struct transfer *transfer);
void sessions_look_at(struct chttp_client *client, int64_t due_us);
void sessions_close(struct chttp_client *client);

/* session_open.c */
struct session *session_open(struct chttp_client *client, struct origin *origin);
int session_opened(struct chttp_client *client, CURL *easy, CURLcode error, int64_t now_us);

/* session_move.c */
int session_ready(struct chttp_client *client, int fd);
int sessions_move(struct chttp_client *client, int64_t now_us);

/* http2.c */
nghttp2_session *http2_new(struct session *session);
int http2_submit(struct session *session, struct transfer *transfer);
