/*
 * Kafka for Tollway: flat structs and opaque handles over librdkafka 2.0.2.
 *
 * C never calls Swift.  Callbacks of the library stay in here, write into flat structs, and come
 * back from the next call.  One call serves a batch, never a record.  Pointers handed out live
 * until the next call on the same handle, unless said otherwise.
 *
 * A list of texts is one block of bytes: each text ended by a NUL, the list by an empty text.
 * Settings are such a list, name and value in turn.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Why a call failed, by what the caller must do. */
enum {
    CKAFKA_FAULT_NONE = 0,
    CKAFKA_FAULT_UNAVAILABLE = 1,
    CKAFKA_FAULT_FENCED = 2,
    CKAFKA_FAULT_UNUSABLE = 3,
    CKAFKA_FAULT_MISCONFIGURED = 4,
    CKAFKA_FAULT_TOO_LARGE = 5,
    CKAFKA_FAULT_LOST = 6,
    CKAFKA_FAULT_OURS = 7, /* calls in an order that they must not have */
};

typedef struct ckafka_fault {
    int32_t kind;
    int32_t code;          /* librdkafka's or Kafka's number */
    int64_t index;         /* of the output, where TOO_LARGE */
    int64_t byte_count;    /* where TOO_LARGE */
    int64_t byte_count_max;
    int64_t position;      /* where LOST: what was to be read */
    int32_t partition;     /* where LOST, of the topic in the message */
    char name[64];         /* rd_kafka_err2name of the code */
    char message[400];
} ckafka_fault;

/* Offsets into the batch's arena; a negative count is a null. */
typedef struct ckafka_record {
    int64_t offset;
    int64_t timestamp_ms;
    int64_t key_start, key_count;
    int64_t value_start, value_count;
    int64_t headers_start, headers_count;
    int32_t topic;
    int32_t partition;
    int32_t kept_headers; /* for outputs of the next transaction; -1: none */
} ckafka_record;

typedef struct ckafka_position {
    int64_t offset;
    int32_t topic;
    int32_t partition;
} ckafka_position;

enum { CKAFKA_EVENT_NONE = 0, CKAFKA_EVENT_ASSIGN = 1, CKAFKA_EVENT_REVOKE = 2, CKAFKA_EVENT_LOST = 3 };

typedef struct ckafka_batch {
    const ckafka_record *records;
    size_t record_count;
    const ckafka_position *ends; /* partitions read to their end */
    size_t end_count;
    const uint8_t *arena;
    size_t arena_count;
    const ckafka_position *event_partitions;
    size_t event_partition_count;
    int32_t event;
} ckafka_batch;

typedef struct ckafka_output {
    int64_t timestamp_ms; /* 0: now */
    int32_t key_start, key_count;
    int32_t value_start, value_count;
    int32_t headers_start, headers_count;
    int32_t topic;
    int32_t partition; /* -1: by key */
    int32_t kept_headers; /* of a record read since the last submit that has these very headers, so
                             that they need not be made again; else -1 */
} ckafka_output;

typedef struct ckafka_note {
    int32_t level;
    char facility[24];
    char text[360];
} ckafka_note;

/* Librdkafka's own. */
struct rd_kafka_s;
struct rd_kafka_topic_partition_list_s;
struct rd_kafka_consumer_group_metadata_s;

/* -- Settings ------------------------------------------------------------------------------- */

/* ckafka_check_settings: whether the library knows every name and takes every value. */
int ckafka_check_settings(const char *settings, ckafka_fault *fault);

/*
 * ckafka_tune_malloc: settings of the whole process's malloc, for a program that does little else than
 * hold records.  ${spare} bytes are not given back at the end of the heap.  Called once, before threads.
 */
void ckafka_tune_malloc(int spare);

/* -- A worker: its consumer --------------------------------------------------------------------- */

typedef struct ckafka_worker ckafka_worker;

/*
 * ckafka_worker_new: ${inquirer} answers questions until the close, ${sources} is a list of topics.  A
 * right or a topic that is missing for longer than ${watchdog_ms} is a fault.  Asks the broker nothing:
 * it may be away.
 */
ckafka_worker *ckafka_worker_new(const char *settings, struct rd_kafka_s *inquirer,
                                 const char *sources, int32_t watchdog_ms, ckafka_fault *fault);

/* ckafka_worker_wake_descriptor: an eventfd, readable when poll has news, until its wakes are forgotten:
 * by who waited for it, before all is looked at that may have raised it. */
int ckafka_worker_wake_descriptor(const ckafka_worker *worker);
void ckafka_worker_forget_wakes(const ckafka_worker *worker);

