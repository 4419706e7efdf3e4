/* The core of every transaction: its producer's life, and what is known of it. */
#include "ckafka_transaction.h"

#include <stdlib.h>
#include <string.h>

/* -- life ------------------------------------------------------------------------------------- */

ckafka_transaction *ckafka_transaction_new(const char *settings, const char *targets,
                                           const int64_t *target_byte_count_max,
                                           int32_t is_transactional)
{
    ckafka_transaction *t = ck_take_memory(sizeof *t);
    ck_watch_open(&t->watch, t);
    ck_names_read(&t->targets, targets);
    t->settings = ck_settings_copy(settings);
    t->is_transactional = is_transactional != 0;
    t->topics = ck_take_memory(sizeof *t->topics * (t->targets.count + 1));
    t->byte_count_max = ck_take_memory(sizeof *t->byte_count_max * (t->targets.count + 1));
    memcpy(t->byte_count_max, target_byte_count_max,
           sizeof *target_byte_count_max * t->targets.count);
    return t;
}

int ckafka_transaction_close(ckafka_transaction *t, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    ckafka_transaction_drop(t);
    if (!ck_retired_all(&t->watch, (int)(until - ck_now_ms())))
        return 0;
    ck_free_kept_headers(&t->kept);
    ck_names_free(&t->targets);
    ck_watch_close(&t->watch);
    free(t->written);
    free(t->settings);
    free(t->topics);
    free(t->byte_count_max);
    free(t);
    return 1;
}

void ckafka_transaction_stop(ckafka_transaction *t)
{
    atomic_store(&t->is_stopped, 1);
}

int ckafka_transaction_open(ckafka_transaction *t, ckafka_fault *fault)
{
    /* What still waits must not be written behind the retry's back. */
    if (t->rk && !t->is_transactional)
        rd_kafka_purge(t->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    ckafka_transaction_drop(t);
    rd_kafka_conf_t *conf = ck_configure(t->settings, &t->watch, fault);
    if (!conf)
        return -1;
    deliveries *d = ck_deliveries_make(conf);
    t->rk = ck_open_handle(RD_KAFKA_PRODUCER, conf, true, &t->watch, fault);
    if (!t->rk) {
        if (ck_retired_all(&t->watch, 0))
            ck_deliveries_free(d);
        return -1;
    }
    t->told = d;
    t->is_worn = t->is_open = false;
    for (size_t i = 0; i < t->targets.count; i++) {
        t->topics[i] = rd_kafka_topic_new(t->rk, t->targets.items[i], NULL);
        if (!t->topics[i])
            return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, rd_kafka_last_error(), t->targets.items[i]);
    }
    return 0;
}

void ckafka_transaction_drop(ckafka_transaction *t)
{
    if (!t->rk)
        return;
    for (size_t i = 0; i < t->targets.count; i++)
        if (t->topics[i])
            rd_kafka_topic_destroy(t->topics[i]);
    memset(t->topics, 0, sizeof *t->topics * t->targets.count);
    /* Until the missing delivery reports are there, its messages may still be in use. */
    if (ck_deliveries_waiting(t->told) > 0) {
        t->told->lent = &t->lent;
        t->told->lent_bit = t->lent_bit;
        t->lent_bit = 0;
    }
    ck_retire(t->rk, &t->watch, ck_deliveries_free, t->told);
    t->rk = NULL;
    t->told = NULL;
}

uint32_t ckafka_transaction_retiring_count(const ckafka_transaction *t)
{
    return (uint32_t)atomic_load(&t->watch.retiring_count);
}

size_t ckafka_transaction_take_notes(ckafka_transaction *t, ckafka_note *notes, size_t capacity)
{
    return ck_watch_take(&t->watch, notes, capacity);
}

int ckafka_transaction_is_away(const ckafka_transaction *t)
{
    return atomic_load(&t->watch.is_away);
}

int ckafka_transaction_is_worn(const ckafka_transaction *t)
{
    return t->is_worn;
}

int ckafka_transaction_is_open(const ckafka_transaction *t)
{
    return t->is_open;
}

int ckafka_transaction_lost_connection(ckafka_transaction *t)
{
    rd_kafka_poll(t->rk, 0);
    return t->is_transactional && atomic_load(&t->watch.disconnect_count) != t->disconnects_known;
}

void ckafka_transaction_end_after(ckafka_transaction *t, int milliseconds)
{
    t->until = ck_now_ms() + milliseconds;
}

/* -- errors ----------------------------------------------------------------------------------- */

static int fault_kind(rd_kafka_resp_err_t code)
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

void ckafka_transaction_show_error(const ckafka_transaction *t, ckafka_fault *fault)
{
    ck_fail(fault, fault_kind(t->code), t->code, t->text);
}

int ckafka_transaction_is_fenced(const ckafka_transaction *t)
{
    return ck_is_fence(rd_kafka_fatal_error(t->rk, NULL, 0));
}

/* -- what was written, and with what ---------------------------------------------------------- */

size_t ckafka_transaction_written(ckafka_transaction *t, const ckafka_position **written)
{
    deliveries *d = t->told;
    pthread_mutex_lock(&d->lock);
    size_t count = d->next_count;
    t->written = ck_grow(t->written, sizeof *t->written * (count + 1));
    if (count)
        memcpy(t->written, d->next, sizeof *d->next * count);
    pthread_mutex_unlock(&d->lock);
    *written = t->written;
    return count;
}

void ckafka_transaction_let_go(ckafka_transaction *t)
{
    ck_drop_kept_headers(&t->kept);
    if (ck_deliveries_waiting(t->told) > 0)
        return;
    atomic_fetch_and(&t->lent, ~t->lent_bit);
    t->lent_bit = 0;
}

uint32_t ckafka_transaction_lent(const ckafka_transaction *t)
{
    return atomic_load(&t->lent);
}
