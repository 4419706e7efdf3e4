/* How a session is opened: libcurl connects, and the peer chooses the protocol. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static pthread_once_t index_once = PTHREAD_ONCE_INIT;
static int session_index = -1;

static void take_index(void)
{
    session_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

static void on_tls_event(const SSL *tls, int where, int result)
{
    const unsigned char *chosen;
    unsigned int count;
    struct session *session;
    if (!(where & SSL_CB_HANDSHAKE_DONE))
        return;
    session = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), session_index);
    SSL_get0_alpn_selected(tls, &chosen, &count);
    session->is_http2 = count == 2 && memcmp(chosen, "h2", 2) == 0;
}

/* libcurl would speak HTTP/2 itself, had it been asked to offer it. */
static CURLcode on_tls_made(CURL *easy, void *made, void *closure)
{
    static const unsigned char offered[] = "\x02h2\x08http/1.1";
    SSL_CTX *tls = made;
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_info_callback(tls, on_tls_event);
    return SSL_CTX_set_ex_data(tls, session_index, closure) == 1 &&
                   SSL_CTX_set_alpn_protos(tls, offered, sizeof(offered) - 1) == 0
               ? CURLE_OK
               : CURLE_SSL_CONNECT_ERROR;
}

static CURLcode set_up(struct session *session, const char *url)
{
    CURL *easy = session->easy;
    SET(CURLOPT_URL, url);
    SET(CURLOPT_CONNECT_ONLY, 1L);
    SET(CURLOPT_FRESH_CONNECT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_SSL_ENABLE_ALPN, 0L);
    SET(CURLOPT_SSL_CTX_FUNCTION, on_tls_made);
    SET(CURLOPT_SSL_CTX_DATA, session);
    SET(CURLOPT_ERRORBUFFER, session->message);
    SET(CURLOPT_NOPROXY, "*");
    return set_connection(easy, session->client);
}

/* NULL where there are too many, or libcurl cannot do it: then the origin is left to libcurl. */
struct session *session_open(struct chttp_client *client, struct origin *origin)
{
    struct session *session;
    char url[512] = "https://";
    if (client->sessions.count == SESSION_COUNT_MAX)
        return NULL;
    session = calloc(1, sizeof(*session));
    if (!session)
        return NULL;
    pthread_once(&index_once, take_index);
    session->client = client;
    session->origin = origin;
    session->fd = -1;
    session->easy = curl_easy_init();
    strncat(url, origin->authority, sizeof(url) - sizeof("https://"));
    if (!session->easy || session_index < 0 || set_up(session, url) != CURLE_OK) {
        session_free(session);
        origin->is_left_to_libcurl = 1;
        return NULL;
    }
    if (curl_multi_add_handle(client->multi, session->easy) != CURLM_OK) {
        session_free(session);
        return NULL;
    }
    client->sessions.list[client->sessions.count++] = session;
    return session;
}

/* Where ${easy} opened a session, it is open now, or failed. Returns 0 where it did not. */
int session_opened(struct chttp_client *client, CURL *easy, CURLcode error, int64_t now_us)
{
    struct session *session = NULL;
    struct epoll_event event = {.events = EPOLLIN};
    struct transfer *transfer, *previous;
    curl_socket_t fd = -1;
    size_t index;
    for (index = 0; index < client->sessions.count; index++)
        if (client->sessions.list[index]->easy == easy)
            session = client->sessions.list[index];
    if (!session)
        return 0;
    /* As long as the next one may take to fail, for which requests would wait in vain. */
    session->origin->narrow_until_us =
        error == CURLE_OK ? 0 : now_us + (int64_t)client->options.connect_timeout_ms * 1000;
    if (error != CURLE_OK) {
        /* Requests that wait on another connection until then are not told of it otherwise. */
        sessions_look_at(client, session->origin->narrow_until_us);
        session_end(session, error, session->message);
        return 1;
    }
    if (session->is_http2)
        session->http2 = http2_new(session);
    if (!session->http2) {
        /* It speaks HTTP/1.1, and libcurl has its requests from now on. */
        session->origin->is_left_to_libcurl = 1;
        session_forget(session);
        for (transfer = client->active.last; transfer; transfer = previous) {
            previous = transfer->previous;
            if (transfer->session == session)
                session_start_again(transfer);
        }
        session_free(session);
        return 1;
    }
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    session->fd = event.data.fd = fd;
    if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        session->fd = -1;
        session_end(session, CURLE_OUT_OF_MEMORY, NULL);
        return 1;
    }
    /* Requests go out once the peer has said how many it takes, which it says first. */
    session->has_more = 1;
    return 1;
}
