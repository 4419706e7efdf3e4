/* What a worker holds: rebalances, where reading goes on, and transactions that move it. */
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
    w->is_event_shown = w->is_new = w->are_starts_known = false;
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        w->event = CKAFKA_EVENT_ASSIGN;
        if (w->refusal.code == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
            w->refusal.since = 0;
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
    return w->are_starts_known && ck_committer_is_ready(w->committer) &&
           !ck_committer_is_discarding(w->committer);
}

int ckafka_worker_take_assigned(ckafka_worker *w, const ckafka_position **partitions, size_t *count)
{
    bool is_new = w->is_new;
    w->is_new = false;
    *partitions = w->event_partitions;
    *count = w->event_partition_count;
    return is_new;
}

void ckafka_worker_note_starts(ckafka_worker *w)
{
    w->are_starts_known = true;
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
    w->is_event_shown = w->is_new = w->are_starts_known = false;
}

void ck_worker_drop_early(ckafka_worker *w)
{
    while (w->early_next < w->early_count)
        rd_kafka_message_destroy(w->early[w->early_next++]);
    w->early_next = w->early_count = 0;
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
            rd_kafka_queue_forward(h->queue, w->records);
    }
}

static void show_holdings(ckafka_worker *w, const ckafka_position **positions, size_t *count)
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
}

int ckafka_worker_assign(ckafka_worker *w, const ckafka_position *starts, size_t count,
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
            .start = start->offset,
        };
        rd_kafka_topic_partition_list_add(list, w->sources.items[start->topic], start->partition)
            ->offset = start->offset;
    }
    atomic_fetch_add(&w->assignment_epoch, 1);
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the assignment was not taken");
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

int ckafka_worker_unassign(ckafka_worker *w, ckafka_fault *fault)
{
    /* Before the library may join again: the commit thread compares it after it has read the
     * group's generation, so no offset of the old assignment goes out under a new generation. */
    atomic_fetch_add(&w->assignment_epoch, 1);
    ck_committer_discard(w->committer);
    rd_kafka_resp_err_t code = rd_kafka_assign(w->consumer, NULL);
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

/* -- transactions ----------------------------------------------------------------------------- */

int ckafka_worker_prepare(ckafka_worker *w, size_t output_count, ckafka_output **outputs,
                          ckafka_fault *fault)
{
    return ck_committer_prepare(w->committer, output_count, outputs, fault);
}

int ckafka_worker_submit(ckafka_worker *w, const uint8_t *arena, uint32_t lent_bit,
                         const ckafka_position *positions, size_t position_count,
                         ckafka_fault *fault)
{
    return ck_committer_submit(w->committer, arena, lent_bit, positions, position_count, &w->kept,
                               fault);
}

uint32_t ckafka_worker_lent(const ckafka_worker *w)
{
    return atomic_load(&w->lent);
}

/* Reading goes on at the committed positions; what the library fetched beyond is outdated by the
 * seek itself. */
static int rewind_holdings(ckafka_worker *w, ckafka_outcome *outcome, ckafka_fault *fault)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)w->holding_count + 1);
    ck_worker_drop_early(w);
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
    /* What is about to be revoked is not read again; and an assign now would answer the group. */
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
    show_holdings(w, &outcome->positions, &outcome->position_count);
    return 0;
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
