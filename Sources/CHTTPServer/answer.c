/* What goes out: the application's answers, our own refusals, and the ways of giving no answer. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

/* Refusing. */

struct refusal {
    unsigned int status;
    const char *code;
    const char *detail;
};

static const struct refusal refusals[] = {
    {400, "http.malformed", "The request is not well-formed HTTP."},
    {408, "http.too_slow",
     "The request came too slowly, or slower than others where there was no room for all."},
    {413, "http.body_too_large", "The body is larger than this server takes."},
    {431, "http.headers_too_large",
     "The request line and the headers are larger than this server takes."},
    {501, "http.transfer_encoding", "The only transfer encoding is chunked."},
    {503, "http.too_busy", "Too many requests are being taken in; send it again."},
    {505, "http.version", "This server speaks HTTP/1.1."},
};

static const struct {
    unsigned int status;
    const char *phrase;
} phrases[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

/* Empty where it is none of ours: clients ignore it (RFC 9112, section 4). */
static const char *phrase_of(unsigned int status)
{
    size_t index;
    for (index = 0; index < sizeof(phrases) / sizeof(phrases[0]); index++)
        if (phrases[index].status == status)
            return phrases[index].phrase;
    return "";
}

static const struct refusal *refusal_of(unsigned int status)
{
    size_t index;
    for (index = 0; index < sizeof(refusals) / sizeof(refusals[0]); index++)
        if (refusals[index].status == status)
            return &refusals[index];
    return &refusals[0];
}

void chttp_refuse_descriptor(int fd, unsigned int status)
{
    const struct refusal *refusal = refusal_of(status);
    const char *phrase = phrase_of(refusal->status);
    char body[512], answer[1024];
    int body_count = snprintf(body, sizeof(body),
                              "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%u,"
                              "\"code\":\"%s\",\"detail\":\"%s\"}\n",
                              phrase, refusal->status, refusal->code, refusal->detail);
    int count = snprintf(answer, sizeof(answer),
                         "HTTP/1.1 %u %s\r\nContent-Type: application/problem+json\r\n"
                         "Content-Length: %d\r\n%sConnection: close\r\n\r\n%s",
                         refusal->status, phrase, body_count,
                         status == 503 || status == 408 ? "Retry-After: 1\r\n" : "", body);
    /* A full send buffer means that the client reads nothing; it then sees the end only. */
    send(fd, answer, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
}

static void linger(struct connection *connection)
{
    connection->discarded_byte_count = 0;
    chttp_set_stage(connection, STAGE_LINGER);
    chttp_schedule(connection, DEADLINE_LINGER);
    chttp_postpone(connection);
}

void chttp_refuse(struct connection *connection, unsigned int status)
{
    uint32_t lane = connection->stage == STAGE_BODY ? connection->lane : CHTTP_LANE_NONE;
    chttp_forget_request(connection);
    connection->unsent.count = connection->sent_byte_count = 0;
    connection->server->refusal_counts[lane][status - REFUSAL_STATUS_MIN]++;
    chttp_refuse_descriptor(connection->fd, status);
    linger(connection);
}

/* Sending. */

static void finish(struct connection *connection)
{
    if (connection->is_torn) {
        chttp_drop(connection);
        return;
    }
    chttp_forget_request(connection);
    if (connection->is_last) {
        shutdown(connection->fd, SHUT_WR);
        linger(connection);
        return;
    }
    chttp_set_stage(connection, STAGE_IDLE);
    chttp_schedule(connection, connection->was_served ? DEADLINE_IDLE : DEADLINE_IDLE_NEW);
    if (connection->unread.count > 0 || connection->is_readable || connection->has_ended)
        chttp_postpone(connection);
}

/* Sends what is unsent and then the body, of which the rest is kept; -1 where it is dropped. */
static int send_out(struct connection *connection, const uint8_t *body, size_t body_count)
{
    struct bytes *unsent = &connection->unsent;
    size_t head_count = unsent->count - connection->sent_byte_count, sent;
    struct iovec parts[] = {
        {unsent->bytes + connection->sent_byte_count, head_count},
        {(void *)body, body_count},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = body_count > 0 ? 2 : 1};
    ssize_t count = sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN) {
        chttp_drop(connection);
        return -1;
    }
    sent = count > 0 ? (size_t)count : 0;
    if (sent < head_count) {
        connection->sent_byte_count += sent;
        sent = 0;
    } else {
        sent -= head_count;
        unsent->count = connection->sent_byte_count = 0;
        if (sent == body_count) {
            chttp_empty(unsent);
            return 0;
        }
    }
    if (sent < body_count &&
        chttp_append(unsent, (const char *)body + sent, body_count - sent) != 0) {
        chttp_drop(connection);
        return -1;
    }
    return 0;
}

void chttp_send_rest(struct connection *connection)
{
    /* The program has this request, or a list for it: a socket that fails now must not free it. What
     * is unsent, of a 100 Continue, goes out with the answer. */
    if (connection->stage == STAGE_HELD || connection->stage == STAGE_JUDGED)
        return;
    if (connection->unsent.count == 0 || send_out(connection, NULL, 0) != 0)
        return;
    if (connection->unsent.count > 0)
        return;
    if (connection->stage == STAGE_ANSWERING)
        finish(connection);
    else if (connection->stage == STAGE_STREAMING)
        chttp_unschedule(connection);
}

void chttp_send_continue(struct connection *connection)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    connection->wants_continue = 0;
    if (chttp_append(&connection->unsent, text, sizeof(text) - 1) != 0)
        chttp_drop(connection);
    else
        send_out(connection, NULL, 0);
}

