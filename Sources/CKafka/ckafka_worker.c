/* The consumer of a worker: reading, rebalances, and what the commit thread needs of them. */
#include "ckafka_internal.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_EVERY_MS = 100,      /* a lost wake costs no more than this */
    MAIN_QUEUE_TURN_MAX = 10000,
    MALLOC_ARENA_MAX = 2,
    MALLOC_LARGE = 1 << 18,
    MALLOC_SPARE = 2 << 20,
    RETIRE_MS = 60000,
    REFUSAL_QUESTION_MS = 2000,
};

/* One partition that is ours. */
typedef struct holding {
    int topic;
    int32_t partition;
    int64_t next;            /* the next offset to be delivered; what is below was delivered */
    int64_t start;           /* where the assignment began */
    rd_kafka_queue_t *queue; /* must be destroyed on revocation, or destroying the handle hangs */
} holding;

/* What Kafka refuses the consumer, though it is there: a right or a topic is missing. */
typedef struct refusal {
    int64_t since; /* 0: nothing */
    rd_kafka_resp_err_t code;
    char topic[260]; /* empty where it is the group */
    char text[400];
} refusal;

struct ckafka_worker {
    names sources, targets;
    char *user, *password, *group;
    int wake_descriptor;
    watch consumer_watch, producer_watch, inquirer_watch;
    rd_kafka_t *consumer, *inquirer;
    rd_kafka_queue_t *main_queue;
    rd_kafka_queue_t *records; /* all partitions flow into it, away from the group's events */
    inquiries *inquiries;
    committer *committer;

    /* Written by the rebalance callback, which runs inside our own polls. */
    int event;
    bool is_event_shown;
    bool is_closing;
    rd_kafka_topic_partition_list_t *event_list;
    ckafka_position *event_partitions;
    rd_kafka_topic_partition_list_t *starts;

    holding *holdings;
    size_t holding_count;
    atomic_uint assignment_epoch;
    ckafka_position *shown_positions;

    /* Records that came by the main queue, before their partition was led away from it. */
    rd_kafka_message_t **early;
    size_t early_count, early_next, early_capacity;

    intake in;
    kept_headers kept; /* of records read since the last submit */
    rd_kafka_topic_t *last_topic; /* of the last message, and whose partition that was */
    holding *last_holding;
    ckafka_fault held_fault; /* found behind records that were delivered first */
    refusal refusal;
    int watchdog_ms;

    /* The library's own, to be freed by it: the newest told, and the one last handed out. */
    char *statistics, *shown_statistics;
    size_t statistics_count;
};

/* -- rebalance -------------------------------------------------------------------------------- */

static void on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                         rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    ckafka_worker *w = ((watch *)opaque)->owner;
    if (w->is_closing) {
        rd_kafka_assign(rk, NULL);
        return;
    }
    if (w->event_list)
        rd_kafka_topic_partition_list_destroy(w->event_list);
    w->event_list = rd_kafka_topic_partition_list_copy(partitions);
    w->is_event_shown = false;
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        w->event = CKAFKA_EVENT_ASSIGN;
        if (w->refusal.code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
            w->refusal.since = 0;
        ck_remember_member(rk);
        ck_inquiries_ask_starts(w->inquiries, rk, partitions);
    } else if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS && !rd_kafka_assignment_lost(rk)) {
        w->event = CKAFKA_EVENT_REVOKE;
    } else {
        w->event = CKAFKA_EVENT_LOST;
    }
}

/* Runs inside our own polls too. The text becomes ours. */
static int on_statistics(rd_kafka_t *rk, char *json, size_t count, void *opaque)
{
    ckafka_worker *w = ((watch *)opaque)->owner;
    if (w->statistics)
        rd_kafka_mem_free(rk, w->statistics);
    w->statistics = json;
    w->statistics_count = count;
    return 1;
}

/* Whether the event may be told: an assignment waits until the predecessor's transaction was ended
 * by our own producer's start, and until it is known where reading goes on. */
static bool event_is_ready(ckafka_worker *w)
{
    if (w->event == CKAFKA_EVENT_NONE)
        return false;
    if (w->event != CKAFKA_EVENT_ASSIGN)
        return true;
    if (!ck_committer_is_ready(w->committer) || ck_committer_is_discarding(w->committer))
        return false;
    if (!w->starts)
        w->starts = ck_inquiries_take_starts(w->inquiries);
    return w->starts != NULL;
}

