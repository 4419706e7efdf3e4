/* Connections: made, timed, dropped, and which of them gives way. */
#define _GNU_SOURCE /* accept4 */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CAPACITY_FIRST = 4096 };

int64_t chttp_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Bytes. */

int chttp_append(struct bytes *bytes, const char *data, size_t count)
{
    if (count == 0)
        return 0;
    if (bytes->capacity - bytes->count < count) {
        size_t capacity = bytes->capacity ? bytes->capacity : CAPACITY_FIRST;
        char *larger;
        while (capacity - bytes->count < count)
            capacity *= 2;
        larger = realloc(bytes->bytes, capacity);
        if (!larger)
            return -1;
        bytes->bytes = larger;
        bytes->capacity = capacity;
    }
    memcpy(bytes->bytes + bytes->count, data, count);
    bytes->count += count;
    return 0;
}

void chttp_empty(struct bytes *bytes)
{
    bytes->count = 0;
    /* A little is kept for the next time. */
    if (bytes->capacity > CAPACITY_FIRST) {
        free(bytes->bytes);
        memset(bytes, 0, sizeof(*bytes));
    }
}

/* Deadlines. */

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
    connection->deadline_ms = chttp_now_ms() + list->duration_ms;
    connection->earlier = list->last;
    if (list->last)
        list->last->later = connection;
    else
        list->first = connection;
    list->last = connection;
}

/* Lives. */

struct connection *chttp_connection_make(struct chttp_server *server, int fd)
{
    struct connection *connection;
    if (server->free_slot_count == 0)
        return NULL;
    connection = calloc(1, sizeof(*connection));
    if (!connection)
        return NULL;
    connection->server = server;
    connection->fd = fd;
    connection->deadline_kind = DEADLINE_NONE;
    connection->slot = server->free_slots[--server->free_slot_count];
    server->slots[connection->slot] = connection;
    server->stage_counts[STAGE_OPEN]++;
    return connection;
}

void chttp_connection_free(struct connection *connection)
{
    struct chttp_server *server = connection->server;
    chttp_unschedule(connection);
    chttp_forget_request(connection);
    free(connection->unread.bytes);
    free(connection->head.bytes);
    free(connection->body.bytes);
    free(connection->unsent.bytes);
    server->stage_counts[connection->stage]--;
    server->slots[connection->slot] = NULL;
    server->free_slots[server->free_slot_count++] = connection->slot;
    free(connection);
}

void chttp_set_stage(struct connection *connection, enum stage stage)
{
    connection->server->stage_counts[connection->stage]--;
    connection->stage = stage;
    connection->server->stage_counts[stage]++;
}

void chttp_drop(struct connection *connection)
{
    if (connection->stage == STAGE_DROPPED)
        return;
    chttp_unschedule(connection);
    /* Its bytes, at once; itself later, as the caller may still look at it. */
    chttp_forget_request(connection);
    chttp_set_stage(connection, STAGE_DROPPED);
    close(connection->fd);
    connection->fd = -1;
    chttp_postpone(connection);
}

void chttp_postpone(struct connection *connection)
{
    if (connection->is_pending)
        return;
    connection->is_pending = 1;
    connection->next_pending = connection->server->pending;
    connection->server->pending = connection;
}

void chttp_reap(struct chttp_server *server)
{
    struct connection **link = &server->pending;
    while (*link) {
        struct connection *connection = *link;
        if (connection->stage == STAGE_DROPPED) {
            *link = connection->next_pending;
            chttp_connection_free(connection);
        } else {
            link = &connection->next_pending;
        }
    }
}

/* Accepting. */

static int evict(struct chttp_server *server)
{
    int kind;
    for (kind = 0; kind < DEADLINE_KIND_COUNT; kind++) {
        struct connection *oldest = server->deadlines[kind].first;
        if (oldest) {
            chttp_drop(oldest);
            return 1;
        }
    }
    return 0;
}

static void note_address(struct connection *connection, const struct sockaddr_storage *peer)
{
    const void *address = peer->ss_family == AF_INET6
                              ? (const void *)&((const struct sockaddr_in6 *)peer)->sin6_addr
                              : (const void *)&((const struct sockaddr_in *)peer)->sin_addr;
    if (!inet_ntop(peer->ss_family, address, connection->address, sizeof(connection->address)))
        connection->address[0] = 0;
}

static void admit(struct chttp_server *server, int fd, const struct sockaddr_storage *peer)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    struct connection *connection;
    int one = 1;
    if (chttp_server_connection_count(server) >= server->connection_count_max && !evict(server)) {
        /* All are held by requests that wait for their answers. */
        server->refusal_counts[503 - REFUSAL_STATUS_MIN]++;
        chttp_refuse_descriptor(fd, 503);
        close(fd);
        return;
    }
    connection = chttp_connection_make(server, fd);
    if (!connection) {
        close(fd);
        return;
    }
    note_address(connection, peer);
    /* An answer goes out in one piece, and waits for no receipt of the one before. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    chttp_schedule(connection, DEADLINE_OPEN);
    event.data.u64 = connection->slot;
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        chttp_drop(connection);
        return;
    }
    /* The request is often there already. */
    connection->is_readable = 1;
    chttp_receive(connection);
}

void chttp_accept_connections(struct chttp_server *server)
{
    int count;
    for (count = 0; count < EVENT_COUNT_MAX && server->free_slot_count > 0; count++) {
        struct sockaddr_storage peer;
        socklen_t peer_size = sizeof(peer);
        int fd = accept4(server->listen_fd, (struct sockaddr *)&peer, &peer_size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            /* Out of descriptors: one is made free for the next time. */
            if (errno == EMFILE || errno == ENFILE)
                evict(server);
            return;
        }
        admit(server, fd, &peer);
    }
}
