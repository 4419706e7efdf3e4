/*
 * The gate: a new connection is looked at, not read, until the head of its first request is whole
 * and well formed; only then libmicrohttpd gets it.  So slow and endless heads cost one struct and no
 * more, and what is malformed is answered in our words: libmicrohttpd 0.9.75 answers some of it
 * twice over.  (It still answers for itself what is malformed later on a kept connection.)
 * Under TLS nothing can be looked at, and connections pass at once.
 */
#define _GNU_SOURCE /* accept4, memrchr */
#include "internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* How many connections are accepted in one run. */
enum { ACCEPT_COUNT_MAX = 64 };
enum { DISCARD_BYTE_COUNT = 16 << 10 };

/* The head. */

struct span {
    const char *bytes;
    size_t count;
};

static int is_token(struct span span)
{
    size_t index;
    for (index = 0; index < span.count; index++) {
        unsigned char byte = (unsigned char)span.bytes[index];
        if (byte <= 0x20 || byte >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", byte))
            return 0;
    }
    return span.count > 0;
}

static int has_control(struct span span)
{
    size_t index;
    for (index = 0; index < span.count; index++) {
        unsigned char byte = (unsigned char)span.bytes[index];
        if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
            return 1;
    }
    return 0;
}

static struct span trimmed(struct span span)
{
    while (span.count > 0 && (*span.bytes == ' ' || *span.bytes == '\t')) {
        span.bytes++;
        span.count--;
    }
    while (span.count > 0 &&
           (span.bytes[span.count - 1] == ' ' || span.bytes[span.count - 1] == '\t'))
        span.count--;
    return span;
}

static int is_named(struct span span, const char *name)
{
    return span.count == strlen(name) && strncasecmp(span.bytes, name, span.count) == 0;
}

/* Takes one line, without its end, off the front of a head that is known to end in one. */
static struct span take_line(struct span *head)
{
    const char *end = memchr(head->bytes, '\n', head->count);
    struct span line = {head->bytes, (size_t)(end - head->bytes)};
    head->bytes += line.count + 1;
    head->count -= line.count + 1;
    if (line.count > 0 && line.bytes[line.count - 1] == '\r')
        line.count--;
    return line;
}

/* 0, or the status to refuse with. */
static unsigned int check_request_line(struct span line, int *needs_host)
{
    const char *first = memchr(line.bytes, ' ', line.count);
    const char *last = memrchr(line.bytes, ' ', line.count);
    struct span method, target, version;
    if (!first || first == last)
        return 400;
    method = (struct span){line.bytes, (size_t)(first - line.bytes)};
    target = (struct span){first + 1, (size_t)(last - first - 1)};
    version = (struct span){last + 1, (size_t)(line.bytes + line.count - last - 1)};
    if (!is_token(method) || target.count == 0 || has_control(target) ||
        memchr(target.bytes, ' ', target.count))
        return 400;
    if (version.count != 8 || memcmp(version.bytes, "HTTP/", 5) != 0)
        return 400;
    if (version.bytes[5] != '1' || version.bytes[6] != '.')
        return 505;
    *needs_host = version.bytes[7] != '0';
    return 0;
}

struct head_facts {
    unsigned int host_count, length_count, encoding_count;
};

static unsigned int check_header(struct span line, struct head_facts *facts)
{
    const char *colon = memchr(line.bytes, ':', line.count);
    struct span name, value;
    if (!colon)
        return 400;
    name = (struct span){line.bytes, (size_t)(colon - line.bytes)};
    value = trimmed((struct span){colon + 1, line.count - name.count - 1});
    if (!is_token(name) || has_control(value))
        return 400;
    if (is_named(name, "Host"))
        facts->host_count++;
    if (is_named(name, "Content-Length")) {
        size_t index;
        facts->length_count++;
        for (index = 0; index < value.count; index++)
            if (value.bytes[index] < '0' || value.bytes[index] > '9')
                return 400;
        if (value.count == 0)
            return 400;
        /* Longer than any number of 64 bits: larger than any body. */
        if (value.count > 19)
            return 413;
    }
    if (is_named(name, "Transfer-Encoding")) {
        facts->encoding_count++;
        if (!is_named(value, "chunked"))
            return 501;
    }
    return 0;
}

/* Two readers of one request must not differ on where it ends: that is how requests are smuggled. */
static unsigned int check_head(struct span head)
{
    struct head_facts facts = {0};
    int needs_host = 0;
    unsigned int status = check_request_line(take_line(&head), &needs_host);
    while (status == 0 && head.count > 0) {
        struct span line = take_line(&head);
        if (line.count > 0)
            status = check_header(line, &facts);
    }
    if (status)
        return status;
    if (facts.host_count > 1 || (needs_host && facts.host_count == 0))
        return 400;
    return facts.length_count + facts.encoding_count > 1 ? 400 : 0;
}

/* The length of a head, its empty line included; 0 while it is not whole. */
static size_t head_length(struct span bytes)
{
    const char *end = bytes.bytes + bytes.count, *line = bytes.bytes;
    while ((line = memchr(line, '\n', (size_t)(end - line))) != NULL) {
        line++;
        if (line < end && *line == '\n')
            return (size_t)(line + 1 - bytes.bytes);
        if (line + 1 < end && line[0] == '\r' && line[1] == '\n')
            return (size_t)(line + 2 - bytes.bytes);
    }
    return 0;
}

/* Connections. */

static void pass(struct connection *connection)
{
    struct chttp_server *server = connection->server;
    struct sockaddr_storage address = connection->peer;
    if (!server->is_tls)
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    chttp_set_stage(connection, STAGE_OPEN);
    server->adopting = connection;
    if (MHD_add_connection(server->daemon, connection->fd, (struct sockaddr *)&address,
                           connection->peer_size) != MHD_YES) {
        /* It has closed the socket.  If it came to know the connection it has freed it, too. */
        if (server->adopting) {
            connection->fd = -1;
            chttp_drop(connection);
        }
    }
    server->adopting = NULL;
    server->has_moved = 1;
}

void chttp_gate_discard(struct connection *connection)
{
    char bytes[DISCARD_BYTE_COUNT];
    ssize_t count;
    while ((count = recv(connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        connection->discarded_byte_count += (size_t)count;
        if (connection->discarded_byte_count > LINGER_BYTE_COUNT_MAX)
            break;
    }
    if (count > 0 || count == 0 || errno != EAGAIN)
        chttp_drop(connection);
}

static void look(struct connection *connection, uint32_t events)
{
    struct chttp_server *server = connection->server;
    struct span bytes = {server->look_buffer, 0};
    unsigned int status;
    size_t length, start = 0;
    ssize_t count;

    if (connection->stage == STAGE_REFUSED) {
        chttp_gate_discard(connection);
        return;
    }
    count = recv(connection->fd, server->look_buffer, server->header_byte_count_max + 1,
                 MSG_PEEK | MSG_DONTWAIT);
    if (count <= 0) {
        if (count == 0 || errno != EAGAIN)
            chttp_drop(connection);
        return;
    }
    /* Line ends before a request are forgiven (RFC 9112, section 2.2). */
    while (start < (size_t)count && (bytes.bytes[start] == '\r' || bytes.bytes[start] == '\n'))
        start++;
    bytes.bytes += start;
    bytes.count = (size_t)count - start;
    length = head_length(bytes);
    if (bytes.count > 0 && !is_token((struct span){bytes.bytes, 1})) {
        /* TLS, or another protocol: it may wait for us to speak, so it is told now. */
        chttp_refuse_raw(connection, 400);
        return;
    }
    if (length == 0) {
        if ((size_t)count > server->header_byte_count_max)
            chttp_refuse_raw(connection, 431);
        else if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            chttp_drop(connection);
        else
            chttp_set_stage(connection, STAGE_HEAD);
        return;
    }
    bytes.count = length;
    status = start + length > server->header_byte_count_max ? 431 : check_head(bytes);
    if (status)
        chttp_refuse_raw(connection, status);
    else
        pass(connection);
}

static int evict(struct chttp_server *server)
{
    /* The one that has been quiet, or incomplete, for longest gives way. */
    static const enum deadline_kind order[] = {DEADLINE_LINGER, DEADLINE_IDLE, DEADLINE_REQUEST};
    size_t index;
    for (index = 0; index < sizeof(order) / sizeof(order[0]); index++) {
        struct connection *oldest = server->deadlines[order[index]].first;
        if (oldest) {
            chttp_drop(oldest);
            return 1;
        }
    }
    return 0;
}

static void admit(struct chttp_server *server, int fd, const struct sockaddr_storage *peer,
                  socklen_t peer_size)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    struct connection *connection;
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
    connection->peer = *peer;
    connection->peer_size = peer_size;
    if (getnameinfo((const struct sockaddr *)peer, peer_size, connection->address,
                    sizeof(connection->address), NULL, 0, NI_NUMERICHOST) != 0)
        connection->address[0] = 0;
    chttp_schedule(connection, DEADLINE_REQUEST);
    if (server->is_tls) {
        pass(connection);
        return;
    }
    event.data.u64 = GATE_TAG | connection->slot;
    if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        chttp_drop(connection);
        return;
    }
    /* The request is often there already. */
    look(connection, 0);
}

void chttp_gate_accept(struct chttp_server *server)
{
    int count;
    for (count = 0; count < ACCEPT_COUNT_MAX && server->free_slot_count > 0; count++) {
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
        admit(server, fd, &peer, peer_size);
    }
}

void chttp_gate_run(struct chttp_server *server)
{
    struct epoll_event events[ACCEPT_COUNT_MAX];
    int index, count = epoll_wait(server->epoll_fd, events, ACCEPT_COUNT_MAX, 0);
    int must_accept = 0;
    for (index = 0; index < count; index++) {
        uint64_t tag = events[index].data.u64;
        struct connection *connection;
        if (tag == LISTEN_TAG) {
            must_accept = 1;
            continue;
        }
        if (!(tag & GATE_TAG))
            continue;
        /* One that went in this very turn leaves its slot empty: none is filled before the end. */
        connection = server->slots[(uint32_t)tag];
        if (connection && !connection->handle)
            look(connection, events[index].events);
    }
    if (must_accept && server->listen_fd >= 0)
        chttp_gate_accept(server);
}
