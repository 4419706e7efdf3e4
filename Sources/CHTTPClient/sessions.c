/* Which session a request goes over, and when a session ends. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* -- Ending ------------------------------------------------------------------------------------- */

void session_free(struct session *session)
{
    if (session->http2)
        nghttp2_session_del(session->http2);
    if (session->easy) {
        /* Closes the connection, too. */
        curl_multi_remove_handle(session->client->multi, session->easy);
        curl_easy_cleanup(session->easy);
    }
    free(session);
}

static void leave(struct transfer *transfer)
{
    struct session *session = transfer->session;
    session->transfer_count--;
    session->stream_count -= transfer->stream > 0;
    session->idle_since_us = 0;
    transfer->session = NULL;
    transfer->stream = 0;
}

/* Of a transfer that is under way: its result is there. */
void session_conclude(struct transfer *transfer)
{
    struct chttp_client *client = transfer->session->client;
    transfer->http_version = CURL_HTTP_VERSION_2_0;
    leave(transfer);
    take_out(&client->active, transfer);
    put_last(&client->ended, transfer);
}

void session_start_again(struct transfer *transfer)
{
    struct chttp_client *client = transfer->session->client;
    leave(transfer);
    take_out(&client->active, transfer);
    put_first(&client->waiting, transfer);
}

/* What nghttp2 has of it; what may have been sent stays sent. */
static void end_stream(const struct transfer *transfer)
{
    nghttp2_session *http2 = transfer->session->http2;
    if (transfer->stream == 0)
        return;
    nghttp2_session_set_stream_user_data(http2, transfer->stream, NULL);
    nghttp2_submit_rst_stream(http2, NGHTTP2_FLAG_NONE, transfer->stream, NGHTTP2_CANCEL);
}

/* The caller wants no result. */
void session_give_up(struct transfer *transfer)
{
    end_stream(transfer);
    leave(transfer);
}

/* Its stream has ended. What never went out may go out again; what did is for the caller to judge. */
void session_hears(struct transfer *transfer)
{
    if (!transfer->is_on_wire && transfer->attempt_count < ATTEMPT_COUNT_MAX) {
        transfer->error = CURLE_OK;
        transfer->message[0] = 0;
        session_start_again(transfer);
        return;
    }
    if (transfer->error == CURLE_OK)
        transfer->session->answer_count++;
    session_conclude(transfer);
}

/* How many streams the peer takes there at a time. */
size_t session_limit(const struct session *session)
{
    return session->is_settled
               ? nghttp2_session_get_remote_settings(session->http2,
                                                     NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
               : session->origin->stream_count_max;
}

/* A connection that carried something before it ended is no vain attempt. */
static int may_start_again(struct transfer *transfer)
{
    const struct session *session = transfer->session;
    if (session->is_draining && transfer->stream == 0 &&
        (session->answer_count > 0 || session->stream_count > 0))
        transfer->attempt_count = 0;
    return transfer->attempt_count < ATTEMPT_COUNT_MAX;
}

/* Whether there is another connection to the host, or one whose peer is known to take requests. */
static int has_other(const struct session *session, int takes_requests)
{
    const struct sessions *sessions = &session->client->sessions;
    size_t index;
    for (index = 0; index < sessions->count; index++) {
        const struct session *other = sessions->list[index];
        if (other->origin == session->origin && other->http2 && !other->is_draining &&
            (!takes_requests || (other->is_settled && session_limit(other) > 0)))
            return 1;
    }
    return 0;
}

void session_forget(struct session *session)
{
    struct sessions *sessions = &session->client->sessions;
    size_t index;
    for (index = 0; index < sessions->count; index++)
        if (sessions->list[index] == session)
            sessions->list[index] = sessions->list[--sessions->count];
    if (session->fd >= 0)
        epoll_ctl(session->client->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
}

/* ${error} is that of its requests, but of those that may start again. */
void session_end(struct session *session, CURLcode error, const char *message)
{
    struct transfer *transfer, *previous;
    session_forget(session);
    session->is_draining = 1;
    /* From the last one: each that starts again goes before those behind it. */
    for (transfer = session->client->active.last; transfer; transfer = previous) {
        previous = transfer->previous;
        if (transfer->session != session)
            continue;
        if ((session->http2 || has_other(session, 0)) && !transfer->is_on_wire &&
            may_start_again(transfer)) {
            session_start_again(transfer);
            continue;
        }
        transfer->error = error;
        if (message && *message)
            strncpy(transfer->message, message, sizeof(transfer->message) - 1);
        session_conclude(transfer);
    }
    session_free(session);
}

/* -- Requests ----------------------------------------------------------------------------------- */

static const char scheme[] = "https://";

/* Whether ${url} begins with https, a host and perhaps a port, and a plain path: the byte count. */
static size_t authority_count_of(const char *url)
{
    size_t count;
    const char *path;
    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0)
        return 0;
    url += sizeof(scheme) - 1;
    count = strcspn(url, "/?#");
    path = url + count;
    if (count == 0 || count > 300 || memchr(url, '@', count) || (*path && *path != '/') ||
        strstr(path, "/.") || strchr(path, '#'))
        return 0;
    for (; *url; url++)
        if (*url <= ' ' || *url > '~' || *url == '\\')
            return 0;
    return count;
}

static int is_at(const struct origin *origin, const char *url, size_t authority_count)
{
    return strlen(origin->authority) == authority_count &&
           memcmp(origin->authority, url + sizeof(scheme) - 1, authority_count) == 0;
}

static int has_proxy(void)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    size_t index;
    for (index = 0; index < sizeof(names) / sizeof(names[0]); index++) {
        const char *value = getenv(names[index]);
        if (value && *value)
            return 1;
    }
    return 0;
}

