/* The worker's inside, for the files it is written in. */
#pragma once

#include "ckafka_internal.h"

/* One partition that is ours. */
typedef struct holding {
    int topic;
    int32_t partition;
    int64_t next;            /* no record below is to be delivered: markers at the end count, too */
    bool is_held;            /* what is fetched stays in its own queue: 2 MB at most */
    rd_kafka_queue_t *queue; /* must be destroyed on revocation, or destroying the handle hangs */
} holding;

/* What Kafka refuses the consumer, though it is there: a right or a topic is missing. */
typedef struct refusal {
    int64_t since;  /* it was told of, or asked for again; 0: nothing */
    bool is_asked;  /* once more, at the watchdog's end: the next answer decides */
    bool is_silent; /* asked for before, and nobody answered */
    rd_kafka_resp_err_t code;
    char text[400];
} refusal;

struct ckafka_worker {
    names sources;
    char *user, *password, *group;
    int wake_descriptor;
    int64_t clock_lead_ms; /* of the wall clock before the monotonic one, when last looked at */
    watch watch;
    rd_kafka_t *consumer, *inquirer; /* the latter is lent */
    rd_kafka_queue_t *main_queue;
    rd_kafka_queue_t *records; /* all partitions flow into it, away from the group's events */

    /* Written by the rebalance callback, which runs inside our own polls. */
    int event;
    bool is_event_shown;
    bool is_new; /* an assignment that the caller has not taken yet, to ask where it is to be read from */
    bool may_be_shown;     /* which it knows now */
    bool is_closing;
    ckafka_position *event_partitions;
    size_t event_partition_count;

    holding *holdings;
    size_t holding_count;
    bool is_assigned; /* a member of the group, also without a partition */

    /* Records that came by the main queue, before their partition was led away from it. */
    rd_kafka_message_t **early;
    size_t early_count, early_capacity;

    intake in;
    kept_headers kept; /* of records read since the last submit */
    rd_kafka_topic_t *last_topic; /* of the last message, and whose partition that was */
    holding *last_holding;
    ckafka_fault held_fault; /* found behind records that were delivered first */
    refusal *refusals; /* one a source, and behind them that of the group */
    int watchdog_ms;

    /* The library's own, to be freed by it: the newest, and the one last handed out. */
    char *statistics, *shown_statistics;
    size_t statistics_count;
};

/* -- the group; see ckafka_worker_group.c ----------------------------------------------------- */

void ck_worker_on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                            rd_kafka_topic_partition_list_t *partitions, void *opaque);
/* Whether the event may be returned. */
bool ck_worker_event_is_ready(const ckafka_worker *w);
void ck_worker_show_event(ckafka_worker *w, ckafka_batch *batch);
void ck_worker_finish_event(ckafka_worker *w);
void ck_worker_drop_early(ckafka_worker *w);
void ck_worker_drop_holdings(ckafka_worker *w);
holding *ck_worker_find_holding(ckafka_worker *w, int topic, int32_t partition);
/* Has all partitions read on from their next offsets, as if nothing behind had been fetched. */
int ck_worker_read_anew(ckafka_worker *w, ckafka_fault *fault);
