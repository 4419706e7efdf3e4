#pragma once

#include "chttpserver.h"
#include "head.h"

#include <sys/socket.h>

/* A connection refused in mid-request is read for so long, so that the client sees the answer. */
enum { LINGER_MS = 2000 };
enum { LINGER_BYTE_COUNT_MAX = 8 << 20 };
/* The least rate of a body: so many bytes of it in so much time. */
enum { BODY_STEP_BYTE_COUNT = 4096, BODY_STEP_MS = 5000 };
enum { REFUSAL_STATUS_MIN = 400, REFUSAL_STATUS_COUNT = 200 };
enum { EVENT_COUNT_MAX = 64 };
enum { READ_BUFFER_BYTE_COUNT = 64 << 10 };

enum stage {
    STAGE_OPEN,      /* accepted, and nothing of a request came yet */
    STAGE_IDLE,      /* answered; another request may come */
    STAGE_HEAD,      /* a part of a head */
    STAGE_JUDGED,    /* a head that waits to be accepted or answered; not read from */
    STAGE_BODY,      /* a part of a body */
    STAGE_HELD,      /* complete, not answered; not read from */
    STAGE_ANSWERING,
    STAGE_STREAMING, /* an answer without end; its only deadline is for what is not taken */
    STAGE_LINGER,    /* our last answer is out, what still comes is thrown away */
    STAGE_DROPPED,   /* closed; freed at the end of the turn */
    STAGE_COUNT,
};

/*
 * One list a kind, every kind with one duration, so each list is in order.  For a new connection
 * the first of the first of these lists that is not empty is closed, but for what accept.c says of
 * newcomers, and of bodies in a lane that is bounded.
 */
enum deadline_kind {
    DEADLINE_LINGER = CHTTP_EVICTION_LINGER,
    DEADLINE_OPEN = CHTTP_EVICTION_SILENT,
    DEADLINE_HEAD = CHTTP_EVICTION_HEAD,
    DEADLINE_IDLE_NEW = CHTTP_EVICTION_UNSERVED,
    /* What this project sends is taken at once, but by who does not read. */
    DEADLINE_ANSWER = CHTTP_EVICTION_ANSWER,
    DEADLINE_IDLE = CHTTP_EVICTION_IDLE,
    /* One list a lane, by the last step of the body: its first is the slowest. */
    DEADLINE_BODY = CHTTP_EVICTION_BODY,
    DEADLINE_KIND_COUNT = CHTTP_EVICTION_COUNT,
    DEADLINE_NONE = DEADLINE_KIND_COUNT,
};

struct bytes {
    char *bytes;
    size_t count;
    size_t capacity;
};

struct connection {
    struct chttp_server *server;
    int fd;
    uint32_t slot;
    enum stage stage;
    char address[48];
    /* Of an IPv4 address all of it, of an IPv6 one its first 64 bits. */
    uint64_t network;

    enum deadline_kind deadline_kind;
    int64_t deadline_ms;
    struct connection *earlier, *later;

    /* The socket may have more; its end was seen by epoll; it was read to its end. */
    int is_readable, is_ending, has_ended;
    /* Some request had an answer; some answer was below 400. */
    int was_answered, was_served;
    /* Read, and not yet understood: a part of a head, or what came after a whole request. */
    struct bytes unread;
    struct head_scan scan;

    /* The request in hand. */
    uint64_t id;
    int64_t began_ms;
    char method[METHOD_BYTE_COUNT_MAX + 1];
    /* The target, 0, then name, 0, value, 0, ... */
    struct bytes head;
    size_t target_byte_count;
    int is_kept, is_version_1_0, is_chunked, wants_continue, wants_head_only;
    uint64_t announced_byte_count;
    uint64_t missing_byte_count;
    struct chunks chunks;
    uint32_t lane;
    size_t body_byte_count_max;
    size_t step_byte_count;
    /* What of the body is counted in the lane: nothing of a complete one. */
    size_t lane_byte_count;
    struct bytes body;
    size_t discarded_byte_count;
    /* In the list of ready or of lent requests. */
    struct connection *next_ready;

    /* What of our answer the socket did not take yet. */
    struct bytes unsent;
    size_t sent_byte_count;
    int is_torn, is_last;

    /* In the list of those to go on with, or to free, in the next turn. */
    int is_pending;
    struct connection *next_pending;
};

struct deadline_list {
    int64_t duration_ms;
    struct connection *first, *last;
};

struct lane {
    size_t byte_count;
    size_t byte_count_max;
    /* In STAGE_BODY. */
    uint32_t connection_count;
    uint32_t connection_count_max;
};

struct chttp_server {
    int epoll_fd;
    int listen_fd;
    uint16_t port;
    int judges_heads;
    int is_stopping;

    size_t body_byte_count_max;
    size_t header_byte_count_max;
    uint32_t connection_count_max;
    int64_t request_timeout_ms;
    int64_t newcomer_ms;
    struct lane lanes[CHTTP_LANE_COUNT_MAX];

    struct connection **slots;
    uint32_t slot_count;
    uint32_t *free_slots;
    uint32_t free_slot_count;
    uint32_t next_serial;
    uint32_t stage_counts[STAGE_COUNT];
    /* By lane and status, from 400 on: what was refused without the application. */
    uint64_t refusal_counts[CHTTP_LANE_NONE + 1][REFUSAL_STATUS_COUNT];
    uint64_t eviction_counts[DEADLINE_KIND_COUNT];

    struct deadline_list deadlines[DEADLINE_KIND_COUNT];
    struct connection *ready_first, *ready_last;
    struct connection *lent;
    struct connection *pending, *pending_last;

    char *read_buffer;
    int64_t date_s;
    char date[32];
};

int64_t chttp_now_ms(void);

/* Connections: connection.c. */
struct connection *chttp_connection_make(struct chttp_server *server, int fd);
void chttp_connection_free(struct connection *connection);
void chttp_schedule(struct connection *connection, enum deadline_kind kind);
void chttp_unschedule(struct connection *connection);
void chttp_set_stage(struct connection *connection, enum stage stage);
/* Closes it now and frees it at the end of the turn. */
void chttp_drop(struct connection *connection);
/* Goes on with it in the next turn. */
void chttp_postpone(struct connection *connection);
void chttp_reap(struct chttp_server *server);
/* Lets go of what the request in hand has taken. */
void chttp_forget_request(struct connection *connection);
/* The one whose request waits to be accepted or answered; null where there is none. */
struct connection *chttp_find(struct chttp_server *server, uint64_t id);
int chttp_append(struct bytes *bytes, const char *data, size_t count);
void chttp_empty(struct bytes *bytes);

/* What comes in: receive.c. */
void chttp_receive(struct connection *connection);

/* Who comes: accept.c. */
/* At most ${count_max} of those that have connected. */
void chttp_accept_connections(struct chttp_server *server, uint32_t count_max);

/* What goes out: answer.c. */
/* The one whose answer is a stream; null where there is none. */
struct connection *chttp_find_stream(struct chttp_server *server, uint64_t id);
void chttp_send_rest(struct connection *connection);
void chttp_send_continue(struct connection *connection);

/**
 * chttp_refuse(connection, status):
 * Answer ${status} in words of our own, and read no more requests.
 */
void chttp_refuse(struct connection *connection, unsigned int status);

/**
 * chttp_refuse_descriptor(fd, status):
 * Send what chttp_refuse sends, and end the sending side.
 */
void chttp_refuse_descriptor(int fd, unsigned int status);