static void show_event(ckafka_worker *w, ckafka_batch *batch)
{
    const rd_kafka_topic_partition_list_t *list = w->event_list;
    w->event_partitions =
        ck_grow(w->event_partitions, sizeof *w->event_partitions * (size_t)(list->cnt + 1));
    for (int i = 0; i < list->cnt; i++)
        w->event_partitions[i] = (ckafka_position){
            .offset = -1,
            .topic = ck_names_index(&w->sources, list->elems[i].topic),
            .partition = list->elems[i].partition,
        };
    w->is_event_shown = true;
    batch->event = w->event;
    batch->event_partitions = w->event_partitions;
    batch->event_partition_count = (size_t)list->cnt;
}

static void finish_event(ckafka_worker *w)
{
    w->event = CKAFKA_EVENT_NONE;
    w->is_event_shown = false;
    if (w->event_list)
        rd_kafka_topic_partition_list_destroy(w->event_list);
    w->event_list = NULL;
    if (w->starts)
        rd_kafka_topic_partition_list_destroy(w->starts);
    w->starts = NULL;
}

static void drop_early(ckafka_worker *w)
{
    while (w->early_next < w->early_count)
        rd_kafka_message_destroy(w->early[w->early_next++]);
    w->early_next = w->early_count = 0;
}

static void drop_holdings(ckafka_worker *w)
{
    for (size_t i = 0; i < w->holding_count; i++)
        if (w->holdings[i].queue)
            rd_kafka_queue_destroy(w->holdings[i].queue);
    free(w->holdings);
    w->holdings = NULL;
    w->holding_count = 0;
    w->last_holding = NULL;
    ck_drop_kept_headers(&w->kept);
}

/* Leads the partitions of the holdings away from the main queue. Right after assign and not before
 * (#1720); what slipped through in between waits in `early`. */
static void lead_away(ckafka_worker *w)
{
    for (size_t i = 0; i < w->holding_count; i++) {
        holding *h = &w->holdings[i];
        if (!h->queue)
            h->queue = rd_kafka_queue_get_partition(w->consumer, w->sources.items[h->topic],
                                                    h->partition);
        if (h->queue)
            rd_kafka_queue_forward(h->queue, w->records);
    }
}

static int show_holdings(ckafka_worker *w, const ckafka_position **positions, size_t *count)
{
    w->shown_positions =
        ck_grow(w->shown_positions, sizeof *w->shown_positions * (w->holding_count + 1));
    for (size_t i = 0; i < w->holding_count; i++)
        w->shown_positions[i] = (ckafka_position){
            .offset = w->holdings[i].next,
            .topic = w->holdings[i].topic,
            .partition = w->holdings[i].partition,
        };
    *positions = w->shown_positions;
    *count = w->holding_count;
    return 0;
}

int ckafka_worker_assign(ckafka_worker *w, const ckafka_position **positions, size_t *count,
                         ckafka_fault *fault)
{
    if (w->event != CKAFKA_EVENT_ASSIGN || !w->is_event_shown || !w->starts)
        return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__STATE,
                    "no assignment is to be completed");
    drop_holdings(w);
    drop_early(w);
    w->holdings = ck_take_memory(sizeof *w->holdings * (size_t)(w->starts->cnt + 1));
    for (int i = 0; i < w->starts->cnt; i++) {
        const rd_kafka_topic_partition_t *start = &w->starts->elems[i];
        int topic = ck_names_index(&w->sources, start->topic);
        if (topic < 0)
            continue;
        w->holdings[w->holding_count++] = (holding){
            .topic = topic,
            .partition = start->partition,
            .next = start->offset,
            .start = start->offset,
        };
    }
    atomic_fetch_add(&w->assignment_epoch, 1);
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, w->starts);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the assignment was not taken");
    lead_away(w);
    show_holdings(w, positions, count);
    finish_event(w);
    return 0;
}

