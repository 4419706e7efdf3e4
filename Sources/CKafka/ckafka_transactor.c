/*
 * Transactions by hand, one after the other, under a name that fences whoever had it before: for
 * the operator's command.  Every call blocks.  After any failure the handle is of no more use: a
 * new one takes over, which ends what this one left open, and what was committed is read anew.
 */
#include "ckafka_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INIT_TURN_MS = 2000,
    STORE_MS = 10000,    /* for all outputs to be stored; below the transaction's 15 s */
    COMMIT_MS = 30000,
    ABORT_MS = 5000,
    DOUBTFUL_MS = 5000,  /* a commit that took longer may have been sent twice */
    RETRY_MS = 50,
};

struct ckafka_transactor {
    watch watch;
    names targets;
    int64_t *target_byte_count_max;
    rd_kafka_t *rk;
    rd_kafka_topic_t **topics;
    unsigned disconnects_known;
    bool is_worn; /* what it has done counts; it must not do more */
    bool is_open; /* a transaction was begun and not ended */
    size_t waiting_count;
    rd_kafka_resp_err_t failed_code;
    ckafka_position *next; /* the offset after the last record written, by target and partition */
    size_t next_count, next_capacity;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    ckafka_transactor *t = ((watch *)opaque)->owner;
    if (rk != t->rk)
        return; /* retired */
    t->waiting_count--;
    if (message->err) {
        t->failed_code = message->err;
        return;
    }
    int32_t target = (int32_t)(intptr_t)message->_private;
    for (size_t i = 0; i < t->next_count; i++) {
        ckafka_position *at = &t->next[i];
        if (at->topic != target || at->partition != message->partition)
            continue;
        if (at->offset <= message->offset)
            at->offset = message->offset + 1;
        return;
    }
    if (t->next_count == t->next_capacity) {
        t->next_capacity = t->next_capacity ? t->next_capacity * 2 : 64;
        t->next = ck_grow(t->next, sizeof *t->next * t->next_capacity);
    }
    t->next[t->next_count++] = (ckafka_position){
        .offset = message->offset + 1, .topic = target, .partition = message->partition};
}

/* -- life ------------------------------------------------------------------------------------- */

static void free_transactor(ckafka_transactor *t)
{
    ck_watch_close(&t->watch);
    ck_names_free(&t->targets);
    free(t->target_byte_count_max);
    free(t->topics);
    free(t->next);
    free(t);
}

ckafka_transactor *ckafka_transactor_new(const char *settings, const char *targets,
                                         const int64_t *target_byte_count_max,
                                         ckafka_fault *fault)
{
    ckafka_transactor *t = ck_take_memory(sizeof *t);
    ck_watch_open(&t->watch, t);
    ck_names_read(&t->targets, targets);
    t->topics = ck_take_memory(sizeof *t->topics * (t->targets.count + 1));
    size_t limits = sizeof *t->target_byte_count_max * (t->targets.count + 1);
    t->target_byte_count_max = ck_take_memory(limits);
    memcpy(t->target_byte_count_max, target_byte_count_max,
           sizeof *t->target_byte_count_max * t->targets.count);
    rd_kafka_conf_t *conf = ck_configure(settings, &t->watch, fault);
    if (conf) {
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        t->rk = ck_open_handle(RD_KAFKA_PRODUCER, conf, &t->watch, fault);
    }
    if (!t->rk) {
        if (ck_retired_all(&t->watch, 0))
            free_transactor(t);
        return NULL;
    }
    for (size_t i = 0; i < t->targets.count; i++)
        t->topics[i] = rd_kafka_topic_new(t->rk, t->targets.items[i], NULL);
    return t;
}

void ckafka_transactor_close(ckafka_transactor *t)
{
    if (t->is_open) {
        /* Readers wait behind it until it times out; if this fails, they do. */
        rd_kafka_error_t *error = rd_kafka_abort_transaction(t->rk, ABORT_MS);
        if (error)
            rd_kafka_error_destroy(error);
    }
    rd_kafka_t *rk = t->rk;
    for (size_t i = 0; i < t->targets.count; i++)
        if (t->topics[i])
            rd_kafka_topic_destroy(t->topics[i]);
    t->rk = NULL;
    ck_retire(rk, &t->watch, NULL);
    /* One that hangs may still write notes: then the memory is left to the process's end. */
    if (ck_retired_all(&t->watch, 2000))
        free_transactor(t);
}

/* -- faults ----------------------------------------------------------------------------------- */

/* Takes the error. */
static int fail_transaction(ckafka_fault *fault, rd_kafka_error_t *error)
{
    int kind = CKAFKA_FAULT_UNAVAILABLE;
    if (ck_is_fence(rd_kafka_error_code(error)))
        return ck_fail_error(fault, CKAFKA_FAULT_FENCED, error);
    switch (rd_kafka_error_code(error)) {
    case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
        kind = CKAFKA_FAULT_MISCONFIGURED;
        break;
    default:
        break;
    }
    return ck_fail_error(fault, kind, error);
}

