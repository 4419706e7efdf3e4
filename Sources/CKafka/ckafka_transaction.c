/* The core of every transaction; see ckafka_transaction.h. */
#include "ckafka_transaction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECORD_OVERHEAD = 128, /* batch and record heads, at the most */
    INIT_TURN_MS = 5000,
    FLUSH_TURN_MS = 50,
    FIRST_REPORT_MS = 2000,
    DOUBTFUL_MS = 5000,
    ABORT_TURN_MS = 200,
    REPEAT_MAX = 200,
    WARM_UP_MS = 2000,
    WARM_UP_TURN_MAX = 20,
};

int ck_transaction_check(const transaction *t, const ckafka_output *outputs, size_t count,
                         ckafka_fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        const ckafka_output *o = &outputs[i];
        if (o->topic < 0 || (size_t)o->topic >= t->targets->count)
            return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__INVALID_ARG,
                           "an output for a topic that is no target");
        int64_t size = (int64_t)(o->key_count > 0 ? o->key_count : 0) +
                       (o->value_count > 0 ? o->value_count : 0) + o->headers_count +
                       RECORD_OVERHEAD;
        if (size <= t->byte_count_max[o->topic])
            continue;
        ck_fail(fault, CKAFKA_FAULT_TOO_LARGE, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                t->targets->items[o->topic]);
        fault->index = (int64_t)i;
        fault->byte_count = size;
        fault->byte_count_max = t->byte_count_max[o->topic];
        return -1;
    }
    return 0;
}

/* -- life ------------------------------------------------------------------------------------- */

void ck_transaction_prepare(transaction *t, const char *settings, const names *targets,
                            const int64_t *byte_count_max, watch *w)
{
    t->settings = ck_settings_copy(settings);
    t->watch = w;
    t->targets = targets;
    t->topics = ck_take_memory(sizeof *t->topics * (targets->count + 1));
    t->byte_count_max = ck_take_memory(sizeof *t->byte_count_max * (targets->count + 1));
    memcpy(t->byte_count_max, byte_count_max, sizeof *byte_count_max * targets->count);
}

void ck_transaction_free(transaction *t)
{
    free(t->settings);
    free(t->topics);
    free(t->byte_count_max);
}

bool ck_transaction_open(transaction *t, ckafka_fault *fault)
{
    rd_kafka_conf_t *conf = ck_configure(t->settings, t->watch, fault);
    if (!conf)
        return false;
    deliveries *d = ck_deliveries_make(conf);
    t->rk = ck_open_handle(RD_KAFKA_PRODUCER, conf, t->watch, fault);
    if (!t->rk) {
        if (ck_retired_all(t->watch, 0))
            ck_deliveries_free(d);
        return false;
    }
    t->told = d;
    t->is_worn = t->is_open = false;
    for (size_t i = 0; i < t->targets->count; i++) {
        t->topics[i] = rd_kafka_topic_new(t->rk, t->targets->items[i], NULL);
        if (!t->topics[i]) {
            ck_fail(fault, CKAFKA_FAULT_UNUSABLE, rd_kafka_last_error(), t->targets->items[i]);
            return false;
        }
    }
    return true;
}

void ck_transaction_drop(transaction *t, atomic_uint *lent, unsigned bit)
{
    if (!t->rk)
        return;
    for (size_t i = 0; i < t->targets->count; i++)
        if (t->topics[i])
            rd_kafka_topic_destroy(t->topics[i]);
    memset(t->topics, 0, sizeof *t->topics * t->targets->count);
    t->told->lent = lent;
    t->told->lent_bit = bit;
    ck_retire(t->rk, t->watch, ck_deliveries_free, t->told);
    t->rk = NULL;
    t->told = NULL;
}

/* -- errors ----------------------------------------------------------------------------------- */

