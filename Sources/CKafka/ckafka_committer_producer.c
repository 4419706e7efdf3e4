/*
 * The life of the committer's producer: made, its name taken over, thrown away, and when there were
 * too many of them.  Only the committer's thread comes here.
 */
#include "ckafka_committer.h"

enum {
    FENCE_VERDICT_MS = 4000, /* a heartbeat interval and some */
    REBUILD_PAUSE_MS = 1000,
    REBUILD_WINDOW_MS = 300000,
    RETIRING_MAX = 8, /* producers that may hang in their end at one time */
    RETIRING_WAIT_MS = 20000,
};

bool ck_committer_is_closing(void *argument)
{
    committer *c = argument;
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
    ck_wake(c->setup.wake_descriptor);
}

bool ck_committer_has_given_up(committer *c)
{
    pthread_mutex_lock(&c->lock);
    bool given_up = c->fault.kind != CKAFKA_FAULT_NONE;
    pthread_mutex_unlock(&c->lock);
    return given_up;
}

void ck_committer_note_refusal(committer *c)
{
    char text[400];
    const transaction *t = &c->transaction;
    if (!ck_is_refusal(t->code))
        return;
    ck_refusal_text(text, sizeof text, t->code, t->text);
    if (!c->refused_since) {
        c->refused_since = ck_now_ms();
        ck_watch_note(c->setup.watch, 3, "REFUSED", text);
    } else if (ck_now_ms() - c->refused_since > c->setup.watchdog_ms) {
        ck_committer_give_up(c, CKAFKA_FAULT_MISCONFIGURED, t->code, text);
    }
}

/* -- the producer ----------------------------------------------------------------------------- */

void ck_committer_drop_producer(committer *c)
{
    atomic_store(&c->is_ready, 0);
    /* Until the missing delivery reports are there, its messages may still be in use. */
    bool is_waiting = ck_deliveries_waiting(c->transaction.told) > 0;
    ck_transaction_drop(&c->transaction, is_waiting ? c->setup.lent : NULL, c->lent_bit);
    if (is_waiting)
        c->lent_bit = 0;
}

/* A producer's error is "fenced" where a newer instance has its name, but also after its
 * transaction timed out.  The group knows: the older of two static members learns it with its next
 * heartbeat.  Waiting for that keeps two instances from fencing each other in turn. */
bool ck_committer_await_fence_verdict(committer *c)
{
    int64_t until = ck_now_ms() + FENCE_VERDICT_MS;
    ckafka_fault fault;
    while (ck_now_ms() < until && !ck_committer_is_closing(c)) {
        if (ck_fail_fatal(c->setup.consumer, &fault)) {
            ck_committer_give_up(c, fault.kind, fault.code, fault.message);
            return true;
        }
        ck_pause_ms(STEP_RETRY_MS);
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

/* Every rebuild leaves a producer and a thread behind that end in their own time, and in 2.0.2
 * perhaps never. */
static bool has_room_to_retire(committer *c)
{
    int64_t until = ck_now_ms() + RETIRING_WAIT_MS;
    while (atomic_load(&c->setup.watch->retiring_count) >= RETIRING_MAX) {
        if (ck_committer_is_closing(c))
            return false;
        if (ck_now_ms() > until) {
            ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__FAIL,
                    "8 producers hang in their end");
            return false;
        }
        ck_pause_ms(STEP_RETRY_MS);
    }
    return true;
}

/* Whether the name is ours now; else the producer is of no use, and another may be. */
static bool take_name_over(committer *c)
{
    transaction *t = &c->transaction;
    if (!t->is_transactional || ck_transaction_init(t) == FINE)
        return true;
    if (ck_committer_is_closing(c))
        return false;
    if (ck_transaction_fault_kind(t->code) == CKAFKA_FAULT_MISCONFIGURED)
        ck_committer_give_up(c, CKAFKA_FAULT_MISCONFIGURED, t->code, t->text);
    else if (!(ck_is_fence(t->code) && ck_committer_await_fence_verdict(c)) && ck_committer_count_rebuild(c))
        ck_pause_ms(REBUILD_PAUSE_MS);
    return false;
}

bool ck_committer_make_ready(committer *c)
{
    transaction *t = &c->transaction;
    while (!ck_committer_is_closing(c) && !ck_committer_has_given_up(c)) {
        ckafka_fault fault;
        int refused;
        if (!has_room_to_retire(c))
            return false;
        ck_committer_drop_producer(c);
        c->made_at = ck_now_ms();
        if (!ck_transaction_open(t, &fault)) {
            ck_committer_give_up(c, fault.kind, fault.code, fault.message);
            return false;
        }
        atomic_fetch_add(&c->producer_count, 1);
        if (!take_name_over(c))
            continue;
        if (!ck_transaction_warm_up(t, &refused))
            return false;
        if (refused >= 0)
            ck_committer_note_refusal(c);
        atomic_store(&c->setup.watch->is_away, 0);
        atomic_store(&c->is_ready, 1);
        ck_wake(c->setup.wake_descriptor);
        return true;
    }
    return false;
}
