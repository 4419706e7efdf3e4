/* What a worker reads: records, errors in their place, and the poll of its loop. */
#include "ckafka_worker.h"

#include <stdio.h>
#include <string.h>

enum {
    LOOK_EVERY_MS = 100,      /* a lost wake costs no more than this */
    MAIN_QUEUE_TURN_MAX = 10000,
    REFUSAL_QUESTION_MS = 2000,
    /* What is refused later than that after a question may be the word of a broker that has just
     * started. */
    REFUSAL_ANSWER_MS = 10000,
};

/* Null where it is not ours any more.  Messages of one partition mostly come one after the other. */
static holding *holding_of(ckafka_worker *w, const rd_kafka_message_t *message)
{
    if (w->last_holding && w->last_topic == message->rkt &&
        w->last_holding->partition == message->partition)
        return w->last_holding;
    int topic = message->rkt ? ck_names_index(&w->sources, rd_kafka_topic_name(message->rkt)) : -1;
    holding *h = topic < 0 ? NULL : ck_worker_find_holding(w, topic, message->partition);
    w->last_topic = message->rkt;
    w->last_holding = h;
    return h;
}

/* Where what is refused with a message is remembered: with its source, or with the group. */
static size_t refusal_index(const ckafka_worker *w, const rd_kafka_message_t *message)
{
    bool is_group = !message->rkt || message->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    int topic = is_group ? -1 : ck_names_index(&w->sources, rd_kafka_topic_name(message->rkt));
    return topic < 0 ? w->sources.count : (size_t)topic;
}

/* The library reports it once for each partition, and goes on asking. */
static int remember_refusal(ckafka_worker *w, const rd_kafka_message_t *message,
                            ckafka_fault *fault)
{
    size_t index = refusal_index(w, message);
    refusal *r = &w->refusals[index];
    int64_t time = ck_now_ms() - r->since;
    if (r->since && !r->is_asked)
        return 0;
    if (r->is_asked && message->err == r->code && time < REFUSAL_ANSWER_MS && time < w->watchdog_ms)
        return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, r->code, r->text);
    *r = (refusal){.since = ck_now_ms(), .code = message->err};
    char what[300];
    if (index < w->sources.count)
        snprintf(what, sizeof what, "the topic %s", w->sources.items[index]);
    else if (message->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
        snprintf(what, sizeof what, "the group %s", w->group);
    else
        snprintf(what, sizeof what, "%s", rd_kafka_message_errstr(message));
    ck_refusal_text(r->text, sizeof r->text, message->err, what);
    ck_watch_note(&w->watch, 3, "REFUSED", r->text);
    return 0;
}

static rd_kafka_resp_err_t look_for_topic(rd_kafka_t *inquirer, const char *topic)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(inquirer, topic, NULL);
    const struct rd_kafka_metadata *metadata = NULL;
    if (!handle)
        return rd_kafka_last_error();
    rd_kafka_resp_err_t code = rd_kafka_metadata(inquirer, 0, handle, &metadata, REFUSAL_QUESTION_MS);
    if (!code) {
        code = metadata->topic_cnt == 1 ? metadata->topics[0].err
                                        : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    return code;
}

/* Whether the group takes us now.  Its coordinator may be found again without any event; and whose
 * heartbeats it refuses has no assignment any more after a session.  Where no coordinator is named
 * there is no answer, as from a slow one: that counts as a refusal the second time. */
static rd_kafka_resp_err_t look_for_group(ckafka_worker *w, refusal *r)
{
    rd_kafka_resp_err_t code = r->code;
    if (w->is_assigned) {
        const holding *h = w->holding_count ? w->holdings : &(holding){0};
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, w->sources.items[h->topic], h->partition);
        code = rd_kafka_committed(w->consumer, list, REFUSAL_QUESTION_MS);
        rd_kafka_topic_partition_list_destroy(list);
    }
    if (!code)
        return code;
    if (ckafka_worker_is_away(w)) {
        r->is_silent = false;
        return RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
    }
    /* A coordinator that says anything else has looked at the right before. */
    if (code != RD_KAFKA_RESP_ERR__TIMED_OUT)
        return code;
    bool is_first = !r->is_silent;
    r->is_silent = true;
    return is_first ? code : r->code;
}

