/* What brokers say of the records handed over, counted where their answers are read. */
#include "ckafka_transaction.h"

#include <stdlib.h>

/* On a broker's thread, for each record: an event for each, handed to our thread, costs a tenth of all
 * that a worker does. */
static rd_kafka_resp_err_t on_acknowledgement(rd_kafka_t *rk, rd_kafka_message_t *message,
                                              void *opaque)
{
    deliveries *d = opaque;
    int32_t target = (int32_t)(intptr_t)message->_private;
    (void)rk;
    pthread_mutex_lock(&d->lock);
    d->told_count++;
    if (message->err) {
        d->failed_count++;
        d->failed_code = message->err;
        d->failed_target = (size_t)target;
        goto done;
    }
    /* Those of one batch come one after the other. */
    for (size_t i = 0; d->next_count && i <= d->next_count; i++) {
        size_t at = i ? i - 1 : d->last;
        ckafka_position *next = &d->next[at];
        if (next->topic != target || next->partition != message->partition)
            continue;
        if (next->offset <= message->offset)
            next->offset = message->offset + 1;
        d->last = at;
        goto done;
    }
    if (d->next_count == d->next_capacity) {
        d->next_capacity = d->next_capacity ? d->next_capacity * 2 : 64;
        d->next = ck_grow(d->next, sizeof *d->next * d->next_capacity);
    }
    d->last = d->next_count;
    d->next[d->next_count++] = (ckafka_position){
        .offset = message->offset + 1, .topic = target, .partition = message->partition};
done:
    pthread_mutex_unlock(&d->lock);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *opaque,
                                  char *text, size_t size)
{
    (void)conf;
    (void)text;
    (void)size;
    return rd_kafka_interceptor_add_on_acknowledgement(rk, "tollway", on_acknowledgement, opaque);
}

void ck_deliveries_free(void *argument)
{
    deliveries *d = argument;
    pthread_mutex_destroy(&d->lock);
    free(d->next);
    if (d->lent)
        atomic_fetch_and(d->lent, ~d->lent_bit);
    free(d);
}

deliveries *ck_deliveries_make(rd_kafka_conf_t *conf)
{
    deliveries *d = ck_take_memory(sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    /* Events and no callback: rd_kafka_flush of 2.0.2 then waits for the count, and not in steps of
     * 10 ms; and only those of failures, which rd_kafka_poll drops: they are counted above. */
    rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR);
    rd_kafka_conf_set(conf, "delivery.report.only.error", "true", NULL, 0);
    rd_kafka_conf_interceptor_add_on_new(conf, "tollway", on_new, d);
    return d;
}

void ck_deliveries_reset(deliveries *d)
{
    pthread_mutex_lock(&d->lock);
    d->handed_count = d->told_count = d->failed_count = d->next_count = d->last = 0;
    pthread_mutex_unlock(&d->lock);
}

size_t ck_deliveries_waiting(deliveries *d)
{
    if (!d)
        return 0;
    pthread_mutex_lock(&d->lock);
    /* A record that is refused at once may be reported though it was not handed over. */
    size_t count = d->handed_count > d->told_count ? d->handed_count - d->told_count : 0;
    pthread_mutex_unlock(&d->lock);
    return count;
}

rd_kafka_resp_err_t ck_deliveries_failure(deliveries *d, size_t *target)
{
    pthread_mutex_lock(&d->lock);
    rd_kafka_resp_err_t code = d->failed_count ? d->failed_code : RD_KAFKA_RESP_ERR_NO_ERROR;
    *target = d->failed_target;
    pthread_mutex_unlock(&d->lock);
    return code;
}
