/* The load: every request of a file once, one in flight a connection. */
#define _GNU_SOURCE /* strcasestr */
#include "internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    EVENT_MAX = 256,
    CONNECTION_MAX = 4096,
    ANSWER_MAX = 4096,
    LOOK_EVERY_MS = 20
};

struct line {
    int fd;
    const uint8_t *request;
    size_t request_count, sent_count;
    char answer[ANSWER_MAX];
    size_t answer_count;
    int64_t begun_us;
    int64_t send_again_us; /* after a 503; 0: not waiting */
};

struct client {
    const uint8_t *bytes;
    size_t count, position;
    int epoll;
    size_t open_count; /* in flight, or to be sent again */
    uint32_t *latencies_us; /* of those accepted, as many as there may be requests */
    cbench_load_result *result;
    char *message;
    size_t message_size;
};

static int fail_errno(struct client *c, const char *what)
{
    return bench_fail(c->message, c->message_size, what, strerror(errno));
}

static int open_line(struct client *c, struct line *line, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = line};
    int one = 1;
    line->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line->fd < 0 || connect(line->fd, (struct sockaddr *)&address, sizeof address) != 0)
        return fail_errno(c, "connecting");
    setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fcntl(line->fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, line->fd, &event) != 0)
        return fail_errno(c, "watching a connection");
    return 0;
}

static int send_more(struct client *c, struct line *line)
{
    while (line->sent_count < line->request_count) {
        ssize_t count = send(line->fd, line->request + line->sent_count,
                             line->request_count - line->sent_count, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN)
            return 0;
        if (count < 0)
            return fail_errno(c, "sending");
        line->sent_count += (size_t)count;
    }
    return 0;
}

/* Takes the next request of the file; false: there is none. */
static bool take_request(struct client *c, struct line *line)
{
    uint32_t count;
    if (c->count - c->position < sizeof count)
        return false;
    memcpy(&count, c->bytes + c->position, sizeof count);
    c->position += sizeof count;
    if (count == 0 || count > c->count - c->position)
        return false;
    line->request = c->bytes + c->position;
    line->request_count = count;
    line->sent_count = line->answer_count = 0;
    line->begun_us = bench_now_us();
    c->position += count;
    c->open_count++;
    return true;
}

/* The length of a whole answer at the front, 0 while it is not whole; fills in its status. */
static size_t whole_answer(struct line *line, int *status)
{
    line->answer[line->answer_count] = 0;
    const char *end = strstr(line->answer, "\r\n\r\n");
    if (!end || sscanf(line->answer, "HTTP/1.1 %d", status) != 1)
        return 0;
    const char *length = strcasestr(line->answer, "content-length:");
    size_t count = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
    size_t whole = (size_t)(end + 4 - line->answer) + count;
    return line->answer_count >= whole ? whole : 0;
}

static int read_answer(struct client *c, struct line *line)
{
    for (;;) {
        int status = 0;
        ssize_t count = recv(line->fd, line->answer + line->answer_count,
                             sizeof line->answer - 1 - line->answer_count, 0);
        if (count < 0 && errno == EAGAIN)
            return 0;
        if (count <= 0)
            return bench_fail(c->message, c->message_size, "the server",
                              "closed a connection without an answer");
        line->answer_count += (size_t)count;
        if (!line->request || whole_answer(line, &status) == 0)
            continue;
        if (status == 202) {
            c->latencies_us[c->result->accepted_count++] =
                (uint32_t)(bench_now_us() - line->begun_us);
            c->open_count--;
            line->request = NULL;
            if (take_request(c, line) && send_more(c, line))
                return -1;
            continue;
        }
        c->result->refused_count++;
        if (status != 503) {
            line->answer[line->answer_count] = 0;
            return bench_fail(c->message, c->message_size, "the server refuses", line->answer);
        }
        line->sent_count = line->request_count;
        line->answer_count = 0;
        line->send_again_us = bench_now_us() + LOOK_EVERY_MS * 1000;
    }
}

