/* The requests of one session as streams of HTTP/2, by nghttp2. */
#include "internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FIELD_COUNT_MAX = 40, LINE_BYTE_COUNT_MAX = 512 };
/* Those that every request has. */
enum { FIELD_COUNT_OWN = 7 };

/* NULL where the request was given up. */
static struct transfer *transfer_of(nghttp2_session *http2, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(http2, stream);
}

static int on_sends_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *closure)
{
    struct session *session = closure;
    struct transfer *transfer;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    transfer = transfer_of(http2, frame->hd.stream_id);
    if (transfer) {
        transfer->is_sent = transfer->is_on_wire = 1;
        transfer->answer_count = session->answer_count;
    }
    return 0;
}

static ssize_t on_body_wanted(nghttp2_session *http2, int32_t stream, uint8_t *bytes, size_t room,
                              uint32_t *flags, nghttp2_data_source *source, void *closure)
{
    struct transfer *transfer = transfer_of(http2, stream);
    size_t left;
    if (!transfer)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    left = transfer->request_body_byte_count - transfer->sent_byte_count;
    if (left <= room)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else
        left = room;
    memcpy(bytes, transfer->request_body + transfer->sent_byte_count, left);
    transfer->sent_byte_count += left;
    return (ssize_t)left;
}

/* As libcurl gives them: a line each, the status in the first. */
static int on_field(nghttp2_session *http2, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_count, const uint8_t *value, size_t value_count, uint8_t flags,
                    void *closure)
{
    static const char status[] = ":status";
    struct transfer *transfer = transfer_of(http2, frame->hd.stream_id);
    char start[LINE_BYTE_COUNT_MAX];
    int count;
    if (!transfer)
        return 0;
    if (name_count == sizeof(status) - 1 && memcmp(name, status, name_count) == 0) {
        /* nghttp2 has seen that it is three digits. */
        transfer->status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + value[2] - '0';
        /* After "103 Early Hints" comes the answer that counts. */
        transfer->headers.count = 0;
        count = snprintf(start, sizeof(start), "HTTP/2 %ld \r\n", transfer->status);
        if (transfer_add_header(transfer, start, (size_t)count) == 0)
            return 0;
    } else if (name_count <= sizeof(start) - 3 && value_count <= HEADER_BYTE_COUNT_MAX) {
        memcpy(start, name, name_count);
        memcpy(start + name_count, ": ", 2);
        if (transfer_add_header(transfer, start, name_count + 2) == 0 &&
            transfer_add_header(transfer, (const char *)value, value_count) == 0 &&
            transfer_add_header(transfer, "\r\n", 2) == 0)
            return 0;
    }
    transfer->error = CURLE_WRITE_ERROR;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_body(nghttp2_session *http2, uint8_t flags, int32_t stream, const uint8_t *bytes,
                   size_t count, void *closure)
{
    struct transfer *transfer = transfer_of(http2, stream);
    if (!transfer || transfer->is_cut || transfer->error != CURLE_OK)
        return 0;
    if (transfer_add_body(transfer, (const char *)bytes, count) == count)
        return 0;
    if (!transfer->is_cut)
        transfer->error = CURLE_OUT_OF_MEMORY;
    return nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
}

static int on_frame(nghttp2_session *http2, const nghttp2_frame *frame, void *closure)
{
    struct session *session = closure;
    struct transfer *transfer;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        session->is_draining = 1;
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
        session->is_settled = 1;
        if (session_limit(session) > 0)
            session->origin->stream_count_max = session_limit(session);
    }
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    transfer = transfer_of(http2, frame->hd.stream_id);
    if (transfer)
        transfer->is_answered = 1;
    return 0;
}

static int on_closed(nghttp2_session *http2, int32_t stream, uint32_t code, void *closure)
{
    struct transfer *transfer = transfer_of(http2, stream);
    if (!transfer)
        return 0;
    if (transfer->error == CURLE_OK && !transfer->is_answered && !transfer->is_cut) {
        transfer->error = code == NGHTTP2_REFUSED_STREAM ? CURLE_GOT_NOTHING : CURLE_HTTP2_STREAM;
        /* Nothing was acted upon (RFC 9113, 8.7): it may go out again, but where an answer had begun. */
        if (code == NGHTTP2_REFUSED_STREAM && transfer->status == 0)
            transfer->is_on_wire = transfer->is_sent = 0;
        snprintf(transfer->message, sizeof(transfer->message), "HTTP/2 stream ended by %s",
                 nghttp2_http2_strerror(code));
    }
    session_hears(transfer);
    return 0;
}

