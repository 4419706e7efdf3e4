/*
 * The core of every transaction: a producer with a name that fences, and the steps of a transaction on
 * it.  A worker's committer and the command's transactor stand on it; what follows from a step that
 * failed is theirs to decide.
 */
#pragma once

#include "ckafka_internal.h"

/* How a step ended: well; so that an abort lets the producer go on; or so that only a new producer of
 * the same name finds out what was committed. */
enum verdict { FINE, ABORT, REBUILD };

/* Where the calls are that can hang, whatever their timeout says (#5456): for a watchdog. */
enum phase { RESTING, SENDING_OFFSETS, ENDING, ASKING };

/* Which outputs are handed over. */
enum part { ALL_OUTPUTS, CHANGELOG_ONLY, OTHERS_ONLY };

enum { STEP_RETRY_MS = 50 };

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

typedef struct transaction {
    char *settings;
    const names *targets;
    int64_t *byte_count_max; /* of a record of each target */
    watch *watch;
    bool is_transactional; /* else the steps without begin, offsets, commit and abort */
    bool (*is_stopped)(void *owner); /* asked while something lasts */
    void *owner;

    rd_kafka_t *rk;
    rd_kafka_topic_t **topics;
    deliveries *told;
    unsigned disconnects_known;
    bool is_worn; /* what it has done counts; it must not do more */
    bool is_open; /* begun and not ended */

    rd_kafka_resp_err_t code; /* why the last step did not end well */
    char text[300];
    atomic_int phase;
    atomic_llong phase_since;
} transaction;

/* Takes copies, but of ${targets}, which stay until ck_transaction_free. */
void ck_transaction_prepare(transaction *t, const char *settings, const names *targets,
                            const int64_t *byte_count_max, watch *w);
void ck_transaction_free(transaction *t);

/* Makes the producer; false with a fault. */
bool ck_transaction_open(transaction *t, ckafka_fault *fault);
/* Lets it end in its own time.  Then ${bit} of ${lent} is cleared, where that is not null: its messages
 * may point into what the bit stands for. */
void ck_transaction_drop(transaction *t, atomic_uint *lent, unsigned bit);
/* Takes the name over: from then on nobody who had it before can commit.  ABORT where it was stopped. */
enum verdict ck_transaction_init(transaction *t);
/* Asks for the leaders of the targets: the first record for one would wait up to a second (#5032).
 * False where it was stopped.  ${refused}, which may be null, gets the index of the first that is not
 * there or may not be seen, with t->code; -1 where all are. */
bool ck_transaction_warm_up(transaction *t, int *refused);

/* Whether outputs go to targets and are within their sizes; -1 with the first that is not. */
int ck_transaction_check(const transaction *t, const ckafka_output *outputs, size_t count,
                         ckafka_fault *fault);
enum verdict ck_transaction_begin(transaction *t);
/* Hands outputs over; ${out} says where they lie. */
enum verdict ck_transaction_produce(transaction *t, const outlet *out, const ckafka_output *outputs,
                                    size_t count, int changelog, enum part part, int64_t until);
/* Waits until everything is stored. */
enum verdict ck_transaction_flush(transaction *t, int64_t until);
/* Takes both. */
enum verdict ck_transaction_send_offsets(transaction *t, rd_kafka_topic_partition_list_t *list,
                                         rd_kafka_consumer_group_metadata_t *metadata);
/* A commit that took long may have been sent twice: then the producer is worn. */
enum verdict ck_transaction_commit(transaction *t, int timeout_ms);
/* REBUILD where it is not certain that nothing was written, or a message still points to what was lent. */
enum verdict ck_transaction_abort(transaction *t, int64_t until);

void ck_transaction_enter(transaction *t, enum phase phase);
/* What a code means for the caller: a kind of fault. */
int ck_transaction_fault_kind(rd_kafka_resp_err_t code);
