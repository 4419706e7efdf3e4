#include "chttpserver.h"

#include "internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

_Static_assert(MHD_VERSION >= 0x00097500 && MHD_VERSION < 0x00100000,
               "external epoll mode was measured with libmicrohttpd 0.9.75");

/* How many times libmicrohttpd is run in one call: enough to answer and to read on. */
enum { ROUND_COUNT_MAX = 8 };
enum { LISTEN_BACKLOG = 1024 };
/* Slots for those let go whose sockets libmicrohttpd has not yet closed. */
enum { CONNECTION_HEADROOM = 64 };
enum { POOL_BYTE_COUNT_MIN = 64 << 10 };

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Deadlines: one list a kind, every kind with one duration, so each list is in order. */

void chttp_unschedule(struct connection *connection)
{
    struct deadline_list *list;
    if (connection->deadline_kind == DEADLINE_NONE)
        return;
    list = &connection->server->deadlines[connection->deadline_kind];
    if (connection->earlier)
        connection->earlier->later = connection->later;
    else
        list->first = connection->later;
    if (connection->later)
        connection->later->earlier = connection->earlier;
    else
        list->last = connection->earlier;
    connection->earlier = connection->later = NULL;
    connection->deadline_kind = DEADLINE_NONE;
}

void chttp_schedule(struct connection *connection, enum deadline_kind kind)
{
    struct deadline_list *list = &connection->server->deadlines[kind];
    chttp_unschedule(connection);
    connection->deadline_kind = kind;
    connection->deadline_ms = now_ms() + list->duration_ms;
    connection->earlier = list->last;
    if (list->last)
        list->last->later = connection;
    else
        list->first = connection;
    list->last = connection;
}

void chttp_drop(struct connection *connection)
{
    if (!connection->handle) {
        if (connection->fd >= 0)
            close(connection->fd);
        chttp_connection_free(connection);
        return;
    }
    /* libmicrohttpd finds it closed and cleans up. */
    chttp_unschedule(connection);
    chttp_set_stage(connection, STAGE_DROPPED);
    shutdown(connection->fd, SHUT_RDWR);
}

void chttp_set_stage(struct connection *connection, enum stage stage)
{
    connection->server->stage_counts[connection->stage]--;
    connection->stage = stage;
    connection->server->stage_counts[stage]++;
}

static void expire(struct chttp_server *server)
{
    int64_t now = now_ms();
    int kind;
    for (kind = 0; kind < DEADLINE_KIND_COUNT; kind++) {
        struct connection *connection;
        while ((connection = server->deadlines[kind].first) != NULL &&
               connection->deadline_ms <= now) {
            if (connection->stage == STAGE_OPEN || connection->stage == STAGE_HEAD ||
                connection->stage == STAGE_RECEIVING)
                chttp_refuse_raw(connection, 408);
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
        chttp_forget_body(connection);
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

static struct MHD_Daemon *start(struct chttp_server *server,
                                const struct chttp_server_options *options)
{
    size_t pool = options->header_byte_count_max * 4;
    unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)options->certificate_pem},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)options->key_pem},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

    if (pool < POOL_BYTE_COUNT_MIN)
        pool = POOL_BYTE_COUNT_MIN;
    if (server->is_tls)
        flags |= MHD_USE_TLS;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, chttp_on_request, server,
        MHD_OPTION_CONNECTION_LIMIT, server->slot_count,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, pool,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_URI_LOG_CALLBACK, chttp_on_target, server,
        MHD_OPTION_NOTIFY_CONNECTION, chttp_on_connection, server,
        MHD_OPTION_NOTIFY_COMPLETED, chttp_on_completed, server,
        MHD_OPTION_ARRAY, server->is_tls ? tls : none,
        MHD_OPTION_END);
}

static int watch(struct chttp_server *server, int fd, uint64_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag};
    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static struct chttp_server *make(const struct chttp_server_options *options)
{
    struct chttp_server *server = calloc(1, sizeof(*server));
    uint32_t slot;
    if (!server)
        return NULL;
    server->listen_fd = -1;
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->slot_count = options->connection_count_max + CONNECTION_HEADROOM;
    server->slots = calloc(server->slot_count, sizeof(*server->slots));
    server->free_slots = calloc(server->slot_count, sizeof(*server->free_slots));
    server->look_buffer = malloc(options->header_byte_count_max + 1);
    if (server->epoll_fd < 0 || !server->slots || !server->free_slots || !server->look_buffer) {
        chttp_server_close(server);
        return NULL;
    }
    for (slot = 0; slot < server->slot_count; slot++)
        server->free_slots[server->free_slot_count++] = server->slot_count - 1 - slot;
    server->is_tls = options->certificate_pem != NULL;
    server->body_byte_count_max = options->body_byte_count_max;
    server->held_byte_count_max = options->held_byte_count_max;
    server->header_byte_count_max = options->header_byte_count_max;
    server->connection_count_max = options->connection_count_max;
    server->deadlines[DEADLINE_REQUEST].duration_ms = options->request_timeout_ms;
    server->deadlines[DEADLINE_IDLE].duration_ms = options->idle_timeout_ms;
    server->deadlines[DEADLINE_LINGER].duration_ms = LINGER_MS;
    return server;
}

