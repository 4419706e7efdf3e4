/*
 * What comes in.  Every request of a connection goes the same way: its head is looked for, read
 * strictly, and judged before its body is taken.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* How much is read from one connection before the others have their turn. */
enum { TURN_BYTE_COUNT_MAX = 128 << 10 };

/* Complete, or its head is. */
static void make_ready(struct connection *connection, enum stage stage)
{
    struct chttp_server *server = connection->server;
    chttp_unschedule(connection);
    chttp_set_stage(connection, stage);
    if (connection->id == 0)
        connection->id = (uint64_t)++server->next_serial << 32 | connection->slot;
    connection->next_ready = NULL;
    if (server->ready_last)
        server->ready_last->next_ready = connection;
    else
        server->ready_first = connection;
    server->ready_last = connection;
}

static void complete(struct connection *connection)
{
    connection->server->lanes[connection->lane].byte_count -= connection->lane_byte_count;
    connection->lane_byte_count = 0;
    make_ready(connection, STAGE_HELD);
}

/* Bodies. */

/* Where the server lies in memory nobody outside knows: who shares a place cannot be chosen. */
static size_t place_of(const struct connection *connection, size_t count)
{
    uint64_t salted = connection->network ^ (uint64_t)(uintptr_t)connection->server;
    return (size_t)((salted * 0x9e3779b97f4a7c15ull) >> 32) % count;
}

/* The connection of a full lane that is closed: of the network that has most there the one whose last
 * progress is the longest ago. So nobody who holds many shuts out another, unless they share a place
 * here, by one chance in PLACE_COUNT. */
static struct connection *greediest(const struct deadline_list *bodies)
{
    enum { PLACE_COUNT = 1024 };
    uint16_t counts[PLACE_COUNT] = {0};
    struct connection *connection, *found = bodies->first;
    uint16_t most = 0;
    for (connection = bodies->first; connection; connection = connection->later)
        counts[place_of(connection, PLACE_COUNT)]++;
    for (connection = bodies->first; connection; connection = connection->later) {
        uint16_t count = counts[place_of(connection, PLACE_COUNT)];
        if (count > most) {
            most = count;
            found = connection;
        }
    }
    return found;
}

static void begin_body(struct connection *connection, uint32_t lane, size_t byte_count_max)
{
    struct chttp_server *server = connection->server;
    connection->lane = lane;
    connection->body_byte_count_max = byte_count_max;
    connection->step_byte_count = 0;
    chttp_set_stage(connection, STAGE_BODY);
    chttp_schedule(connection, DEADLINE_BODY + lane);
    if (connection->missing_byte_count > byte_count_max) {
        chttp_refuse(connection, 413);
        return;
    }
    if (server->lanes[lane].connection_count > server->lanes[lane].connection_count_max)
        chttp_refuse(greediest(&server->deadlines[DEADLINE_BODY + lane]), 408);
    if (connection->wants_continue && connection->unread.count == 0)
        chttp_send_continue(connection);
}

/* A step puts a body behind all that took theirs before. */
static int count_steps(struct connection *connection, size_t count)
{
    connection->step_byte_count += count;
    if (connection->step_byte_count < BODY_STEP_BYTE_COUNT)
        return 1;
    connection->step_byte_count = 0;
    if (chttp_now_ms() - connection->began_ms > connection->server->request_timeout_ms)
        return 0;
    chttp_schedule(connection, DEADLINE_BODY + connection->lane);
    return 1;
}

static void body_arrived(struct connection *connection, struct span data)
{
    struct chttp_server *server = connection->server;
    struct lane *lane = &server->lanes[connection->lane];
    if (connection->body_byte_count_max - connection->body.count < data.count) {
        chttp_refuse(connection, 413);
        return;
    }
    if (!count_steps(connection, data.count)) {
        chttp_refuse(connection, 408);
        return;
    }
    /* Where there is no room, the one is closed whose last progress is the longest ago. */
    while (lane->byte_count + data.count > lane->byte_count_max) {
        struct connection *slowest =
            server->deadlines[DEADLINE_BODY + connection->lane].first;
        chttp_refuse(slowest, 408);
        if (slowest == connection)
            return;
    }
    if (chttp_append(&connection->body, data.bytes, data.count) != 0) {
        chttp_refuse(connection, 503);
        return;
    }
    lane->byte_count += data.count;
    connection->lane_byte_count += data.count;
}