int ckafka_worker_unassign(ckafka_worker *w, ckafka_fault *fault)
{
    /* Before the library may join again: the commit thread compares it after it has read the
     * group's generation, so no offset of the old assignment goes out under a new generation. */
    atomic_fetch_add(&w->assignment_epoch, 1);
    ck_committer_discard(w->committer);
    ck_inquiries_forget_starts(w->inquiries);
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, NULL);
    drop_holdings(w);
    drop_early(w);
    finish_event(w);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the assignment was not given back");
    return 0;
}

/* -- reading ---------------------------------------------------------------------------------- */

static holding *find_holding(ckafka_worker *w, int topic, int32_t partition)
{
    for (size_t i = 0; i < w->holding_count; i++)
        if (w->holdings[i].partition == partition && w->holdings[i].topic == topic)
            return &w->holdings[i];
    return NULL;
}

/* Null where it is not ours any more.  Messages of one partition mostly come one after the other. */
static holding *holding_of(ckafka_worker *w, const rd_kafka_message_t *message)
{
    if (w->last_holding && w->last_topic == message->rkt &&
        w->last_holding->partition == message->partition)
        return w->last_holding;
    int topic = message->rkt ? ck_names_index(&w->sources, rd_kafka_topic_name(message->rkt)) : -1;
    holding *h = topic < 0 ? NULL : find_holding(w, topic, message->partition);
    w->last_topic = message->rkt;
    w->last_holding = h;
    return h;
}

/* The library tells of it once, and goes on asking. */
static void remember_refusal(ckafka_worker *w, const rd_kafka_message_t *message)
{
    refusal *r = &w->refusal;
    if (r->since)
        return;
    r->since = ck_now_ms();
    r->code = message->err;
    char what[300];
    const char *topic = message->rkt ? rd_kafka_topic_name(message->rkt) : "";
    bool is_group = message->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    snprintf(r->topic, sizeof r->topic, "%s", is_group ? "" : topic);
    if (is_group)
        snprintf(what, sizeof what, "the group %s", w->group);
    else if (*topic)
        snprintf(what, sizeof what, "the topic %s", topic);
    else
        snprintf(what, sizeof what, "%s", rd_kafka_message_errstr(message));
    ck_refusal_text(r->text, sizeof r->text, message->err, what);
    ck_watch_note(&w->consumer_watch, 3, "REFUSED", r->text);
}

/* Whether it lasts: a broker that has just started knows rights and topics a few seconds later. */
static int check_refusal(ckafka_worker *w, ckafka_fault *fault)
{
    refusal *r = &w->refusal;
    if (!r->since || ck_now_ms() - r->since < w->watchdog_ms)
        return 0;
    int count = 0;
    bool is_missing = r->code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
                      r->code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
                      r->code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
    rd_kafka_resp_err_t code =
        is_missing && r->topic[0]
            ? ck_ask_partition_count(w->inquirer, r->topic, REFUSAL_QUESTION_MS, &count)
            : r->code;
    if (ck_is_refusal(code))
        return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, r->code, r->text);
    /* It is there again, or nobody says. */
    r->since = code ? ck_now_ms() : 0;
    return 0;
}

/* An error that the library delivers in the place of a message. */
static int consumer_error(ckafka_worker *w, const rd_kafka_message_t *message, ckafka_fault *fault)
{
    switch (message->err) {
    case RD_KAFKA_RESP_ERR__FATAL:
        return ck_fail_fatal(w->consumer, fault);
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
        return ck_fail(fault, CKAFKA_FAULT_FENCED, message->err, rd_kafka_message_errstr(message));
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: {
        holding *h = holding_of(w, message);
        if (!h)
            return 0; /* of an earlier assignment */
        ck_fail_lost(fault, w->inquirer, w->sources.items[h->topic], h->partition, h->next);
        return -1;
    }
    case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
        /* A lost event follows. */
        ck_watch_note(&w->consumer_watch, 4, "MAXPOLL", rd_kafka_message_errstr(message));
        return 0;
    default:
        if (ck_is_refusal(message->err)) {
            remember_refusal(w, message);
            return 0;
        }
        return ck_fail(fault,
                    ck_is_damage(message->err) ? CKAFKA_FAULT_UNUSABLE : CKAFKA_FAULT_UNAVAILABLE,
                    message->err, rd_kafka_message_errstr(message));
    }
}

