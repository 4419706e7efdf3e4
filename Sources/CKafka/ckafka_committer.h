/* The committer's inside, for the files it is written in: what its thread does, and what the
 * loop asks of it. */
#pragma once

#include "ckafka_internal.h"

enum { REBUILD_MAX = 10, MARK_MAX = 48, COMMITTER_LOOK_MS = 100 };

enum phase { RESTING, SENDING_OFFSETS, ENDING, ASKING };
enum state { NOTHING, SUBMITTED, RUNNING, DONE };

/* How one step of a transaction ended. */
enum verdict { FINE, ABORT, REBUILD };

typedef struct next_offset {
    int64_t offset;
    int32_t partition;
} next_offset;

typedef struct next_offsets {
    next_offset *items;
    size_t count, capacity;
} next_offsets;

typedef struct positions {
    ckafka_position *items;
    size_t count;
} positions;

struct committer {
    names sources, targets;
    int64_t *target_byte_count_max;
    char *settings;
    int changelog;
    bool is_transactional;
    int watchdog_ms; /* above the transaction's 40 s */
    rd_kafka_t *consumer;
    atomic_uint *assignment_epoch;
    watch *watch;
    int wake_descriptor;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closing, has_ended;
    atomic_int is_ready;
    atomic_uint producer_count;
    atomic_int phase;
    atomic_llong phase_since;
    enum state state;
    bool is_discarded; /* nobody waits for what is SUBMITTED or RUNNING */
    ckafka_fault fault; /* for the next call of the loop; under the lock */

    bool is_prepared; /* what follows is filled, and not submitted yet: the loop's alone */

    /* The transaction: while SUBMITTED or RUNNING it belongs to the thread. */
    ckafka_output *outputs;
    size_t output_count, output_capacity;
    uint8_t *arena;
    size_t arena_count, arena_capacity;
    kept_headers kept;
    positions positions;
    unsigned epoch;
    uint64_t number;
    char life[17];      /* tells this process from its predecessors in commit metadata */
    char mark[MARK_MAX]; /* what the offsets of this transaction carry */
    ckafka_outcome outcome;
    ckafka_position *outcome_positions;

    /* The producer: only the thread touches it. */
    rd_kafka_t *producer;
    rd_kafka_topic_t **topics;
    unsigned disconnects_known;
    bool must_rebuild;
    int64_t made_at;
    int64_t rebuilds[REBUILD_MAX];
    size_t rebuild_count;
    size_t waiting_count, stored_count, failed_count;
    rd_kafka_resp_err_t failed_code;
    next_offsets *next; /* one a target */
    size_t failed_target; /* where failed_count */
    int64_t refused_since; /* something without a commit in between; 0: nothing */
};

/* Whether the assignment is still the one that the records were read under. Asked after the
 * generation was read: a new generation needs an unassign first, which changes the epoch. */
bool ck_committer_has_moved(committer *c);

/* -- the steps; see ckafka_committer_steps.c ------------------------------------------------- */

void ck_committer_enter(committer *c, enum phase phase);
void ck_committer_set_code(committer *c, rd_kafka_resp_err_t code);
/* What an error of a transactional call means; takes the error. */
enum verdict ck_committer_judge(committer *c, rd_kafka_error_t *error);
/* Hands over the outputs: those of the changelog, or the others, or all. */
enum verdict ck_committer_produce(committer *c, bool only_changelog, bool only_others,
                                  int64_t until);
/* Waits until everything is stored. */
enum verdict ck_committer_flush(committer *c, int64_t until);
rd_kafka_topic_partition_list_t *ck_committer_position_list(committer *c);
/* Whether the group would still take offsets from us. */
bool ck_committer_is_member(committer *c);
/* Takes the list. */
enum verdict ck_committer_send_offsets(committer *c, rd_kafka_topic_partition_list_t *list);
/* Commits or aborts. */
enum verdict ck_committer_end(committer *c, bool commits);
/* Aborts; REBUILD where that is not certain, or a message still points into the arena. */
enum verdict ck_committer_abort(committer *c);

/* What the thread does until it is closed. */
void *ck_committer_run(void *argument);

/* The producer; see ckafka_committer_producer.c. */
void ck_committer_drop_producer(committer *c);
/* Makes one that can take a transaction; false when closing or given up. */
bool ck_committer_make_ready(committer *c);
/* Whether one more rebuild is within reason. */
bool ck_committer_count_rebuild(committer *c);
/* Whether the group says that a newer instance has our name. */
bool ck_committer_await_fence_verdict(committer *c);

/* A right or a target is missing: gives up when that lasts. */
void ck_committer_note_refusal(committer *c, rd_kafka_resp_err_t code, const char *what);

bool ck_committer_is_closing(committer *c);
/* The loop hears of it with its next call. */
void ck_committer_give_up(committer *c, int kind, int code, const char *message);
bool ck_committer_has_given_up(committer *c);