static size_t take_chunks(struct connection *connection, struct span bytes)
{
    struct chunks *chunks = &connection->chunks;
    size_t used = 0;
    while (connection->stage == STAGE_BODY && used < bytes.count) {
        struct span data;
        used += chttp_chunks_read(
            chunks, (struct span){bytes.bytes + used, bytes.count - used}, &data);
        if (data.count > 0)
            body_arrived(connection, data);
        if (connection->stage != STAGE_BODY)
            break;
        if (chunks->stage == CHUNK_COMPLETE)
            complete(connection);
        else if (chunks->stage == CHUNK_BAD)
            chttp_refuse(connection, 400);
        else if (chunks->stage == CHUNK_DATA &&
                 chunks->missing_count > connection->body_byte_count_max - connection->body.count)
            chttp_refuse(connection, 413);
    }
    return used;
}

static size_t take_body(struct connection *connection, struct span bytes)
{
    if (connection->is_chunked)
        return take_chunks(connection, bytes);
    if (bytes.count > connection->missing_byte_count)
        bytes.count = (size_t)connection->missing_byte_count;
    if (bytes.count == 0)
        return 0;
    body_arrived(connection, bytes);
    if (connection->stage == STAGE_BODY) {
        connection->missing_byte_count -= bytes.count;
        if (connection->missing_byte_count == 0)
            complete(connection);
    }
    return bytes.count;
}

/* Heads. */

static int keep_text(struct bytes *bytes, struct span text)
{
    return chttp_append(bytes, text.bytes, text.count) != 0 || chttp_append(bytes, "", 1) != 0;
}

static int keep_head(struct connection *connection, const struct head *head)
{
    struct span fields = head->fields, name, value;
    memcpy(connection->method, head->method.bytes, head->method.count);
    connection->method[head->method.count] = 0;
    connection->wants_head_only = strcmp(connection->method, "HEAD") == 0;
    connection->head.count = 0;
    if (keep_text(&connection->head, head->target))
        return -1;
    connection->target_byte_count = connection->head.count;
    while (chttp_field_next(&fields, &name, &value))
        if (keep_text(&connection->head, name) || keep_text(&connection->head, value))
            return -1;
    connection->is_kept = head->is_kept;
    connection->is_version_1_0 = head->is_version_1_0;
    connection->is_chunked = head->is_chunked;
    connection->wants_continue = head->wants_continue;
    connection->announced_byte_count =
        head->is_chunked ? CHTTP_LENGTH_UNKNOWN : head->body_byte_count;
    connection->missing_byte_count = head->body_byte_count;
    memset(&connection->chunks, 0, sizeof(connection->chunks));
    return 0;
}

/* Returns how many of the bytes after the head it has used. */
static size_t begin_request(struct connection *connection, struct span bytes, struct span after)
{
    struct chttp_server *server = connection->server;
    struct head head;
    unsigned int status = chttp_head_read(bytes, &head);
    int is_too_large = !status && head.body_byte_count > server->body_byte_count_max;
    /* Who judges heads refuses it, or chttp_server_accept does. */
    if (is_too_large && !server->judges_heads)
        status = 413;
    if (status) {
        chttp_refuse(connection, status);
        return 0;
    }
    connection->id = 0;
    if (keep_head(connection, &head) != 0) {
        chttp_refuse(connection, 503);
        return 0;
    }
    if (!head.is_chunked && head.body_byte_count <= after.count && !is_too_large) {
        size_t count = (size_t)head.body_byte_count;
        if (chttp_append(&connection->body, after.bytes, count) != 0) {
            chttp_refuse(connection, 503);
            return 0;
        }
        complete(connection);
        return count;
    }
    if (server->judges_heads)
        make_ready(connection, STAGE_JUDGED);
    else
        begin_body(connection, 0, server->body_byte_count_max);
    return 0;
}

static size_t take_head(struct connection *connection, struct span bytes)
{
    struct chttp_server *server = connection->server;
    size_t length, skipped = 0;
    unsigned int status;
    if (connection->stage != STAGE_HEAD) {
        /* Empty lines before a request are forgiven (RFC 9112, section 2.2). */
        while (bytes.count > 1 && bytes.bytes[0] == '\r' && bytes.bytes[1] == '\n') {
            bytes = (struct span){bytes.bytes + 2, bytes.count - 2};
            skipped += 2;
        }
        if (bytes.count == 0 || (bytes.count == 1 && bytes.bytes[0] == '\r'))
            return skipped;
        if (!chttp_is_first_byte(bytes.bytes[0])) {
            /* TLS, or another protocol: it may wait for us to speak, so it gets its answer now. */
            chttp_refuse(connection, 400);
            return skipped;
        }
        memset(&connection->scan, 0, sizeof(connection->scan));
        connection->began_ms = chttp_now_ms();
        chttp_set_stage(connection, STAGE_HEAD);
        chttp_schedule(connection, DEADLINE_HEAD);
    }
    status = chttp_head_scan(&connection->scan, bytes, &length);
    if (!status && (length ? length : bytes.count) > server->header_byte_count_max)
        status = 431;
    if (status) {
        chttp_refuse(connection, status);
        return skipped;
    }
    if (length == 0)
        return skipped;
    return skipped + length +
           begin_request(connection, (struct span){bytes.bytes, length},
                         (struct span){bytes.bytes + length, bytes.count - length});
}