/* Takes one message in; destroys it. */
static int take_message(ckafka_worker *w, rd_kafka_message_t *message, ckafka_fault *fault)
{
    int result = 0;
    if (message->err && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        result = consumer_error(w, message, fault);
    } else {
        holding *h = holding_of(w, message);
        if (h && message->err)
            ck_intake_end(&w->in, h->topic, message->partition, message->offset);
        else if (h && message->offset >= h->next) {
            ck_intake_add(&w->in, message, h->topic, &w->kept);
            h->next = message->offset + 1;
        }
        /* Else not ours any more, or delivered before. */
        atomic_store(&w->consumer_watch.is_away, 0);
        if (w->refusal.since && message->rkt &&
            strcmp(rd_kafka_topic_name(message->rkt), w->refusal.topic) == 0)
            w->refusal.since = 0;
    }
    rd_kafka_message_destroy(message);
    return result;
}

static void keep_early(ckafka_worker *w, rd_kafka_message_t *message)
{
    if (w->early_count == w->early_capacity) {
        w->early_capacity = w->early_capacity ? w->early_capacity * 2 : 256;
        w->early = ck_grow(w->early, sizeof *w->early * w->early_capacity);
    }
    w->early[w->early_count++] = message;
}

/* Serves the main queue: the group's events, the library's errors, and early messages. */
static int serve_main_queue(ckafka_worker *w, ckafka_fault *fault)
{
    for (int turn = 0; turn < MAIN_QUEUE_TURN_MAX; turn++) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(w->consumer, 0);
        if (!message)
            return 0;
        if (!message->err || message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            keep_early(w, message);
            continue;
        }
        int result = consumer_error(w, message, fault);
        rd_kafka_message_destroy(message);
        if (result)
            return result;
    }
    return 0;
}

static int read_records(ckafka_worker *w, size_t record_max, size_t byte_max, ckafka_fault *fault)
{
    /* One message a call and never consume_batch: that one skips offsets around a rebalance or
     * a seek (#4117, #4208). */
    while (w->in.record_count < record_max && w->in.arena_count < byte_max) {
        rd_kafka_message_t *message;
        if (w->early_next < w->early_count)
            message = w->early[w->early_next++];
        else
            message = rd_kafka_consume_queue(w->records, 0);
        if (!message)
            break;
        if (take_message(w, message, fault))
            return -1;
    }
    if (w->early_next == w->early_count)
        w->early_next = w->early_count = 0;
    return 0;
}

/* Broker threads of 2.0.2 that found the queue full sleep up to a second, waiting for an operation
 * and not for room. Setting credentials, those in use or any where SASL is off, is the one public
 * call that wakes all of them without traffic: 56,000 to 198,000 records/s with a small queue. */
static void wake_broker_threads(ckafka_worker *w)
{
    rd_kafka_error_t *error = rd_kafka_sasl_set_credentials(w->consumer, w->user, w->password);
    if (error)
        rd_kafka_error_destroy(error); /* slower, nothing else */
}

/* Looks once; 1 when there is something to return, 0 when not, -1 on a fault. */
static int look(ckafka_worker *w, size_t record_max, size_t byte_max, ckafka_batch *batch,
                ckafka_fault *fault)
{
    if (ck_committer_check(w->committer, fault))
        return -1;
    ck_calm(w->wake_descriptor);
    if (w->held_fault.kind) {
        *fault = w->held_fault;
        w->held_fault.kind = CKAFKA_FAULT_NONE;
        return -1;
    }
    if (serve_main_queue(w, fault) || check_refusal(w, fault))
        return -1;
    if (w->event == CKAFKA_EVENT_ASSIGN && ck_inquiries_check_starts(w->inquiries, fault))
        return -1;
    if (event_is_ready(w)) {
        show_event(w, batch);
        return 1;
    }
    if (record_max == 0)
        return 0;
    int result = read_records(w, record_max, byte_max, fault);
    if (result && w->in.record_count + w->in.end_count > 0) {
        w->held_fault = *fault;
        fault->kind = CKAFKA_FAULT_NONE;
        result = 0;
    }
    if (result)
        return -1;
    if (w->in.record_count > 0)
        wake_broker_threads(w);
    /* The descriptor tells of a queue that was empty; the rest of a full one must be told again. */
    if (w->early_next < w->early_count || rd_kafka_queue_length(w->records) > 0)
        ck_wake(w->wake_descriptor);
    return w->in.record_count + w->in.end_count > 0;
}

