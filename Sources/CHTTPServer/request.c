/* A request on its way in: what libmicrohttpd tells us, and what we refuse before it is complete. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BODY_CAPACITY_FIRST = 4096 };

/* Refusing. */

struct refusal {
    unsigned int status;
    const char *phrase;
    const char *code;
    const char *detail;
};

static const struct refusal refusals[] = {
    {400, "Bad Request", "http.malformed", "The request is not well-formed HTTP."},
    {408, "Request Timeout", "http.too_slow", "The request was not complete in time."},
    {413, "Content Too Large", "http.body_too_large", "The body is larger than this server takes."},
    {431, "Request Header Fields Too Large", "http.headers_too_large",
     "The request line and the headers are larger than this server takes."},
    {501, "Not Implemented", "http.transfer_encoding", "The only transfer encoding is chunked."},
    {503, "Service Unavailable", "http.too_busy",
     "Too many requests are being taken in; send it again."},
    {505, "HTTP Version Not Supported", "http.version", "This server speaks HTTP/1.1."},
};

static const struct refusal *refusal_of(unsigned int status)
{
    size_t index;
    for (index = 0; index < sizeof(refusals) / sizeof(refusals[0]); index++)
        if (refusals[index].status == status)
            return &refusals[index];
    return &refusals[0];
}

size_t chttp_problem(unsigned int status, char *buffer, size_t size)
{
    const struct refusal *refusal = refusal_of(status);
    int count = snprintf(buffer, size,
                         "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,"
                         "\"code\":\"%s\",\"detail\":\"%s\"}\n",
                         refusal->phrase, refusal->status, refusal->code, refusal->detail);
    return count > 0 && (size_t)count < size ? (size_t)count : 0;
}

void chttp_refuse_descriptor(int fd, unsigned int status)
{
    char body[512], answer[1024];
    const struct refusal *refusal = refusal_of(status);
    size_t body_count = chttp_problem(status, body, sizeof(body));
    int count = snprintf(answer, sizeof(answer),
                         "HTTP/1.1 %u %s\r\nContent-Type: application/problem+json\r\n"
                         "Content-Length: %zu\r\n%sConnection: close\r\n\r\n%s",
                         refusal->status, refusal->phrase, body_count,
                         status == 503 ? "Retry-After: 1\r\n" : "", body);
    /* A full send buffer means that the client reads nothing; it then sees the end only. */
    send(fd, answer, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
}

void chttp_refuse_raw(struct connection *connection, unsigned int status)
{
    chttp_forget_body(connection);
    connection->server->refusal_counts[status - REFUSAL_STATUS_MIN]++;
    if (connection->server->is_tls) {
        chttp_drop(connection);
        return;
    }
    chttp_refuse_descriptor(connection->fd, status);
    connection->discarded_byte_count = 0;
    chttp_set_stage(connection, STAGE_REFUSED);
    chttp_schedule(connection, DEADLINE_LINGER);
    /* What was looked at is still unread, and closing upon it would reset the connection. */
    if (!connection->handle)
        chttp_gate_discard(connection);
}

/* Before libmicrohttpd reads the body it can answer itself, also under TLS. */
static enum MHD_Result refuse_at_headers(struct connection *connection, unsigned int status)
{
    char body[512];
    size_t count;
    struct MHD_Response *answer;
    enum MHD_Result result;

    if (!connection->server->is_tls) {
        chttp_refuse_raw(connection, status);
        return MHD_YES;
    }
    connection->server->refusal_counts[status - REFUSAL_STATUS_MIN]++;
    count = chttp_problem(status, body, sizeof(body));
    answer = MHD_create_response_from_buffer(count, body, MHD_RESPMEM_MUST_COPY);
    if (!answer)
        return MHD_NO;
    MHD_add_response_header(answer, "Content-Type", "application/problem+json");
    MHD_add_response_header(answer, "Connection", "close");
    result = MHD_queue_response(connection->handle, refusal_of(status)->status, answer);
    MHD_destroy_response(answer);
    connection->server->has_moved = 1;
    return result;
}

/* Bytes. */

static int append(struct bytes *bytes, const char *data, size_t count)
{
    if (bytes->capacity - bytes->count < count) {
        size_t capacity = bytes->capacity ? bytes->capacity : BODY_CAPACITY_FIRST;
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

void chttp_forget_body(struct connection *connection)
{
    connection->server->held_byte_count -= connection->body.count;
    free(connection->body.bytes);
    memset(&connection->body, 0, sizeof(connection->body));
}

static void forget_request(struct connection *connection)
{
    chttp_forget_body(connection);
    free(connection->target);
    connection->target = NULL;
    connection->headers.count = 0;
    connection->has_seen_headers = 0;
    connection->id = 0;
    if (connection->answer)
        MHD_destroy_response(connection->answer);
    connection->answer = NULL;
}

static enum MHD_Result keep_header(void *bytes, enum MHD_ValueKind kind, const char *name,
                                   size_t name_count, const char *value, size_t value_count)
{
    /* libmicrohttpd ends both with a zero and lets none through inside. */
    if (append(bytes, name, name_count) != 0 || append(bytes, "", 1) != 0)
        return MHD_NO;
    if (value_count > 0 && append(bytes, value, value_count) != 0)
        return MHD_NO;
    return append(bytes, "", 1) == 0 ? MHD_YES : MHD_NO;
}

/* Called by libmicrohttpd. */

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
    forget_request(connection);
    free(connection->headers.bytes);
    server->stage_counts[connection->stage]--;
    server->slots[connection->slot] = NULL;
    server->free_slots[server->free_slot_count++] = connection->slot;
    free(connection);
}

void chttp_on_connection(void *server, struct MHD_Connection *handle, void **context,
                         enum MHD_ConnectionNotificationCode code)
{
    struct chttp_server *ours = server;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = ours->adopting;
        ours->adopting->handle = handle;
        ours->adopting = NULL;
    } else if (*context) {
        chttp_connection_free(*context);
        *context = NULL;
    }
}

void *chttp_on_target(void *server, const char *target, struct MHD_Connection *handle)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info->socket_context;
    if (!connection || connection->stage == STAGE_REFUSED || connection->stage == STAGE_DROPPED)
        return connection;
    /* A request line whose headers were malformed leaves its target behind. */
    free(connection->target);
    connection->target = strdup(target);
    /* The first request's time began when the connection was made. */
    if (connection->stage == STAGE_IDLE)
        chttp_schedule(connection, DEADLINE_REQUEST);
    chttp_set_stage(connection, STAGE_RECEIVING);
    return connection;
}

