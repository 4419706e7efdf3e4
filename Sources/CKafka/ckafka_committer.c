/*
 * The transaction under way: produce all, flush, send offsets, commit, on a thread of its own,
 * because each of these may block while the loop has a group to answer and records to judge.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STORE_MS = 30000,          /* for all outputs to be stored; below the transaction's 40 s */
    FIRST_REPORT_MS = 2000,
    DOUBTFUL_MS = 5000,        /* a commit that took longer may have been sent twice */
    RETRY_MS = 50,
    RETRY_MAX = 200,
    CALM_MS = 1000,            /* between two rebuilds that a lost connection asks for */
    COMMITTED_TURN_MS = 5000,
};

static void enter(committer *c, enum phase phase)
{
    atomic_store(&c->phase_since, ck_now_ms());
    atomic_store(&c->phase, phase);
}

/* -- the steps of a transaction --------------------------------------------------------------- */

static void set_code(committer *c, rd_kafka_resp_err_t code)
{
    snprintf(c->outcome.code, sizeof c->outcome.code, "%s", rd_kafka_err2name(code));
}

/* What an error of a transactional call means; takes the error. Retriable ones are the caller's. */
static enum verdict judge_error(committer *c, rd_kafka_error_t *error)
{
    enum verdict verdict = REBUILD;
    if (!rd_kafka_error_is_fatal(error) && rd_kafka_error_txn_requires_abort(error))
        verdict = ABORT;
    set_code(c, rd_kafka_error_code(error));
    ck_watch_note(c->watch, 4, "TXNERR", rd_kafka_error_string(error));
    ck_committer_note_refusal(c, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return verdict;
}

static enum verdict judge_produce_error(committer *c, rd_kafka_resp_err_t code, size_t target)
{
    char text[200];
    set_code(c, code);
    if (rd_kafka_fatal_error(c->producer, text, sizeof text))
        return REBUILD;
    ck_committer_note_refusal(c, code, c->targets.items[target]);
    return ABORT;
}

/* Hands over the outputs: those of the changelog, or the others, or all. */
static enum verdict produce(committer *c, bool only_changelog, bool only_others, int64_t until)
{
    const outlet out = {
        .rk = c->producer,
        .topics = c->topics,
        .arena = c->arena,
        .is_lent = true,
        .now_ms = ck_wall_ms(),
        .kept = &c->kept,
    };
    for (size_t i = 0; i < c->output_count; i++) {
        const ckafka_output *output = &c->outputs[i];
        bool is_changelog = output->topic == c->changelog;
        if ((only_changelog && !is_changelog) || (only_others && is_changelog))
            continue;
        for (;;) {
            rd_kafka_resp_err_t code =
                ck_produce_output(&out, output, (void *)(uintptr_t)output->topic);
            if (!code) {
                c->waiting_count++;
                break;
            }
            if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || ck_now_ms() > until)
                return judge_produce_error(c, code, (size_t)output->topic);
            rd_kafka_poll(c->producer, RETRY_MS);
        }
        if ((i & 1023) == 0)
            rd_kafka_poll(c->producer, 0);
    }
    return FINE;
}

/* Waits until everything is stored. */
static enum verdict flush(committer *c, int64_t until)
{
    char text[200];
    while (c->waiting_count > 0) {
        rd_kafka_flush(c->producer, 200);
        if (c->failed_count > 0)
            return judge_produce_error(c, c->failed_code, c->failed_target);
        if (rd_kafka_fatal_error(c->producer, text, sizeof text)) {
            set_code(c, rd_kafka_fatal_error(c->producer, text, sizeof text));
            return REBUILD;
        }
        if (ck_now_ms() > until) {
            /* An abort would wait for the same broker; a new producer's start ends it as well. */
            set_code(c, RD_KAFKA_RESP_ERR__TIMED_OUT);
            return REBUILD;
        }
    }
    return c->failed_count > 0 ? judge_produce_error(c, c->failed_code, c->failed_target) : FINE;
}

static rd_kafka_topic_partition_list_t *position_list(committer *c)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)c->positions.count);
    for (size_t i = 0; i < c->positions.count; i++) {
        const ckafka_position *from = &c->positions.items[i];
        rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_add(
            list, c->sources.items[from->topic], from->partition);
        at->offset = from->offset;
        /* Text only: 2.0.2 cuts metadata at a zero byte (#4649). The mark tells afterwards
         * whether this very transaction was committed, also where no position moved. */
        at->metadata = strdup(c->mark);
        at->metadata_size = strlen(c->mark);
    }
    return list;
}

/* The generation in `CGMDv2:`, the only public way to it. */
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
        /* group NUL member NUL: without a member the broker does not fence. */
        const char *group = (const char *)bytes + head_count + sizeof generation;
        const char *member = group + strlen(group) + 1;
        if (member >= (const char *)bytes + count || *member == '\0')
            generation = -1;
    }
    rd_kafka_mem_free(NULL, bytes);
    return generation;
}

bool ck_committer_has_moved(committer *c)
{
    return atomic_load(c->assignment_epoch) != c->epoch;
}