int ckafka_worker_poll(ckafka_worker *w, size_t record_max, size_t byte_max, int wait_ms,
                       ckafka_batch *batch, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + wait_ms;
    memset(batch, 0, sizeof *batch);
    ck_intake_reset(&w->in);
    for (;;) {
        int result = look(w, record_max, byte_max, batch, fault);
        if (result) {
            ck_intake_show(&w->in, batch);
            return result < 0 ? -1 : 0;
        }
        int64_t left = until - ck_now_ms();
        if (left <= 0)
            return 0;
        ck_wait_readable(w->wake_descriptor, left < LOOK_EVERY_MS ? left : LOOK_EVERY_MS);
    }
}

/* -- transactions ----------------------------------------------------------------------------- */

int ckafka_worker_prepare(ckafka_worker *w, size_t output_count, size_t arena_count,
                          ckafka_output **outputs, uint8_t **arena, ckafka_fault *fault)
{
    return ck_committer_prepare(w->committer, output_count, arena_count, outputs, arena, fault);
}

int ckafka_worker_submit(ckafka_worker *w, const ckafka_position *positions,
                         size_t position_count, ckafka_fault *fault)
{
    for (size_t i = 0; i < position_count; i++)
        if (!find_holding(w, positions[i].topic, positions[i].partition))
            return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__STATE,
                        "a position of a partition that is not assigned");
    return ck_committer_submit(w->committer, positions, position_count, &w->kept, fault);
}

/* Reading goes on at the committed positions; what the library fetched beyond is outdated by the
 * seek itself. */
static int rewind_holdings(ckafka_worker *w, ckafka_outcome *outcome, ckafka_fault *fault)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)w->holding_count + 1);
    drop_early(w);
    ck_drop_kept_headers(&w->kept);
    for (size_t i = 0; i < w->holding_count; i++) {
        holding *h = &w->holdings[i];
        int64_t offset = h->start; /* nothing was ever committed since the assignment */
        for (size_t p = 0; p < outcome->position_count; p++)
            if (outcome->positions[p].topic == h->topic &&
                outcome->positions[p].partition == h->partition &&
                outcome->positions[p].offset >= 0)
                offset = outcome->positions[p].offset;
        h->next = offset;
        rd_kafka_topic_partition_list_add(list, w->sources.items[h->topic], h->partition)->offset =
            offset;
    }
    bool is_done = true;
    /* What is about to be let go is not read again; and an assign now would answer the group. */
    bool is_leaving = w->event == CKAFKA_EVENT_REVOKE || w->event == CKAFKA_EVENT_LOST;
    if (w->holding_count > 0 && !is_leaving) {
        /* -1: the timeout of 2.0.2's seek is a thousand times too short (#4230). */
        rd_kafka_error_t *error = rd_kafka_seek_partitions(w->consumer, list, -1);
        is_done = error == NULL;
        if (error)
            rd_kafka_error_destroy(error);
        for (int i = 0; i < list->cnt; i++)
            is_done = is_done && !list->elems[i].err;
    }
    if (!is_done) {
        /* A partition that does not fetch yet takes no seek: assign it anew. */
        for (int i = 0; i < list->cnt; i++)
            list->elems[i].err = RD_KAFKA_RESP_ERR_NO_ERROR;
        is_done = rd_kafka_assign(w->consumer, list) == RD_KAFKA_RESP_ERR_NO_ERROR;
        lead_away(w);
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (!is_done)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__STATE,
                    "reading cannot be set back to the committed positions");
    return show_holdings(w, &outcome->positions, &outcome->position_count);
}

int ckafka_worker_take_outcome(ckafka_worker *w, int wait_ms, ckafka_outcome *outcome,
                               ckafka_fault *fault)
{
    if (ck_committer_take(w->committer, wait_ms, outcome, fault))
        return -1;
    if (outcome->kind == CKAFKA_OUTCOME_ABORTED)
        return rewind_holdings(w, outcome, fault);
    return 0;
}

/* -- life ------------------------------------------------------------------------------------- */

static int subscribe(ckafka_worker *w, ckafka_fault *fault)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)w->sources.count);
    for (size_t i = 0; i < w->sources.count; i++)
        rd_kafka_topic_partition_list_add(list, w->sources.items[i], RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(w->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, code, "the topics cannot be subscribed to");
    return 0;
}

