/*
 * The committer's thread: one transaction after the other, because each of its steps may block while the
 * loop has a group to answer and records to judge; and all that repairs one which did not end well.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <string.h>

enum {
    STORE_MS = 30000, /* for all outputs to be stored; below the transaction's 40 s */
    CALM_MS = 1000,   /* between two rebuilds that a lost connection asks for */
    COMMITTED_TURN_MS = 5000,
    ABORT_MS = 10000,
};

/* -- outcomes --------------------------------------------------------------------------------- */

static void show(committer *c, int kind, size_t count)
{
    c->outcome.kind = kind;
    c->outcome.positions = c->outcome_positions;
    c->outcome.position_count = count;
}

/* What was written, while its producer is still there. */
static size_t keep_written(committer *c)
{
    deliveries *d = c->transaction.told;
    pthread_mutex_lock(&d->lock);
    size_t count = d->next_count;
    c->outcome_positions = ck_grow(c->outcome_positions, sizeof *c->outcome_positions * (count + 1));
    if (count)
        memcpy(c->outcome_positions, d->next, sizeof *d->next * count);
    pthread_mutex_unlock(&d->lock);
    return count;
}

static void show_committed(committer *c, size_t written_count)
{
    c->refused_since = 0;
    show(c, CKAFKA_OUTCOME_COMMITTED, written_count);
}

static void show_aborted(committer *c, const rd_kafka_topic_partition_list_t *list)
{
    size_t count = list ? (size_t)list->cnt : 0;
    c->outcome_positions = ck_grow(c->outcome_positions, sizeof *c->outcome_positions * (count + 1));
    for (size_t i = 0; i < count; i++)
        c->outcome_positions[i] = (ckafka_position){
            .offset = list->elems[i].offset,
            .topic = ck_names_index(c->setup.sources, list->elems[i].topic),
            .partition = list->elems[i].partition,
        };
    show(c, CKAFKA_OUTCOME_ABORTED, count);
}

/* Whether the assignment is still the one that the records were read under.  Asked after the
 * generation was read: a new generation needs an unassign first, which changes the epoch. */
static bool has_moved(committer *c)
{
    return atomic_load(c->setup.assignment_epoch) != c->epoch;
}

/* Asks the group what it has of the assignment; null when closing or when it moved on. */
static rd_kafka_topic_partition_list_t *ask_committed(committer *c)
{
    rd_kafka_topic_partition_list_t *list = NULL;
    ck_transaction_enter(&c->transaction, ASKING);
    while (!ck_committer_is_closing(c) && !has_moved(c) && !ck_committer_has_given_up(c)) {
        rd_kafka_resp_err_t code = rd_kafka_assignment(c->setup.consumer, &list);
        /* read_committed: waits until no transactional offset is pending. */
        if (!code)
            code = rd_kafka_committed(c->setup.consumer, list, COMMITTED_TURN_MS);
        for (int i = 0; !code && i < list->cnt; i++)
            code = list->elems[i].err;
        if (!code)
            break;
        if (list)
            rd_kafka_topic_partition_list_destroy(list);
        list = NULL;
        /* While Kafka is away the patience does not run out. */
        if (atomic_load(&((watch *)rd_kafka_opaque(c->setup.consumer))->is_away))
            ck_transaction_enter(&c->transaction, ASKING);
        ck_pause_ms(STEP_RETRY_MS);
    }
    ck_transaction_enter(&c->transaction, RESTING);
    return list;
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

static rd_kafka_topic_partition_list_t *position_list(committer *c)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)c->positions.count);
    for (size_t i = 0; i < c->positions.count; i++) {
        const ckafka_position *from = &c->positions.items[i];
        rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_add(
            list, c->setup.sources->items[from->topic], from->partition);
        at->offset = from->offset;
        /* Text only: 2.0.2 cuts metadata at a zero byte (#4649).  The mark shows afterwards
         * whether this very transaction was committed, also where no position moved. */
        at->metadata = strdup(c->mark);
        at->metadata_size = strlen(c->mark);
    }
    return list;
}

