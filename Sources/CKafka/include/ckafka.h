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

enum {
    CKAFKA_OUTCOME_NONE = 0,
    CKAFKA_OUTCOME_COMMITTED = 1,
    CKAFKA_OUTCOME_ABORTED = 2,
};

typedef struct ckafka_outcome {
    int32_t kind;
    char code[64];                    /* why, where aborted */
    const ckafka_position *positions; /* committed: next offset of each target partition written;
                                         aborted: where each source partition goes on */
    size_t position_count;
} ckafka_outcome;

typedef struct ckafka_note {
    int32_t level;
    char facility[24];
    char text[360];
} ckafka_note;

struct rd_kafka_s; /* a handle of librdkafka's */

/* -- Settings ------------------------------------------------------------------------------- */

/* ckafka_check_settings: whether the library knows every name and takes every value. */
int ckafka_check_settings(const char *settings, ckafka_fault *fault);

/*
 * ckafka_tune_malloc: settings of the whole process's malloc, for a program that does little else than
 * hold records; ${reads_batches} where it reads them in batches.  Called once, before threads.
 */
void ckafka_tune_malloc(int reads_batches);

/* -- A worker: consumer, producer, commit thread -------------------------------------------- */

typedef struct ckafka_worker ckafka_worker;

/*
 * ckafka_worker_new: the settings are those of its handles, ${inquirer} answers questions until the
 * close, ${sources} and ${targets} are lists of topics, ${target_byte_count_max} the largest record of
 * each target, ${changelog} an index into the targets or -1.  A call to a coordinator that takes longer than ${watchdog_ms}, and a right or a topic that is
 * missing for longer, is a fault.
 * Asks the broker nothing: it may be away.
 */
ckafka_worker *ckafka_worker_new(const char *consumer_settings, const char *producer_settings,
                                 struct rd_kafka_s *inquirer, const char *sources,
                                 const char *targets, const int64_t *target_byte_count_max,
                                 int32_t changelog, int32_t is_transactional, int32_t watchdog_ms,
                                 ckafka_fault *fault);

/* ckafka_worker_wake_descriptor: an eventfd, readable when poll or take_outcome has news. */
int ckafka_worker_wake_descriptor(const ckafka_worker *worker);

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
/* ckafka_worker_note_starts: the caller knows it. */
void ckafka_worker_note_starts(ckafka_worker *worker);

/* ckafka_worker_assign: take the partitions of the assign event, to be read from ${starts} on. */
int ckafka_worker_assign(ckafka_worker *worker, const ckafka_position *starts, size_t count,
                         ckafka_fault *fault);

/* ckafka_worker_unassign: give all partitions back. */
int ckafka_worker_unassign(ckafka_worker *worker, ckafka_fault *fault);

/*
 * ckafka_worker_prepare(worker, output_count, outputs, fault):
 * Make room for the outputs of the next transaction, for the caller to fill.  Refused while one is
 * under way.
 */
int ckafka_worker_prepare(ckafka_worker *worker, size_t output_count, ckafka_output **outputs,
                          ckafka_fault *fault);

/*
 * ckafka_worker_submit(worker, arena, lent_bit, positions, position_count, fault):
 * Let the commit thread write what was prepared and commit ${positions}.  Refused where nothing was
 * prepared since the last call, without positions, and for an output that is too large.  ${arena} is
 * lent: it must stay as it is, also after the outcome, while ckafka_worker_lent has ${lent_bit}.
 */
int ckafka_worker_submit(ckafka_worker *worker, const uint8_t *arena, uint32_t lent_bit,
                         const ckafka_position *positions, size_t position_count,
                         ckafka_fault *fault);

/* ckafka_worker_lent: the bits of all arenas that are in use. */
uint32_t ckafka_worker_lent(const ckafka_worker *worker);

/* ckafka_worker_take_outcome: the commit result; kind NONE while it is unknown. */
int ckafka_worker_take_outcome(ckafka_worker *worker, int wait_ms, ckafka_outcome *outcome,
                               ckafka_fault *fault);