/*
 * ckafka_worker_poll(worker, record_max, byte_max, wait_ms, batch, fault):
 * Wait at most ${wait_ms} for the first record or event, then fill ${batch} with what is already
 * there: at most ${record_max} records, none beyond the first that passes ${byte_max} bytes.  An
 * event comes alone, and again until it is completed.  With ${record_max} of 0 records stay where
 * they are.
 */
int ckafka_worker_poll(ckafka_worker *worker, size_t record_max, size_t byte_max, int wait_ms,
                       ckafka_batch *batch, ckafka_fault *fault);

/* ckafka_worker_consumer: librdkafka's own handle, for the questions of an assignment; until the close. */
struct rd_kafka_s *ckafka_worker_consumer(const ckafka_worker *worker);
/* ckafka_worker_take_assigned: the partitions of an assignment that came since the last call; 0 without
 * one.  Its event waits until the caller knows where they are to be read from. */
int ckafka_worker_take_assigned(ckafka_worker *worker, const ckafka_position **partitions,
                                size_t *count);
/* ckafka_worker_show_assigned: the caller knows it; the next poll returns the event. */
void ckafka_worker_show_assigned(ckafka_worker *worker);

/* ckafka_worker_assign: take the partitions of the assign event, to be read from ${starts} on.  With
 * ${is_held} the poll returns nothing of a partition before it is released. */
int ckafka_worker_assign(ckafka_worker *worker, const ckafka_position *starts, size_t count, int is_held,
                         ckafka_fault *fault);
/* ckafka_worker_release: the poll returns what there is of this partition of each topic. */
void ckafka_worker_release(ckafka_worker *worker, int32_t partition);

/* ckafka_worker_unassign: give all partitions back. */
int ckafka_worker_unassign(ckafka_worker *worker, ckafka_fault *fault);

/* ckafka_worker_rewind: read on from these positions, of all partitions that are ours. */
int ckafka_worker_rewind(ckafka_worker *worker, const ckafka_position *positions, size_t count,
                         ckafka_fault *fault);

/*
 * ckafka_worker_take_statistics(worker, json):
 * The library's last statistics, librdkafka's STATISTICS.md; 0 where nothing is new.  Not ended by
 * a NUL.
 */
size_t ckafka_worker_take_statistics(ckafka_worker *worker, const char **json);

/* ckafka_worker_check_fatal: -1 where the consumer is of no more use.  A fence may have no twin behind it: the
 * group says so, and the caller asks it. */
int ckafka_worker_check_fatal(const ckafka_worker *worker, ckafka_fault *fault);
int ckafka_worker_is_away(const ckafka_worker *worker);
/* ckafka_worker_refusal: the right or the topic that the consumer lacks, in a sentence; null where it
 * lacks none; the one that lasts longest.  When Kafka still says so after the watchdog's time, a
 * poll fails with it. */
const char *ckafka_worker_refusal(const ckafka_worker *worker);
/* ckafka_worker_login_refusal: why no broker has let us in for some 30 s; 0 where none has refused. */
int ckafka_worker_login_refusal(ckafka_worker *worker, char *text, size_t size);
/* ckafka_worker_is_assigning: whether partitions were assigned and it is not known yet where they
 * are to be read from. */
int ckafka_worker_is_assigning(const ckafka_worker *worker);
size_t ckafka_worker_take_notes(ckafka_worker *worker, ckafka_note *notes, size_t capacity);

/* ckafka_worker_close: leave and free; 0 where what does not end in time is left to the process's end. */
int ckafka_worker_close(ckafka_worker *worker, int deadline_ms);

/* -- Signals between threads: an eventfd ------------------------------------------------------- */

int ckafka_signal_open(void);
void ckafka_signal_raise(int descriptor);
/* ckafka_signal_wait: until it is raised, at most ${wait_ms}; forgets that it was. */
void ckafka_signal_wait(int descriptor, int wait_ms);

/* -- The producer of ingest ------------------------------------------------------------------ */

typedef struct ckafka_producer ckafka_producer;

/* The results of outputs handed over one after the other with one tag: those of a request mostly
 * come back together. */
typedef struct ckafka_receipt {
    uint64_t tag;
    uint32_t output_count;
    int32_t code; /* 0: stored */
} ckafka_receipt;

ckafka_producer *ckafka_producer_new(const char *settings, const char *targets,
                                     size_t queue_byte_count_max, ckafka_fault *fault);
