/* A thread that asks questions about offsets for a loop, so that the loop does not wait. */
#include "ckafka_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_FRESH_MS = 2000, /* an older answer may be out of date for its caller */
    ASK_DEADLINE_MS = 5000,
    PROBE_EVERY_MS = 500,
    QUESTION_MAX = 64,
    BEYOND_MAX = 10,            /* a leader that was just elected may know less for a moment */
    /* Longer than the asking handle remembers a coordinator that it does not use: its setting
       metadata.max.age.ms, and the second between two looks at it. */
    COORDINATOR_REST_MS = 4000,
};

typedef struct question {
    char *group; /* null: end offsets */
    char *topic;
    enum { IDLE, ASKED, ASKING, ANSWERED } state;
    int64_t answered_at;
    int64_t rests_until; /* not asked before */
    rd_kafka_resp_err_t code;
    int64_t *offsets;
    size_t count;
} question;

struct inquiries {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closing, has_ended;
    rd_kafka_t *asker;
    int wake_descriptor;
    watch *watches[4];
    size_t watch_count;
    question questions[QUESTION_MAX];
    size_t question_count;
    int64_t *shown; /* the array last handed out */

    rd_kafka_t *consumer;
    rd_kafka_topic_partition_list_t *starts_asked; /* to be answered; null when not asked */
    rd_kafka_topic_partition_list_t *starts;
    unsigned starts_generation; /* an answer to a question since forgotten is dropped */
    int64_t starts_since;       /* asked, and Kafka there, since then */
    int beyond_count;
    ckafka_fault starts_fault;
};

static int64_t offset_in(rd_kafka_topic_partition_list_t *list,
                         const rd_kafka_topic_partition_t *partition)
{
    return rd_kafka_topic_partition_list_find(list, partition->topic, partition->partition)->offset;
}

/* Committed offsets, and the earliest record where there is none. A committed offset that has no
 * record behind it any more is a fault: going on would step over what was lost, and say nothing. */
static rd_kafka_resp_err_t ask_starts(const inquiries *q, rd_kafka_topic_partition_list_t *list,
                                      ckafka_fault *lost, char refused[REFUSED_SIZE])
{
    rd_kafka_t *asker = q->asker;
    size_t size = REFUSED_SIZE;
    rd_kafka_conf_get(rd_kafka_conf(q->consumer), "group.id", refused, &size);
    /* Under read_committed this waits out pending transactional offsets ("require stable"). */
    rd_kafka_resp_err_t code = rd_kafka_committed(q->consumer, list, ASK_DEADLINE_MS);
    for (int i = 0; i < list->cnt && !code; i++)
        code = list->elems[i].err;
    rd_kafka_topic_partition_list_t *starts = NULL, *ends = NULL;
    if (!code)
        code = ck_ask_edges(asker, list, RD_KAFKA_OFFSET_BEGINNING, ASK_DEADLINE_MS, &starts,
                            refused);
    /* The ends after what is committed: that never passes an end of an earlier time. */
    if (!code)
        code = ck_ask_edges(asker, list, RD_KAFKA_OFFSET_END, ASK_DEADLINE_MS, &ends, refused);
    for (int i = 0; i < list->cnt && !code; i++) {
        rd_kafka_topic_partition_t *at = &list->elems[i];
        int64_t start = offset_in(starts, at), end = offset_in(ends, at);
        if (at->offset < 0)
            at->offset = start;
        else if (!lost->kind && (at->offset < start || at->offset > end))
            ck_set_lost(lost, at->topic, at->partition, at->offset, start, end);
    }
    if (starts)
        rd_kafka_topic_partition_list_destroy(starts);
    if (ends)
        rd_kafka_topic_partition_list_destroy(ends);
    return code;
}

static bool is_any_away(const inquiries *q)
{
    for (size_t i = 0; i < q->watch_count; i++)
        if (atomic_load(&q->watches[i]->is_away))
            return true;
    return false;
}

/* Asked in vain: whether that has become a fault. */
static void judge_patience(inquiries *q, rd_kafka_resp_err_t code, const char *refused)
{
    int64_t now = ck_now_ms();
    if (is_any_away(q))
        q->starts_since = now;
    if (now - q->starts_since <= UNTOLD_PATIENCE_MS)
        return;
    ck_fail_untold(&q->starts_fault, code, refused);
}

