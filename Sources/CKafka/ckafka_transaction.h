/*
 * The inside of the core of every transaction: a producer with a name that fences, and the steps of a
 * transaction on it.
 */
#pragma once

#include "ckafka_internal.h"

/* What brokers said of the records handed over: one for each producer, freed with it. */
typedef struct deliveries {
    pthread_mutex_t lock;
    size_t handed_count; /* its producer's thread alone */
    size_t told_count, failed_count;
    rd_kafka_resp_err_t failed_code;
    size_t failed_target;
    ckafka_position *next; /* the offset after the last record written, by target and partition */
    size_t next_count, next_capacity, last;
    atomic_uint *lent; /* null, or where a bit is cleared when no message points to what was lent */
    unsigned lent_bit;
} deliveries;

/* Has those of the producer made from ${conf} counted. */
deliveries *ck_deliveries_make(rd_kafka_conf_t *conf);
/* Takes it as a thread's argument. */
void ck_deliveries_free(void *d);
void ck_deliveries_reset(deliveries *d);
/* Records handed over without a delivery report yet: they may still point to what was lent.  None
 * of null. */
size_t ck_deliveries_waiting(deliveries *d);
/* Why a record was not stored, and the target of the last one that was not; 0 while all were. */
rd_kafka_resp_err_t ck_deliveries_failure(deliveries *d, size_t *target);

struct ckafka_transaction {
    char *settings;
    names targets;
    int64_t *byte_count_max; /* of a record of each target */
    watch watch;
    bool is_transactional; /* else the steps without begin, offsets, commit and abort */
    atomic_int is_stopped;
    int64_t until; /* what lasts is given up then; 0: it is not */

    rd_kafka_t *rk;
    rd_kafka_topic_t **topics;
    deliveries *told;
    unsigned disconnects_known;
    bool is_worn; /* what it has done counts; it must not do more */
    bool is_open; /* begun and not ended */

    atomic_uint lent; /* a bit for each arena that messages may point into */
    unsigned lent_bit; /* of the transaction's; none where a retired producer has it */
    kept_headers kept; /* of the records that its outputs were made from */
    ckafka_position *written;

    rd_kafka_resp_err_t code; /* why the last step did not end well */
    char text[300];
};