/* NULL where libcurl is to have the request: there is no place, or the URL is not plain. */
static struct origin *origin_of(struct chttp_client *client, const char *url)
{
    struct sessions *sessions = &client->sessions;
    size_t index, count = authority_count_of(url);
    const char *authority = url + sizeof(scheme) - 1;
    struct origin *origin;
    if (count == 0)
        return NULL;
    for (index = 0; index < sessions->origin_count; index++) {
        origin = &sessions->origins[index];
        if (is_at(origin, url, count))
            return origin;
    }
    if (index == ORIGIN_COUNT_MAX)
        return NULL;
    origin = &sessions->origins[index];
    origin->authority = strndup(authority, count);
    if (!origin->authority)
        return NULL;
    sessions->origin_count++;
    origin->stream_count_max = STREAM_COUNT_ASSUMED;
    origin->named_byte_count =
        count > 4 && memcmp(authority + count - 4, ":443", 4) == 0 ? count - 4 : count;
    /* What proxies there are, and for which hosts, libcurl knows best. */
    origin->is_left_to_libcurl = has_proxy() && !is_loopback(url);
    return origin;
}

/* Whether there is, and will be, no session to the host of ${url}, as far as is known. */
int sessions_are_none(const struct chttp_client *client, const char *url)
{
    const struct sessions *sessions = &client->sessions;
    size_t index, count = authority_count_of(url);
    for (index = 0; index < sessions->count && count > 0; index++)
        if (is_at(sessions->list[index]->origin, url, count))
            return 0;
    return count > 0;
}

static int is_stale(const struct session *session, int64_t now_us)
{
    return session->http2 &&
           (!nghttp2_session_check_request_allowed(session->http2) ||
            (session->transfer_count == 0 && session->idle_since_us != 0 &&
             now_us - session->idle_since_us > (int64_t)IDLE_SECONDS_MAX * 1000000));
}

/* 3: has room now; 2: will, once it is open; 1: will have; 0: takes none. */
static int rank(const struct session *session)
{
    size_t max = session_limit(session);
    return session->transfer_count < max ? 2 + session->is_settled : max > 0;
}

/* That with the fewest requests; another one where that has as many as the peer takes, or takes none. */
static struct session *session_for(struct chttp_client *client, struct origin *origin,
                                   int64_t now_us)
{
    struct sessions *sessions = &client->sessions;
    struct session *best = NULL, *opened = NULL;
    size_t index;
    for (index = 0; index < sessions->count; index++) {
        struct session *session = sessions->list[index];
        if (session->origin != origin)
            continue;
        session->is_draining |= is_stale(session, now_us);
        if (!session->is_draining && (!best || rank(session) > rank(best) ||
                                      (rank(session) == rank(best) &&
                                       session->transfer_count < best->transfer_count)))
            best = session;
    }
    if (!best ||
        (rank(best) < 2 && (rank(best) == 0 || now_us >= origin->narrow_until_us) &&
         sessions->count < SESSION_COUNT_SPREAD))
        opened = session_open(client, origin);
    return opened ? opened : best;
}

