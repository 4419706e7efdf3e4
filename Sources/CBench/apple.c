/* The bare Apple: accepts every report, over HTTP/2 or HTTP/1.1, and notes whose it was. */
#define _GNU_SOURCE /* accept4, memmem */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENT_MAX = 64,
    BACKLOG = 128,
    LOOK_EVERY_MS = 100,
    INPUT_MAX = 1 << 17,
    /* A report has some 200 bytes; a stream's number picks its slot, and libcurl has 100 open. */
    BODY_MAX = 2048,
    SLOT_COUNT = 1024,
    UUID_COUNT = 36,
    ANSWER_MAX = 256,
};

/* HTTP/2, RFC 9113: types of frames, flags, and what is said first. */
enum { DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6, WINDOW_UPDATE = 8, CONTINUATION = 9 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4, PADDED = 8, FRAME_HEAD = 9 };
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_COUNT = sizeof preface - 1, WINDOW = 1 << 30, WINDOW_AGAIN = 1 << 20 };

struct stream {
    uint32_t id;
    size_t body_count;
    char body[BODY_MAX];
};

struct peer {
    int fd;
    SSL *ssl; /* NULL: plain */
    bool is_ready, is_http2, has_preface;
    uint8_t input[INPUT_MAX];
    size_t input_count;
    uint8_t *output;
    size_t output_count, output_capacity;
    size_t taken_count; /* of DATA since the window was opened again */
    struct stream streams[SLOT_COUNT];
};

struct apple {
    SSL_CTX *tls;
    FILE *arrivals;
    int epoll, listener;
};

static volatile sig_atomic_t is_ending;

static void on_signal(int number)
{
    (void)number;
    is_ending = 1;
}

/* -- Answers ------------------------------------------------------------------------------------ */

static void put(struct peer *peer, const void *bytes, size_t count)
{
    if (peer->output_capacity - peer->output_count < count) {
        peer->output_capacity = (peer->output_count + count) * 2;
        peer->output = realloc(peer->output, peer->output_capacity);
        if (!peer->output)
            abort();
    }
    memcpy(peer->output + peer->output_count, bytes, count);
    peer->output_count += count;
}

static void put_frame(struct peer *peer, int type, int flags, uint32_t stream, const void *payload,
                      size_t count)
{
    const uint8_t head[FRAME_HEAD] = {
        (uint8_t)(count >> 16),  (uint8_t)(count >> 8),   (uint8_t)count,
        (uint8_t)type,           (uint8_t)flags,          (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),  (uint8_t)stream};
    put(peer, head, sizeof head);
    put(peer, payload, count);
}

static void open_window(struct peer *peer, uint32_t count)
{
    const uint8_t bytes[4] = {(uint8_t)(count >> 24), (uint8_t)(count >> 16), (uint8_t)(count >> 8),
                              (uint8_t)count};
    put_frame(peer, WINDOW_UPDATE, 0, 0, bytes, sizeof bytes);
}

/* The text of a member of the body; NULL where there is none. */
static const char *member(const char *body, size_t count, const char *head, size_t *text_count)
{
    const char *at = memmem(body, count, head, strlen(head));
    if (!at)
        return NULL;
    at += strlen(head);
    const char *end = memchr(at, '"', count - (size_t)(at - body));
    *text_count = end ? (size_t)(end - at) : 0;
    return end ? at : NULL;
}

/* Notes whose report it is, and writes what Apple answers to one that it takes; 0: it is none. */
static size_t accept_report(struct apple *apple, const char *body, size_t count, char *answer)
{
    size_t token_count, identifier_count;
    const char *token = member(body, count, "\"externalPurchaseId\":\"", &token_count);
    const char *identifier = member(body, count, "\"requestIdentifier\":\"", &identifier_count);
    if (!token || !identifier || identifier_count != UUID_COUNT)
        return 0;
    fwrite(token, 1, token_count, apple->arrivals);
    fputc('\n', apple->arrivals);
    return (size_t)snprintf(answer, ANSWER_MAX, "{\"requestIdentifier\":\"%.*s\"}", UUID_COUNT,
                            identifier);
}

/* -- HTTP/2: a request is known by its body, so no header of it is ever decoded -------------------- */

