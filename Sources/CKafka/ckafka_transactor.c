/*
 * Transactions by hand, one after the other, under a name that fences whoever had it before: for
 * the operator's command.  Every call blocks.  After any failure the handle is of no more use: a
 * new one takes over, which ends what this one left open, and what was committed is read anew.
 */
#include "ckafka_transaction.h"

#include <stdlib.h>

enum {
    STORE_MS = 10000, /* for all outputs to be stored; below the transaction's 15 s */
    COMMIT_MS = 30000,
};

struct ckafka_transactor {
    transaction transaction;
    names targets;
    watch watch;
    int64_t until; /* of the call under way */
};

static bool is_past(void *argument)
{
    return ck_now_ms() > ((ckafka_transactor *)argument)->until;
}

static void free_transactor(ckafka_transactor *t)
{
    ck_transaction_free(&t->transaction);
    ck_names_free(&t->targets);
    ck_watch_close(&t->watch);
    free(t);
}

ckafka_transactor *ckafka_transactor_new(const char *settings, const char *targets,
                                         const int64_t *target_byte_count_max,
                                         ckafka_fault *fault)
{
    ckafka_transactor *t = ck_take_memory(sizeof *t);
    ck_watch_open(&t->watch, t);
    ck_names_read(&t->targets, targets);
    ck_transaction_prepare(&t->transaction, settings, &t->targets, target_byte_count_max, &t->watch);
    t->transaction.is_transactional = true;
    t->transaction.is_stopped = is_past;
    t->transaction.owner = t;
    if (ck_transaction_open(&t->transaction, fault))
        return t;
    ckafka_transactor_close(t, 0);
    return NULL;
}

void ckafka_transactor_close(ckafka_transactor *t, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    /* Readers wait behind what is open until it times out; if this fails, they do. */
    if (t->transaction.is_open && deadline_ms > 0)
        ck_transaction_abort(&t->transaction, until);
    ck_transaction_drop(&t->transaction, NULL, 0);
    /* One that hangs may still write notes: then the memory is left to the process's end. */
    int64_t left = until - ck_now_ms();
    if (ck_retired_all(&t->watch, left > 0 ? (int)left : 0))
        free_transactor(t);
}

static int fail(ckafka_transactor *t, ckafka_fault *fault)
{
    transaction *core = &t->transaction;
    core->is_worn = true;
    return ck_fail(fault, ck_transaction_fault_kind(core->code), core->code, core->text);
}

int ckafka_transactor_take_over(ckafka_transactor *t, int deadline_ms, ckafka_fault *fault)
{
    t->until = ck_now_ms() + deadline_ms;
    if (ck_transaction_init(&t->transaction) != FINE)
        return fail(t, fault);
    /* Also where time ran out: a leader that is not known is only waited for later. */
    ck_transaction_warm_up(&t->transaction, NULL);
    return 0;
}

int ckafka_transactor_commit(ckafka_transactor *t, const ckafka_output *outputs, size_t count,
                             const uint8_t *arena, const ckafka_position **next,
                             size_t *next_count, ckafka_fault *fault)
{
    transaction *core = &t->transaction;
    if (core->is_worn || atomic_load(&t->watch.disconnect_count) != core->disconnects_known)
        return ck_fail(fault, CKAFKA_FAULT_UNAVAILABLE, RD_KAFKA_RESP_ERR__TRANSPORT,
                       "a connection was lost");
    if (ck_transaction_check(core, outputs, count, fault))
        return -1;
    int64_t until = ck_now_ms() + STORE_MS;
    t->until = ck_now_ms() + COMMIT_MS;
    const outlet out = {
        .rk = core->rk, .topics = core->topics, .arena = arena, .now_ms = ck_wall_ms()};
    enum verdict verdict = ck_transaction_begin(core);
    if (verdict == FINE)
        verdict = ck_transaction_produce(core, &out, outputs, count, -1, ALL_OUTPUTS, until);
    if (verdict == FINE)
        verdict = ck_transaction_flush(core, until);
    if (verdict == FINE)
        verdict = ck_transaction_commit(core, COMMIT_MS);
    if (verdict != FINE)
        return fail(t, fault);
    *next = core->told->next;
    *next_count = core->told->next_count;
    return 0;
}
