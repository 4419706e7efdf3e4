/*
 * The transaction under way: produce all, flush, send offsets, commit, on a thread of its own,
 * because each of these may block while the loop has a group to answer and records to judge.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STORE_MS = 30000,          /* for all outputs to be stored; below the transaction's 40 s */
    RETRY_MS = 50,
    CALM_MS = 1000,            /* between two rebuilds that a lost connection asks for */
    COMMITTED_TURN_MS = 5000,
};

/* -- outcomes --------------------------------------------------------------------------------- */

static void show_committed(committer *c)
{
    size_t count = 0;
    for (size_t t = 0; t < c->targets.count; t++)
        count += c->next[t].count;
    c->outcome_positions = ck_grow(c->outcome_positions, sizeof *c->outcome_positions * (count + 1));
    size_t at = 0;
    for (size_t t = 0; t < c->targets.count; t++)
        for (size_t i = 0; i < c->next[t].count; i++)
            c->outcome_positions[at++] = (ckafka_position){
                .offset = c->next[t].items[i].offset,
                .topic = (int32_t)t,
                .partition = c->next[t].items[i].partition,
            };
    c->refused_since = 0;
    c->outcome.kind = CKAFKA_OUTCOME_COMMITTED;
    c->outcome.positions = c->outcome_positions;
    c->outcome.position_count = count;
}

/* Asks the group what it has of the assignment; null when closing or when it moved on. */
static rd_kafka_topic_partition_list_t *ask_committed(committer *c)
{
    ck_committer_enter(c, ASKING);
    while (!ck_committer_is_closing(c) && !ck_committer_has_moved(c) &&
           !ck_committer_has_given_up(c)) {
        rd_kafka_topic_partition_list_t *list = NULL;
        rd_kafka_resp_err_t code = rd_kafka_assignment(c->consumer, &list);
        /* read_committed: waits until no transactional offset is pending. */
        if (!code)
            code = rd_kafka_committed(c->consumer, list, COMMITTED_TURN_MS);
        for (int i = 0; !code && i < list->cnt; i++)
            code = list->elems[i].err;
        if (!code) {
            ck_committer_enter(c, RESTING);
            return list;
        }
        if (list)
            rd_kafka_topic_partition_list_destroy(list);
        /* While Kafka is away there is nobody to lose patience with. */
        if (atomic_load(&c->watch->is_away))
            ck_committer_enter(c, ASKING);
        ck_pause_ms(RETRY_MS);
    }
    ck_committer_enter(c, RESTING);
    return NULL;
}

static void show_aborted(committer *c, const rd_kafka_topic_partition_list_t *list)
{
    size_t count = list ? (size_t)list->cnt : 0;
    c->outcome_positions = ck_grow(c->outcome_positions, sizeof *c->outcome_positions * (count + 1));
    for (size_t i = 0; i < count; i++)
        c->outcome_positions[i] = (ckafka_position){
            .offset = list->elems[i].offset,
            .topic = ck_names_index(&c->sources, list->elems[i].topic),
            .partition = list->elems[i].partition,
        };
    c->outcome.kind = CKAFKA_OUTCOME_ABORTED;
    c->outcome.positions = c->outcome_positions;
    c->outcome.position_count = count;
}

static bool carries_mark(committer *c, const rd_kafka_topic_partition_list_t *list)
{
    size_t count = strlen(c->mark);
    for (int i = 0; list && i < list->cnt; i++)
        if (list->elems[i].metadata_size == count &&
            memcmp(list->elems[i].metadata, c->mark, count) == 0)
            return true;
    return false;
}

/* -- a transaction ---------------------------------------------------------------------------- */

