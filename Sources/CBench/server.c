/* The bare server: libmicrohttpd in front of librdkafka, and nothing in between. */
#include "internal.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    CONNECTION_MAX = 1024,
    BACKLOG = 1024,
    WAIT_MS = 100,
    RUN_MAX = 8,
    BODY_MAX = 1 << 20,
    LINE_MAX_KEPT = 1 << 16,
    KEY_MAX = 256,
};

struct bare {
    const cbench_server *options;
    rd_kafka_t *producer;
    rd_kafka_topic_t *target;
    int receipts_fd;
    uint8_t line[LINE_MAX_KEPT];
};

struct request {
    struct MHD_Connection *connection;
    char *body;
    size_t count, capacity;
    size_t line_count;
    size_t waiting_count;
    bool is_complete, has_failed;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct request *request = message->_private;
    (void)rk;
    (void)opaque;
    if (message->err)
        request->has_failed = true;
    if (--request->waiting_count == 0)
        MHD_resume_connection(request->connection);
}

/* FNV-1a in hexadecimal digits, over and over. */
static void make_key(char *key, size_t key_count, const char *line, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uint8_t)line[i]) * 0x100000001b3;
    for (size_t i = 0; i < key_count; i++)
        key[i] = "0123456789abcdef"[hash >> i % 16 * 4 & 0xf];
}

static void produce_line(struct bare *bare, struct request *request, const char *line, size_t count)
{
    const void *value = line;
    char key[KEY_MAX];
    size_t key_count = bare->options->key_byte_count;
    size_t wanted = bare->options->record_byte_count;
    if (key_count > sizeof key)
        key_count = sizeof key;
    if (wanted > key_count)
        wanted -= key_count;
    make_key(key, key_count, line, count);
    if (wanted > count && wanted <= sizeof bare->line && count > 0) {
        for (size_t at = 0; at < wanted; at += count)
            memcpy(bare->line + at, line, wanted - at < count ? wanted - at : count);
        value = bare->line;
    }
    request->line_count++;
    if (rd_kafka_produce(bare->target, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, (void *)value,
                         wanted ? wanted : count, key_count ? key : NULL, key_count, request) == 0)
        request->waiting_count++;
    else
        request->has_failed = true;
}

static void produce_body(struct bare *bare, struct request *request)
{
    const char *at = request->body, *end = request->body + request->count;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            line_end = end;
        if (line_end > at)
            produce_line(bare, request, at, (size_t)(line_end - at));
        at = line_end + 1;
    }
}

static enum MHD_Result answer(struct request *request)
{
    char body[64];
    int count = snprintf(body, sizeof body, "{\"accepted\":%zu}", request->line_count);
    struct MHD_Response *response =
        MHD_create_response_from_buffer((size_t)count, body, MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(
        request->connection, request->has_failed ? 503 : request->line_count ? 202 : 400, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *opaque, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **context)
{
    struct bare *bare = opaque;
    struct request *request = *context;
    (void)path;
    (void)method;
    (void)version;
    if (!request) {
        request = bench_take_memory(sizeof *request);
        request->connection = connection;
        *context = request;
        return MHD_YES;
    }
    if (*data_size > 0) {
        if (request->count + *data_size > BODY_MAX)
            return MHD_NO;
        if (request->count + *data_size > request->capacity) {
            request->capacity = (request->count + *data_size) * 2;
            request->body = realloc(request->body, request->capacity);
            if (!request->body)
                abort();
        }
        memcpy(request->body + request->count, data, *data_size);
        request->count += *data_size;
        *data_size = 0;
        return MHD_YES;
    }
    if (!request->is_complete) {
        request->is_complete = true;
        produce_body(bare, request);
        if (request->waiting_count > 0) {
            MHD_suspend_connection(connection);
            return MHD_YES;
        }
    }
    return answer(request);
}

static void on_completed(void *opaque, struct MHD_Connection *connection, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct request *request = *context;
    (void)opaque;
    (void)connection;
    (void)code;
    if (!request)
        return;
    free(request->body);
    free(request);
    *context = NULL;
}

static struct MHD_Daemon *listen_locally(struct bare *bare, uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, bare,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTION_MAX,
        MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)BACKLOG, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)(64 << 10), MHD_OPTION_NOTIFY_COMPLETED, on_completed, bare, MHD_OPTION_END);
    if (daemon)
        *port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    return daemon;
}

static void turn(struct bare *bare, struct MHD_Daemon *daemon, int epoll)
{
    MHD_UNSIGNED_LONG_LONG timeout = WAIT_MS;
    struct epoll_event events[2];
    uint64_t count;
    for (int run = 0; run < RUN_MAX; run++) {
        MHD_run(daemon);
        if (MHD_get_timeout(daemon, &timeout) != MHD_YES || timeout > 0)
            break;
    }
    bool is_busy = MHD_get_timeout(daemon, &timeout) == MHD_YES && timeout == 0;
    epoll_wait(epoll, events, 2, is_busy ? 0 : WAIT_MS);
    while (read(bare->receipts_fd, &count, sizeof count) > 0) {
    }
    rd_kafka_poll(bare->producer, 0);
}

int cbench_server_run(const cbench_server *server, int port_fd, char *message,
                      size_t message_size)
{
    static const uint64_t one = 1;
    uint16_t port = 0;
    char text[16];
    struct bare *bare = bench_take_memory(sizeof *bare);
    bare->options = server;
    bare->producer = bench_open(RD_KAFKA_PRODUCER, bench_writing, bench_writing_count,
                                server->settings, on_delivery, bare, message, message_size);
    if (!bare->producer)
        return -1;
    bare->target = rd_kafka_topic_new(bare->producer, server->target, NULL);
    bare->receipts_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rd_kafka_queue_io_event_enable(rd_kafka_queue_get_main(bare->producer), bare->receipts_fd,
                                   &one, sizeof one);
    struct MHD_Daemon *daemon = listen_locally(bare, &port);
    if (!daemon)
        return bench_fail(message, message_size, "libmicrohttpd", "does not start");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
              &event);
    epoll_ctl(epoll, EPOLL_CTL_ADD, bare->receipts_fd, &event);
    int count = snprintf(text, sizeof text, "%u\n", port);
    if (write(port_fd, text, (size_t)count) != count)
        return bench_fail(message, message_size, "the port", "nobody reads it");
    for (;;)
        turn(bare, daemon, epoll);
}
