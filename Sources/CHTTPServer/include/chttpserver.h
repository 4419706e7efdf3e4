#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * An HTTP/1.1 server on one thread; nothing here waits, and nothing here calls back: requests are
 * collected and taken as an array.
 *
 * A request whose body is not there with its head is taken twice where judges_heads is set: first
 * its head alone, then, if chttp_server_accept let the body in, the whole.
 */

/* Bodies on their way in are counted by lane, so that one lane cannot eat the room of another. */
enum { CHTTP_LANE_COUNT_MAX = 8 };

struct chttp_server;

struct chttp_server_options {
    const char *host;              /* numeric, or localhost */
    uint16_t port;                 /* 0: any free port */
    int judges_heads;
    size_t body_byte_count_max;    /* a larger one is refused; by who judges heads, where heads are */
    /* All incomplete bodies of a lane together; each at least body_byte_count_max of its requests. */
    size_t lane_byte_counts_max[CHTTP_LANE_COUNT_MAX];
    /* Connections with an incomplete body in a lane, at least 1; below connection_count_max it bounds
     * the lane. */
    uint32_t lane_connection_counts_max[CHTTP_LANE_COUNT_MAX];
    uint32_t lane_count;           /* at least 1 */
    size_t header_byte_count_max;
    uint32_t connection_count_max;
    /* First byte to last, and for the answer to be taken; the last bytes of a body, fewer than
     * 4 KiB, may take 5 s more. */
    uint32_t request_timeout_ms;
    uint32_t idle_timeout_ms;
    /* Who has connected, or begun its first head, no longer ago does not give way to a new connection while
     * an idle one can, or a slower one. */
    uint32_t newcomer_ms;
};

enum chttp_open_result {
    CHTTP_OPEN_OK = 0,
    CHTTP_OPEN_CANNOT_LISTEN = 1,
    CHTTP_OPEN_FAILED = 2,
};

/* Where the length of a body is not announced: it comes in chunks. */
#define CHTTP_LENGTH_UNKNOWN UINT64_MAX

struct chttp_request {
    uint64_t id;
    int is_complete;               /* 0: its head alone, and it waits to be accepted or answered */
    const char *method;
    const char *target;            /* path and query, as they came */
    const char *address;           /* the peer, numeric, without port */
    const char *headers;           /* name, 0, value, 0, ... */
    size_t header_byte_count;
    uint64_t announced_byte_count; /* of the body, or CHTTP_LENGTH_UNKNOWN */
    const uint8_t *body;
    size_t body_byte_count;
};

/**
 * chttp_server_open(options, server, message, message_size):
 * Bind, listen and put the server into ${server}.  On failure put a sentence into ${message}.
 */
enum chttp_open_result chttp_server_open(const struct chttp_server_options *options,
                                         struct chttp_server **server,
                                         char *message, size_t message_size);

/**
 * chttp_server_port(server):
 * The port that ${server} listens on, also after chttp_server_stop_accepting.
 */
uint16_t chttp_server_port(const struct chttp_server *server);

/**
 * chttp_server_descriptor(server):
 * An epoll descriptor, readable when chttp_server_run has work; owned by ${server}.
 */
int chttp_server_descriptor(const struct chttp_server *server);

/* Descriptors of others that chttp_server_run can wait for. */
enum { CHTTP_WATCH_COUNT_MAX = 8 };

/**
 * chttp_server_watch(server, fd, number):
 * From now on chttp_server_run wakes and reports when ${fd} is readable, by ${number}, less than
 * CHTTP_WATCH_COUNT_MAX.  Return 0, or -1 where the system refuses it.  ${fd} is the caller's.
 */
int chttp_server_watch(struct chttp_server *server, int fd, unsigned int number);

/**
 * chttp_server_run(server, wait_ms):
 * Wait at most ${wait_ms} milliseconds, 0 for not at all, until there is something to do, and do all
 * that can be done without waiting.  Ends the lives of what chttp_server_take lent.  Return a bit for
 * each watched descriptor that is readable.
 */
uint32_t chttp_server_run(struct chttp_server *server, int wait_ms);

/**
 * chttp_server_timeout_ms(server):
 * Milliseconds until chttp_server_run must be called at the latest; -1 where no time is set, 0 also
 * while requests wait to be taken.
 */
int64_t chttp_server_timeout_ms(struct chttp_server *server);

/**
 * chttp_server_take(server, request):
 * Fill ${request} with the next request or head and return 1, or 0 where there is none.  Its pointers
 * live until it is answered, or until the next chttp_server_run, chttp_server_stop_accepting or
 * chttp_server_close; its id until it is answered.
 */
int chttp_server_take(struct chttp_server *server, struct chttp_request *request);

