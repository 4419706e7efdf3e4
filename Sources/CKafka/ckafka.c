/* Configuration, faults and notes. */
#include "ckafka_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    REFUSAL_FRESH_MS = 5000, /* a broker that refuses is knocked at every second */
};

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

void ck_wake(int descriptor)
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
        form = "%s is not there any more (%s): find out who deleted it, then make it anew with"
               " `tollway topics apply --yes`";
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

int ck_fail_untold(ckafka_fault *fault, rd_kafka_resp_err_t code, const char *refused)
{
    char text[400];
    if (ck_is_refusal(code)) {
        ck_refusal_text(text, sizeof text, code, refused);
        return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, code, text);
    }
    snprintf(text, sizeof text,
             "what the group has committed cannot be told for %d s (%s): a hanging transaction holds"
             " its offsets, or its coordinator hangs",
             UNTOLD_PATIENCE_MS / 1000, rd_kafka_err2name(code));
    return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, text);
}

int ck_fail_error(ckafka_fault *fault, int kind, rd_kafka_error_t *error)
{
    ck_fail(fault, kind, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return -1;
}

const char *ckafka_code_name(int32_t code)
{
    return rd_kafka_err2name(code);
}

const char *ckafka_library_version(void)
{
    return rd_kafka_version_str();
}

/* -- lists ------------------------------------------------------------------------------------ */

int ck_names_read(names *n, const char *list)
{
    memset(n, 0, sizeof *n);
    for (const char *at = list; at && *at; at += strlen(at) + 1)
        n->count++;
    n->items = ck_take_memory(sizeof *n->items * (n->count + 1));
    size_t index = 0;
    for (const char *at = list; at && *at; at += strlen(at) + 1)
        n->items[index++] = strdup(at);
    return 0;
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

/* -- watch ------------------------------------------------------------------------------------ */

void ck_watch_open(watch *w, void *owner)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    w->owner = owner;
}

void ck_watch_close(watch *w)
{
    pthread_mutex_destroy(&w->lock);
}

void ck_watch_note(watch *w, int level, const char *facility, const char *text)
{
    pthread_mutex_lock(&w->lock);
    if (w->note_count == NOTES_KEPT) {
        w->note_start = (w->note_start + 1) % NOTES_KEPT;
        w->note_count--;
    }
    ckafka_note *note = &w->notes[(w->note_start + w->note_count++) % NOTES_KEPT];
    note->level = level;
    snprintf(note->facility, sizeof note->facility, "%s", facility ? facility : "");
    snprintf(note->text, sizeof note->text, "%s", text ? text : "");
    pthread_mutex_unlock(&w->lock);
}

size_t ck_watch_take(watch *w, ckafka_note *notes, size_t capacity)
{
    pthread_mutex_lock(&w->lock);
    size_t count = 0;
    while (count < capacity && w->note_count > 0) {
        notes[count++] = w->notes[w->note_start];
        w->note_start = (w->note_start + 1) % NOTES_KEPT;
        w->note_count--;
    }
    pthread_mutex_unlock(&w->lock);
    return count;
}

static void note_refusal(watch *w, const char *what, const char *reason)
{
    pthread_mutex_lock(&w->lock);
    w->refused_at = ck_now_ms();
    snprintf(w->refusal, sizeof w->refusal, "%s: %s", what, reason ? reason : "");
    pthread_mutex_unlock(&w->lock);
}

bool ck_watch_refusal(watch *w, char *text, size_t size)
{
    pthread_mutex_lock(&w->lock);
    bool is_fresh = w->refused_at && ck_now_ms() - w->refused_at < REFUSAL_FRESH_MS;
    if (is_fresh)
        snprintf(text, size, "%s", w->refusal);
    pthread_mutex_unlock(&w->lock);
    return is_fresh;
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    watch *w = rd_kafka_opaque(rk);
    /* A setting that this kind of handle has no use for is no news. */
    if (w && strcmp(facility, "CONFWARN") != 0)
        ck_watch_note(w, level, facility, text);
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    watch *w = opaque;
    (void)rk;
    switch (code) {
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        atomic_store(&w->is_away, 1);
        break;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
        note_refusal(w, "the broker does not take these credentials", reason);
        break;
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__SSL: /* an unclean TLS close looks like this (#4294) */
        /* A connection that was up, and not one more attempt to reach a dead broker: the code is
         * the same, only the text tells. */
        if (strstr(reason, "state UP"))
            atomic_fetch_add(&w->disconnect_count, 1);
        else if (code == RD_KAFKA_RESP_ERR__SSL)
            note_refusal(w, "no TLS with the broker", reason);
        break;
    default:
        break;
    }
    ck_watch_note(w, code == RD_KAFKA_RESP_ERR__FATAL ? 3 : 4, rd_kafka_err2name(code), reason);
}

/* -- handles ---------------------------------------------------------------------------------- */

rd_kafka_conf_t *ck_configure(const char *settings, watch *w, ckafka_fault *fault)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char message[300];
    const char *at = settings;
    while (at && *at) {
        const char *name = at;
        const char *value = name + strlen(name) + 1;
        if (rd_kafka_conf_set(conf, name, value, message, sizeof message) != RD_KAFKA_CONF_OK) {
            ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, RD_KAFKA_RESP_ERR__INVALID_ARG, message);
            rd_kafka_conf_destroy(conf);
            return NULL;
        }
        at = value + strlen(value) + 1;
    }
    if (w) {
        rd_kafka_conf_set_opaque(conf, w);
        rd_kafka_conf_set_log_cb(conf, on_log);
        rd_kafka_conf_set_error_cb(conf, on_error);
    }
    return conf;
}

