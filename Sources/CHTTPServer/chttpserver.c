#include "chttpserver.h"

#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LISTEN_BACKLOG = 1024 };
/* Slots for those closed and not yet freed. */
enum { CONNECTION_HEADROOM = EVENT_COUNT_MAX };
/* What an event of our epoll is about, where it is no connection's slot: this, or with the number of
 * a descriptor that is only watched behind it. */
#define LISTEN_TAG UINT64_MAX
#define WATCH_TAG ((uint64_t)1 << 32)

static void expire(struct chttp_server *server)
{
    int64_t now = chttp_now_ms();
    int kind;
    for (kind = 0; kind < DEADLINE_KIND_COUNT; kind++) {
        struct connection *connection;
        while ((connection = server->deadlines[kind].first) != NULL &&
               connection->deadline_ms <= now) {
            if (connection->stage == STAGE_OPEN || connection->stage == STAGE_HEAD ||
                connection->stage == STAGE_BODY)
                chttp_refuse(connection, 408);
            else
                chttp_drop(connection);
        }
    }
}

static void release_taken(struct chttp_server *server)
{
    struct connection *connection = server->lent;
    while (connection) {
        struct connection *next = connection->next_ready;
        connection->next_ready = NULL;
        chttp_empty(&connection->body);
        connection = next;
    }
    server->lent = NULL;
}

/* Listening. */

static int listen_on(const struct chttp_server_options *options, uint16_t *port,
                     char *message, size_t message_size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *address = NULL;
    struct sockaddr_storage bound;
    socklen_t bound_size = sizeof(bound);
    char service[8];
    int failure, one = 1, fd = -1;

    snprintf(service, sizeof(service), "%u", (unsigned int)options->port);
    failure = getaddrinfo(options->host, service, &hints, &address);
    if (failure) {
        snprintf(message, message_size, "%s", gai_strerror(failure));
        return -1;
    }
    fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        goto failed;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, LISTEN_BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&bound, &bound_size) != 0)
        goto failed;
    *port = ntohs(address->ai_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                      : ((struct sockaddr_in *)&bound)->sin_port);
    freeaddrinfo(address);
    return fd;

failed:
    snprintf(message, message_size, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    freeaddrinfo(address);
    return -1;
}

static void set_durations(struct chttp_server *server, const struct chttp_server_options *options)
{
    int kind;
    for (kind = 0; kind < DEADLINE_KIND_COUNT; kind++)
        server->deadlines[kind].duration_ms = options->request_timeout_ms;
    for (kind = 0; kind < CHTTP_LANE_COUNT_MAX; kind++)
        if (options->request_timeout_ms > BODY_STEP_MS)
            server->deadlines[DEADLINE_BODY + kind].duration_ms = BODY_STEP_MS;
    server->deadlines[DEADLINE_IDLE_NEW].duration_ms = options->idle_timeout_ms;
    server->deadlines[DEADLINE_IDLE].duration_ms = options->idle_timeout_ms;
    server->deadlines[DEADLINE_LINGER].duration_ms = LINGER_MS;
}

static struct chttp_server *make(const struct chttp_server_options *options)
{
    struct chttp_server *server = calloc(1, sizeof(*server));
    uint32_t slot, lane;
    if (!server)
        return NULL;
    server->listen_fd = -1;
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->slot_count = options->connection_count_max + CONNECTION_HEADROOM;
    server->slots = calloc(server->slot_count, sizeof(*server->slots));
    server->free_slots = calloc(server->slot_count, sizeof(*server->free_slots));
    server->read_buffer = malloc(READ_BUFFER_BYTE_COUNT);
    if (server->epoll_fd < 0 || !server->slots || !server->free_slots || !server->read_buffer) {
        chttp_server_close(server);
        return NULL;
    }
    for (slot = 0; slot < server->slot_count; slot++)
        server->free_slots[server->free_slot_count++] = server->slot_count - 1 - slot;
    server->judges_heads = options->judges_heads;
    server->body_byte_count_max = options->body_byte_count_max;
    server->header_byte_count_max = options->header_byte_count_max;
    server->connection_count_max = options->connection_count_max;
    server->request_timeout_ms = options->request_timeout_ms;
    server->newcomer_ms = options->newcomer_ms;
    for (lane = 0; lane < options->lane_count; lane++) {
        server->lanes[lane].byte_count_max = options->lane_byte_counts_max[lane];
        server->lanes[lane].connection_count_max = options->lane_connection_counts_max[lane];
    }
    set_durations(server, options);
    return server;
}

