/* The core of every transaction: its steps, and the classes of their errors. */
#include "ckafka_transaction.h"

#include <stdio.h>
#include <string.h>

enum {
    RECORD_OVERHEAD = 128, /* batch and record heads, at the most */
    INIT_TURN_MS = 5000,
    FLUSH_TURN_MS = 50,
    STOPPED_FLUSH_MS = 1000, /* for the records of a transaction whose worker closes */
    FIRST_REPORT_MS = 2000,
    DOUBTFUL_MS = 5000,
    ABORT_TURN_MS = 200,
    REPEAT_MAX = 200,
    WARM_UP_MS = 2000,
    WARM_UP_TURN_MAX = 20,
    STEP_RETRY_MS = 50,
};

static bool is_stopped(const ckafka_transaction *t)
{
    return atomic_load(&t->is_stopped) || (t->until && ck_now_ms() > t->until);
}

int ckafka_transaction_check(const ckafka_transaction *t, const ckafka_output *outputs, size_t count,
                         ckafka_fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        const ckafka_output *o = &outputs[i];
        if (o->topic < 0 || (size_t)o->topic >= t->targets.count)
            return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__INVALID_ARG,
                           "an output for a topic that is no target");
        int64_t size = (int64_t)(o->key_count > 0 ? o->key_count : 0) +
                       (o->value_count > 0 ? o->value_count : 0) + o->headers_count +
                       RECORD_OVERHEAD;
        if (size <= t->byte_count_max[o->topic])
            continue;
        ck_fail(fault, CKAFKA_FAULT_TOO_LARGE, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                t->targets.items[o->topic]);
        fault->index = (int64_t)i;
        fault->byte_count = size;
        fault->byte_count_max = t->byte_count_max[o->topic];
        return -1;
    }
    return 0;
}

/* -- errors ----------------------------------------------------------------------------------- */

static void set_code(ckafka_transaction *t, rd_kafka_resp_err_t code, const char *text)
{
    t->code = code;
    snprintf(t->text, sizeof t->text, "%s", text ? text : rd_kafka_err2str(code));
}