/**
 * ckafka_producer_name_targets(producer):
 * Tell the broker of the targets, so that the first records need not wait for their leaders.  A
 * broker that makes topics by itself makes those that are not there, with whatever settings it
 * likes: what comes too early cannot be undone.  The first ckafka_producer_produce does it as well.
 */
void ckafka_producer_name_targets(ckafka_producer *producer);
/**
 * ckafka_producer_reopen(producer, settings, fault):
 * Go on with a new client of other ${settings}.  What waits is given up, with its receipts.
 */
int ckafka_producer_reopen(ckafka_producer *producer, const char *settings, ckafka_fault *fault);
int ckafka_producer_wake_descriptor(const ckafka_producer *producer);
/* ckafka_producer_produce: one tag an output; what finds no room gets its receipt at once. */
void ckafka_producer_produce(ckafka_producer *producer, const ckafka_output *outputs, size_t count,
                             const uint8_t *arena, const uint64_t *tags);
int ckafka_producer_take_receipts(ckafka_producer *producer, const ckafka_receipt **receipts,
                                  size_t *count, ckafka_fault *fault);
size_t ckafka_producer_waiting_count(const ckafka_producer *producer);
size_t ckafka_producer_waiting_byte_count(const ckafka_producer *producer);
int ckafka_producer_is_away(const ckafka_producer *producer);
/* ckafka_producer_login_refusal: as ckafka_worker_login_refusal. */
int ckafka_producer_login_refusal(ckafka_producer *producer, char *text, size_t size);
size_t ckafka_producer_take_notes(ckafka_producer *producer, ckafka_note *notes, size_t capacity);
/* ckafka_producer_flush: 1 when nothing waits any more. */
int ckafka_producer_flush(ckafka_producer *producer, int deadline_ms);
void ckafka_producer_close(ckafka_producer *producer, int deadline_ms);

/* -- A client: a handle of the library's, and plain reading ---------------------------------- */

typedef struct ckafka_client ckafka_client;
typedef struct ckafka_reader ckafka_reader;

ckafka_client *ckafka_client_new(const char *settings, ckafka_fault *fault);
/* ckafka_client_handle: librdkafka's own, for requests that need nothing of ours; until the close. */
struct rd_kafka_s *ckafka_client_handle(const ckafka_client *client);
/* ckafka_client_refusal: why no broker has let us in just now; 0 where none has refused. */
int ckafka_client_refusal(ckafka_client *client, char *text, size_t size);
/* ckafka_fail_refused: -1 where an error says that a right or a topic is missing, which waiting alone does
 * not mend; ${what} is the topic, the group or the transactional id. */
int ckafka_fail_refused(ckafka_fault *fault, int32_t code, const char *what);
/* ckafka_fail_answer: what a failed answer means for the asker. */
int ckafka_fail_answer(ckafka_fault *fault, int32_t code, const char *text);
size_t ckafka_client_take_notes(ckafka_client *client, ckafka_note *notes, size_t capacity);
/* ckafka_client_close: what does not end in time is left to the process's end. */
void ckafka_client_close(ckafka_client *client, int deadline_ms);

/* A reader takes partitions by hand; several may share one client. ${topics} is a list. */
ckafka_reader *ckafka_reader_new(ckafka_client *client, const char *topics);
int ckafka_reader_start(ckafka_reader *reader, int32_t topic, int32_t partition, int64_t offset,
                        ckafka_fault *fault);
int ckafka_reader_poll(ckafka_reader *reader, size_t record_max, size_t byte_max, int wait_ms,
                       ckafka_batch *batch, ckafka_fault *fault);
/* ckafka_reader_close: its partitions are stopped on a thread of their own; what does not end in time goes
 * on there, and the client's handle stays until it has ended. */
void ckafka_reader_close(ckafka_reader *reader, int deadline_ms);

/* -- Transactions ---------------------------------------------------------------------------------
 *
 * The core of every transaction: a producer with a name that fences, and the steps of a transaction on
 * it.  What follows from a step that failed is for the caller to decide.
 */

typedef struct ckafka_transaction ckafka_transaction;

/* How a step ended: well; so that an abort lets the producer go on; or so that only a new producer of
 * the same name finds out what was committed. */
enum { CKAFKA_FINE = 0, CKAFKA_ABORT = 1, CKAFKA_REBUILD = 2 };

/* ckafka_transaction_new: makes no producer yet.  ${target_byte_count_max} is the largest record of each of
 * ${targets}, a list; not transactional are the steps without begin, offsets, commit and abort. */
ckafka_transaction *ckafka_transaction_new(const char *settings, const char *targets,
                                           const int64_t *target_byte_count_max,
                                           int32_t is_transactional);