static int fail_code(ckafka_transactor *t, ckafka_fault *fault, rd_kafka_resp_err_t code)
{
    char text[300];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(t->rk, text, sizeof text);
    if (fatal)
        code = fatal;
    int kind = ck_is_fence(code) ? CKAFKA_FAULT_FENCED : CKAFKA_FAULT_UNAVAILABLE;
    switch (code) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        kind = CKAFKA_FAULT_MISCONFIGURED;
        break;
    default:
        break;
    }
    return ck_fail(fault, kind, code, fatal ? text : rd_kafka_err2str(code));
}

/* -- the name --------------------------------------------------------------------------------- */

static bool is_past(void *argument)
{
    return ck_now_ms() > *(int64_t *)argument;
}

int ckafka_transactor_take_over(ckafka_transactor *t, int deadline_ms, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + deadline_ms;
    for (;;) {
        rd_kafka_error_t *error = rd_kafka_init_transactions(t->rk, INIT_TURN_MS);
        rd_kafka_poll(t->rk, 0);
        if (!error)
            break;
        if (rd_kafka_error_is_retriable(error) && ck_now_ms() < until) {
            rd_kafka_error_destroy(error);
            ck_pause_ms(RETRY_MS);
            continue;
        }
        return fail_transaction(fault, error);
    }
    /* Also where time ran out: a leader that is not known is only waited for later. */
    ck_warm_up(t->rk, t->topics, t->targets.count, is_past, &until, NULL);
    t->disconnects_known = atomic_load(&t->watch.disconnect_count);
    return 0;
}

/* -- a transaction ---------------------------------------------------------------------------- */

static int store(ckafka_transactor *t, const ckafka_output *outputs, size_t count,
                 const uint8_t *arena, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + STORE_MS;
    const outlet out = {
        .rk = t->rk, .topics = t->topics, .arena = arena, .now_ms = ck_wall_ms()};
    for (size_t i = 0; i < count; i++) {
        for (;;) {
            rd_kafka_resp_err_t code =
                ck_produce_output(&out, &outputs[i], (void *)(intptr_t)outputs[i].topic);
            if (!code)
                break;
            if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || ck_now_ms() > until)
                return fail_code(t, fault, code);
            rd_kafka_poll(t->rk, RETRY_MS);
        }
        t->waiting_count++;
        if ((i & 1023) == 0)
            rd_kafka_poll(t->rk, 0);
    }
    while (t->waiting_count > 0 && !t->failed_code) {
        rd_kafka_flush(t->rk, 200);
        rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(t->rk, NULL, 0);
        if (fatal)
            return fail_code(t, fault, fatal);
        if (ck_now_ms() > until)
            return fail_code(t, fault, RD_KAFKA_RESP_ERR__TIMED_OUT);
    }
    return t->failed_code ? fail_code(t, fault, t->failed_code) : 0;
}

static int commit(ckafka_transactor *t, ckafka_fault *fault)
{
    int64_t started = ck_now_ms();
    for (;;) {
        rd_kafka_error_t *error = rd_kafka_commit_transaction(t->rk, COMMIT_MS);
        if (!error)
            break;
        if (ck_may_repeat(error) && ck_now_ms() - started < DOUBTFUL_MS) {
            rd_kafka_error_destroy(error);
            ck_pause_ms(RETRY_MS);
            continue;
        }
        return fail_transaction(fault, error);
    }
    /* The request may have been sent twice, and a stray one would end the next transaction of
     * this producer; a new one fences it. */
    if (ck_now_ms() - started > DOUBTFUL_MS)
        t->is_worn = true;
    return 0;
}

int ckafka_transactor_commit(ckafka_transactor *t, const ckafka_output *outputs, size_t count,
                             const uint8_t *arena, const ckafka_position **next,
                             size_t *next_count, ckafka_fault *fault)
{
    if (t->is_worn || atomic_load(&t->watch.disconnect_count) != t->disconnects_known)
        return ck_fail(fault, CKAFKA_FAULT_UNAVAILABLE, RD_KAFKA_RESP_ERR__TRANSPORT,
                       "a connection was lost");
    if (ck_check_outputs(&t->targets, t->target_byte_count_max, outputs, count, fault))
        return -1;
    t->is_worn = true; /* until it is known to have gone well */
    t->waiting_count = t->next_count = 0;
    t->failed_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_error_t *error = rd_kafka_begin_transaction(t->rk);
    if (error)
        return fail_transaction(fault, error);
    t->is_open = true;
    if (store(t, outputs, count, arena, fault))
        return -1;
    t->is_worn = false;
    if (commit(t, fault)) {
        t->is_worn = true;
        return -1;
    }
    t->is_open = false;
    *next = t->next;
    *next_count = t->next_count;
    return 0;
}
