#pragma once

#include "chttpserver.h"

#include <microhttpd.h>
#include <sys/socket.h>

/* A connection refused in mid-request is read for so long, so that the client sees the answer. */
enum { LINGER_MS = 2000 };
enum { LINGER_BYTE_COUNT_MAX = 8 << 20 };
enum { METHOD_BYTE_COUNT_MAX = 31 };
enum { REFUSAL_STATUS_MIN = 400, REFUSAL_STATUS_COUNT = 200 };

/* What an event of our epoll is about: the slot of a connection in the gate, or one of these. */
#define GATE_TAG (UINT64_C(1) << 63)
enum { LISTEN_TAG = 1, DAEMON_TAG = 2 };

enum stage {
    STAGE_OPEN,      /* nothing of a request yet */
    STAGE_HEAD,      /* a part of its head, in the gate */
    STAGE_RECEIVING, /* request line seen */
    STAGE_HELD,      /* complete, suspended, not answered */
    STAGE_ANSWERING,
    STAGE_IDLE,      /* answered; another request may come */
    STAGE_REFUSED,   /* our answer is out, what still comes is thrown away */
    STAGE_DROPPED,
    STAGE_COUNT,
};

enum deadline_kind {
    DEADLINE_REQUEST,
    DEADLINE_IDLE,
    DEADLINE_LINGER,
    DEADLINE_KIND_COUNT,
    DEADLINE_NONE = DEADLINE_KIND_COUNT,
};

struct bytes {
    char *bytes;
    size_t count;
    size_t capacity;
};

struct connection {
    struct chttp_server *server;
    /* None while it is in the gate: then the socket is ours to close. */
    struct MHD_Connection *handle;
    int fd;
    uint32_t slot;
    enum stage stage;
    struct sockaddr_storage peer;
    socklen_t peer_size;
    char address[48];

    enum deadline_kind deadline_kind;
    int64_t deadline_ms;
    struct connection *earlier, *later;

    /* The request in hand; its bytes are freed when it is completed. */
    uint64_t id;
    char method[METHOD_BYTE_COUNT_MAX + 1];
    char *target;
    struct bytes headers;
    struct bytes body;
    size_t discarded_byte_count;
    int has_seen_headers;
    /* In the list of ready or of lent requests. */
    struct connection *next_ready;

    /* Its answer; none in STAGE_ANSWERING drops the connection. */
    struct MHD_Response *answer;
    unsigned int status;
};

struct deadline_list {
    int64_t duration_ms;
    struct connection *first, *last;
};

struct chttp_server {
    struct MHD_Daemon *daemon;
    /* Ours: over the listening socket, the gate and libmicrohttpd's own. */
    int epoll_fd;
    int listen_fd;
    /* The connection that libmicrohttpd is just being given. */
    struct connection *adopting;
    /* header_byte_count_max + 1 bytes. */
    char *look_buffer;
    uint16_t port;
    int is_tls;
    int is_stopping;
    /* Something was answered or resumed: libmicrohttpd wants to be run once more. */
    int has_moved;

    size_t body_byte_count_max;
    size_t held_byte_count_max;
    size_t held_byte_count;
    size_t header_byte_count_max;
    uint32_t connection_count_max;

    struct connection **slots;
    uint32_t slot_count;
    uint32_t *free_slots;
    uint32_t free_slot_count;
    uint32_t next_serial;
    uint32_t stage_counts[STAGE_COUNT];
    /* By status, from 400 on: what was refused without the application. */
    uint64_t refusal_counts[REFUSAL_STATUS_COUNT];

    struct deadline_list deadlines[DEADLINE_KIND_COUNT];
    struct connection *ready_first, *ready_last;
    struct connection *lent;
};

void chttp_schedule(struct connection *connection, enum deadline_kind kind);
void chttp_unschedule(struct connection *connection);
void chttp_set_stage(struct connection *connection, enum stage stage);
/* Lets go of a connection; one that is in the gate is freed. */
void chttp_drop(struct connection *connection);
struct connection *chttp_connection_make(struct chttp_server *server, int fd);
void chttp_connection_free(struct connection *connection);
void chttp_gate_run(struct chttp_server *server);
void chttp_gate_accept(struct chttp_server *server);
/* Reads what comes on a refused connection; frees it at its end. */
void chttp_gate_discard(struct connection *connection);
void chttp_forget_body(struct connection *connection);

/**
 * chttp_refuse_raw(connection, status):
 * Answer ${status} past libmicrohttpd, which cannot answer before a request is complete, and end
 * the sending side.  Under TLS, where that cannot be, drop the connection.
 */
void chttp_refuse_raw(struct connection *connection, unsigned int status);

/**
 * chttp_refuse_descriptor(fd, status):
 * Send what chttp_refuse_raw sends, and end the sending side.
 */
void chttp_refuse_descriptor(int fd, unsigned int status);

/**
 * chttp_problem(status, buffer, size):
 * Write the problem+json body of ${status} into ${buffer}; return its length.
 */
size_t chttp_problem(unsigned int status, char *buffer, size_t size);

/* Called by libmicrohttpd. */
void *chttp_on_target(void *server, const char *target, struct MHD_Connection *handle);
void chttp_on_connection(void *server, struct MHD_Connection *handle, void **context,
                         enum MHD_ConnectionNotificationCode code);
void chttp_on_completed(void *server, struct MHD_Connection *handle, void **request,
                        enum MHD_RequestTerminationCode code);
enum MHD_Result chttp_on_request(void *server, struct MHD_Connection *handle, const char *path,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_size, void **request);