static enum verdict run_exactly_once(committer *c)
{
    int64_t until = ck_now_ms() + STORE_MS;
    /* Nothing was begun, so nothing is to be aborted: what would be fenced is not even written. */
    if (!ck_committer_is_member(c)) {
        ck_committer_set_code(c, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
        return ABORT;
    }
    rd_kafka_error_t *error = rd_kafka_begin_transaction(c->producer);
    if (error) {
        ck_committer_judge(c, error);
        return REBUILD;
    }
    enum verdict verdict = ck_committer_produce(c, false, false, until);
    if (verdict == FINE)
        verdict = ck_committer_flush(c, until);
    /* With the coordinator away sending offsets blocks for a minute, whatever its timeout
     * (#5456): a new producer waits for the broker without that. */
    if (verdict == FINE && atomic_load(&c->watch->is_away)) {
        ck_committer_set_code(c, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
        verdict = REBUILD;
    }
    if (verdict == FINE)
        verdict = ck_committer_send_offsets(c, ck_committer_position_list(c));
    if (verdict == FINE)
        verdict = ck_committer_end(c, true);
    return verdict == ABORT ? ck_committer_abort(c) == FINE ? ABORT : REBUILD : verdict;
}

static enum verdict run_at_least_once(committer *c)
{
    int64_t until = ck_now_ms() + STORE_MS;
    if (ck_committer_has_moved(c)) {
        ck_committer_set_code(c, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
        return ABORT;
    }
    enum verdict verdict = ck_committer_produce(c, false, true, until);
    if (verdict == FINE)
        verdict = ck_committer_flush(c, until);
    if (verdict == FINE)
        verdict = ck_committer_produce(c, true, false, until);
    if (verdict == FINE)
        verdict = ck_committer_flush(c, until);
    if (verdict != FINE) {
        /* What still waits must not be written behind the retry's back. */
        rd_kafka_purge(c->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        return REBUILD;
    }
    rd_kafka_topic_partition_list_t *list = ck_committer_position_list(c);
    ck_committer_enter(c, SENDING_OFFSETS);
    for (;;) {
        rd_kafka_resp_err_t code = ck_committer_has_moved(c)
                                       ? RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION
                                       : rd_kafka_commit(c->consumer, list, 0);
        if (!code)
            break;
        bool is_passing = code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS ||
                          code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
                          code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
                          code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
                          code == RD_KAFKA_RESP_ERR__WAIT_COORD ||
                          code == RD_KAFKA_RESP_ERR__TRANSPORT ||
                          code == RD_KAFKA_RESP_ERR__TIMED_OUT;
        if (is_passing && ck_now_ms() < until && !ck_committer_is_closing(c)) {
            ck_pause_ms(RETRY_MS);
            continue;
        }
        ck_committer_set_code(c, code);
        verdict = ABORT;
        break;
    }
    ck_committer_enter(c, RESTING);
    rd_kafka_topic_partition_list_destroy(list);
    return verdict;
}

/* Finds out what became of a transaction that did not simply succeed. Where its producer is beyond
 * use, a new one with the same name has ended whatever was open; then the group's offsets carry
 * our mark, or it never was. */
static void settle(committer *c, enum verdict verdict)
{
    bool was_fenced = ck_is_fence(rd_kafka_fatal_error(c->producer, NULL, 0));
    if (verdict == REBUILD) {
        if (was_fenced && ck_committer_await_fence_verdict(c))
            return;
        if (!ck_committer_count_rebuild(c) || !ck_committer_make_ready(c))
            return;
    }
    rd_kafka_topic_partition_list_t *list = ask_committed(c);
    if (carries_mark(c, list))
        show_committed(c);
    else
        show_aborted(c, list);
    if (list)
        rd_kafka_topic_partition_list_destroy(list);
}

static void run(committer *c)
{
    memset(&c->outcome, 0, sizeof c->outcome);
    for (size_t t = 0; t < c->targets.count; t++)
        c->next[t].count = 0;
    c->waiting_count = c->stored_count = c->failed_count = 0;
    snprintf(c->mark, sizeof c->mark, "tw.%s.%llu", c->life, (unsigned long long)++c->number);
    enum verdict verdict = c->is_transactional ? run_exactly_once(c) : run_at_least_once(c);
    if (verdict == FINE) {
        show_committed(c);
        atomic_store(&c->watch->is_away, 0);
    } else {
        settle(c, verdict);
    }
    ck_drop_kept_headers(&c->kept);
}

static bool wants_rebuild(committer *c)
{
    if (c->must_rebuild || !atomic_load(&c->is_ready))
        return true;
    /* After a lost connection the coordinator may have been lost, and the next transaction would
     * hang; a producer that is idle now has the time. Connections that come and go do not count as
     * failures, but each costs a producer: no more than one a second. */
    return c->is_transactional && ck_now_ms() - c->made_at > CALM_MS &&
           atomic_load(&c->watch->disconnect_count) != c->disconnects_known;
}

void *ck_committer_run(void *argument)
{
    committer *c = argument;
    for (;;) {
        if (wants_rebuild(c) && !ck_committer_make_ready(c))
            break;
        pthread_mutex_lock(&c->lock);
        if (c->state != SUBMITTED && !c->is_closing)
            ck_wait_condition(&c->changed, &c->lock, COMMITTER_LOOK_MS);
        bool closing = c->is_closing;
        bool has_work = c->state == SUBMITTED;
        if (has_work && !closing)
            c->state = RUNNING;
        pthread_mutex_unlock(&c->lock);
        if (closing)
            break;
        rd_kafka_poll(c->producer, 0);
        if (!has_work)
            continue;
        /* Found out only now that the connection was lost: the transaction waits for it. */
        if (wants_rebuild(c) && !ck_committer_make_ready(c))
            break;
        run(c);
        pthread_mutex_lock(&c->lock);
        c->state = c->is_discarded ? NOTHING : DONE;
        c->is_discarded = false;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        ck_wake(c->wake_descriptor);
    }
    pthread_mutex_lock(&c->lock);
    c->has_ended = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