int ck_transaction_fault_kind(rd_kafka_resp_err_t code)
{
    if (ck_is_fence(code))
        return CKAFKA_FAULT_FENCED;
    switch (code) {
    case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE: return CKAFKA_FAULT_MISCONFIGURED;
    default: return CKAFKA_FAULT_UNAVAILABLE;
    }
}

static void set_code(transaction *t, rd_kafka_resp_err_t code, const char *text)
{
    t->code = code;
    snprintf(t->text, sizeof t->text, "%s", text ? text : rd_kafka_err2str(code));
}

/* What an error of a transactional call means; takes the error. */
static enum verdict judge(transaction *t, rd_kafka_error_t *error)
{
    bool lets_abort = !rd_kafka_error_is_fatal(error) && rd_kafka_error_txn_requires_abort(error);
    set_code(t, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    ck_watch_note(t->watch, 4, "TXNERR", t->text);
    return lets_abort ? ABORT : REBUILD;
}

/* Whether a call failed for the moment only, and is made again as it was; takes the error then. */
static bool may_repeat(transaction *t, rd_kafka_error_t *error)
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
static enum verdict judge_record(transaction *t, rd_kafka_resp_err_t code, size_t target)
{
    char text[200];
    rd_kafka_resp_err_t fatal = rd_kafka_fatal_error(t->rk, text, sizeof text);
    if (fatal)
        set_code(t, fatal, text);
    else
        set_code(t, code, ck_is_refusal(code) ? t->targets->items[target] : NULL);
    return fatal ? REBUILD : ABORT;
}

void ck_transaction_enter(transaction *t, enum phase phase)
{
    atomic_store(&t->phase_since, ck_now_ms());
    atomic_store(&t->phase, phase);
}

/* -- the name --------------------------------------------------------------------------------- */

enum verdict ck_transaction_init(transaction *t)
{
    set_code(t, RD_KAFKA_RESP_ERR__TIMED_OUT, NULL);
    while (!t->is_stopped(t->owner)) {
        rd_kafka_error_t *error = rd_kafka_init_transactions(t->rk, INIT_TURN_MS);
        rd_kafka_poll(t->rk, 0);
        if (!error)
            return FINE;
        bool is_retriable = rd_kafka_error_is_retriable(error);
        set_code(t, rd_kafka_error_code(error), rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
        if (!is_retriable) {
            ck_watch_note(t->watch, 3, "INIT", t->text);
            return REBUILD;
        }
        ck_pause_ms(STEP_RETRY_MS);
    }
    return ABORT;
}

/* One question: whether the target's leaders are known now; ${is_told} where a broker answered. */
static bool has_leaders(transaction *t, size_t target, bool *is_told, rd_kafka_resp_err_t *code)
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

bool ck_transaction_warm_up(transaction *t, int *refused)
{
    if (refused)
        *refused = -1;
    for (size_t i = 0; i < t->targets->count; i++) {
        rd_kafka_resp_err_t code;
        bool is_told;
        for (int turn = 0; !has_leaders(t, i, &is_told, &code); turn++) {
            if (t->is_stopped(t->owner))
                return false;
            if (is_told && turn >= WARM_UP_TURN_MAX) {
                /* The first transaction that needs it finds out that it is not there. */
                if (refused && *refused < 0 && ck_is_refusal(code)) {
                    *refused = (int)i;
                    set_code(t, code, t->targets->items[i]);
                }
                break;
            }
            ck_pause_ms(STEP_RETRY_MS);
        }
    }
    t->disconnects_known = atomic_load(&t->watch->disconnect_count);
    return true;
}

/* -- the steps -------------------------------------------------------------------------------- */

enum verdict ck_transaction_begin(transaction *t)
{
    ck_deliveries_reset(t->told);
    rd_kafka_error_t *error = t->is_transactional ? rd_kafka_begin_transaction(t->rk) : NULL;
    if (error) {
        judge(t, error);
        return REBUILD;
    }
    t->is_open = t->is_transactional;
    return FINE;
}

enum verdict ck_transaction_produce(transaction *t, const outlet *out, const ckafka_output *outputs,
                                    size_t count, int changelog, enum part part, int64_t until)
{
    for (size_t i = 0; i < count;) {
        const ckafka_output *output = &outputs[i];
        void *opaque = (void *)(intptr_t)output->topic;
        if (part != ALL_OUTPUTS && (part == CHANGELOG_ONLY) != (output->topic == changelog)) {
            i++;
            continue;
        }
        rd_kafka_resp_err_t code;
        size_t taken, done = ck_produce_run(out, output, count - i, opaque, &taken, &code);
        if (done == 0 && !code) {
            code = ck_produce_output(out, output, opaque);
            taken = done = code ? 0 : 1;
        }
        t->told->handed_count += taken;
        i += done;
        if (!code)
            continue;
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || ck_now_ms() > until)
            return judge_record(t, code, (size_t)outputs[i].topic);
        rd_kafka_poll(t->rk, STEP_RETRY_MS);
    }
    return FINE;
}

enum verdict ck_transaction_flush(transaction *t, int64_t until)
{
    for (;;) {
        bool is_empty = rd_kafka_flush(t->rk, FLUSH_TURN_MS) == RD_KAFKA_RESP_ERR_NO_ERROR;
        size_t target;
        rd_kafka_resp_err_t failed = ck_deliveries_failure(t->told, &target);
        if (failed)
            return judge_record(t, failed, target);
        if (is_empty && ck_deliveries_waiting(t->told) == 0)
            return FINE;
        rd_kafka_poll(t->rk, 0);
        if (rd_kafka_fatal_error(t->rk, NULL, 0))
            return judge_record(t, RD_KAFKA_RESP_ERR__FATAL, 0);
        if (ck_now_ms() > until) {
            /* An abort would wait for the same broker; a new producer's start ends it as well. */
            set_code(t, RD_KAFKA_RESP_ERR__TIMED_OUT, NULL);
            return REBUILD;
        }
    }
}

enum verdict ck_transaction_send_offsets(transaction *t, rd_kafka_topic_partition_list_t *list,
                                         rd_kafka_consumer_group_metadata_t *metadata)
{
    enum verdict verdict = FINE;
    ck_transaction_enter(t, SENDING_OFFSETS);
    for (int turn = 0;; turn++) {
        rd_kafka_error_t *error = rd_kafka_send_offsets_to_transaction(t->rk, list, metadata, -1);
        if (!error)
            break;
        if (turn < REPEAT_MAX && !t->is_stopped(t->owner) && may_repeat(t, error))
            continue;
        verdict = judge(t, error);
        break;
    }
    ck_transaction_enter(t, RESTING);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_consumer_group_metadata_destroy(metadata);
    return verdict;
}

static enum verdict end(transaction *t, bool commits, int timeout_ms, int64_t until)
{
    enum verdict verdict = FINE;
    int64_t started = ck_now_ms();
    ck_transaction_enter(t, ENDING);
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
    ck_transaction_enter(t, RESTING);
    if (verdict == FINE)
        t->is_open = false;
    /* The request may have been sent twice, and a stray one would end the next transaction of this
     * producer; a new one fences it. */
    if (ck_now_ms() - started > DOUBTFUL_MS)
        t->is_worn = true;
    return verdict;
}

enum verdict ck_transaction_commit(transaction *t, int timeout_ms)
{
    return end(t, true, timeout_ms, ck_now_ms() + DOUBTFUL_MS);
}

enum verdict ck_transaction_abort(transaction *t, int64_t until)
{
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
    enum verdict verdict = end(t, false, ABORT_TURN_MS, until);
    set_code(t, code, text); /* why it was aborted, not how */
    return verdict == FINE && ck_deliveries_waiting(t->told) == 0 ? FINE : REBUILD;
}
