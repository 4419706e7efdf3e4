/*
 * The life of the committer's producer: made, its name taken over, thrown away, and when there were
 * too many of them.  Only the committer's thread comes here.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <string.h>

enum {
    INIT_TURN_MS = 5000,
    FENCE_VERDICT_MS = 4000,   /* a heartbeat interval and some: see await_fence_verdict */
    RETRY_MS = 50,
    REBUILD_WINDOW_MS = 300000,
    RETIRING_MAX = 8,          /* producers that may hang in their end at one time */
    RETIRING_WAIT_MS = 20000,
};

bool ck_committer_is_closing(committer *c)
{
    pthread_mutex_lock(&c->lock);
    bool closing = c->is_closing;
    pthread_mutex_unlock(&c->lock);
    return closing;
}

void ck_committer_give_up(committer *c, int kind, int code, const char *message)
{
    pthread_mutex_lock(&c->lock);
    ck_fail(&c->fault, kind, code, message);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    ck_wake(c->wake_descriptor);
}

void ck_committer_note_refusal(committer *c, rd_kafka_resp_err_t code, const char *what)
{
    char text[400];
    if (!ck_is_refusal(code))
        return;
    ck_refusal_text(text, sizeof text, code, what);
    if (!c->refused_since) {
        c->refused_since = ck_now_ms();
        ck_watch_note(c->watch, 3, "REFUSED", text);
    } else if (ck_now_ms() - c->refused_since > c->watchdog_ms) {
        ck_committer_give_up(c, CKAFKA_FAULT_MISCONFIGURED, code, text);
    }
}

bool ck_committer_has_given_up(committer *c)
{
    pthread_mutex_lock(&c->lock);
    bool given_up = c->fault.kind != CKAFKA_FAULT_NONE;
    pthread_mutex_unlock(&c->lock);
    return given_up;
}

/* -- delivery reports ------------------------------------------------------------------------- */

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    committer *c = ((watch *)opaque)->owner;
    /* A retired producer reports its remains on another thread. */
    if (rk != c->producer)
        return;
    size_t target = (size_t)(uintptr_t)message->_private;
    if (c->waiting_count == 0)
        ck_broken("a record had two delivery reports");
    c->waiting_count--;
    if (message->err) {
        c->failed_count++;
        c->failed_code = message->err;
        c->failed_target = target;
        return;
    }
    c->stored_count++;
    next_offsets *next = &c->next[target];
    for (size_t i = 0; i < next->count; i++) {
        if (next->items[i].partition != message->partition)
            continue;
        if (next->items[i].offset <= message->offset)
            next->items[i].offset = message->offset + 1;
        return;
    }
    if (next->count == next->capacity) {
        next->capacity = next->capacity ? next->capacity * 2 : 16;
        next->items = ck_grow(next->items, sizeof *next->items * next->capacity);
    }
    next->items[next->count++] = (next_offset){message->offset + 1, message->partition};
}

/* -- the producer ----------------------------------------------------------------------------- */

void ck_committer_drop_producer(committer *c)
{
    rd_kafka_t *old = c->producer;
    atomic_store(&c->is_ready, 0);
    if (!old)
        return;
    for (size_t i = 0; i < c->targets.count; i++)
        if (c->topics[i])
            rd_kafka_topic_destroy(c->topics[i]);
    memset(c->topics, 0, sizeof *c->topics * c->targets.count);
    c->producer = NULL;
    /* Without the reports that are missing nobody knows when its messages are gone. */
    uint8_t *lent = c->waiting_count > 0 ? c->arena : NULL;
    if (lent) {
        c->arena = NULL;
        c->arena_capacity = 0;
        c->waiting_count = 0;
    }
    ck_retire(old, c->watch, lent);
}

static bool open_producer(committer *c)
{
    ckafka_fault fault;
    rd_kafka_conf_t *conf = ck_configure(c->settings, c->watch, &fault);
    if (conf) {
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        c->producer = ck_open_handle(RD_KAFKA_PRODUCER, conf, c->watch, &fault);
    }
    if (!c->producer) {
        ck_committer_give_up(c, fault.kind, fault.code, fault.message);
        return false;
    }
    for (size_t i = 0; i < c->targets.count; i++) {
        c->topics[i] = rd_kafka_topic_new(c->producer, c->targets.items[i], NULL);
        if (!c->topics[i]) {
            ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, rd_kafka_last_error(),
                                 c->targets.items[i]);
            return false;
        }
    }
    atomic_fetch_add(&c->producer_count, 1);
    return true;
}

