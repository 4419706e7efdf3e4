/* What every file here needs: time, memory, faults and lists. */
#include "ckafka_internal.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    MALLOC_ARENA_MAX = 2,
    MALLOC_LARGE = 1 << 20,
    SET_BACK_MIN_MS = 500, /* less prolongs no wait by more */
};

void ckafka_tune_malloc(int spare)
{
    /* Records are allocated by one thread and freed by another: with an arena a thread the process
     * grows to several times of what it holds. */
    mallopt(M_ARENA_MAX, MALLOC_ARENA_MAX);
    /* What a whole batch lies in grows by doubling: among small pieces it would leave holes of its
     * size.  Set by hand these do not move, as they else do with the first large piece freed.  What the
     * library writes a producer's batch in stays below, or each would be mapped anew; and it is not
     * given back after each small batch, of which ingest sends thousands a second. */
    mallopt(M_MMAP_THRESHOLD, MALLOC_LARGE);
    mallopt(M_TRIM_THRESHOLD, spare);
}

/* -- small things ----------------------------------------------------------------------------- */

int64_t ck_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t ck_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool ck_is_set_back(int64_t *lead_ms)
{
    int64_t lead = ck_wall_ms() - ck_now_ms();
    bool is_back = lead < *lead_ms - SET_BACK_MIN_MS;
    *lead_ms = lead;
    return is_back;
}

void ck_open_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void ck_wait_condition(pthread_cond_t *condition, pthread_mutex_t *lock, int milliseconds)
{
    struct timespec until;
    if (milliseconds <= 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(condition, lock, &until);
}

void ckafka_signal_raise(int descriptor)
{
    uint64_t one = 1;
    /* EAGAIN means that the counter is full, so it is readable: which is what was wanted. */
    while (write(descriptor, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void ck_calm(int descriptor)
{
    uint64_t count;
    /* EAGAIN: nothing to forget. */
    while (read(descriptor, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

void ck_wait_readable(int descriptor, int64_t wait_ms)
{
    struct pollfd fd = {.fd = descriptor, .events = POLLIN};
    /* Interrupted by a signal: the caller looks again and finds the time that is left. */
    (void)poll(&fd, 1, (int)(wait_ms > 60000 ? 60000 : wait_ms));
}

int ckafka_signal_open(void)
{
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void ckafka_signal_wait(int descriptor, int wait_ms)
{
    ck_wait_readable(descriptor, wait_ms);
    ck_calm(descriptor);
}

void ck_pause_ms(int milliseconds)
{
    struct timespec t = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    nanosleep(&t, NULL);
}

void *ck_take_memory(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

void *ck_grow(void *memory, size_t size)
{
    memory = realloc(memory, size);
    if (!memory)
        abort();
    return memory;
}

void ck_broken(const char *sentence)
{
    fprintf(stderr, "tollway: %s\n", sentence);
    abort();
}

bool ck_is_fence(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
           code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

bool ck_is_refusal(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION: return true;
    default: return false;
    }
}

void ck_refusal_text(char *text, size_t size, rd_kafka_resp_err_t code, const char *what)
{
    const char *form = "Kafka refuses %s (%s): give this worker's user the right, with Deploy/acls.sh";
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
        code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        form = "%s is not there any more (%s): find out who deleted it; `tollway topics apply --yes`"
               " makes it anew, a state topic only as the runbook says";
    snprintf(text, size, form, what, rd_kafka_err2name(code));
}

int ck_is_damage(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__BAD_MSG || code == RD_KAFKA_RESP_ERR__BAD_COMPRESSION ||
           code == RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED || code == RD_KAFKA_RESP_ERR_INVALID_MSG;
}

int ck_fail(ckafka_fault *fault, int kind, int code, const char *message)
{
    if (!fault)
        return -1;
    memset(fault, 0, sizeof *fault);
    fault->kind = kind;
    fault->code = code;
    snprintf(fault->name, sizeof fault->name, "%s", rd_kafka_err2name(code));
    snprintf(fault->message, sizeof fault->message, "%s", message ? message : "");
    return -1;
}

int ck_tell_held(ckafka_fault *held, ckafka_fault *fault)
{
    if (!held->kind)
        return 0;
    *fault = *held;
    held->kind = CKAFKA_FAULT_NONE;
    return -1;
}

int ckafka_fail_refused(ckafka_fault *fault, int32_t code, const char *what)
{
    char text[400];
    if (!ck_is_refusal(code))
        return 0;
    ck_refusal_text(text, sizeof text, code, what);
    return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, code, text);
}

/* -- lists ------------------------------------------------------------------------------------ */

void ck_names_read(names *n, const char *list)
{
    n->count = 0;
    for (const char *at = list; at && *at; at += strlen(at) + 1)
        n->count++;
    n->items = ck_take_memory(sizeof *n->items * (n->count + 1));
    size_t index = 0;
    for (const char *at = list; at && *at; at += strlen(at) + 1)
        n->items[index++] = strdup(at);
}

void ck_names_free(names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
    memset(n, 0, sizeof *n);
}

int ck_names_index(const names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->items[i], name) == 0)
            return (int)i;
    return -1;
}