void chttp_on_completed(void *server, struct MHD_Connection *handle, void **request,
                        enum MHD_RequestTerminationCode code)
{
    struct connection *connection = *request;
    *request = NULL;
    if (!connection)
        return;
    forget_request(connection);
    if (connection->stage == STAGE_DROPPED || connection->stage == STAGE_REFUSED)
        return;
    chttp_set_stage(connection, STAGE_IDLE);
    chttp_schedule(connection, DEADLINE_IDLE);
}

static enum MHD_Result headers_complete(struct connection *connection, const char *method)
{
    struct chttp_server *server = connection->server;
    const union MHD_ConnectionInfo *info;
    const char *length;

    connection->has_seen_headers = 1;
    info = MHD_get_connection_info(connection->handle, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info && info->header_size > server->header_byte_count_max)
        return refuse_at_headers(connection, 431);
    if (strlen(method) > METHOD_BYTE_COUNT_MAX)
        return refuse_at_headers(connection, 431);
    strcpy(connection->method, method);
    length = MHD_lookup_connection_value(connection->handle, MHD_HEADER_KIND, "Content-Length");
    if (length && strtoull(length, NULL, 10) > server->body_byte_count_max)
        return refuse_at_headers(connection, 413);
    connection->headers.count = 0;
    MHD_get_connection_values_n(connection->handle, MHD_HEADER_KIND, keep_header,
                                &connection->headers);
    return MHD_YES;
}

static void body_arrived(struct connection *connection, const char *data, size_t count)
{
    struct chttp_server *server = connection->server;
    if (server->body_byte_count_max - connection->body.count < count) {
        chttp_refuse_raw(connection, 413);
        return;
    }
    if (server->held_byte_count + count > server->held_byte_count_max ||
        append(&connection->body, data, count) != 0) {
        chttp_refuse_raw(connection, 503);
        return;
    }
    server->held_byte_count += count;
}

static enum MHD_Result request_complete(struct connection *connection)
{
    struct chttp_server *server = connection->server;
    connection->id = (uint64_t)++server->next_serial << 32 | connection->slot;
    chttp_unschedule(connection);
    chttp_set_stage(connection, STAGE_HELD);
    connection->next_ready = NULL;
    if (server->ready_last)
        server->ready_last->next_ready = connection;
    else
        server->ready_first = connection;
    server->ready_last = connection;
    MHD_suspend_connection(connection->handle);
    return MHD_YES;
}

static enum MHD_Result answer(struct connection *connection)
{
    enum MHD_Result result;
    if (!connection->answer)
        return MHD_NO;
    result = MHD_queue_response(connection->handle, connection->status, connection->answer);
    MHD_destroy_response(connection->answer);
    connection->answer = NULL;
    connection->server->has_moved = 1;
    return result;
}

enum MHD_Result chttp_on_request(void *server, struct MHD_Connection *handle, const char *path,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_size, void **request)
{
    struct connection *connection = *request;
    size_t count = *data_size;
    if (!connection || !connection->target)
        return MHD_NO;
    if (connection->stage == STAGE_ANSWERING)
        return answer(connection);
    if (connection->stage == STAGE_DROPPED)
        return MHD_NO;
    if (connection->stage == STAGE_REFUSED) {
        connection->discarded_byte_count += count;
        *data_size = 0;
        if (connection->discarded_byte_count > LINGER_BYTE_COUNT_MAX)
            return MHD_NO;
        /* The call that tells of the headers carries no data, and the one that ends the body. */
        if (count == 0 && connection->has_seen_headers)
            return MHD_NO;
        connection->has_seen_headers = 1;
        return MHD_YES;
    }
    if (!connection->has_seen_headers)
        return headers_complete(connection, method);
    if (count == 0)
        return request_complete(connection);
    body_arrived(connection, data, count);
    *data_size = 0;
    return MHD_YES;
}