/* ckafka_transaction_close: 0 where a producer does not end in time: then the memory, and what was lent,
 * is left to the process's end. */
int ckafka_transaction_close(ckafka_transaction *t, int deadline_ms);

/* ckafka_transaction_open: a new producer; one that was there ends in its own time. */
int ckafka_transaction_open(ckafka_transaction *t, ckafka_fault *fault);
void ckafka_transaction_drop(ckafka_transaction *t);
/* Producers that have not ended yet. */
uint32_t ckafka_transaction_retiring_count(const ckafka_transaction *t);
/* What lasts is given up: at once, from any thread; or when so much time has passed. */
void ckafka_transaction_stop(ckafka_transaction *t);
void ckafka_transaction_end_after(ckafka_transaction *t, int milliseconds);

/* ckafka_transaction_init: takes the name over: from then on nobody who had it before can commit, and
 * what was open under it has ended.  ABORT where it was stopped. */
int32_t ckafka_transaction_init(ckafka_transaction *t);
/* ckafka_transaction_warm_up: asks for the leaders of the targets: the first record for one would wait up
 * to a second (#5032).  ABORT where one is not there or may not be seen; REBUILD where it was stopped. */
int32_t ckafka_transaction_warm_up(ckafka_transaction *t);

/* ckafka_transaction_check: whether outputs go to targets and are within their sizes. */
int ckafka_transaction_check(const ckafka_transaction *t, const ckafka_output *outputs, size_t count,
                             ckafka_fault *fault);
int32_t ckafka_transaction_begin(ckafka_transaction *t);
/* ckafka_transaction_produce: hands outputs over. */
int32_t ckafka_transaction_produce(ckafka_transaction *t, const ckafka_output *outputs, size_t count,
                                   const uint8_t *arena, int wait_ms);
/* ckafka_transaction_flush: waits until everything is stored. */
int32_t ckafka_transaction_flush(ckafka_transaction *t, int wait_ms);
int32_t ckafka_transaction_send_offsets(ckafka_transaction *t,
                                        const struct rd_kafka_topic_partition_list_s *list,
                                        const struct rd_kafka_consumer_group_metadata_s *metadata);
/* ckafka_transaction_ask_why: of a transaction that will be aborted as its records were purged, which is
 * so where a partition could not be added to it: the next call that needs it tells the code. */
void ckafka_transaction_ask_why(ckafka_transaction *t,
                                const struct rd_kafka_topic_partition_list_s *list,
                                const struct rd_kafka_consumer_group_metadata_s *metadata);
/* ckafka_transaction_commit: one that took long may have been sent twice: then the producer is worn. */
int32_t ckafka_transaction_commit(ckafka_transaction *t, int timeout_ms);
/* ckafka_transaction_abort: REBUILD where it is not certain that nothing was written, or a message still
 * points to what was lent. */
int32_t ckafka_transaction_abort(ckafka_transaction *t, int wait_ms);
/* ckafka_transaction_written: the offset after the last record in each partition written; until the next
 * call. */
size_t ckafka_transaction_written(ckafka_transaction *t, const ckafka_position **written);
/* ckafka_transaction_let_go: of headers, and of what was lent where no message points to it any more. */
void ckafka_transaction_let_go(ckafka_transaction *t);
/* The bits of all arenas that are in use; from any thread. */
uint32_t ckafka_transaction_lent(const ckafka_transaction *t);
/*
 * ckafka_transaction_lend(t, worker, lent_bit):
 * For the next transaction, and not while one is under way: the headers of the records that a worker read
 * since the last call, and the arena, which must stay as it is while ckafka_transaction_lent has the bit.
 * An arena that was not lent is copied.
 */
void ckafka_transaction_lend(ckafka_transaction *t, ckafka_worker *worker, uint32_t lent_bit);

/* ckafka_transaction_show_error: why the last step did not end well. */
void ckafka_transaction_show_error(const ckafka_transaction *t, ckafka_fault *fault);
/* Whether somebody else took the name, or the transaction timed out. */
int ckafka_transaction_is_fenced(const ckafka_transaction *t);
int ckafka_transaction_is_away(const ckafka_transaction *t);
/* What it has done counts; it must not do more. */
int ckafka_transaction_is_worn(const ckafka_transaction *t);
/* Begun and not ended. */
int ckafka_transaction_is_open(const ckafka_transaction *t);
/* Whether a connection was lost since the warm-up: the coordinator may have been lost with it. */
int ckafka_transaction_lost_connection(ckafka_transaction *t);
size_t ckafka_transaction_take_notes(ckafka_transaction *t, ckafka_note *notes, size_t capacity);