enum chttp_open_result chttp_server_open(const struct chttp_server_options *options,
                                         struct chttp_server **result,
                                         char *message, size_t message_size)
{
    enum chttp_open_result failure = CHTTP_OPEN_FAILED;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = LISTEN_TAG};
    struct chttp_server *server = make(options);

    if (!server) {
        snprintf(message, message_size, "%s", strerror(errno));
        return CHTTP_OPEN_FAILED;
    }
    server->listen_fd = listen_on(options, &server->port, message, message_size);
    if (server->listen_fd < 0) {
        failure = CHTTP_OPEN_CANNOT_LISTEN;
        goto failed;
    }
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listen_fd, &event) != 0) {
        snprintf(message, message_size, "%s", strerror(errno));
        goto failed;
    }
    *result = server;
    return CHTTP_OPEN_OK;

failed:
    chttp_server_close(server);
    return failure;
}

uint16_t chttp_server_port(const struct chttp_server *server)
{
    return server->port;
}

int chttp_server_descriptor(const struct chttp_server *server)
{
    return server->epoll_fd;
}

/* A turn lets in as many pipelined requests as new ones: a thousand connections that have more of them
 * ready would make it long, and none could be closed to let another one in. */
static void go_on(struct chttp_server *server)
{
    const struct connection *last = server->pending_last, *done = NULL;
    /* One that stops lets nobody in, and has no other turn. */
    const int count_max = server->is_stopping ? INT_MAX : EVENT_COUNT_MAX;
    int count;
    for (count = 0; count < count_max && last && done != last; count++) {
        struct connection *connection = server->pending;
        server->pending = connection->next_pending;
        if (!server->pending)
            server->pending_last = NULL;
        done = connection;
        connection->is_pending = 0;
        if (connection->stage == STAGE_DROPPED)
            chttp_connection_free(connection);
        else
            chttp_receive(connection);
    }
}

static void handle(struct connection *connection, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        connection->is_readable = 1;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        connection->is_ending = 1;
    if (events & EPOLLOUT)
        chttp_send_rest(connection);
    /* Whoever has read a stream for long enough closes the connection, and sends nothing. */
    if (connection->stage == STAGE_STREAMING && connection->is_ending)
        chttp_drop(connection);
    chttp_receive(connection);
}

int chttp_server_watch(struct chttp_server *server, int fd, unsigned int number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WATCH_TAG | number};
    return number < CHTTP_WATCH_COUNT_MAX ? epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event)
                                          : -1;
}

uint32_t chttp_server_run(struct chttp_server *server, int wait_ms)
{
    struct epoll_event events[EVENT_COUNT_MAX];
    int index, count, must_accept = 0;
    uint32_t readable = 0;
    int64_t timeout_ms;
    release_taken(server);
    expire(server);
    timeout_ms = wait_ms ? chttp_server_timeout_ms(server) : 0;
    if (timeout_ms >= 0 && timeout_ms < wait_ms)
        wait_ms = (int)timeout_ms;
    count = epoll_wait(server->epoll_fd, events, EVENT_COUNT_MAX, wait_ms);
    for (index = 0; index < count; index++) {
        struct connection *connection;
        if (events[index].data.u64 == LISTEN_TAG) {
            must_accept = 1;
            continue;
        }
        if (events[index].data.u64 >= WATCH_TAG) {
            readable |= 1u << (uint32_t)events[index].data.u64;
            continue;
        }
        /* No slot is filled again before the end of the turn. */
        connection = server->slots[events[index].data.u64];
        if (connection && connection->stage != STAGE_DROPPED)
            handle(connection, events[index].events);
    }
    chttp_reap(server);
    /* Before the pending ones go on: with its next request a connection cannot give way any more. */
    if (must_accept && server->listen_fd >= 0)
        chttp_accept_connections(server, EVENT_COUNT_MAX);
    go_on(server);
    chttp_reap(server);
    return readable;
}

int64_t chttp_server_timeout_ms(struct chttp_server *server)
{
    int64_t first = INT64_MAX, now;
    int kind;
    /* A request may have become complete after the last take: no descriptor shows that. */
    if (server->pending || server->ready_first)
        return 0;
    for (kind = 0; kind < DEADLINE_KIND_COUNT; kind++) {
        struct connection *connection = server->deadlines[kind].first;
        if (connection && connection->deadline_ms < first)
            first = connection->deadline_ms;
    }
    if (first == INT64_MAX)
        return -1;
    now = chttp_now_ms();
    return first > now ? first - now : 0;
}

