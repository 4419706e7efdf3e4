/* The bytes of the sessions: what has come is read, and what is to be sent is written. */
#include "internal.h"

#include <string.h>
#include <sys/epoll.h>

static void watch(struct session *session, int is_write_watched)
{
    struct epoll_event event = {.events = EPOLLIN | (is_write_watched ? EPOLLOUT : 0),
                                .data.fd = session->fd};
    if (session->is_write_watched == is_write_watched)
        return;
    epoll_ctl(session->client->epoll_fd, EPOLL_CTL_MOD, session->fd, &event);
    session->is_write_watched = is_write_watched;
}

/* Frames until there are none, or no more fit; -1 where nghttp2 fails. */
static int gather(struct session *session)
{
    session->output_start = session->output_end = 0;
    while (sizeof(session->output) - session->output_end >= FRAME_BYTE_COUNT_MAX) {
        const uint8_t *bytes;
        ssize_t count = nghttp2_session_mem_send(session->http2, &bytes);
        if (count == 0)
            break;
        if (count < 0 || (size_t)count > sizeof(session->output) - session->output_end)
            return -1;
        memcpy(session->output + session->output_end, bytes, (size_t)count);
        session->output_end += (size_t)count;
    }
    return 0;
}

static CURLcode write_all(struct session *session)
{
    for (;;) {
        size_t count = 0;
        CURLcode error;
        if (session->output_start == session->output_end && gather(session) != 0)
            return CURLE_HTTP2;
        if (session->output_end == 0)
            break;
        error = curl_easy_send(session->easy, session->output + session->output_start,
                               session->output_end - session->output_start, &count);
        if (error == CURLE_AGAIN) {
            watch(session, 1);
            return CURLE_OK;
        }
        if (error != CURLE_OK)
            return error;
        session->output_start += count;
    }
    watch(session, 0);
    return CURLE_OK;
}

static CURLcode read_all(struct session *session)
{
    uint8_t input[INPUT_BYTE_COUNT];
    int index;
    session->has_more = 0;
    for (index = 0; index < READ_COUNT_MAX; index++) {
        size_t count = 0;
        CURLcode error = curl_easy_recv(session->easy, input, sizeof(input), &count);
        if (error == CURLE_AGAIN)
            return CURLE_OK;
        if (error != CURLE_OK)
            return error;
        if (count == 0)
            return CURLE_GOT_NOTHING;
        if (nghttp2_session_mem_recv(session->http2, input, count) < 0)
            return CURLE_HTTP2;
    }
    session->has_more = 1;
    return CURLE_OK;
}

/* Reads, writes, and ends it where it is over. */
static void move(struct session *session, int reads, int64_t now_us)
{
    CURLcode error = CURLE_OK;
    session->message[0] = 0;
    if (reads)
        error = read_all(session);
    if (error == CURLE_OK) {
        session_submit_held(session, now_us);
        error = write_all(session);
        /* What the peer said before it closed counts. */
        if (error != CURLE_OK)
            read_all(session);
    }
    if (error == CURLE_OK && !nghttp2_session_want_read(session->http2) &&
        !nghttp2_session_want_write(session->http2))
        error = CURLE_HTTP2;
    if (error != CURLE_OK) {
        session_end(session, error, session->message);
        return;
    }
    /* A stream that ended by what was written has made room for another. */
    if (session->is_settled && session->stream_count < session->transfer_count &&
        session->stream_count < session_limit(session))
        session->has_more = 1;
    if (session->is_draining && session->transfer_count == 0)
        session_end(session, CURLE_GOT_NOTHING, NULL);
    else if (session->transfer_count == 0 && session->idle_since_us == 0)
        session->idle_since_us = now_us;
}

/* Notes that the descriptor of a session is ready. Returns 0 where it is none. */
int session_ready(struct chttp_client *client, int fd)
{
    size_t index;
    for (index = 0; index < client->sessions.count; index++) {
        if (client->sessions.list[index]->fd != fd)
            continue;
        client->sessions.list[index]->has_more = 1;
        return 1;
    }
    return 0;
}

/* Reads what has come and writes what is to be sent. Returns whether there may be more to read. */
int sessions_move(struct chttp_client *client, int64_t now_us)
{
    struct sessions *sessions = &client->sessions;
    size_t index;
    int has_more = 0;
    /* One that ends gives its place to the last, which had its turn. */
    for (index = sessions->count; index > 0; index--) {
        struct session *session = sessions->list[index - 1];
        if (session->http2)
            move(session, session->has_more, now_us);
    }
    for (index = 0; index < sessions->count; index++)
        has_more |= sessions->list[index]->has_more;
    return has_more || (client->waiting.first && client->active.count < client->options.concurrency_max);
}