/* Answering. */

/* Of a body that ends with the connection. */
#define NO_LENGTH SIZE_MAX

static const char *date_now(struct chttp_server *server)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct timespec now;
    struct tm parts;
    time_t seconds;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    seconds = now.tv_sec;
    if (server->date_s != seconds && gmtime_r(&seconds, &parts)) {
        server->date_s = seconds;
        snprintf(server->date, sizeof(server->date), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                 days + parts.tm_wday * 3, (unsigned int)parts.tm_mday % 100,
                 months + parts.tm_mon * 3, (unsigned int)(parts.tm_year + 1900) % 10000,
                 (unsigned int)parts.tm_hour % 100, (unsigned int)parts.tm_min % 100,
                 (unsigned int)parts.tm_sec % 100);
    }
    return server->date;
}

static int append_text(struct bytes *bytes, const char *text)
{
    return chttp_append(bytes, text, strlen(text));
}

static int append_number(struct bytes *bytes, size_t number)
{
    char digits[20];
    size_t start = sizeof(digits);
    do
        digits[--start] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return chttp_append(bytes, digits + start, sizeof(digits) - start);
}

static int append_head(struct connection *connection, unsigned int status, const char *headers,
                       size_t header_byte_count, size_t body_byte_count)
{
    struct bytes *out = &connection->unsent;
    const char *position = headers, *end = headers + header_byte_count;
    if (append_text(out, "HTTP/1.1 ") != 0 || append_number(out, status) != 0 ||
        append_text(out, " ") != 0 || append_text(out, phrase_of(status)) != 0 ||
        append_text(out, "\r\nDate: ") != 0 ||
        append_text(out, date_now(connection->server)) != 0 || append_text(out, "\r\n") != 0)
        return -1;
    while (position < end) {
        const char *name = position, *value = name + strlen(name) + 1;
        if (append_text(out, name) != 0 || append_text(out, ": ") != 0 ||
            append_text(out, value) != 0 || append_text(out, "\r\n") != 0)
            return -1;
        position = value + strlen(value) + 1;
    }
    if (status != 204 && body_byte_count != NO_LENGTH &&
        (append_text(out, "Content-Length: ") != 0 || append_number(out, body_byte_count) != 0 ||
         append_text(out, "\r\n") != 0))
        return -1;
    if (connection->is_last)
        return append_text(out, "Connection: close\r\n\r\n");
    return append_text(out, connection->is_version_1_0 ? "Connection: keep-alive\r\n\r\n" : "\r\n");
}

int chttp_server_respond(struct chttp_server *server, uint64_t id, unsigned int status,
                         const char *headers, size_t header_byte_count,
                         const uint8_t *body, size_t body_byte_count, size_t sent)
{
    struct connection *connection = chttp_find(server, id);
    if (!connection)
        return 0;
    connection->is_torn = sent < body_byte_count;
    connection->is_last = connection->is_torn || connection->stage == STAGE_JUDGED ||
                          !connection->is_kept || server->is_stopping;
    connection->was_answered = 1;
    connection->was_served |= status < 400;
    chttp_set_stage(connection, STAGE_ANSWERING);
    chttp_schedule(connection, DEADLINE_ANSWER);
    if (append_head(connection, status, headers, header_byte_count, body_byte_count) != 0) {
        chttp_drop(connection);
        return -1;
    }
    if (connection->wants_head_only || status == 204 || status == 304)
        sent = 0;
    if (send_out(connection, body, sent) != 0)
        return 0;
    if (connection->unsent.count == 0)
        finish(connection);
    return 0;
}

/* Streams. */

int chttp_server_begin_stream(struct chttp_server *server, uint64_t id, unsigned int status,
                              const char *headers, size_t header_byte_count)
{
    struct connection *connection = chttp_find(server, id);
    if (!connection)
        return 0;
    connection->is_torn = 0;
    connection->is_last = 1;
    connection->was_answered = 1;
    connection->was_served |= status < 400;
    chttp_set_stage(connection, STAGE_STREAMING);
    chttp_unschedule(connection);
    if (append_head(connection, status, headers, header_byte_count, NO_LENGTH) != 0) {
        chttp_drop(connection);
        return -1;
    }
    chttp_server_send_stream(server, id, NULL, 0);
    return 0;
}

int chttp_server_send_stream(struct chttp_server *server, uint64_t id, const uint8_t *bytes,
                             size_t byte_count)
{
    struct connection *connection = chttp_find_stream(server, id);
    if (!connection)
        return 0;
    if (connection->is_ending ||
        connection->unsent.count + byte_count > CHTTP_STREAM_BYTE_COUNT_MAX) {
        chttp_drop(connection);
        return 0;
    }
    if (send_out(connection, bytes, byte_count) != 0)
        return 0;
    if (connection->unsent.count == 0)
        chttp_unschedule(connection);
    else if (connection->deadline_kind == DEADLINE_NONE)
        chttp_schedule(connection, DEADLINE_ANSWER);
    return 1;
}

void chttp_server_reset(struct chttp_server *server, uint64_t id)
{
    struct linger abort = {.l_onoff = 1, .l_linger = 0};
    struct connection *connection = chttp_find(server, id);
    if (!connection)
        connection = chttp_find_stream(server, id);
    if (!connection)
        return;
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    chttp_drop(connection);
}