/* A producer is told "fenced" by a newer instance with its name, but also after its transaction
 * timed out. The group knows: the older of two static members learns it with its next heartbeat.
 * Waiting for that keeps two instances from fencing each other in turn. */
bool ck_committer_await_fence_verdict(committer *c)
{
    int64_t until = ck_now_ms() + FENCE_VERDICT_MS;
    ckafka_fault fault;
    while (ck_now_ms() < until && !ck_committer_is_closing(c)) {
        if (ck_fail_fatal(c->consumer, &fault)) {
            ck_committer_give_up(c, fault.kind, fault.code, fault.message);
            return true;
        }
        ck_pause_ms(RETRY_MS);
    }
    return false;
}

bool ck_committer_count_rebuild(committer *c)
{
    int64_t oldest = c->rebuilds[c->rebuild_count % REBUILD_MAX];
    int64_t now = ck_now_ms();
    c->rebuilds[c->rebuild_count++ % REBUILD_MAX] = now;
    if (c->rebuild_count <= REBUILD_MAX || now - oldest > REBUILD_WINDOW_MS)
        return true;
    ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__FAIL,
                         "more than 10 producers failed within 5 minutes");
    return false;
}

/* Ends what a predecessor left open, and takes over its name. 1: done, 0: a new producer is
 * needed, -1: given up or closing. */
static int init_transactions(committer *c)
{
    for (;;) {
        if (ck_committer_is_closing(c))
            return -1;
        rd_kafka_error_t *error = rd_kafka_init_transactions(c->producer, INIT_TURN_MS);
        if (!error)
            return 1;
        rd_kafka_resp_err_t code = rd_kafka_error_code(error);
        bool is_retriable = rd_kafka_error_is_retriable(error);
        char text[300];
        snprintf(text, sizeof text, "%s", rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
        rd_kafka_poll(c->producer, 0);
        if (is_retriable) {
            ck_pause_ms(RETRY_MS);
            continue;
        }
        ck_watch_note(c->watch, 3, "INIT", text);
        switch (code) {
        case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
        case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
            ck_committer_give_up(c, CKAFKA_FAULT_MISCONFIGURED, code, text);
            return -1;
        default:
            if (ck_is_fence(code) && ck_committer_await_fence_verdict(c))
                return -1;
            return 0;
        }
    }
}

static bool is_stopped(void *argument)
{
    return ck_committer_is_closing(argument);
}

/* Every rebuild leaves a producer and a thread behind that end in their own time, and in 2.0.2
 * perhaps never. */
static bool has_room_to_retire(committer *c)
{
    int64_t until = ck_now_ms() + RETIRING_WAIT_MS;
    while (atomic_load(&c->watch->retiring_count) >= RETIRING_MAX) {
        if (ck_committer_is_closing(c))
            return false;
        if (ck_now_ms() > until) {
            ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__FAIL,
                                 "8 producers hang in their end");
            return false;
        }
        ck_pause_ms(RETRY_MS);
    }
    return true;
}

bool ck_committer_make_ready(committer *c)
{
    while (!ck_committer_is_closing(c) && !ck_committer_has_given_up(c)) {
        if (!has_room_to_retire(c))
            return false;
        ck_committer_drop_producer(c);
        c->made_at = ck_now_ms();
        c->must_rebuild = false;
        if (!open_producer(c))
            return false;
        if (c->is_transactional) {
            int done = init_transactions(c);
            if (done < 0 || (done == 0 && !ck_committer_count_rebuild(c)))
                return false;
            if (done == 0) {
                ck_pause_ms(1000);
                continue;
            }
        }
        topic_refusal refused;
        if (!ck_warm_up(c->producer, c->topics, c->targets.count, is_stopped, c, &refused))
            return false;
        if (refused.code)
            ck_committer_note_refusal(c, refused.code, c->targets.items[refused.index]);
        c->disconnects_known = atomic_load(&c->watch->disconnect_count);
        atomic_store(&c->watch->is_away, 0);
        atomic_store(&c->is_ready, 1);
        ck_wake(c->wake_descriptor);
        return true;
    }
    return false;
}