/* Has the client woken then at the latest. */
void sessions_look_at(struct chttp_client *client, int64_t due_us)
{
    if (client->sessions.due_us == 0 || due_us < client->sessions.due_us)
        client->sessions.due_us = due_us;
}

/* Takes a transfer that is among the active. Returns 0 where libcurl is to have it. */
int sessions_start(struct chttp_client *client, struct transfer *transfer, int64_t now_us)
{
    struct origin *origin = origin_of(client, transfer->url);
    struct session *session =
        origin && !origin->is_left_to_libcurl ? session_for(client, origin, now_us) : NULL;
    if (!session)
        return 0;
    transfer->session = session;
    transfer->stream = 0;
    transfer->is_on_wire = 0;
    transfer->attempt_count++;
    session->transfer_count++;
    if (transfer->due_us == 0)
        transfer->due_us = now_us + (int64_t)client->options.total_timeout_ms * 1000;
    sessions_look_at(client, transfer->due_us);
    return 1;
}

/*
 * Hands nghttp2 as many as the peer takes.  The others stay, but where the connection takes none of
 * them, or others can be opened: then they start again.
 */
void session_submit_held(struct session *session, int64_t now_us)
{
    struct chttp_client *client = session->client;
    struct transfer *transfer, *next;
    size_t max = session_limit(session);
    int is_spread = session->transfer_count > max &&
                    (max == 0 || (now_us >= session->origin->narrow_until_us &&
                                  client->sessions.count < SESSION_COUNT_SPREAD));
    if (session->transfer_count == session->stream_count ||
        (!session->is_settled && !session->is_draining))
        return;
    for (transfer = client->active.first; transfer; transfer = next) {
        next = transfer->next;
        if (transfer->session != session || transfer->stream > 0 || session->is_draining ||
            session->stream_count >= max || http2_submit(session, transfer) == 0)
            continue;
        transfer->error = CURLE_OUT_OF_MEMORY;
        session_conclude(transfer);
    }
    for (transfer = client->active.last; transfer; transfer = next) {
        next = transfer->previous;
        if (transfer->session != session || transfer->stream > 0 ||
            !(session->is_draining || is_spread))
            continue;
        if (may_start_again(transfer) || (max == 0 && !session->is_draining && has_other(session, 1))) {
            session_start_again(transfer);
        } else if (session->is_draining) {
            transfer->error = CURLE_GOT_NOTHING;
            session_conclude(transfer);
        }
    }
}

/*
 * Where the time of a request is over and its connection gave no answer to any since it was sent, or took
 * none to the end of that time, the connection is dead: with all that is on it.
 */
void sessions_end_late(struct chttp_client *client, int64_t now_us)
{
    struct transfer *transfer, *next;
    struct session *dead[SESSION_COUNT_MAX];
    size_t dead_count = 0, index;
    if (client->sessions.due_us == 0 || now_us < client->sessions.due_us)
        return;
    client->sessions.due_us = 0;
    for (index = 0; index < client->sessions.origin_count; index++)
        if (client->sessions.origins[index].narrow_until_us > now_us)
            sessions_look_at(client, client->sessions.origins[index].narrow_until_us);
    for (transfer = client->active.first; transfer; transfer = next) {
        struct session *session = transfer->session;
        next = transfer->next;
        if (!session)
            continue;
        if (transfer->due_us > now_us) {
            sessions_look_at(client, transfer->due_us);
            continue;
        }
        if (session->http2 && (transfer->is_on_wire
                                   ? transfer->answer_count == session->answer_count
                                   : session->stream_count == 0)) {
            for (index = 0; index < dead_count && dead[index] != session; index++)
                ;
            if (index == dead_count)
                dead[dead_count++] = session;
        }
        end_stream(transfer);
        transfer->error = CURLE_OPERATION_TIMEDOUT;
        session_conclude(transfer);
    }
    for (index = 0; index < dead_count; index++)
        session_end(dead[index], CURLE_GOT_NOTHING, NULL);
}

void sessions_close(struct chttp_client *client)
{
    struct sessions *sessions = &client->sessions;
    size_t index;
    while (sessions->count > 0)
        session_free(sessions->list[--sessions->count]);
    for (index = 0; index < sessions->origin_count; index++)
        free(sessions->origins[index].authority);
}