static int open_consumer(ckafka_worker *w, const char *consumer_settings,
                         const char *inquirer_settings, ckafka_fault *fault)
{
    static const uint64_t one = 1;
    rd_kafka_conf_t *conf = ck_configure(consumer_settings, &w->consumer_watch, fault);
    if (!conf)
        return -1;
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_stats_cb(conf, on_statistics);
    w->consumer = ck_open_handle(RD_KAFKA_CONSUMER, conf, &w->consumer_watch, fault);
    if (!w->consumer)
        return -1;
    rd_kafka_poll_set_consumer(w->consumer);
    w->main_queue = rd_kafka_queue_get_consumer(w->consumer);
    w->records = rd_kafka_queue_new(w->consumer);
    rd_kafka_queue_io_event_enable(w->main_queue, w->wake_descriptor, &one, sizeof one);
    rd_kafka_queue_io_event_enable(w->records, w->wake_descriptor, &one, sizeof one);
    conf = ck_configure(inquirer_settings, &w->inquirer_watch, fault);
    if (!conf)
        return -1;
    w->inquirer = ck_open_handle(RD_KAFKA_CONSUMER, conf, &w->inquirer_watch, fault);
    return w->inquirer ? 0 : -1;
}

static void free_worker(ckafka_worker *w)
{
    close(w->wake_descriptor);
    ck_intake_free(&w->in);
    ck_free_kept_headers(&w->kept);
    free(w->event_partitions);
    free(w->shown_positions);
    free(w->early);
    rd_kafka_mem_free(NULL, w->statistics);
    rd_kafka_mem_free(NULL, w->shown_statistics);
    free(w->user);
    free(w->password);
    free(w->group);
    ck_names_free(&w->sources);
    ck_names_free(&w->targets);
    ck_watch_close(&w->consumer_watch);
    ck_watch_close(&w->producer_watch);
    ck_watch_close(&w->inquirer_watch);
    free(w);
}

ckafka_worker *ckafka_worker_new(const char *consumer_settings, const char *producer_settings,
                                 const char *inquirer_settings, const char *sources,
                                 const char *targets, const int64_t *target_byte_count_max,
                                 int32_t changelog, int32_t is_transactional, int32_t watchdog_ms,
                                 ckafka_fault *fault)
{
    /* Records are allocated by one thread and freed by another: with an arena a thread the process
     * grows to several times of what it holds. */
    mallopt(M_ARENA_MAX, MALLOC_ARENA_MAX);
    /* What a whole batch lies in grows by doubling: among small pieces it would leave holes of its
     * size.  Set by hand these do not move, as they else do with the first large piece freed. */
    mallopt(M_MMAP_THRESHOLD, MALLOC_LARGE);
    mallopt(M_TRIM_THRESHOLD, MALLOC_SPARE);
    ckafka_worker *w = ck_take_memory(sizeof *w);
    ck_names_read(&w->sources, sources);
    ck_names_read(&w->targets, targets);
    w->watchdog_ms = watchdog_ms;
    w->user = ck_setting_of(consumer_settings, "sasl.username");
    w->password = ck_setting_of(consumer_settings, "sasl.password");
    w->group = ck_setting_of(consumer_settings, "group.id");
    ck_watch_open(&w->consumer_watch, w);
    ck_watch_open(&w->producer_watch, NULL);
    ck_watch_open(&w->inquirer_watch, NULL);
    w->wake_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->wake_descriptor < 0) {
        ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no descriptor");
        goto failed;
    }
    if (open_consumer(w, consumer_settings, inquirer_settings, fault))
        goto failed;
    committer_setup committing = {
        .settings = producer_settings,
        .sources = &w->sources,
        .targets = &w->targets,
        .target_byte_count_max = target_byte_count_max,
        .changelog = changelog,
        .is_transactional = is_transactional != 0,
        .watchdog_ms = watchdog_ms,
        .consumer = w->consumer,
        .assignment_epoch = &w->assignment_epoch,
        .watch = &w->producer_watch,
        .wake_descriptor = w->wake_descriptor,
    };
    w->committer = ck_committer_open(&committing, fault);
    if (!w->committer)
        goto failed;
    watch *watches[] = {&w->consumer_watch, &w->producer_watch, &w->inquirer_watch};
    w->inquiries = ck_inquiries_open(w->inquirer, w->wake_descriptor, watches, 3);
    if (subscribe(w, fault)) {
        /* Started threads use this memory: it is left to the process, which ends on this fault. */
        ckafka_worker_close(w, 1000);
        return NULL;
    }
    return w;