int chttp_server_take(struct chttp_server *server, struct chttp_request *request)
{
    struct connection *connection = server->ready_first;
    if (!connection)
        return 0;
    server->ready_first = connection->next_ready;
    if (!server->ready_first)
        server->ready_last = NULL;
    connection->next_ready = server->lent;
    server->lent = connection;
    request->id = connection->id;
    request->is_complete = connection->stage == STAGE_HELD;
    request->method = connection->method;
    request->target = connection->head.bytes;
    request->address = connection->address;
    request->headers = connection->head.bytes + connection->target_byte_count;
    request->header_byte_count = connection->head.count - connection->target_byte_count;
    request->announced_byte_count = connection->announced_byte_count;
    request->body = (const uint8_t *)connection->body.bytes;
    request->body_byte_count = connection->body.count;
    return 1;
}

const char *chttp_header_find(const char *headers, size_t header_byte_count, const char *name,
                              size_t name_count)
{
    const char *at = headers, *end = headers + header_byte_count;
    while (at < end) {
        size_t count = strlen(at);
        const char *value = at + count + 1;
        if (count == name_count && strncasecmp(at, name, count) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* A request that already lies in a socket is let in, in the next turn; of the other connections those
 * end that are idle. */
static void let_waiting_in(struct deadline_list *list, int is_idle)
{
    struct connection *connection, *next;
    for (connection = list->first; connection; connection = next) {
        int waiting = 0;
        next = connection->later;
        if (ioctl(connection->fd, FIONREAD, &waiting) == 0 && waiting > 0)
            connection->is_readable = 1;
        else if (connection->unread.count == 0) {
            if (is_idle)
                chttp_drop(connection);
            continue;
        }
        chttp_postpone(connection);
    }
}

void chttp_server_stop_accepting(struct chttp_server *server)
{
    if (server->is_stopping)
        return;
    server->is_stopping = 1;
    /* Who has connected already is let in; the system would reset what is closed upon. */
    let_waiting_in(&server->deadlines[DEADLINE_IDLE_NEW], 1);
    let_waiting_in(&server->deadlines[DEADLINE_IDLE], 1);
    let_waiting_in(&server->deadlines[DEADLINE_OPEN], 0);
    /* The idle ones that were dropped have their slots until they are freed. What was lent may be
     * among them. */
    release_taken(server);
    chttp_reap(server);
    chttp_accept_connections(server, server->connection_count_max);
    close(server->listen_fd);
    server->listen_fd = -1;
}

uint32_t chttp_server_receiving_count(const struct chttp_server *server)
{
    return server->stage_counts[STAGE_HEAD] + server->stage_counts[STAGE_JUDGED] +
           server->stage_counts[STAGE_BODY];
}

uint32_t chttp_server_held_count(const struct chttp_server *server)
{
    return server->stage_counts[STAGE_HELD];
}

size_t chttp_server_lane_byte_count(const struct chttp_server *server, uint32_t lane)
{
    return lane < CHTTP_LANE_COUNT_MAX ? server->lanes[lane].byte_count : 0;
}

uint64_t chttp_server_refusal_count(const struct chttp_server *server, uint32_t lane,
                                    unsigned int status)
{
    if (lane > CHTTP_LANE_NONE || status < REFUSAL_STATUS_MIN ||
        status >= REFUSAL_STATUS_MIN + REFUSAL_STATUS_COUNT)
        return 0;
    return server->refusal_counts[lane][status - REFUSAL_STATUS_MIN];
}

uint64_t chttp_server_eviction_count(const struct chttp_server *server, unsigned int eviction)
{
    return eviction < CHTTP_EVICTION_COUNT ? server->eviction_counts[eviction] : 0;
}

void chttp_server_close(struct chttp_server *server)
{
    uint32_t slot;
    if (!server)
        return;
    for (slot = 0; server->slots && slot < server->slot_count; slot++)
        if (server->slots[slot])
            chttp_drop(server->slots[slot]);
    chttp_reap(server);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    free(server->read_buffer);
    free(server->slots);
    free(server->free_slots);
    free(server);
}