/* Whether what a source is refused for can be asked for by fetching it. */
static bool can_be_fetched(const ckafka_worker *w, size_t index)
{
    switch (w->refusals[index].code) {
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION: return false;
    default: break;
    }
    if (w->event != CKAFKA_EVENT_NONE)
        return false;
    for (size_t i = 0; i < w->holding_count; i++)
        if ((size_t)w->holdings[i].topic == index)
            return true;
    return false;
}

/* Whether it lasts: a broker that has just started knows rights and topics a few seconds later. */
static int check_refusal(ckafka_worker *w, size_t index, ckafka_fault *fault)
{
    refusal *r = &w->refusals[index];
    if (!r->since || r->is_asked || ck_now_ms() - r->since < w->watchdog_ms)
        return 0;
    rd_kafka_resp_err_t code = index < w->sources.count
                                   ? look_for_topic(w->inquirer, w->sources.items[index])
                                   : look_for_group(w, r);
    if (ck_is_refusal(code))
        return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, r->code, r->text);
    /* Fetches that are answered again and find nothing new are no event; of a first one the library
     * reports the end, or the same error once more. */
    r->is_asked = !code && can_be_fetched(w, index);
    if (r->is_asked) {
        r->since = ck_now_ms();
        return ck_worker_read_anew(w, fault);
    }
    /* It is there again, or no broker answered. */
    r->since = code ? ck_now_ms() : 0;
    return 0;
}

static int check_refusals(ckafka_worker *w, ckafka_fault *fault)
{
    for (size_t i = 0; i <= w->sources.count; i++)
        if (check_refusal(w, i, fault))
            return -1;
    return 0;
}

/* An error that the library delivers in the place of a message. */
static int consumer_error(ckafka_worker *w, const rd_kafka_message_t *message, ckafka_fault *fault)
{
    switch (message->err) {
    case RD_KAFKA_RESP_ERR__FATAL:
        return ckafka_worker_check_fatal(w, fault);
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
        return ck_fail(fault, CKAFKA_FAULT_FENCED, message->err, rd_kafka_message_errstr(message));
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET: {
        holding *h = holding_of(w, message);
        if (!h)
            return 0; /* of an earlier assignment */
        ck_fail(fault, CKAFKA_FAULT_LOST, message->err, w->sources.items[h->topic]);
        fault->partition = h->partition;
        fault->position = h->next;
        return -1;
    }
    case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
        /* A lost event follows. */
        ck_watch_note(&w->watch, 4, "MAXPOLL", rd_kafka_message_errstr(message));
        return 0;
    default:
        if (ck_is_refusal(message->err))
            return remember_refusal(w, message, fault);
        return ck_fail(fault,
                    ck_is_damage(message->err) ? CKAFKA_FAULT_UNUSABLE : CKAFKA_FAULT_UNAVAILABLE,
                    message->err, rd_kafka_message_errstr(message));
    }
}