/*
 * ckafka_worker_take_statistics(worker, json):
 * The library's last statistics, librdkafka's STATISTICS.md; 0 where nothing is new.  Not ended by
 * a NUL.
 */
size_t ckafka_worker_take_statistics(ckafka_worker *worker, const char **json);

int ckafka_worker_is_away(const ckafka_worker *worker);
/* ckafka_worker_refusal: the right or the topic that the consumer lacks, in a sentence; null where it
 * lacks none.  When that lasts beyond the watchdog's time, the next poll fails with it. */
const char *ckafka_worker_refusal(const ckafka_worker *worker);
/* ckafka_worker_is_assigning: whether partitions were assigned and it is not known yet where they
 * are to be read from. */
int ckafka_worker_is_assigning(const ckafka_worker *worker);
/* ckafka_worker_producer_count: producers made so far; more than one means failures. */
unsigned ckafka_worker_producer_count(const ckafka_worker *worker);
size_t ckafka_worker_take_notes(ckafka_worker *worker, ckafka_note *notes, size_t capacity);

/* ckafka_worker_close: leave and free; 0 where what does not end in time, and may still use what was
 * lent, is left to the process's end. */
int ckafka_worker_close(ckafka_worker *worker, int deadline_ms);

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
int ckafka_producer_wake_descriptor(const ckafka_producer *producer);
/* ckafka_producer_produce: one tag an output; what finds no room gets its receipt at once. */
void ckafka_producer_produce(ckafka_producer *producer, const ckafka_output *outputs, size_t count,
                             const uint8_t *arena, const uint64_t *tags);
int ckafka_producer_take_receipts(ckafka_producer *producer, const ckafka_receipt **receipts,
                                  size_t *count, ckafka_fault *fault);
size_t ckafka_producer_waiting_count(const ckafka_producer *producer);
size_t ckafka_producer_waiting_byte_count(const ckafka_producer *producer);
int ckafka_producer_is_away(const ckafka_producer *producer);
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
/* ckafka_client_fail: what a request without an answer means, perhaps because no broker accepts our
 * login: that does not pass.  ${text} is null for the library's words. */
int ckafka_client_fail(ckafka_client *client, ckafka_fault *fault, int32_t code, const char *text);
/* ckafka_fail_untold: what the group has committed was asked for longer than ${seconds}, Kafka being
 * there; ${refused} is what a right is missing for, or what is not there. */
int ckafka_fail_untold(ckafka_fault *fault, int32_t code, const char *refused, int32_t seconds);
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

/* -- A transactor: transactions by hand, under a name that fences --------------------------------- */

typedef struct ckafka_transactor ckafka_transactor;

/* ckafka_transactor_new: the settings name its transactional.id; ${targets} and limits as above. */
ckafka_transactor *ckafka_transactor_new(const char *settings, const char *targets,
                                         const int64_t *target_byte_count_max,
                                         ckafka_fault *fault);
/*
 * ckafka_transactor_take_over: from then on nobody who had the name before can commit, and what was
 * open under it has ended.
 */
int ckafka_transactor_take_over(ckafka_transactor *transactor, int deadline_ms,
                                ckafka_fault *fault);
/*
 * ckafka_transactor_commit(transactor, outputs, count, arena, next, next_count, fault):
 * Write all ${outputs} in one transaction; ${next} is the offset after the last record in each
 * partition written.  After a failure it is not known whether they were: close it, take over anew,
 * and read what is there.
 */
int ckafka_transactor_commit(ckafka_transactor *transactor, const ckafka_output *outputs,
                             size_t count, const uint8_t *arena, const ckafka_position **next,
                             size_t *next_count, ckafka_fault *fault);
/* ckafka_transactor_close: aborts what is open, if that can be done in time. */
void ckafka_transactor_close(ckafka_transactor *transactor, int deadline_ms);

