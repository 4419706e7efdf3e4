/* Handles: their configuration, what their threads report, and their end. */
#include "ckafka_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETIRE_LOOK_MS = 5,
    PROBE_MS = 1000,
    PROBE_EVERY_MS = 500,
};

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

bool ck_watch_refusal(watch *w, int64_t age_ms, char *text, size_t size)
{
    pthread_mutex_lock(&w->lock);
    bool is_fresh = w->refused_at && ck_now_ms() - w->refused_at < age_ms;
    if (is_fresh)
        snprintf(text, size, "%s", w->refusal);
    pthread_mutex_unlock(&w->lock);
    return is_fresh;
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    watch *w = rd_kafka_opaque(rk);
    /* No news: a setting that this kind of handle has no use for, and a failure that was counted when it
     * happened (see ckafka_deliveries.c). */
    if (w && strcmp(facility, "CONFWARN") != 0 && strcmp(facility, "DRDROP") != 0)
        ck_watch_note(w, level, facility, text);
}

static bool is_missed(rd_kafka_t *rk, watch *w)
{
    return atomic_load(&w->is_away) && atomic_load(&w->current) == rk;
}

/* A handle learns that brokers are back only by using them. */
static void *probe(void *argument)
{
    rd_kafka_t *rk = argument;
    watch *w = rd_kafka_opaque(rk);
    const struct rd_kafka_metadata *metadata = NULL;
    do {
        while (is_missed(rk, w)) {
            if (rd_kafka_metadata(rk, 0, NULL, &metadata, PROBE_MS)) {
                ck_pause_ms(PROBE_EVERY_MS);
                continue;
            }
            rd_kafka_metadata_destroy(metadata);
            atomic_store(&w->is_away, 0);
            ckafka_signal_raise(w->wake_descriptor);
        }
        rd_kafka_t *own = rk;
        atomic_compare_exchange_strong(&w->probed, &own, NULL);
        /* They may have gone again since the last look, and found this probe still there. */
    } while (is_missed(rk, w) && atomic_exchange(&w->probed, rk) != rk);
    atomic_fetch_sub(&w->user_count, 1);
    return NULL;
}

static void note_away(rd_kafka_t *rk, watch *w)
{
    pthread_t thread;
    atomic_store(&w->is_away, 1);
    if (!w->wake_descriptor || atomic_exchange(&w->probed, rk) == rk)
        return;
    atomic_fetch_add(&w->user_count, 1);
    if (pthread_create(&thread, NULL, probe, rk) != 0)
        ck_broken("the system gives a probe no thread");
    pthread_detach(thread);
}

static void on_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    watch *w = opaque;
    switch (code) {
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        note_away(rk, w);
        break;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
        note_refusal(w, "the broker does not take these credentials", reason);
        break;
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__SSL: /* an unclean TLS close looks like this (#4294) */
        /* A connection that was up, and not one more attempt to reach a dead broker: the code is
         * the same, only the text differs. */
        if (strstr(reason, "state UP"))
            atomic_fetch_add(&w->disconnect_count, 1);
        /* TLS 1.3 is up before the broker has looked at our certificate: its alert comes as what was
         * received first. */
        else if (code == RD_KAFKA_RESP_ERR__SSL || strstr(reason, "SSL alert number"))
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
    const char *at = settings;
    while (*at) { /* by pairs: a value may be empty */
        const char *value = at + strlen(at) + 1;
        at = value + strlen(value) + 1;
    }
    size_t count = (size_t)(at - settings) + 1;
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

rd_kafka_t *ck_open_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf, bool is_intercepted, watch *w,
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
         * leaves them running with what is in the configuration: that and their watch must stay. */
        if (code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE && errno_was == EDEADLK)
            ck_abandon(w);
        /* Where 2.0.2 fails later than at a look at the settings, as for a certificate that is not there, it
         * has freed the interceptors of the configuration, which would free them again: it stays. */
        else if (!is_intercepted)
            rd_kafka_conf_destroy(conf);
    }
    atomic_store(&w->current, rk);
    return rk;
}

void ck_wake_brokers(rd_kafka_t *rk, const char *user, const char *password)
{
    rd_kafka_error_t *error = rd_kafka_sasl_set_credentials(rk, user, password);
    if (error)
        rd_kafka_error_destroy(error); /* slower, nothing else */
}

/* -- ends that may hang (#4187, #4519) ------------------------------------------------------- */

typedef struct departure {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool (*work)(void *);
    void *argument;
    bool has_ended, is_well;
    bool is_left; /* nobody waits any more */
} departure;

static void free_departure(departure *d)
{
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static void *depart(void *argument)
{
    departure *d = argument;
    bool is_well = d->work(d->argument);
    pthread_mutex_lock(&d->lock);
    d->has_ended = true;
    d->is_well = is_well;
    bool is_left = d->is_left;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    if (is_left)
        free_departure(d);
    return NULL;
}

bool ck_run_within(bool (*work)(void *), void *argument, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    departure *d = ck_take_memory(sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    ck_open_condition(&d->changed);
    d->work = work;
    d->argument = argument;
    pthread_t thread;
    if (pthread_create(&thread, NULL, depart, d) != 0) {
        free_departure(d);
        return false;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&d->lock);
    for (int64_t left = deadline_ms; !d->has_ended && left > 0; left = until - ck_now_ms())
        ck_wait_condition(&d->changed, &d->lock, (int)left);
    bool has_ended = d->has_ended, is_well = d->is_well;
    d->is_left = !has_ended;
    pthread_mutex_unlock(&d->lock);
    if (has_ended)
        free_departure(d);
    return has_ended && is_well;
}

typedef struct retirement {
    rd_kafka_t *rk;
    watch *watch;
    void (*free_after)(void *);
    void *used;
} retirement;

static void *destroy_handle(void *argument)
{
    retirement *r = argument;
    while (atomic_load(&r->watch->user_count) > 0)
        ck_pause_ms(RETIRE_LOOK_MS);
    rd_kafka_destroy_flags(r->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (r->free_after)
        r->free_after(r->used);
    atomic_fetch_sub(&r->watch->retiring_count, 1);
    free(r);
    return NULL;
}

void ck_retire(rd_kafka_t *rk, watch *w, void (*free_after)(void *), void *used)
{
    if (!rk)
        return;
    retirement *r = ck_take_memory(sizeof *r);
    r->rk = rk;
    r->watch = w;
    r->free_after = free_after;
    r->used = used;
    pthread_t thread;
    atomic_store(&w->current, NULL);
    atomic_fetch_add(&w->retiring_count, 1);
    if (pthread_create(&thread, NULL, destroy_handle, r) == 0)
        pthread_detach(thread);
}

void ck_abandon(watch *w)
{
    atomic_store(&w->current, NULL);
    atomic_fetch_add(&w->retiring_count, 1);
}

bool ck_retired_all(watch *w, int wait_ms)
{
    int64_t until = ck_now_ms() + wait_ms;
    while (atomic_load(&w->retiring_count) > 0 && ck_now_ms() < until)
        ck_pause_ms(RETIRE_LOOK_MS);
    return atomic_load(&w->retiring_count) == 0;
}
