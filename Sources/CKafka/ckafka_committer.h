/* The committer's inside: what its thread and the loop's side of it share. */
#pragma once

#include "ckafka_transaction.h"

enum { REBUILD_MAX = 10, MARK_MAX = 48, COMMITTER_LOOK_MS = 100 };

enum state { NOTHING, SUBMITTED, RUNNING, DONE };

typedef struct positions {
    ckafka_position *items;
    size_t count;
} positions;

struct committer {
    committer_setup setup;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closing, has_ended;
    atomic_int is_ready;
    atomic_uint producer_count;
    enum state state;
    bool is_discarded; /* nobody waits for what is SUBMITTED or RUNNING */
    ckafka_fault fault; /* for the next call of the loop; under the lock */

    bool is_prepared; /* what follows is filled, and not submitted yet: the loop's alone */

    /* The transaction: while SUBMITTED or RUNNING it belongs to the thread. */
    ckafka_output *outputs;
    size_t output_count, output_capacity;
    const uint8_t *arena; /* lent */
    unsigned lent_bit;    /* of the transaction's; none where a retired producer has it */
    kept_headers kept;
    positions positions;
    unsigned epoch;
    uint64_t number;
    char life[17];      /* identifies this process in commit metadata, not its predecessors */
    char mark[MARK_MAX]; /* what the offsets of this transaction carry */
    ckafka_outcome outcome;
    ckafka_position *outcome_positions;

    transaction transaction; /* its producer is the thread's alone */
    int64_t made_at;
    int64_t rebuilds[REBUILD_MAX];
    size_t rebuild_count;
    int64_t refused_since; /* something without a commit in between; 0: nothing */
};

/* What the thread does until it is closed. */
void *ck_committer_run(void *argument);

/* -- the producer; see ckafka_committer_producer.c -------------------------------------------- */

void ck_committer_drop_producer(committer *c);
/* Makes one that can take a transaction; false when closing or given up. */
bool ck_committer_make_ready(committer *c);
/* Whether one more rebuild is within reason. */
bool ck_committer_count_rebuild(committer *c);
/* Whether the group says that a newer instance has our name. */
bool ck_committer_await_fence_verdict(committer *c);
/* A right or a target is missing: gives up when that lasts. */
void ck_committer_note_refusal(committer *c);
/* The loop's next call returns it. */
void ck_committer_give_up(committer *c, int kind, int code, const char *message);
bool ck_committer_has_given_up(committer *c);
/* Asked by a transaction while something lasts. */
bool ck_committer_is_closing(void *argument);