/* Takes one message in, which stays its owner's. */
static int take_message(ckafka_worker *w, rd_kafka_message_t *message, ckafka_fault *fault)
{
    int result = 0;
    if (message->err && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        result = consumer_error(w, message, fault);
    } else {
        holding *h = holding_of(w, message);
        if (h && message->err) {
            ck_intake_end(&w->in, h->topic, message->partition, message->offset);
            /* Behind markers: retention may take those too, and then there is nothing at `next`. */
            if (message->offset > h->next)
                h->next = message->offset;
        } else if (h && message->offset >= h->next) {
            ck_intake_add(&w->in, message, h->topic, &w->kept);
            h->next = message->offset + 1;
        }
        /* Else not ours any more, or delivered before. */
        if (h && w->refusals[h->topic].since)
            w->refusals[h->topic].since = 0;
    }
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

/* One call of read_records. */
typedef struct reading {
    ckafka_worker *worker;
    size_t record_max, byte_max;
    ckafka_fault *fault;
    bool has_failed;
} reading;

static bool has_room(const reading *r)
{
    const intake *in = &r->worker->in;
    return !r->has_failed && in->record_count < r->record_max && in->arena_count < r->byte_max;
}

/* The library destroys the message. */
static void on_record(rd_kafka_message_t *message, void *opaque)
{
    reading *r = opaque;
    if (take_message(r->worker, message, r->fault))
        r->has_failed = true;
    if (!has_room(r))
        rd_kafka_yield(r->worker->consumer);
}

static int read_records(ckafka_worker *w, size_t record_max, size_t byte_max, ckafka_fault *fault)
{
    reading r = {.worker = w, .record_max = record_max, .byte_max = byte_max, .fault = fault};
    size_t left = 0;
    for (size_t i = 0; i < w->early_count; i++) {
        rd_kafka_message_t *message = w->early[i];
        holding *h = holding_of(w, message);
        if (!has_room(&r) || (h && h->is_held)) {
            w->early[left++] = message;
            continue;
        }
        on_record(message, &r);
        rd_kafka_message_destroy(message);
    }
    w->early_count = left;
    /* Never consume_batch: that one skips offsets around a rebalance or a seek (#4117, #4208).  This
     * one looks at each message's version as it hands it over, as a call for each message does, and
     * what follows a yield goes back to the queue's front; but it takes the queue's lock once and not
     * for each, nor a look at the clock. */
    while (has_room(&r) && rd_kafka_consume_callback_queue(w->records, 0, on_record, &r) > 0)
        ;
    return r.has_failed ? -1 : 0;
}

/* Looks once; 1 when there is something to return, 0 when not, -1 on a fault. */
static int look(ckafka_worker *w, size_t record_max, size_t byte_max, ckafka_batch *batch,
                ckafka_fault *fault)
{
    if (ck_tell_held(&w->held_fault, fault) || serve_main_queue(w, fault) || check_refusals(w, fault))
        return -1;
    if (ck_worker_event_is_ready(w)) {
        ck_worker_show_event(w, batch);
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
        ck_wake_brokers(w->consumer, w->user, w->password);
    /* The descriptor wakes for a queue that was empty; the rest of a full one needs a new wake. */
    if (w->early_count > 0 || rd_kafka_queue_length(w->records) > 0)
        ckafka_signal_raise(w->wake_descriptor);
    return w->in.record_count + w->in.end_count > 0;
}

/* The library's threads wait until a time of day.  Where the clock is set back meanwhile, its main thread
 * sends no heartbeat until that time has come again, and the group gives the member up.  A question
 * wakes it, and what it waits for next it reckons anew; the same for brokers that are not connected. */
static void wake_library(ckafka_worker *w)
{
    rd_kafka_consumer_group_metadata_t *answer = rd_kafka_consumer_group_metadata(w->consumer);
    if (answer)
        rd_kafka_consumer_group_metadata_destroy(answer);
    ck_wake_brokers(w->consumer, w->user, w->password);
}

int ckafka_worker_poll(ckafka_worker *w, size_t record_max, size_t byte_max, int wait_ms,
                       ckafka_batch *batch, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + wait_ms;
    memset(batch, 0, sizeof *batch);
    ck_intake_reset(&w->in);
    for (;;) {
        if (ck_is_set_back(&w->clock_lead_ms))
            wake_library(w);
        int result = look(w, record_max, byte_max, batch, fault);
        if (result) {
            ck_intake_show(&w->in, batch);
            return result < 0 ? -1 : 0;
        }
        int64_t left = until - ck_now_ms();
        if (left <= 0 || w->is_new)
            return 0;
        ck_wait_readable(w->wake_descriptor, left < LOOK_EVERY_MS ? left : LOOK_EVERY_MS);
        ck_calm(w->wake_descriptor);
        /* The caller may know now where the assignment is to be read from. */
        if (ckafka_worker_is_assigning(w) && !w->may_be_shown)
            return 0;
    }
}