/* What an error of a transactional call means; takes the error. */
static int32_t judge(ckafka_transaction *t, rd_kafka_error_t *error)
{
    bool lets_abort = !rd_kafka_error_is_fatal(error) && rd_kafka_error_txn_requires_abort(error);
    set_code(t, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    ck_watch_note(&t->watch, 4, "TXNERR", t->text);
    return lets_abort ? CKAFKA_ABORT : CKAFKA_REBUILD;
}

/* Whether a call failed for the moment only, and is made again as it was; takes the error then. */
static bool may_repeat(ckafka_transaction *t, rd_kafka_error_t *error)
{
    if (!rd_kafka_error_is_retriable(error) || rd_kafka_error_is_fatal(error) ||
        rd_kafka_error_txn_requires_abort(error))
        return false;
    set_code(t, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    rd_kafka_poll(t->rk, 0);
    ck_pause_ms(STEP_RETRY_MS);
    return true;
}

/* A record was not taken, or not stored. */
static int32_t judge_record(ckafka_transaction *t, rd_kafka_resp_err_t code, size_t target)
{
    char text[200];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(t->rk, text, sizeof text);
    if (fatal)
        set_code(t, fatal, text);
    else
        set_code(t, code, ck_is_refusal(code) ? t->targets.items[target] : NULL);
    return fatal ? CKAFKA_REBUILD : CKAFKA_ABORT;
}

/* -- the name --------------------------------------------------------------------------------- */

int32_t ckafka_transaction_init(ckafka_transaction *t)
{
    set_code(t, RD_KAFKA_RESP_ERR__TIMED_OUT, NULL);
    while (!is_stopped(t)) {
        rd_kafka_error_t *error = rd_kafka_init_transactions(t->rk, INIT_TURN_MS);
        rd_kafka_poll(t->rk, 0);
        if (!error)
            return CKAFKA_FINE;
        bool is_retriable = rd_kafka_error_is_retriable(error);
        set_code(t, rd_kafka_error_code(error), rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
        if (!is_retriable) {
            ck_watch_note(&t->watch, 3, "INIT", t->text);
            return CKAFKA_REBUILD;
        }
        ck_pause_ms(STEP_RETRY_MS);
    }
    return CKAFKA_ABORT;
}

/* One question: whether the target's leaders are known now; ${is_told} where a broker answered. */
static bool has_leaders(ckafka_transaction *t, size_t target, bool *is_told, rd_kafka_resp_err_t *code)
{
    const struct rd_kafka_metadata *metadata = NULL;
    *code = rd_kafka_metadata(t->rk, 0, t->topics[target], &metadata, WARM_UP_MS);
    *is_told = !*code;
    rd_kafka_poll(t->rk, 0);
    if (*code)
        return false;
    bool is_there = metadata->topic_cnt == 1 && !metadata->topics[0].err &&
                    metadata->topics[0].partition_cnt > 0;
    *code = metadata->topic_cnt == 1 ? metadata->topics[0].err : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_metadata_destroy(metadata);
    return is_there;
}

int ckafka_transaction_warm_up(ckafka_transaction *t)
{
    bool is_refused = false;
    for (size_t i = 0; i < t->targets.count; i++) {
        rd_kafka_resp_err_t code;
        bool is_told;
        for (int turn = 0; !has_leaders(t, i, &is_told, &code); turn++) {
            if (is_stopped(t))
                return CKAFKA_REBUILD;
            if (is_told && turn >= WARM_UP_TURN_MAX) {
                /* The first transaction that needs it finds out that it is not there. */
                if (!is_refused && ck_is_refusal(code))
                    set_code(t, code, t->targets.items[i]);
                is_refused |= ck_is_refusal(code);
                break;
            }
            ck_pause_ms(STEP_RETRY_MS);
        }
    }
    t->disconnects_known = atomic_load(&t->watch.disconnect_count);
    atomic_store(&t->watch.is_away, 0);
    return is_refused ? CKAFKA_ABORT : CKAFKA_FINE;
}

/* -- the steps -------------------------------------------------------------------------------- */

int32_t ckafka_transaction_begin(ckafka_transaction *t)
{
    ck_deliveries_reset(t->told);
    rd_kafka_error_t *error = t->is_transactional ? rd_kafka_begin_transaction(t->rk) : NULL;
    if (error) {
        judge(t, error);
        return CKAFKA_REBUILD;
    }
    t->is_open = t->is_transactional;
    return CKAFKA_FINE;
}

/* An abort would wait for the same broker; a new producer's start ends it as well. */
static int32_t give_up_storing(ckafka_transaction *t)
{
    set_code(t, RD_KAFKA_RESP_ERR__TIMED_OUT, NULL);
    return CKAFKA_REBUILD;
}

int32_t ckafka_transaction_produce(ckafka_transaction *t, const ckafka_output *outputs, size_t count,
                                   const uint8_t *arena, int wait_ms)
{
    int64_t until = ck_now_ms() + wait_ms;
    const outlet out = {
        .rk = t->rk,
        .topics = t->topics,
        .arena = arena,
        .is_lent = t->lent_bit != 0,
        .now_ms = ck_wall_ms(),
        .kept = &t->kept,
    };
    for (size_t i = 0; i < count;) {
        void *opaque = (void *)(intptr_t)outputs[i].topic;
        rd_kafka_resp_err_t code;
        size_t taken, done = ck_produce_run(&out, &outputs[i], count - i, opaque, &taken, &code);
        if (done == 0 && !code) {
            code = ck_produce_output(&out, &outputs[i], opaque);
            taken = done = code ? 0 : 1;
        }
        t->told->handed_count += taken;
        i += done;
        if (!code)
            continue;
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || ck_now_ms() > until)
            return judge_record(t, code, (size_t)outputs[i].topic);
        if (atomic_load(&t->is_stopped))
            return give_up_storing(t);
        rd_kafka_poll(t->rk, STEP_RETRY_MS);
    }
    return CKAFKA_FINE;
}

int32_t ckafka_transaction_flush(ckafka_transaction *t, int wait_ms)
{
    int64_t until = ck_now_ms() + wait_ms;
    int64_t stopped_until = 0;
    for (;;) {
        bool is_empty = rd_kafka_flush(t->rk, FLUSH_TURN_MS) == RD_KAFKA_RESP_ERR_NO_ERROR;
        size_t target;
        rd_kafka_resp_err_t failed = ck_deliveries_failure(t->told, &target);
        if (failed)
            return judge_record(t, failed, target);
        if (is_empty && ck_deliveries_waiting(t->told) == 0)
            return CKAFKA_FINE;
        rd_kafka_poll(t->rk, 0);
        if (rd_kafka_fatal_error(t->rk, NULL, 0))
            return judge_record(t, RD_KAFKA_RESP_ERR__FATAL, 0);
        /* The group waits for who closes; where Kafka is well, the transaction ends all the same. */
        if (!stopped_until && atomic_load(&t->is_stopped))
            stopped_until = ck_now_ms() + STOPPED_FLUSH_MS;
        if (ck_now_ms() > until || (stopped_until && ck_now_ms() > stopped_until))
            return give_up_storing(t);
    }
}

int32_t ckafka_transaction_send_offsets(ckafka_transaction *t,
                                        const struct rd_kafka_topic_partition_list_s *list,
                                        const struct rd_kafka_consumer_group_metadata_s *metadata)
{
    for (int turn = 0;; turn++) {
        rd_kafka_error_t *error = rd_kafka_send_offsets_to_transaction(t->rk, list, metadata, -1);
        if (!error)
            return CKAFKA_FINE;
        if (turn >= REPEAT_MAX || is_stopped(t) || !may_repeat(t, error))
            return judge(t, error);
    }
}

void ckafka_transaction_ask_why(ckafka_transaction *t,
                                const struct rd_kafka_topic_partition_list_s *list,
                                const struct rd_kafka_consumer_group_metadata_s *metadata)
{
    rd_kafka_error_t *error = rd_kafka_send_offsets_to_transaction(t->rk, list, metadata, -1);
    if (!error)
        return;
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    set_code(t, code, ck_is_refusal(code) ? "a topic that it writes" : rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

static int32_t end(ckafka_transaction *t, bool commits, int timeout_ms, int64_t until)
{
    int32_t verdict = CKAFKA_FINE;
    int64_t started = ck_now_ms();
    unsigned disconnect_count = atomic_load(&t->watch.disconnect_count);
    for (;;) {
        rd_kafka_error_t *error = commits ? rd_kafka_commit_transaction(t->rk, timeout_ms)
                                          : rd_kafka_abort_transaction(t->rk, timeout_ms);
        if (!error)
            break;
        /* A call that stays retriable is in doubt: a new producer decides. */
        if (ck_now_ms() < until && may_repeat(t, error))
            continue;
        verdict = judge(t, error);
        break;
    }
    if (verdict == CKAFKA_FINE)
        t->is_open = false;
    /* The request may have been sent twice, and a stray one would end the next transaction of this
     * producer; a new one fences it. */
    rd_kafka_poll(t->rk, 0); /* tells of connections that were lost meanwhile */
    if (ck_now_ms() - started > DOUBTFUL_MS ||
        atomic_load(&t->watch.disconnect_count) != disconnect_count)
        t->is_worn = true;
    return verdict;
}

int32_t ckafka_transaction_commit(ckafka_transaction *t, int timeout_ms)
{
    int32_t verdict = end(t, true, timeout_ms, ck_now_ms() + DOUBTFUL_MS);
    if (verdict == CKAFKA_FINE)
        atomic_store(&t->watch.is_away, 0);
    return verdict;
}

int32_t ckafka_transaction_abort(ckafka_transaction *t, int wait_ms)
{
    int64_t until = ck_now_ms() + wait_ms;
    /* Before the first delivery report it may overtake AddPartitionsToTxn and be fatal (#4849). */
    int64_t first = ck_now_ms() + FIRST_REPORT_MS;
    deliveries *d = t->told;
    while (d->handed_count > 0 && ck_deliveries_waiting(d) == d->handed_count &&
           ck_now_ms() < first && ck_now_ms() < until)
        rd_kafka_poll(t->rk, STEP_RETRY_MS);
    rd_kafka_resp_err_t code = t->code;
    char text[sizeof t->text];
    memcpy(text, t->text, sizeof text);
    /* In steps: it waits for what it has purged, which only rd_kafka_poll frees. */
    int32_t verdict = end(t, false, ABORT_TURN_MS, until);
    set_code(t, code, text); /* why it was aborted, not how */
    return verdict == CKAFKA_FINE && ck_deliveries_waiting(t->told) == 0 ? CKAFKA_FINE : CKAFKA_REBUILD;
}