static int send_again(struct client *c, struct line *lines, unsigned count)
{
    int64_t now = bench_now_us();
    for (unsigned i = 0; i < count; i++) {
        if (lines[i].send_again_us == 0 || lines[i].send_again_us > now)
            continue;
        lines[i].send_again_us = 0;
        lines[i].sent_count = 0;
        if (send_more(c, &lines[i]))
            return -1;
    }
    return 0;
}

static int run(struct client *c, struct line *lines, const cbench_load *load)
{
    int64_t start = bench_now_us();
    struct epoll_event events[EVENT_MAX];
    for (unsigned i = 0; i < load->connection_count; i++)
        if (take_request(c, &lines[i]) && send_more(c, &lines[i]))
            return -1;
    while (c->open_count > 0) {
        int count = epoll_wait(c->epoll, events, EVENT_MAX, LOOK_EVERY_MS);
        for (int i = 0; i < count; i++) {
            struct line *line = events[i].data.ptr;
            if (line->request && line->send_again_us == 0 && (events[i].events & EPOLLOUT) &&
                send_more(c, line))
                return -1;
            if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && read_answer(c, line))
                return -1;
        }
        if (send_again(c, lines, load->connection_count))
            return -1;
        c->result->elapsed_us = bench_now_us() - start;
        if (c->result->elapsed_us > (int64_t)load->deadline_ms * 1000)
            return bench_fail(c->message, c->message_size, "the server", "is too slow");
    }
    return c->position == c->count
               ? 0
               : bench_fail(c->message, c->message_size, "the file of requests", "is cut short");
}

static int ascending(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static void sort_latencies(struct client *c)
{
    size_t count = c->result->accepted_count;
    if (count == 0)
        return;
    qsort(c->latencies_us, count, sizeof *c->latencies_us, ascending);
    c->result->p500_us = c->latencies_us[(count - 1) * 500 / 1000];
    c->result->p990_us = c->latencies_us[(count - 1) * 990 / 1000];
    c->result->p999_us = c->latencies_us[(count - 1) * 999 / 1000];
}

static size_t count_requests(const struct client *c)
{
    size_t requests = 0, position = 0;
    uint32_t count;
    while (c->count - position >= sizeof count) {
        memcpy(&count, c->bytes + position, sizeof count);
        if (count > c->count - position - sizeof count)
            break; /* cut short, as run() will say */
        position += sizeof count + count;
        requests++;
    }
    return requests;
}

int cbench_idle_run(uint16_t port, unsigned count, int ready_fd, char *message, size_t message_size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (unsigned i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            return bench_fail(message, message_size, "connecting without a word", strerror(errno));
    }
    if (write(ready_fd, "open\n", 5) != 5)
        return bench_fail(message, message_size, "idle connections", "nobody waits for them");
    for (;;)
        pause();
}

int cbench_load_run(const cbench_load *load, cbench_load_result *result, char *message,
                    size_t message_size)
{
    struct stat status;
    struct client c = {.result = result, .message = message, .message_size = message_size};
    *result = (cbench_load_result){0};
    if (load->connection_count == 0 || load->connection_count > CONNECTION_MAX)
        return bench_fail(message, message_size, "connections", "there must be some");
    int file = open(load->file, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0)
        return fail_errno(&c, load->file);
    c.count = (size_t)status.st_size;
    /* Read in at once: faults on the file's pages are no part of the load. */
    void *map = mmap(NULL, c.count, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (map == MAP_FAILED)
        return fail_errno(&c, load->file);
    c.bytes = map;
    c.epoll = epoll_create1(EPOLL_CLOEXEC);
    c.latencies_us = bench_take_memory(sizeof *c.latencies_us * (count_requests(&c) + 1));
    struct line *lines = bench_take_memory(sizeof *lines * load->connection_count);
    for (unsigned i = 0; i < load->connection_count; i++)
        if (open_line(&c, &lines[i], load->port))
            return -1;
    int outcome = run(&c, lines, load);
    sort_latencies(&c);
    free(c.latencies_us);
    for (unsigned i = 0; i < load->connection_count; i++)
        close(lines[i].fd);
    free(lines);
    munmap(map, c.count);
    close(c.epoll);
    close(file);
    return outcome;
}