static void answer_stream(struct apple *apple, struct peer *peer, struct stream *stream)
{
    /* HPACK, RFC 7541: `:status` 200 and 404 by index, `content-type` literal. */
    static const char accepted[] = "\x88\x0f\x10\x10" "application/json";
    static const char refused[] = "\x8d";
    char answer[ANSWER_MAX];
    size_t count = accept_report(apple, stream->body, stream->body_count, answer);
    if (count > 0) {
        put_frame(peer, HEADERS, END_HEADERS, stream->id, accepted, sizeof accepted - 1);
        /* Not slowed by flow control: libcurl opens windows of megabytes, and these are small. */
        put_frame(peer, DATA, END_STREAM, stream->id, answer, count);
    } else {
        put_frame(peer, HEADERS, END_HEADERS | END_STREAM, stream->id, refused, 1);
    }
    stream->body_count = 0;
}

static void take_frame(struct apple *apple, struct peer *peer, const uint8_t *frame, size_t count)
{
    const uint8_t *payload = frame + FRAME_HEAD;
    int type = frame[3], flags = frame[4];
    uint32_t id = ((uint32_t)frame[5] << 24 | (uint32_t)frame[6] << 16 | (uint32_t)frame[7] << 8 |
                   frame[8]) & 0x7fffffff;
    struct stream *stream = &peer->streams[id / 2 % SLOT_COUNT];
    if (type == SETTINGS && !(flags & ACK))
        put_frame(peer, SETTINGS, ACK, 0, "", 0);
    else if (type == PING && !(flags & ACK))
        put_frame(peer, PING, ACK, 0, payload, count);
    if (type != DATA && type != HEADERS)
        return;
    if (stream->id != id) {
        stream->id = id;
        stream->body_count = 0;
    }
    if (type == DATA) {
        size_t body_count = flags & PADDED ? 0 : count;
        if (body_count <= BODY_MAX - stream->body_count) {
            memcpy(stream->body + stream->body_count, payload, body_count);
            stream->body_count += body_count;
        }
        peer->taken_count += count;
        if (peer->taken_count >= WINDOW_AGAIN) {
            open_window(peer, (uint32_t)peer->taken_count);
            peer->taken_count = 0;
        }
    }
    if (flags & END_STREAM)
        answer_stream(apple, peer, stream);
}

/* Returns how much of the input is done with. */
static size_t take_frames(struct apple *apple, struct peer *peer)
{
    size_t at = 0;
    if (!peer->has_preface) {
        if (peer->input_count < PREFACE_COUNT || memcmp(peer->input, preface, PREFACE_COUNT) != 0)
            return 0;
        peer->has_preface = true;
        at = PREFACE_COUNT;
        put_frame(peer, SETTINGS, 0, 0, "", 0);
        open_window(peer, WINDOW);
    }
    while (peer->input_count - at >= FRAME_HEAD) {
        const uint8_t *frame = peer->input + at;
        size_t count = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        if (peer->input_count - at < FRAME_HEAD + count)
            break;
        take_frame(apple, peer, frame, count);
        at += FRAME_HEAD + count;
    }
    return at;
}

/* -- HTTP/1.1 ------------------------------------------------------------------------------------- */

static size_t take_requests(struct apple *apple, struct peer *peer)
{
    size_t at = 0;
    for (;;) {
        const char *start = (const char *)peer->input + at;
        size_t left = peer->input_count - at;
        const char *end = memmem(start, left, "\r\n\r\n", 4);
        if (!end)
            return at;
        size_t head_count = (size_t)(end + 4 - start);
        const char *length = memmem(start, head_count, "Content-Length: ", 16);
        size_t body_count = length ? strtoul(length + 16, NULL, 10) : 0;
        if (left - head_count < body_count)
            return at;
        char answer[ANSWER_MAX], head[ANSWER_MAX];
        size_t count = accept_report(apple, start + head_count, body_count, answer);
        int written = snprintf(head, sizeof head,
                               "HTTP/1.1 %s\r\nContent-Type: application/json\r\n"
                               "Content-Length: %zu\r\n\r\n",
                               count > 0 ? "200 OK" : "404 Not Found", count);
        put(peer, head, (size_t)written);
        put(peer, answer, count);
        at += head_count + body_count;
    }
}

/* -- Connections ---------------------------------------------------------------------------------- */

static void close_peer(struct peer *peer)
{
    SSL_free(peer->ssl);
    close(peer->fd);
    free(peer->output);
    free(peer);
}