char *ck_settings_copy(const char *settings)
{
    size_t count = 1;
    for (const char *at = settings; *at; at += strlen(at) + 1)
        count += strlen(at) + 1;
    char *copy = ck_take_memory(count);
    memcpy(copy, settings, count);
    return copy;
}

char *ck_setting_of(const char *settings, const char *wanted)
{
    for (const char *at = settings; at && *at;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, wanted) == 0)
            return strdup(value);
        at = value + strlen(value) + 1;
    }
    return strdup("none");
}

int ckafka_check_settings(const char *settings, ckafka_fault *fault)
{
    rd_kafka_conf_t *conf = ck_configure(settings, NULL, fault);
    if (!conf)
        return -1;
    rd_kafka_conf_destroy(conf);
    return 0;
}

rd_kafka_t *ck_open_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf, watch *w,
                           ckafka_fault *fault)
{
    char message[300];
    rd_kafka_t *rk = rd_kafka_new(type, conf, message, sizeof message);
    int errno_was = errno;
    if (!rk) {
        /* Settings that do not go together are found only here; else the system gave no thread,
         * descriptor or memory, or the library did not start in its time. */
        rd_kafka_resp_err_t code = rd_kafka_last_error();
        bool is_setting = code == RD_KAFKA_RESP_ERR__INVALID_ARG ||
                          code == RD_KAFKA_RESP_ERR__SSL ||
                          code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE;
        ck_fail(fault, is_setting ? CKAFKA_FAULT_MISCONFIGURED : CKAFKA_FAULT_UNUSABLE, code,
                message);
        /* Where its threads were not seen to start in time (a clock that is shifted), 2.0.2 gives up and
         * leaves them running with what lies in the configuration: that and their watch must stay. */
        if (code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE && errno_was == EDEADLK)
            ck_abandon(w);
        else
            rd_kafka_conf_destroy(conf);
    }
    return rk;
}

typedef struct retirement {
    rd_kafka_t *rk;
    watch *watch;
    void *lent;
} retirement;

static void *destroy_handle(void *argument)
{
    retirement *r = argument;
    rd_kafka_destroy_flags(r->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    free(r->lent);
    atomic_fetch_sub(&r->watch->retiring_count, 1);
    free(r);
    return NULL;
}

void ck_retire(rd_kafka_t *rk, watch *w, void *lent)
{
    if (!rk)
        return;
    retirement *r = ck_take_memory(sizeof *r);
    r->rk = rk;
    r->watch = w;
    r->lent = lent;
    pthread_t thread;
    atomic_fetch_add(&w->retiring_count, 1);
    if (pthread_create(&thread, NULL, destroy_handle, r) == 0)
        pthread_detach(thread);
}

void ck_abandon(watch *w)
{
    atomic_fetch_add(&w->retiring_count, 1);
}

bool ck_retired_all(watch *w, int wait_ms)
{
    int64_t until = ck_now_ms() + wait_ms;
    struct timespec pause = {0, 5000000};
    while (atomic_load(&w->retiring_count) > 0 && ck_now_ms() < until)
        nanosleep(&pause, NULL);
    return atomic_load(&w->retiring_count) == 0;
}
