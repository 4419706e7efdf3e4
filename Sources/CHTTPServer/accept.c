/* New connections: which are accepted, and which open ones are closed for them. */
#define _GNU_SOURCE /* accept4 */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Of a bounded lane half of what it may have is kept like any other, so that a body that is on its way
 * does not give way to many idle connections.  What it has beyond gives way before an idle one: whoever
 * fills the lane closes no connection of others.
 */
static struct connection *slowest_beyond_half(struct chttp_server *server)
{
    int number;
    for (number = 0; number < CHTTP_LANE_COUNT_MAX; number++) {
        const struct lane *lane = &server->lanes[number];
        if (lane->connection_count_max < server->connection_count_max &&
            lane->connection_count > lane->connection_count_max / 2)
            return server->deadlines[DEADLINE_BODY + number].first;
    }
    return NULL;
}

/*
 * Whoever has just come is about to send its first request.  Were it closed for the next that comes, while
 * others are idle, one that connects and says nothing for each round trip to here would keep everybody out.
 * Who had an answer is none: it could begin one head after the other.
 */
static int is_newcomer(const struct connection *connection, int64_t now)
{
    const struct chttp_server *server = connection->server;
    enum deadline_kind kind = connection->deadline_kind;
    int64_t since_ms = connection->deadline_ms - server->deadlines[kind].duration_ms;
    return (kind == DEADLINE_OPEN || (kind == DEADLINE_HEAD && !connection->was_answered)) &&
           now - since_ms < server->newcomer_ms;
}

/* For newcomers no body is closed, but one beyond half of its lane. */
static struct connection *first_to_go(struct chttp_server *server, int spares_newcomers)
{
    int kind, kind_count = spares_newcomers ? DEADLINE_BODY : DEADLINE_KIND_COUNT;
    int64_t now = chttp_now_ms();
    for (kind = 0; kind < kind_count; kind++) {
        struct connection *first = kind == DEADLINE_IDLE ? slowest_beyond_half(server) : NULL;
        if (!first)
            first = server->deadlines[kind].first;
        while (first && spares_newcomers && is_newcomer(first, now))
            first = first->later;
        if (first)
            return first;
    }
    return NULL;
}

static int evict(struct chttp_server *server)
{
    struct connection *connection = first_to_go(server, 1);
    if (!connection)
        connection = first_to_go(server, 0);
    if (!connection)
        return 0;
    server->eviction_counts[connection->deadline_kind]++;
    chttp_drop(connection);
    return 1;
}

static void note_address(struct connection *connection, const struct sockaddr_storage *peer)
{
    const struct in6_addr *long_address = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    const struct in_addr *short_address = &((const struct sockaddr_in *)peer)->sin_addr;
    const void *address = short_address;
    if (peer->ss_family != AF_INET6) {
        connection->network = short_address->s_addr;
    } else {
        address = long_address;
        if (IN6_IS_ADDR_V4MAPPED(long_address))
            memcpy(&connection->network, &long_address->s6_addr[12], 4);
        else
            memcpy(&connection->network, long_address, sizeof(connection->network));
    }
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
        server->refusal_counts[CHTTP_LANE_NONE][503 - REFUSAL_STATUS_MIN]++;
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

void chttp_accept_connections(struct chttp_server *server, uint32_t count_max)
{
    uint32_t count;
    for (count = 0; count < count_max && server->free_slot_count > 0; count++) {
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