/* Sends all of it: the client reads while it writes, so the wait ends. */
static bool send_output(struct peer *peer)
{
    size_t sent = 0;
    while (sent < peer->output_count) {
        const uint8_t *from = peer->output + sent;
        size_t left = peer->output_count - sent;
        ssize_t count = peer->ssl ? SSL_write(peer->ssl, from, (int)left)
                                  : send(peer->fd, from, left, MSG_NOSIGNAL);
        if (count > 0) {
            sent += (size_t)count;
            continue;
        }
        bool is_full = peer->ssl ? SSL_get_error(peer->ssl, (int)count) == SSL_ERROR_WANT_WRITE
                                 : errno == EAGAIN;
        struct pollfd wait = {.fd = peer->fd, .events = POLLOUT};
        if (!is_full || poll(&wait, 1, -1) < 0)
            return false;
    }
    peer->output_count = 0;
    return true;
}

/* 1: there is more to be asked for, 0: nothing now, -1: the connection is over. */
static int read_input(struct peer *peer)
{
    uint8_t *into = peer->input + peer->input_count;
    size_t room = INPUT_MAX - peer->input_count;
    ssize_t count = peer->ssl ? SSL_read(peer->ssl, into, (int)room) : recv(peer->fd, into, room, 0);
    if (count > 0) {
        peer->input_count += (size_t)count;
        return 1;
    }
    bool is_empty = peer->ssl ? SSL_get_error(peer->ssl, (int)count) == SSL_ERROR_WANT_READ
                              : count < 0 && errno == EAGAIN;
    return is_empty ? 0 : -1;
}

/* Whether the connection goes on. */
static bool serve(struct apple *apple, struct peer *peer)
{
    if (peer->ssl && !peer->is_ready) {
        int result = SSL_accept(peer->ssl);
        if (result != 1)
            return SSL_get_error(peer->ssl, result) == SSL_ERROR_WANT_READ;
        const unsigned char *protocol;
        unsigned count;
        SSL_get0_alpn_selected(peer->ssl, &protocol, &count);
        peer->is_ready = true;
        peer->is_http2 = count == 2;
    }
    int result;
    while ((result = read_input(peer)) > 0) {
        size_t done = peer->is_http2 ? take_frames(apple, peer) : take_requests(apple, peer);
        peer->input_count -= done;
        memmove(peer->input, peer->input + done, peer->input_count);
        if (peer->input_count == INPUT_MAX)
            return false;
    }
    return result == 0 && send_output(peer);
}

static void accept_peer(struct apple *apple)
{
    int one = 1, fd = accept4(apple->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct peer *peer = bench_take_memory(sizeof *peer);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    peer->fd = fd;
    if (apple->tls) {
        peer->ssl = SSL_new(apple->tls);
        SSL_set_fd(peer->ssl, fd);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    epoll_ctl(apple->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int listen_locally(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t count = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0 || getsockname(fd, (struct sockaddr *)&address, &count) != 0)
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

int cbench_apple_run(const cbench_apple *options, int port_fd, char *message, size_t message_size)
{
    struct apple apple = {0};
    struct sigaction action = {.sa_handler = on_signal};
    uint16_t port = 0;
    char text[16];
    sigaction(SIGTERM, &action, NULL);
    apple.arrivals = fopen(options->arrivals, "w");
    if (!apple.arrivals)
        return bench_fail(message, message_size, options->arrivals, strerror(errno));
    if (*options->certificate && !(apple.tls = bench_open_tls(options->certificate)))
        return bench_fail(message, message_size, options->certificate, "TLS cannot be set up");
    apple.listener = listen_locally(&port);
    apple.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &apple};
    if (apple.listener < 0 || epoll_ctl(apple.epoll, EPOLL_CTL_ADD, apple.listener, &event) != 0)
        return bench_fail(message, message_size, "listening", strerror(errno));
    int count = snprintf(text, sizeof text, "%u\n", port);
    if (write(port_fd, text, (size_t)count) != count)
        return bench_fail(message, message_size, "the port", "nobody reads it");
    while (!is_ending) {
        struct epoll_event events[EVENT_MAX];
        int ready = epoll_wait(apple.epoll, events, EVENT_MAX, LOOK_EVERY_MS);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr == &apple)
                accept_peer(&apple);
            else if (!serve(&apple, events[i].data.ptr))
                close_peer(events[i].data.ptr);
        }
    }
    return fclose(apple.arrivals) == 0
               ? 0
               : bench_fail(message, message_size, options->arrivals, strerror(errno));
}