void chttp_server_accept(struct chttp_server *server, uint64_t id, uint32_t lane,
                         size_t body_byte_count_max)
{
    struct connection *connection = chttp_find(server, id);
    if (!connection || connection->stage != STAGE_JUDGED)
        return;
    begin_body(connection, lane, body_byte_count_max);
    chttp_postpone(connection);
}

/* All stages. */

static int is_reading(const struct connection *connection)
{
    switch (connection->stage) {
    case STAGE_OPEN:
    case STAGE_IDLE:
    case STAGE_HEAD:
    case STAGE_BODY:
    case STAGE_LINGER:
        return 1;
    default:
        return 0;
    }
}

static void discard(struct connection *connection, size_t count)
{
    connection->discarded_byte_count += count;
    if (connection->discarded_byte_count > LINGER_BYTE_COUNT_MAX)
        chttp_drop(connection);
}

/* Returns how many bytes are done with; the others are wanted again, with more after them. */
static size_t understand(struct connection *connection, struct span bytes)
{
    size_t used = 0;
    while (is_reading(connection)) {
        struct span rest = {bytes.bytes + used, bytes.count - used};
        enum stage before = connection->stage;
        if (before == STAGE_LINGER) {
            discard(connection, rest.count);
            return bytes.count;
        }
        if (before == STAGE_BODY)
            used += take_body(connection, rest);
        else
            used += take_head(connection, rest);
        if (connection->stage == before || connection->stage == STAGE_HEAD)
            break;
    }
    return used;
}

static void understand_unread(struct connection *connection)
{
    struct bytes *unread = &connection->unread;
    size_t used = understand(connection, (struct span){unread->bytes, unread->count});
    memmove(unread->bytes, unread->bytes + used, unread->count - used);
    unread->count -= used;
    if (unread->count == 0)
        chttp_empty(unread);
}

/* Of what came after a whole request, or a head: the list of ready requests has the connection, so it
 * ends with the answer. */
static void lose_rest(struct connection *connection)
{
    if (connection->stage != STAGE_HELD && connection->stage != STAGE_JUDGED) {
        chttp_drop(connection);
        return;
    }
    connection->is_kept = 0;
    connection->has_ended = 1;
}

static void feed(struct connection *connection, const char *data, size_t count)
{
    size_t used = 0;
    int had_unread = connection->unread.count > 0;
    if (!had_unread)
        used = understand(connection, (struct span){data, count});
    if (connection->stage == STAGE_DROPPED)
        return;
    if (chttp_append(&connection->unread, data + used, count - used) != 0)
        lose_rest(connection);
    else if (had_unread)
        understand_unread(connection);
}

void chttp_receive(struct connection *connection)
{
    struct chttp_server *server = connection->server;
    size_t read_count = 0;
    if (connection->unread.count > 0 && is_reading(connection))
        understand_unread(connection);
    while (is_reading(connection) && connection->is_readable && !connection->has_ended) {
        ssize_t count;
        if (read_count >= TURN_BYTE_COUNT_MAX) {
            chttp_postpone(connection);
            return;
        }
        count = recv(connection->fd, server->read_buffer, READ_BUFFER_BYTE_COUNT, 0);
        if (count == 0) {
            connection->has_ended = 1;
        } else if (count < 0) {
            connection->is_readable = 0;
            if (errno != EAGAIN)
                chttp_drop(connection);
        } else {
            /* Less than was asked for: more comes with another edge, but for an end seen already. */
            if (count < READ_BUFFER_BYTE_COUNT && !connection->is_ending)
                connection->is_readable = 0;
            read_count += (size_t)count;
            feed(connection, server->read_buffer, (size_t)count);
        }
    }
    if (connection->has_ended && is_reading(connection))
        chttp_drop(connection);
}