/**
 * chttp_header_find(headers, header_byte_count, name, name_count):
 * The value of the first of ${headers}, as in struct chttp_request, that has that name in any case;
 * null where there is none.
 */
const char *chttp_header_find(const char *headers, size_t header_byte_count, const char *name,
                              size_t name_count);

/**
 * chttp_server_accept(server, id, lane, body_byte_count_max):
 * Let the body of request ${id}, whose head was taken, come in, at most ${body_byte_count_max} bytes
 * of it, counted in ${lane}.  A client that asked before it sends gets its 100 now.
 */
void chttp_server_accept(struct chttp_server *server, uint64_t id, uint32_t lane,
                         size_t body_byte_count_max);

/**
 * chttp_server_respond(server, id, status, headers, header_byte_count, body, body_byte_count, sent):
 * Answer request ${id}; ${headers} as in struct chttp_request.  ${body} is copied.  If ${sent} is
 * below ${body_byte_count} the connection drops after that many bytes of the body.  The answer to a
 * head alone ends its connection.
 * Return 0, also where ${id} is not known any more; -1 where memory is out: then the connection
 * drops instead.
 */
int chttp_server_respond(struct chttp_server *server, uint64_t id, unsigned int status,
                         const char *headers, size_t header_byte_count,
                         const uint8_t *body, size_t body_byte_count, size_t sent);

/**
 * chttp_server_begin_stream(server, id, status, headers, header_byte_count):
 * Begin an answer to request ${id} that has no length: what chttp_server_send_stream sends, until the
 * connection ends.  Return as chttp_server_respond.
 */
int chttp_server_begin_stream(struct chttp_server *server, uint64_t id, unsigned int status,
                              const char *headers, size_t header_byte_count);

/**
 * chttp_server_send_stream(server, id, bytes, byte_count):
 * Send more of the answer to request ${id} that was begun; ${bytes} is copied.  Return 1 while it is
 * open; 0 where the client is gone, or did not take what was sent before within
 * request_timeout_ms, or more waits for it than CHTTP_STREAM_BYTE_COUNT_MAX.
 */
int chttp_server_send_stream(struct chttp_server *server, uint64_t id, const uint8_t *bytes,
                             size_t byte_count);

enum { CHTTP_STREAM_BYTE_COUNT_MAX = 16 << 20 };

/**
 * chttp_server_reset(server, id):
 * Drop the connection of request ${id} without an answer.
 */
void chttp_server_reset(struct chttp_server *server, uint64_t id);

/**
 * chttp_server_stop_accepting(server):
 * Close the listening socket and idle connections; every answer from now on ends its connection.
 */
void chttp_server_stop_accepting(struct chttp_server *server);

uint32_t chttp_server_connection_count(const struct chttp_server *server);

/** chttp_server_receiving_count(server): requests begun and not complete. */
uint32_t chttp_server_receiving_count(const struct chttp_server *server);

/** chttp_server_held_count(server): requests complete and not answered. */
uint32_t chttp_server_held_count(const struct chttp_server *server);

/** chttp_server_lane_byte_count(server, lane): what the incomplete bodies of ${lane} hold. */
size_t chttp_server_lane_byte_count(const struct chttp_server *server, uint32_t lane);

/* In place of a lane: of a request whose body was not let in. */
enum { CHTTP_LANE_NONE = CHTTP_LANE_COUNT_MAX };

/**
 * chttp_server_refusal_count(server, lane, status):
 * How many requests ${server} itself has refused with ${status} since it was opened, of those whose
 * body was let into ${lane}, or CHTTP_LANE_NONE.
 */
uint64_t chttp_server_refusal_count(const struct chttp_server *server, uint32_t lane,
                                    unsigned int status);

/* In which state a connection was that was closed to make room for a new one. */
enum chttp_eviction {
    CHTTP_EVICTION_LINGER,         /* its last answer was out */
    CHTTP_EVICTION_SILENT,         /* it had sent nothing */
    CHTTP_EVICTION_HEAD,           /* a part of a head */
    CHTTP_EVICTION_UNSERVED,       /* idle, and never had an answer below 400 */
    CHTTP_EVICTION_ANSWER,         /* its peer has not taken all of an answer */
    CHTTP_EVICTION_IDLE,
    CHTTP_EVICTION_BODY,           /* a part of a body; plus its lane */
    CHTTP_EVICTION_COUNT = CHTTP_EVICTION_BODY + CHTTP_LANE_COUNT_MAX,
};

/**
 * chttp_server_eviction_count(server, eviction):
 * How many connections ${server} has closed in that state to make room, since it was opened.
 */
uint64_t chttp_server_eviction_count(const struct chttp_server *server, unsigned int eviction);

/**
 * chttp_server_close(server):
 * Drop every connection and free everything.
 */
void chttp_server_close(struct chttp_server *server);