/* The generation in `CGMDv2:`, the only public way to it; -1 also without a member: the broker would
 * take offsets without one from anybody. */
static int32_t generation_of(const rd_kafka_consumer_group_metadata_t *metadata)
{
    static const char head[] = "CGMDv2:";
    const size_t head_count = sizeof head - 1;
    void *bytes = NULL;
    size_t count = 0;
    int32_t generation = -1;
    rd_kafka_error_t *error = rd_kafka_consumer_group_metadata_write(metadata, &bytes, &count);
    if (error) {
        rd_kafka_error_destroy(error);
        return -1;
    }
    if (count > head_count + sizeof generation && memcmp(bytes, head, head_count) == 0) {
        memcpy(&generation, (const char *)bytes + head_count, sizeof generation);
        /* group NUL member NUL */
        const char *group = (const char *)bytes + head_count + sizeof generation;
        const char *member = group + strlen(group) + 1;
        if (member >= (const char *)bytes + count || *member == '\0')
            generation = -1;
    }
    rd_kafka_mem_free(NULL, bytes);
    return generation;
}

/* What the group knows us by; null, with the code, where it would not take offsets from us. */
static rd_kafka_consumer_group_metadata_t *take_membership(committer *c)
{
    rd_kafka_consumer_group_metadata_t *metadata =
        rd_kafka_consumer_group_metadata(c->setup.consumer);
    if (metadata && generation_of(metadata) >= 0 && !has_moved(c))
        return metadata;
    if (metadata)
        rd_kafka_consumer_group_metadata_destroy(metadata);
    c->transaction.code = RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION;
    return NULL;
}

static enum verdict write_outputs(committer *c, enum part part, int64_t until)
{
    transaction *t = &c->transaction;
    const outlet out = {
        .rk = t->rk,
        .topics = t->topics,
        .arena = c->arena,
        .is_lent = true,
        .now_ms = ck_wall_ms(),
        .kept = &c->kept,
    };
    enum verdict verdict = ck_transaction_produce(t, &out, c->outputs, c->output_count,
                                                  c->setup.changelog, part, until);
    return verdict == FINE ? ck_transaction_flush(t, until) : verdict;
}

static enum verdict run_exactly_once(committer *c)
{
    transaction *t = &c->transaction;
    int64_t until = ck_now_ms() + STORE_MS;
    /* Nothing was begun, so nothing is to be aborted: what would be fenced is not even written. */
    rd_kafka_consumer_group_metadata_t *metadata = take_membership(c);
    if (!metadata)
        return ABORT;
    rd_kafka_consumer_group_metadata_destroy(metadata);
    enum verdict verdict = ck_transaction_begin(t);
    if (verdict != FINE)
        return verdict;
    verdict = write_outputs(c, ALL_OUTPUTS, until);
    /* With the coordinator away sending offsets blocks for a minute, whatever its timeout
     * (#5456): a new producer waits for the broker without that. */
    if (verdict == FINE && atomic_load(&c->setup.watch->is_away)) {
        t->code = RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
        return REBUILD;
    }
    if (verdict == FINE) {
        metadata = take_membership(c);
        verdict = metadata ? ck_transaction_send_offsets(t, position_list(c), metadata) : ABORT;
    }
    if (verdict == FINE)
        verdict = ck_transaction_commit(t, -1);
    if (verdict != FINE)
        ck_committer_note_refusal(c);
    return verdict == ABORT && ck_transaction_abort(t, ck_now_ms() + ABORT_MS) != FINE ? REBUILD : verdict;
}