static void answer_starts(inquiries *q)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_copy(q->starts_asked);
    unsigned generation = q->starts_generation;
    pthread_mutex_unlock(&q->lock);
    ckafka_fault lost = {0};
    char refused[REFUSED_SIZE] = "";
    rd_kafka_resp_err_t code = ask_starts(q, list, &lost, refused);
    pthread_mutex_lock(&q->lock);
    bool is_beyond = !code && lost.kind && lost.position > lost.end;
    if (code || generation != q->starts_generation ||
        (is_beyond && ++q->beyond_count < BEYOND_MAX)) {
        /* Asked again at the next turn, until it is answered or forgotten. */
        rd_kafka_topic_partition_list_destroy(list);
        if (generation == q->starts_generation && !is_beyond)
            judge_patience(q, code, refused);
        return;
    }
    if (lost.kind) {
        rd_kafka_topic_partition_list_destroy(list);
        q->starts_fault = lost;
        ck_wake(q->wake_descriptor);
        return;
    }
    rd_kafka_topic_partition_list_destroy(q->starts_asked);
    q->starts_asked = NULL;
    q->starts = list;
    ck_wake(q->wake_descriptor);
}

static void answer(inquiries *q, question *asked)
{
    int64_t *offsets = NULL;
    size_t count = 0;
    asked->state = ASKING;
    pthread_mutex_unlock(&q->lock);
    rd_kafka_resp_err_t code = ck_ask_offsets(q->asker, asked->group, asked->topic, ASK_DEADLINE_MS,
                                              &offsets, &count);
    pthread_mutex_lock(&q->lock);
    free(asked->offsets);
    asked->offsets = offsets;
    asked->count = count;
    asked->code = code;
    asked->answered_at = ck_now_ms();
    /* librdkafka 2.0.2 remembers a group's coordinator for as long as it is asked there, also when
       that says it is none any more: after leaders moved, a worker would ask in vain for ever. */
    if (code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
        code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE)
        asked->rests_until = asked->answered_at + COORDINATOR_REST_MS;
    asked->state = ANSWERED;
    ck_wake(q->wake_descriptor);
}

/* A handle learns that brokers are back only by using them. */
static void probe(inquiries *q)
{
    const struct rd_kafka_metadata *metadata = NULL;
    pthread_mutex_unlock(&q->lock);
    rd_kafka_resp_err_t code = rd_kafka_metadata(q->asker, 0, NULL, &metadata, 1000);
    if (!code) {
        rd_kafka_metadata_destroy(metadata);
        for (size_t i = 0; i < q->watch_count; i++)
            atomic_store(&q->watches[i]->is_away, 0);
        ck_wake(q->wake_descriptor);
    }
    pthread_mutex_lock(&q->lock);
}

static question *first_asked(inquiries *q)
{
    for (size_t i = 0; i < q->question_count; i++)
        if (q->questions[i].state == ASKED && q->questions[i].rests_until <= ck_now_ms())
            return &q->questions[i];
    return NULL;
}

static void *run_inquiries(void *argument)
{
    inquiries *q = argument;
    pthread_mutex_lock(&q->lock);
    while (!q->is_closing) {
        question *asked = first_asked(q);
        bool had_starts = q->starts_asked != NULL;
        if (had_starts)
            answer_starts(q);
        if (asked)
            answer(q, asked);
        /* Errors for its watch. A producer's receipts are for its own thread to take. */
        if (rd_kafka_type(q->asker) == RD_KAFKA_CONSUMER)
            rd_kafka_poll(q->asker, 0);
        if (!q->is_closing && is_any_away(q))
            probe(q);
        if (!q->is_closing && !first_asked(q) && !(q->starts_asked && !had_starts))
            ck_wait_condition(&q->changed, &q->lock, PROBE_EVERY_MS);
    }
    q->has_ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

inquiries *ck_inquiries_open(rd_kafka_t *asker, int wake_descriptor, watch **watches,
                          size_t watch_count)
{
    inquiries *q = ck_take_memory(sizeof *q);
    ck_open_condition(&q->changed);
    pthread_mutex_init(&q->lock, NULL);
    q->asker = asker;
    q->wake_descriptor = wake_descriptor;
    q->watch_count = watch_count;
    for (size_t i = 0; i < watch_count; i++)
        q->watches[i] = watches[i];
    if (pthread_create(&q->thread, NULL, run_inquiries, q) != 0)
        abort(); /* no thread, no worker */
    return q;
}

bool ck_inquiries_close(inquiries *q, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    pthread_mutex_lock(&q->lock);
    q->is_closing = true;
    pthread_cond_broadcast(&q->changed);
    /* A question that is with a broker waits for its answer. */
    for (int64_t left = deadline_ms; !q->has_ended && left > 0; left = until - ck_now_ms())
        ck_wait_condition(&q->changed, &q->lock, (int)left);
    bool has_ended = q->has_ended;
    pthread_mutex_unlock(&q->lock);
    if (!has_ended)
        return false;
    pthread_join(q->thread, NULL);
    for (size_t i = 0; i < q->question_count; i++) {
        free(q->questions[i].group);
        free(q->questions[i].topic);
        free(q->questions[i].offsets);
    }
    free(q->shown);
    if (q->starts)
        rd_kafka_topic_partition_list_destroy(q->starts);
    if (q->starts_asked)
        rd_kafka_topic_partition_list_destroy(q->starts_asked);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q);
    return true;
}