enum chttp_open_result chttp_server_open(const struct chttp_server_options *options,
                                         struct chttp_server **result,
                                         char *message, size_t message_size)
{
    const union MHD_DaemonInfo *info;
    enum chttp_open_result failure = CHTTP_OPEN_FAILED;
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
    server->daemon = start(server, options);
    if (!server->daemon) {
        snprintf(message, message_size, "libmicrohttpd does not start: %s", strerror(errno));
        failure = server->is_tls ? CHTTP_OPEN_BAD_IDENTITY : CHTTP_OPEN_FAILED;
        goto failed;
    }
    info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (watch(server, info->epoll_fd, DAEMON_TAG) != 0 ||
        watch(server, server->listen_fd, LISTEN_TAG) != 0) {
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

/* libmicrohttpd reads edges: what it has not drained does not make its descriptor readable. */
static int has_more(struct chttp_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout;
    return server->has_moved || (MHD_get_timeout(server->daemon, &timeout) == MHD_YES && !timeout);
}

void chttp_server_run(struct chttp_server *server)
{
    int round;
    release_taken(server);
    expire(server);
    chttp_gate_run(server);
    for (round = 0; round < ROUND_COUNT_MAX; round++) {
        server->has_moved = 0;
        MHD_run(server->daemon);
        if (!has_more(server))
            break;
    }
}

int64_t chttp_server_timeout_ms(struct chttp_server *server)
{
    int64_t first = INT64_MAX, now;
    int kind;
    /* A request may have become complete after the last take: nothing else would tell of it. */
    if (has_more(server) || server->ready_first)
        return 0;
    for (kind = 0; kind < DEADLINE_KIND_COUNT; kind++) {
        struct connection *connection = server->deadlines[kind].first;
        if (connection && connection->deadline_ms < first)
            first = connection->deadline_ms;
    }
    if (first == INT64_MAX)
        return -1;
    now = now_ms();
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
    request->method = connection->method;
    request->target = connection->target;
    request->address = connection->address;
    request->headers = connection->headers.bytes;
    request->header_byte_count = connection->headers.count;
    request->body = (const uint8_t *)connection->body.bytes;
    request->body_byte_count = connection->body.count;
    return 1;
}

void chttp_server_stop_accepting(struct chttp_server *server)
{
    struct connection *connection, *next;
    if (server->is_stopping)
        return;
    server->is_stopping = 1;
    /* Who has connected already is let in; the system would reset what is closed upon. */
    chttp_gate_accept(server);
    close(server->listen_fd);
    server->listen_fd = -1;
    for (connection = server->deadlines[DEADLINE_IDLE].first; connection; connection = next) {
        int waiting = 0;
        next = connection->later;
        /* A request that already lies in the socket is let in. */
        if (ioctl(connection->fd, FIONREAD, &waiting) != 0 || waiting == 0)
            chttp_drop(connection);
    }
}

uint32_t chttp_server_connection_count(const struct chttp_server *server)
{
    return server->slot_count - server->free_slot_count;
}

uint32_t chttp_server_receiving_count(const struct chttp_server *server)
{
    return server->stage_counts[STAGE_RECEIVING] + server->stage_counts[STAGE_HEAD];
}

uint32_t chttp_server_held_count(const struct chttp_server *server)
{
    return server->stage_counts[STAGE_HELD];
}

uint64_t chttp_server_refusal_count(const struct chttp_server *server, unsigned int status)
{
    if (status < REFUSAL_STATUS_MIN || status >= REFUSAL_STATUS_MIN + REFUSAL_STATUS_COUNT)
        return 0;
    return server->refusal_counts[status - REFUSAL_STATUS_MIN];
}

void chttp_server_close(struct chttp_server *server)
{
    uint32_t slot;
    if (!server)
        return;
    if (server->daemon) {
        release_taken(server);
        server->ready_first = server->ready_last = NULL;
        server->is_stopping = 1;
        for (slot = 0; slot < server->slot_count; slot++) {
            struct connection *connection = server->slots[slot];
            if (connection && !connection->handle)
                chttp_drop(connection);
            /* libmicrohttpd aborts the program when it is stopped with connections suspended. */
            else if (connection && connection->stage == STAGE_HELD)
                chttp_server_reset(server, connection->id);
        }
        MHD_run(server->daemon);
        MHD_stop_daemon(server->daemon);
    }
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    free(server->look_buffer);
    free(server->slots);
    free(server->free_slots);
    free(server);
}
