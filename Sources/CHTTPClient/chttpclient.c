#include "chttpclient.h"

#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

_Static_assert(LIBCURL_VERSION_NUM >= 0x075700, "CURLOPT_QUICK_EXIT came with 7.87.0");

enum { EVENT_COUNT_MAX = 64 };
/* How many times the descriptor is looked at in one call. */
enum { ROUND_COUNT_MAX = 64 };

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static CURLcode library_result;

static void start_library(void)
{
    library_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* libcurl calls these with the sockets that it waits for, and until when. */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *closure, void *known)
{
    struct chttp_client *client = closure;
    struct epoll_event event = {.data.fd = fd};
    if (what == CURL_POLL_REMOVE) {
        /* It may be closed already, and is then no longer watched. */
        epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        curl_multi_assign(client->multi, fd, NULL);
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        event.events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        event.events |= EPOLLOUT;
    if (epoll_ctl(client->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) != 0)
        /* libcurl reuses descriptors within one call; one of the two fits. */
        epoll_ctl(client->epoll_fd, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
    curl_multi_assign(client->multi, fd, client);
    return 0;
}

static int64_t now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* libcurl moves its time with each request: it is only noted here, and set once a run. */
static int on_timer(CURLM *multi, long timeout_ms, void *closure)
{
    struct chttp_client *client = closure;
    client->due_us = timeout_ms < 0 ? 0 : now_us() + (int64_t)timeout_ms * 1000;
    return 0;
}

/* Returns whether libcurl was called. */
static int act_on_time(struct chttp_client *client)
{
    int running;
    if (client->due_us == 0 || client->due_us > now_us())
        return 0;
    client->due_us = 0;
    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    return 1;
}

/* A timer that wakes too early costs one run; only one that would be late is set anew. */
static void set_timer(struct chttp_client *client)
{
    int64_t due_us = client->due_us, late_us = client->sessions.due_us;
    struct itimerspec spec = {0};
    if (due_us == 0 || (late_us != 0 && late_us < due_us))
        due_us = late_us;
    if (due_us == 0 || (client->armed_us != 0 && client->armed_us <= due_us))
        return;
    spec.it_value.tv_sec = due_us / 1000000;
    spec.it_value.tv_nsec = due_us % 1000000 * 1000;
    timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    client->armed_us = due_us;
}

int chttp_client_open(const struct chttp_client_options *options, struct chttp_client **result)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct chttp_client *client;
    const char *authority_file;
    pthread_once(&library_once, start_library);
    if (library_result != CURLE_OK)
        return -1;
    client = calloc(1, sizeof(*client));
    if (!client)
        return -1;
    client->epoll_fd = client->timer_fd = client->wake_fd = -1;
    client->options = *options;
    client->options.user_agent = NULL;
    client->options.authority_file = NULL;
    client->user_agent = strdup(options->user_agent);
    /* libcurl leaves this variable to its callers; its own command and OpenSSL go by it. */
    authority_file = options->authority_file ? options->authority_file : getenv("SSL_CERT_FILE");
    client->authority_file =
        authority_file && *authority_file ? strdup(authority_file) : NULL;
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    client->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    client->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    client->multi = curl_multi_init();
    if (!client->user_agent || (authority_file && *authority_file && !client->authority_file) ||
        client->epoll_fd < 0 || client->timer_fd < 0 || client->wake_fd < 0 || !client->multi)
        goto failed;
    event.data.fd = client->timer_fd;
    if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->timer_fd, &event) != 0)
        goto failed;
    event.data.fd = client->wake_fd;
    if (epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->wake_fd, &event) != 0)
        goto failed;
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)options->concurrency_max);
    curl_multi_setopt(client->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                      (long)options->concurrency_max + SESSION_COUNT_MAX);
    /* One connection to a host has them all, as far as the host allows. */
    curl_multi_setopt(client->multi, CURLMOPT_MAX_CONCURRENT_STREAMS,
                      (long)options->concurrency_max);
    *result = client;
    return 0;

failed:
    chttp_client_close(client);
    return -1;
}

int chttp_client_descriptor(const struct chttp_client *client)
{
    return client->epoll_fd;
}

/* Lists of transfers. */

void put_first(struct transfer_list *list, struct transfer *transfer)
{
    transfer->previous = NULL;
    transfer->next = list->first;
    if (list->first)
        list->first->previous = transfer;
    else
        list->last = transfer;
    list->first = transfer;
    list->count++;
}

void put_last(struct transfer_list *list, struct transfer *transfer)
{
    transfer->next = NULL;
    transfer->previous = list->last;
    if (list->last)
        list->last->next = transfer;
    else
        list->first = transfer;
    list->last = transfer;
    list->count++;
}

void take_out(struct transfer_list *list, struct transfer *transfer)
{
    if (transfer->previous)
        transfer->previous->next = transfer->next;
    else
        list->first = transfer->next;
    if (transfer->next)
        transfer->next->previous = transfer->previous;
    else
        list->last = transfer->previous;
    list->count--;
}

/* One wait serves what was submitted, too.  libcurl's timer is not ours to move for that. */
static void wake(struct chttp_client *client)
{
    uint64_t one = 1;
    if (!client->is_woken && write(client->wake_fd, &one, sizeof(one)) > 0)
        client->is_woken = 1;
}

int chttp_client_submit(struct chttp_client *client, const struct chttp_client_request *request)
{
    struct transfer *transfer = client->idle.last;
    if (transfer)
        take_out(&client->idle, transfer);
    else
        transfer = transfer_new(client);
    if (!transfer)
        return -1;
    if (transfer_fill(transfer, request) != 0) {
        transfer_free(transfer);
        return -1;
    }
    put_last(&client->waiting, transfer);
    wake(client);
    return 0;
}