/* Without a transaction: until it is taken, or cannot be. */
static enum verdict commit_positions(committer *c, int64_t until)
{
    rd_kafka_topic_partition_list_t *list = position_list(c);
    rd_kafka_resp_err_t code;
    ck_transaction_enter(&c->transaction, SENDING_OFFSETS);
    for (;;) {
        code = has_moved(c) ? RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION
                            : rd_kafka_commit(c->setup.consumer, list, 0);
        bool is_passing = code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS ||
                          code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE ||
                          code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
                          code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
                          code == RD_KAFKA_RESP_ERR__WAIT_COORD ||
                          code == RD_KAFKA_RESP_ERR__TRANSPORT ||
                          code == RD_KAFKA_RESP_ERR__TIMED_OUT;
        if (!is_passing || ck_now_ms() >= until || ck_committer_is_closing(c))
            break;
        ck_pause_ms(STEP_RETRY_MS);
    }
    ck_transaction_enter(&c->transaction, RESTING);
    rd_kafka_topic_partition_list_destroy(list);
    c->transaction.code = code;
    return code ? ABORT : FINE;
}

static enum verdict run_at_least_once(committer *c)
{
    transaction *t = &c->transaction;
    int64_t until = ck_now_ms() + STORE_MS;
    if (has_moved(c)) {
        t->code = RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION;
        return ABORT;
    }
    enum verdict verdict = ck_transaction_begin(t);
    if (verdict == FINE)
        verdict = write_outputs(c, OTHERS_ONLY, until);
    if (verdict == FINE)
        verdict = write_outputs(c, CHANGELOG_ONLY, until);
    if (verdict == FINE)
        return commit_positions(c, until);
    ck_committer_note_refusal(c);
    /* What still waits must not be written behind the retry's back. */
    rd_kafka_purge(t->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    return REBUILD;
}

/* Finds out the result of a transaction whose commit failed.  Where its producer can no longer be
 * used, a new one with the same name has ended whatever was open.  Then the transaction was
 * committed if the group's offsets carry our mark, and aborted if not. */
static void settle(committer *c, enum verdict verdict)
{
    size_t written_count = keep_written(c);
    if (verdict == REBUILD) {
        bool was_fenced = ck_is_fence(rd_kafka_fatal_error(c->transaction.rk, NULL, 0));
        if (was_fenced && ck_committer_await_fence_verdict(c))
            return;
        if (!ck_committer_count_rebuild(c) || !ck_committer_make_ready(c))
            return;
    }
    rd_kafka_topic_partition_list_t *list = ask_committed(c);
    if (carries_mark(c, list))
        show_committed(c, written_count);
    else
        show_aborted(c, list);
    if (list)
        rd_kafka_topic_partition_list_destroy(list);
}

static void run(committer *c)
{
    memset(&c->outcome, 0, sizeof c->outcome);
    snprintf(c->mark, sizeof c->mark, "tw.%s.%llu", c->life, (unsigned long long)++c->number);
    enum verdict verdict =
        c->transaction.is_transactional ? run_exactly_once(c) : run_at_least_once(c);
    if (verdict == FINE) {
        show_committed(c, keep_written(c));
        atomic_store(&c->setup.watch->is_away, 0);
    } else {
        snprintf(c->outcome.code, sizeof c->outcome.code, "%s",
                 rd_kafka_err2name(c->transaction.code));
        settle(c, verdict);
    }
    ck_drop_kept_headers(&c->kept);
    if (ck_deliveries_waiting(c->transaction.told) == 0) {
        atomic_fetch_and(c->setup.lent, ~c->lent_bit);
        c->lent_bit = 0;
    }
}

static bool wants_rebuild(committer *c)
{
    if (c->transaction.is_worn || !atomic_load(&c->is_ready))
        return true;
    /* After a lost connection the coordinator may have been lost, and the next transaction would
     * hang; a producer that is idle now has the time.  Connections that come and go do not count as
     * failures, but each costs a producer: no more than one a second. */
    return c->transaction.is_transactional && ck_now_ms() - c->made_at > CALM_MS &&
           atomic_load(&c->setup.watch->disconnect_count) != c->transaction.disconnects_known;
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
        rd_kafka_poll(c->transaction.rk, 0);
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
        ck_wake(c->setup.wake_descriptor);
    }
    pthread_mutex_lock(&c->lock);
    c->has_ended = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