/* Takes the list. */
static enum verdict send_offsets(committer *c, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(c->consumer);
    enum verdict verdict = FINE;
    if (!metadata || generation_of(metadata) < 0 || ck_committer_has_moved(c)) {
        /* The broker would take offsets without a generation from anybody. */
        set_code(c, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
        if (metadata)
            rd_kafka_consumer_group_metadata_destroy(metadata);
        rd_kafka_topic_partition_list_destroy(list);
        return ABORT;
    }
    enter(c, SENDING_OFFSETS);
    for (int turn = 0;; turn++) {
        rd_kafka_error_t *error =
            rd_kafka_send_offsets_to_transaction(c->producer, list, metadata, -1);
        if (!error)
            break;
        if (ck_may_repeat(error) && turn < RETRY_MAX && !ck_committer_is_closing(c)) {
            rd_kafka_error_destroy(error);
            ck_pause_ms(RETRY_MS);
            continue;
        }
        verdict = judge_error(c, error);
        break;
    }
    enter(c, RESTING);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_consumer_group_metadata_destroy(metadata);
    return verdict;
}

/* Commits or aborts. A call that stays retriable is in doubt: a new producer decides. */
static enum verdict end_transaction(committer *c, bool commits)
{
    enum verdict verdict = FINE;
    int64_t started = ck_now_ms();
    enter(c, ENDING);
    for (;;) {
        rd_kafka_error_t *error = commits ? rd_kafka_commit_transaction(c->producer, -1)
                                          : rd_kafka_abort_transaction(c->producer, -1);
        if (!error)
            break;
        if (ck_may_repeat(error) && ck_now_ms() - started < DOUBTFUL_MS) {
            rd_kafka_error_destroy(error);
            ck_pause_ms(RETRY_MS);
            continue;
        }
        verdict = judge_error(c, error);
        break;
    }
    enter(c, RESTING);
    /* The request may have been sent twice, and a stray one would end the next transaction of this
     * producer; a new one fences it. */
    if (ck_now_ms() - started > DOUBTFUL_MS)
        c->must_rebuild = true;
    return verdict;
}

/* An abort before the first delivery report may overtake AddPartitionsToTxn and be fatal (#4849). */
static enum verdict abort_transaction(committer *c)
{
    int64_t until = ck_now_ms() + FIRST_REPORT_MS;
    while (c->waiting_count > 0 && c->stored_count + c->failed_count == 0 && ck_now_ms() < until)
        rd_kafka_poll(c->producer, RETRY_MS);
    char code[sizeof c->outcome.code];
    memcpy(code, c->outcome.code, sizeof code);
    enum verdict verdict = end_transaction(c, false);
    memcpy(c->outcome.code, code, sizeof code); /* why it was aborted, not how */
    /* A message without its report may still point into the arena. */
    return verdict == FINE && c->waiting_count == 0 ? FINE : REBUILD;
}

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

/* Whether the group would still take offsets from us. */
static bool is_member(committer *c)
{
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(c->consumer);
    bool is_known = metadata && generation_of(metadata) >= 0;
    if (metadata)
        rd_kafka_consumer_group_metadata_destroy(metadata);
    return is_known && !ck_committer_has_moved(c);
}

/* Asks the group what it has of the assignment; null when closing or when it moved on. */
static rd_kafka_topic_partition_list_t *ask_committed(committer *c)
{
    enter(c, ASKING);
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
            enter(c, RESTING);
            return list;
        }
        if (list)
            rd_kafka_topic_partition_list_destroy(list);
        /* While Kafka is away there is nobody to lose patience with. */
        if (atomic_load(&c->watch->is_away))
            enter(c, ASKING);
        ck_pause_ms(RETRY_MS);
    }
    enter(c, RESTING);
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
    if (!is_member(c)) {
        set_code(c, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
        return ABORT;
    }
    rd_kafka_error_t *error = rd_kafka_begin_transaction(c->producer);
    if (error) {
        judge_error(c, error);
        return REBUILD;
    }
    enum verdict verdict = produce(c, false, false, until);
    if (verdict == FINE)
        verdict = flush(c, until);
    /* With the coordinator away sending offsets blocks for a minute, whatever its timeout
     * (#5456): a new producer waits for the broker without that. */
    if (verdict == FINE && atomic_load(&c->watch->is_away)) {
        set_code(c, RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
        verdict = REBUILD;
    }
    if (verdict == FINE)
        verdict = send_offsets(c, position_list(c));
    if (verdict == FINE)
        verdict = end_transaction(c, true);
    return verdict == ABORT ? abort_transaction(c) == FINE ? ABORT : REBUILD : verdict;
}

static enum verdict run_at_least_once(committer *c)
{
    int64_t until = ck_now_ms() + STORE_MS;
    if (ck_committer_has_moved(c)) {
        set_code(c, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
        return ABORT;
    }
    enum verdict verdict = produce(c, false, true, until);
    if (verdict == FINE)
        verdict = flush(c, until);
    if (verdict == FINE)
        verdict = produce(c, true, false, until);
    if (verdict == FINE)
        verdict = flush(c, until);
    if (verdict != FINE) {
        /* What still waits must not be written behind the retry's back. */
        rd_kafka_purge(c->producer, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
        return REBUILD;
    }
    rd_kafka_topic_partition_list_t *list = position_list(c);
    enter(c, SENDING_OFFSETS);
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
        set_code(c, code);
        verdict = ABORT;
        break;
    }
    enter(c, RESTING);
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