static void start_waiting(struct chttp_client *client)
{
    int64_t start_us = client->waiting.first ? now_us() : 0;
    while (client->waiting.first && client->active.count < client->options.concurrency_max) {
        struct transfer *transfer = client->waiting.first;
        CURLcode error;
        take_out(&client->waiting, transfer);
        put_last(&client->active, transfer);
        if (sessions_start(client, transfer, start_us))
            continue;
        error = transfer_prepare(transfer, client);
        if (error == CURLE_OK && curl_multi_add_handle(client->multi, transfer->easy) == CURLM_OK)
            continue;
        transfer->error = error == CURLE_OK ? CURLE_OUT_OF_MEMORY : error;
        take_out(&client->active, transfer);
        put_last(&client->ended, transfer);
    }
}

/* Of a transfer that is in no list any more. */
static void put_away(struct chttp_client *client, struct transfer *transfer)
{
    if (client->idle.count >= client->options.concurrency_max) {
        transfer_free(transfer);
        return;
    }
    transfer_empty(transfer);
    put_last(&client->idle, transfer);
}

static void collect_ended(struct chttp_client *client)
{
    CURLMsg *message;
    int left, running;
    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        struct transfer *transfer = NULL;
        int dead_fd;
        if (message->msg != CURLMSG_DONE ||
            session_opened(client, message->easy_handle, message->data.result, now_us()))
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        transfer_conclude(transfer, message->data.result);
        take_out(&client->active, transfer);
        curl_multi_remove_handle(client->multi, transfer->easy);
        put_last(&client->ended, transfer);
        dead_fd = connection_hears(client, transfer);
        /* At once: before another request takes it. */
        if (dead_fd >= 0)
            curl_multi_socket_action(client->multi, dead_fd, CURL_CSELECT_IN, &running);
    }
}

static void free_all(struct transfer_list *list)
{
    while (list->first) {
        struct transfer *transfer = list->first;
        take_out(list, transfer);
        transfer_free(transfer);
    }
}

/* Empty already where it was set anew since; then there is nothing to do. */
static void drain(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0)
        return;
}

void chttp_client_run(struct chttp_client *client)
{
    int round, running, has_moved;
    while (client->lent.first) {
        struct transfer *transfer = client->lent.first;
        take_out(&client->lent, transfer);
        put_away(client, transfer);
    }
    start_waiting(client);
    /* What has come is read before more is written: the peer may have closed. */
    has_moved = 1;
    for (round = 0; round < ROUND_COUNT_MAX; round++) {
        struct epoll_event events[EVENT_COUNT_MAX];
        int has_acted = act_on_time(client);
        int index, count = epoll_wait(client->epoll_fd, events, EVENT_COUNT_MAX, 0);
        if (count <= 0 && !has_acted && !has_moved)
            break;
        for (index = 0; index < count; index++) {
            int what = 0;
            if (session_ready(client, events[index].data.fd))
                continue;
            if (events[index].data.fd == client->wake_fd) {
                drain(client->wake_fd);
                client->is_woken = 0;
                continue;
            }
            if (events[index].data.fd == client->timer_fd) {
                drain(client->timer_fd);
                client->armed_us = 0;
                continue;
            }
            if (events[index].events & EPOLLIN)
                what |= CURL_CSELECT_IN;
            if (events[index].events & EPOLLOUT)
                what |= CURL_CSELECT_OUT;
            if (events[index].events & (EPOLLERR | EPOLLHUP))
                what |= CURL_CSELECT_ERR;
            curl_multi_socket_action(client->multi, events[index].data.fd, what, &running);
        }
        collect_ended(client);
        sessions_end_late(client, now_us());
        start_waiting(client);
        has_moved = sessions_move(client, now_us());
    }
    if (has_moved)
        wake(client);
    set_timer(client);
}

size_t chttp_client_take(struct chttp_client *client, struct chttp_client_response *responses,
                         size_t capacity)
{
    size_t count = 0;
    while (count < capacity && client->ended.first) {
        struct transfer *transfer = client->ended.first;
        take_out(&client->ended, transfer);
        put_last(&client->lent, transfer);
        transfer_describe(transfer, &responses[count++]);
    }
    return count;
}

int chttp_client_cancel(struct chttp_client *client, uint64_t id)
{
    struct transfer_list *lists[] = {&client->waiting, &client->active, &client->ended};
    size_t index;
    for (index = 0; index < sizeof(lists) / sizeof(lists[0]); index++) {
        struct transfer *transfer;
        for (transfer = lists[index]->first; transfer; transfer = transfer->next) {
            if (transfer->id != id)
                continue;
            take_out(lists[index], transfer);
            if (transfer->session)
                session_give_up(transfer);
            else if (lists[index] == &client->active)
                curl_multi_remove_handle(client->multi, transfer->easy);
            put_away(client, transfer);
            /* Another may have its place. */
            wake(client);
            return 1;
        }
    }
    return 0;
}

void chttp_client_close(struct chttp_client *client)
{
    struct transfer *transfer;
    if (!client)
        return;
    sessions_close(client);
    for (transfer = client->active.first; transfer; transfer = transfer->next)
        if (!transfer->session)
            curl_multi_remove_handle(client->multi, transfer->easy);
    free_all(&client->waiting);
    free_all(&client->active);
    free_all(&client->ended);
    free_all(&client->lent);
    free_all(&client->idle);
    if (client->multi)
        curl_multi_cleanup(client->multi);
    if (client->timer_fd >= 0)
        close(client->timer_fd);
    if (client->wake_fd >= 0)
        close(client->wake_fd);
    if (client->epoll_fd >= 0)
        close(client->epoll_fd);
    free(client->user_agent);
    free(client->authority_file);
    free(client);
}
