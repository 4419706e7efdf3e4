/* What a worker holds: rebalances, where reading goes on, and what it lends to a transaction. */
#include "ckafka_transaction.h"
#include "ckafka_worker.h"

#include <stdlib.h>

enum { FETCH_WAKE_COUNT = 3, FETCH_WAKE_MS = 5 };

void ck_worker_on_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code,
                            rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    ckafka_worker *w = ((watch *)opaque)->owner;
    if (w->is_closing) {
        rd_kafka_assign(rk, NULL);
        return;
    }
    w->event_partitions =
        ck_grow(w->event_partitions, sizeof *w->event_partitions * (size_t)(partitions->cnt + 1));
    w->event_partition_count = (size_t)partitions->cnt;
    for (int i = 0; i < partitions->cnt; i++)
        w->event_partitions[i] = (ckafka_position){
            .offset = -1,
            .topic = ck_names_index(&w->sources, partitions->elems[i].topic),
            .partition = partitions->elems[i].partition,
        };
    w->is_event_shown = w->is_new = w->may_be_shown = false;
    /* Who was asked may not be ours any more. */
    for (size_t i = 0; i < w->sources.count; i++)
        w->refusals[i].is_asked = false;
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        w->event = CKAFKA_EVENT_ASSIGN;
        w->refusals[w->sources.count].since = 0;
        w->is_new = true;
    } else if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS && !rd_kafka_assignment_lost(rk)) {
        w->event = CKAFKA_EVENT_REVOKE;
    } else {
        w->event = CKAFKA_EVENT_LOST;
    }
}

bool ck_worker_event_is_ready(const ckafka_worker *w)
{
    if (w->event != CKAFKA_EVENT_ASSIGN)
        return w->event != CKAFKA_EVENT_NONE;
    return w->may_be_shown;
}

int ckafka_worker_take_assigned(ckafka_worker *w, const ckafka_position **partitions, size_t *count)
{
    bool is_new = w->is_new;
    w->is_new = false;
    *partitions = w->event_partitions;
    *count = w->event_partition_count;
    return is_new;
}

void ckafka_worker_show_assigned(ckafka_worker *w)
{
    w->may_be_shown = true;
    ckafka_signal_raise(w->wake_descriptor);
}

void ck_worker_show_event(ckafka_worker *w, ckafka_batch *batch)
{
    w->is_event_shown = true;
    batch->event = w->event;
    batch->event_partitions = w->event_partitions;
    batch->event_partition_count = w->event_partition_count;
}

void ck_worker_finish_event(ckafka_worker *w)
{
    w->event = CKAFKA_EVENT_NONE;
    w->is_event_shown = w->is_new = w->may_be_shown = false;
}

void ck_worker_drop_early(ckafka_worker *w)
{
    while (w->early_count > 0)
        rd_kafka_message_destroy(w->early[--w->early_count]);
}

void ck_worker_drop_holdings(ckafka_worker *w)
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
            rd_kafka_queue_forward(h->queue, h->is_held ? NULL : w->records);
    }
}

int ckafka_worker_assign(ckafka_worker *w, const ckafka_position *starts, size_t count, int is_held,
                         ckafka_fault *fault)
{
    if (w->event != CKAFKA_EVENT_ASSIGN || !w->is_event_shown)
        return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__STATE,
                    "no assignment is to be completed");
    ck_worker_drop_holdings(w);
    ck_worker_drop_early(w);
    w->holdings = ck_take_memory(sizeof *w->holdings * (count + 1));
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
    for (size_t i = 0; i < count; i++) {
        const ckafka_position *start = &starts[i];
        w->holdings[w->holding_count++] = (holding){
            .topic = start->topic,
            .partition = start->partition,
            .next = start->offset,
            .is_held = is_held,
        };
        rd_kafka_topic_partition_list_add(list, w->sources.items[start->topic], start->partition)
            ->offset = start->offset;
    }
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the assignment was not taken");
    w->is_assigned = true;
    lead_away(w);
    /* The library's main thread lets the partitions be fetched a moment later, and a broker's thread that
     * looked before that would sleep a second. */
    for (int turn = 0; turn < FETCH_WAKE_COUNT; turn++) {
        ck_pause_ms(FETCH_WAKE_MS);
        ck_wake_brokers(w->consumer, w->user, w->password);
    }
    ck_worker_finish_event(w);
    return 0;
}

void ckafka_worker_release(ckafka_worker *w, int32_t partition)
{
    for (size_t i = 0; i < w->holding_count; i++)
        if (w->holdings[i].partition == partition)
            w->holdings[i].is_held = false;
    /* What waits in the partition's queue goes along. */
    lead_away(w);
    ckafka_signal_raise(w->wake_descriptor);
}

int ckafka_worker_unassign(ckafka_worker *w, ckafka_fault *fault)
{
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, NULL);
    w->is_assigned = false;
    ck_worker_drop_holdings(w);
    ck_worker_drop_early(w);
    ck_worker_finish_event(w);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the assignment was not given back");
    return 0;
}

holding *ck_worker_find_holding(ckafka_worker *w, int topic, int32_t partition)
{
    for (size_t i = 0; i < w->holding_count; i++)
        if (w->holdings[i].partition == partition && w->holdings[i].topic == topic)
            return &w->holdings[i];
    return NULL;
}

void ckafka_transaction_lend(ckafka_transaction *t, ckafka_worker *w, uint32_t lent_bit)
{
    kept_headers empty = t->kept; /* since the last transaction ended */
    t->kept = w->kept;
    w->kept = empty;
    t->lent_bit = lent_bit;
    atomic_fetch_or(&t->lent, lent_bit);
}

/* What the library fetched beyond these offsets is outdated by the seek itself. */
int ck_worker_read_anew(ckafka_worker *w, ckafka_fault *fault)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)w->holding_count + 1);
    ck_worker_drop_early(w);
    for (size_t i = 0; i < w->holding_count; i++) {
        const holding *h = &w->holdings[i];
        rd_kafka_topic_partition_list_add(list, w->sources.items[h->topic], h->partition)->offset =
            h->next;
    }
    bool is_done = true;
    /* What is about to be revoked is not read again; and an assign now would answer the group. */
    bool is_leaving = w->event == CKAFKA_EVENT_REVOKE || w->event == CKAFKA_EVENT_LOST;
    if (list->cnt > 0 && !is_leaving) {
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
    return 0;
}

int ckafka_worker_rewind(ckafka_worker *w, const ckafka_position *positions, size_t count,
                         ckafka_fault *fault)
{
    ck_drop_kept_headers(&w->kept);
    for (size_t i = 0; i < count; i++) {
        holding *h = ck_worker_find_holding(w, positions[i].topic, positions[i].partition);
        if (h)
            h->next = positions[i].offset;
    }
    return ck_worker_read_anew(w, fault);
}