static question *find_question(inquiries *q, const char *group, const char *topic)
{
    for (size_t i = 0; i < q->question_count; i++) {
        question *known = &q->questions[i];
        bool same_group = group ? known->group && strcmp(known->group, group) == 0 : !known->group;
        if (same_group && strcmp(known->topic, topic) == 0)
            return known;
    }
    if (q->question_count == QUESTION_MAX)
        return NULL;
    question *fresh = &q->questions[q->question_count++];
    fresh->group = group ? strdup(group) : NULL;
    fresh->topic = strdup(topic);
    return fresh;
}

int ck_inquiries_ask(inquiries *q, const char *group, const char *topic, const int64_t **offsets,
                  size_t *count, ckafka_fault *fault)
{
    int result = 0;
    pthread_mutex_lock(&q->lock);
    question *asked = find_question(q, group, topic);
    if (!asked) {
        result = ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__QUEUE_FULL,
                      "more than 64 different questions about offsets");
    } else if (asked->state == ANSWERED && ck_now_ms() - asked->answered_at <= ANSWER_FRESH_MS) {
        asked->state = IDLE;
        if (asked->code) {
            result = ck_fail(fault, CKAFKA_FAULT_UNAVAILABLE, asked->code,
                          rd_kafka_err2str(asked->code));
        } else {
            free(q->shown);
            q->shown = asked->offsets;
            *offsets = asked->offsets;
            *count = asked->count;
            asked->offsets = NULL;
            result = 1;
        }
    } else if (asked->state == IDLE || asked->state == ANSWERED) {
        asked->state = ASKED;
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return result;
}

void ck_inquiries_ask_starts(inquiries *q, rd_kafka_t *consumer,
                          const rd_kafka_topic_partition_list_t *partitions)
{
    ck_inquiries_forget_starts(q);
    pthread_mutex_lock(&q->lock);
    q->consumer = consumer;
    q->starts_since = ck_now_ms();
    q->beyond_count = 0;
    q->starts_asked = rd_kafka_topic_partition_list_copy(partitions);
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

int ck_inquiries_check_starts(inquiries *q, ckafka_fault *fault)
{
    pthread_mutex_lock(&q->lock);
    int result = q->starts_fault.kind ? -1 : 0;
    if (result)
        *fault = q->starts_fault;
    pthread_mutex_unlock(&q->lock);
    return result;
}

rd_kafka_topic_partition_list_t *ck_inquiries_take_starts(inquiries *q)
{
    pthread_mutex_lock(&q->lock);
    rd_kafka_topic_partition_list_t *starts = q->starts;
    q->starts = NULL;
    pthread_mutex_unlock(&q->lock);
    return starts;
}

void ck_inquiries_forget_starts(inquiries *q)
{
    pthread_mutex_lock(&q->lock);
    q->starts_generation++;
    if (q->starts_asked)
        rd_kafka_topic_partition_list_destroy(q->starts_asked);
    if (q->starts)
        rd_kafka_topic_partition_list_destroy(q->starts);
    q->starts_asked = q->starts = NULL;
    q->starts_fault.kind = CKAFKA_FAULT_NONE;
    pthread_mutex_unlock(&q->lock);
}
