#pragma once

#include "chttpclient.h"

#include "sessions.h"

#include <curl/curl.h>

/* libcurl takes no less for writing. */
enum { READ_BYTE_COUNT = 4 << 10, WRITE_BYTE_COUNT = 16 << 10 };
enum { HEADER_BYTE_COUNT_MAX = 64 << 10 };
/* An idle transfer keeps no block of memory that is larger. */
enum { IDLE_BYTE_COUNT_MAX = 8 << 10 };
/* Those of libcurl's that are known: HTTP/2 needs few, HTTP/1.1 has one request on each. */
enum { CONNECTION_COUNT_MAX = 16 };

/* An open connection that is no session's; libcurl keeps it, and says little about it. */
struct connection {
    int fd;
    int local_port; /* 0: not asked for yet */
    uint64_t answer_count;
};

struct bytes {
    char *bytes;
    size_t count;
    size_t capacity;
};

/* One request and its result; used again for another, with the memory and the handle it has. */
struct transfer {
    struct chttp_client *client;
    struct transfer *next, *previous;
    uint64_t id;
    /* One block, into which the others point: the nodes of the header list, texts and body. */
    struct bytes request;
    struct curl_slist *header_lines;
    const char *method;
    const char *url;
    const char *request_body;
    size_t request_body_byte_count;

    CURL *easy; /* NULL until the transfer is prepared for the first time */
    int is_past_proxies;
    size_t body_byte_count_max;
    /* Set right before the first byte of the request goes out; never unset. */
    int is_sent;
    /* The connection it was sent on, and the answers that had come from it by then. */
    int local_port;
    uint64_t answer_count;
    int is_cut;

    /* Over a session, where libcurl does not have it: which, and since when it is there. */
    struct session *session;
    int32_t stream;            /* 0: not handed to nghttp2 yet */
    int is_on_wire;            /* of this attempt; is_sent is of any */
    int is_answered;           /* the answer is whole */
    size_t sent_byte_count;    /* of the body */
    int attempt_count;
    int64_t due_us;            /* 0: not started */

    CURLcode error;
    long status;
    long http_version;
    struct bytes headers;
    struct bytes body;
    char message[CURL_ERROR_SIZE];
};

struct transfer_list {
    struct transfer *first, *last;
    size_t count;
};

struct chttp_client {
    CURLM *multi;
    int epoll_fd;
    int timer_fd;
    int wake_fd;
    int is_woken; /* wake_fd is readable */
    /* When libcurl wants to be called, and when timer_fd wakes: not later.  0: never. */
    int64_t due_us, armed_us;
    struct sessions sessions;
    struct connection connections[CONNECTION_COUNT_MAX];
    size_t connection_count;
    struct chttp_client_options options;
    char *user_agent;
    char *authority_file;
    /* idle: at most concurrency_max, to be used again. */
    struct transfer_list waiting, active, ended, lent, idle;
};

struct transfer *transfer_new(struct chttp_client *client);
int transfer_fill(struct transfer *transfer, const struct chttp_client_request *request);
CURLcode transfer_prepare(struct transfer *transfer, struct chttp_client *client);
void transfer_empty(struct transfer *transfer);
void transfer_conclude(struct transfer *transfer, CURLcode error);
int transfer_add_header(struct transfer *transfer, const char *data, size_t byte_count);
size_t transfer_add_body(struct transfer *transfer, const char *data, size_t byte_count);
int is_loopback(const char *url);
void transfer_describe(const struct transfer *transfer, struct chttp_client_response *response);
void transfer_free(struct transfer *transfer);

void put_first(struct transfer_list *list, struct transfer *transfer);
void put_last(struct transfer_list *list, struct transfer *transfer);
void take_out(struct transfer_list *list, struct transfer *transfer);

void connection_sends(struct chttp_client *client, struct transfer *transfer, int local_port);
int connection_hears(struct chttp_client *client, const struct transfer *transfer);
int connection_opened(void *closure, curl_socket_t fd, curlsocktype purpose);
int connection_close(void *closure, curl_socket_t fd);

/* Sets one option in a ladder that ends with the first failure. */
#define SET(option, value)                                              \
    do {                                                                \
        CURLcode failure = curl_easy_setopt(easy, (option), (value));   \
        if (failure != CURLE_OK)                                        \
            return failure;                                             \
    } while (0)

CURLcode set_connection(CURL *easy, const struct chttp_client *client);