failed:
    if (w->main_queue)
        rd_kafka_queue_destroy(w->main_queue);
    if (w->records)
        rd_kafka_queue_destroy(w->records);
    if (w->consumer)
        rd_kafka_destroy_flags(w->consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (w->inquirer)
        rd_kafka_destroy_flags(w->inquirer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (ck_retired_all(&w->consumer_watch, 0) && ck_retired_all(&w->inquirer_watch, 0))
        free_worker(w);
    return NULL;
}

int ckafka_worker_wake_descriptor(const ckafka_worker *w)
{
    return w->wake_descriptor;
}

int ckafka_worker_inquire(ckafka_worker *w, const char *group, const char *topic,
                          const int64_t **offsets, size_t *count, ckafka_fault *fault)
{
    return ck_inquiries_ask(w->inquiries, group, topic, offsets, count, fault);
}

size_t ckafka_worker_take_statistics(ckafka_worker *w, const char **json)
{
    rd_kafka_mem_free(NULL, w->shown_statistics);
    w->shown_statistics = w->statistics;
    w->statistics = NULL;
    *json = w->shown_statistics;
    return w->shown_statistics ? w->statistics_count : 0;
}

int ckafka_worker_is_away(const ckafka_worker *w)
{
    return atomic_load(&w->consumer_watch.is_away);
}

const char *ckafka_worker_refusal(const ckafka_worker *w)
{
    return w->refusal.since ? w->refusal.text : NULL;
}

int ckafka_worker_is_assigning(const ckafka_worker *w)
{
    return w->event == CKAFKA_EVENT_ASSIGN && !w->is_event_shown;
}

unsigned ckafka_worker_producer_count(const ckafka_worker *w)
{
    return ck_committer_producer_count(w->committer);
}

size_t ckafka_worker_take_notes(ckafka_worker *w, ckafka_note *notes, size_t capacity)
{
    size_t count = ck_watch_take(&w->consumer_watch, notes, capacity);
    count += ck_watch_take(&w->producer_watch, notes + count, capacity - count);
    return count + ck_watch_take(&w->inquirer_watch, notes + count, capacity - count);
}

/* The part of closing that may hang (#4187, #4519), on a thread that nobody waits for too long. */
typedef struct departure {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done;
    ckafka_worker *worker;
} departure;

static void *depart(void *argument)
{
    departure *d = argument;
    ckafka_worker *w = d->worker;
    drop_early(w);
    drop_holdings(w);
    finish_event(w);
    rd_kafka_consumer_close(w->consumer);
    rd_kafka_queue_destroy(w->main_queue);
    rd_kafka_queue_destroy(w->records);
    rd_kafka_destroy_flags(w->consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    rd_kafka_destroy_flags(w->inquirer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    bool is_done = ck_retired_all(&w->producer_watch, RETIRE_MS) &&
                   ck_retired_all(&w->inquirer_watch, RETIRE_MS);
    pthread_mutex_lock(&d->lock);
    d->is_done = is_done;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void ckafka_worker_close(ckafka_worker *w, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    /* Both use the handles: where one does not end nothing is freed, and the process's end does it. */
    if (!ck_committer_close(w->committer, deadline_ms) ||
        !ck_inquiries_close(w->inquiries, (int)(until - ck_now_ms())))
        return;
    w->is_closing = true;
    departure *d = ck_take_memory(sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    ck_open_condition(&d->changed);
    d->worker = w;
    pthread_t thread;
    if (pthread_create(&thread, NULL, depart, d) != 0)
        return;
    pthread_detach(thread);
    pthread_mutex_lock(&d->lock);
    while (!d->is_done && ck_now_ms() < until)
        ck_wait_condition(&d->changed, &d->lock, (int)(until - ck_now_ms()));
    bool is_done = d->is_done;
    pthread_mutex_unlock(&d->lock);
    if (!is_done)
        return;
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
    free_worker(w);
}