nghttp2_session *http2_new(struct session *session)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_BYTE_COUNT_MAX},
    };
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *http2 = NULL;
    nghttp2_option *option;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    if (nghttp2_option_new(&option) != 0) {
        nghttp2_session_callbacks_del(callbacks);
        return NULL;
    }
    /* A blank behind a value is no reason to lose an answer; libcurl takes it, too. */
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, on_sends_frame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_body);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
    if (nghttp2_session_client_new2(&http2, callbacks, session, option) == 0 &&
        (nghttp2_submit_settings(http2, NGHTTP2_FLAG_NONE, settings,
                                 sizeof(settings) / sizeof(settings[0])) != 0 ||
         nghttp2_session_set_local_window_size(http2, NGHTTP2_FLAG_NONE, 0, SESSION_WINDOW) != 0)) {
        nghttp2_session_del(http2);
        http2 = NULL;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return http2;
}

/* nghttp2 copies them, names in lower case. */
static nghttp2_nv field(const char *name, size_t name_count, const char *value, size_t value_count)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = name_count,
                        .valuelen = value_count};
}

#define NAMED(name, value, value_count) field(name, sizeof(name) - 1, value, value_count)

static int is_named(const nghttp2_nv *field, const char *name)
{
    return field->namelen == strlen(name) &&
           strncasecmp((const char *)field->name, name, field->namelen) == 0;
}

/*
 * The lines of libcurl's list as fields: "Name: value", or "Name;" for one without a value; "Name:"
 * only keeps libcurl from adding one.  -1 where there are too many.
 */
static int add_lines(nghttp2_nv *fields, size_t *count, const struct curl_slist *lines, int *accepts)
{
    for (; lines; lines = lines->next) {
        const char *line = lines->data;
        size_t name_count = strcspn(line, ":;");
        const char *value = line + name_count + (line[name_count] != 0);
        value += strspn(value, " ");
        if (!*value && line[name_count] != ';')
            continue;
        if (*count == FIELD_COUNT_MAX)
            return -1;
        fields[*count] = field(line, name_count, value, strlen(value));
        *accepts |= is_named(&fields[(*count)++], "accept");
    }
    return 0;
}

/* -1 where memory is out, nghttp2 takes no more, or there are more headers than we allow. */
int http2_submit(struct session *session, struct transfer *transfer)
{
    nghttp2_data_provider body = {.read_callback = on_body_wanted};
    nghttp2_nv fields[FIELD_COUNT_MAX + FIELD_COUNT_OWN];
    const char *authority = session->origin->authority;
    size_t authority_count = session->origin->named_byte_count;
    const char *path = transfer->url + sizeof("https://") - 1 + strlen(authority);
    size_t path_count = strcspn(path, "#"), count = 0, body_count = transfer->request_body_byte_count;
    int accepts = 0, number_count;
    char number[24];
    int is_bare = body_count == 0 && (strcmp(transfer->method, "GET") == 0 ||
                                      strcmp(transfer->method, "HEAD") == 0 ||
                                      strcmp(transfer->method, "DELETE") == 0);
    fields[count++] = NAMED(":method", transfer->method, strlen(transfer->method));
    fields[count++] = NAMED(":scheme", "https", 5);
    fields[count++] = NAMED(":authority", authority, authority_count);
    fields[count++] = NAMED(":path", path_count ? path : "/", path_count ? path_count : 1);
    fields[count++] =
        NAMED("user-agent", session->client->user_agent, strlen(session->client->user_agent));
    if (add_lines(fields, &count, transfer->header_lines, &accepts) != 0)
        return -1;
    if (!accepts)
        fields[count++] = NAMED("accept", "*/*", 3);
    if (!is_bare) {
        number_count = snprintf(number, sizeof(number), "%zu", body_count);
        fields[count++] = NAMED("content-length", number, (size_t)number_count);
    }
    transfer->is_on_wire = transfer->is_answered = 0;
    transfer->sent_byte_count = 0;
    transfer->stream = nghttp2_submit_request(session->http2, NULL, fields, count,
                                              body_count > 0 ? &body : NULL, transfer);
    if (transfer->stream <= 0)
        return -1;
    session->stream_count++;
    return 0;
}
