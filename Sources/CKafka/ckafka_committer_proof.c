/*
 * Whether what was committed is still there.
 *
 * Kafka's coordinator passes over the markers of a partition that has no leader at that moment, as
 * if it had been deleted ("likely deleted already and hence can be skipped"), and calls the
 * transaction complete.  4.3.1 does so whenever a single node is killed between PrepareCommit and
 * the markers and comes back before its session ends: its partitions then lose their leader once more.
 * The transaction stays open in such a partition, and the marker of the same producer's next one
 * there ends both.  That is as it should be for a commit; an abort takes away what was committed,
 * while the group's positions stay behind it.  So after an abort the last commit is looked for, and
 * read again where it is gone.
 *
 * Where the group's own partition was passed over its offsets stay pending, and nobody is told
 * positions any more: see ckafka_committer_pending.c.
 *
 * A process that begins anew has the witnesses that its predecessor's offsets carry: see
 * ckafka_witness.c.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_MS = 50,
    /* Above the 40 s for which the transaction of somebody who died may hold a partition back. */
    DECIDED_MS = 45000,
    IDLE_MS = 10000,
};

/* -- what was committed ------------------------------------------------------------------------ */

void ck_positions_set(positions *into, const ckafka_position *from, size_t count)
{
    into->items = ck_grow(into->items, sizeof *into->items * (count + 1));
    if (count > 0)
        memcpy(into->items, from, sizeof *into->items * count);
    into->count = count;
}

/* Of the same partition; null where there is none. */
static ckafka_position *find(const positions *in, const ckafka_position *at)
{
    for (size_t i = 0; i < in->count; i++)
        if (in->items[i].topic == at->topic && in->items[i].partition == at->partition)
            return &in->items[i];
    return NULL;
}

/* Of a partition that is known already. */
static void update(positions *known, const ckafka_position *newer)
{
    ckafka_position *at = find(known, newer);
    if (at)
        at->offset = newer->offset;
}

/* Of a partition that is not known yet. */
static void add(positions *known, const ckafka_position *other)
{
    if (find(known, other))
        return;
    known->items = ck_grow(known->items, sizeof *known->items * (known->count + 1));
    known->items[known->count++] = *other;
}

/* A transaction under way when it was committed was begun with its markers in place, so only with
 * the loss of a connection can they have been passed over. */
static bool is_beyond_doubt(const committer *c)
{
    return c->proof.disconnects == atomic_load(&c->watch->disconnect_count) &&
           c->proof.producers == atomic_load(&c->producer_count);
}

static void forget_written(commit_proof *p)
{
    p->written.count = p->older_count = 0;
}

/* What the new commit has written, and after it what older ones have, elsewhere, that may still be
 * without markers. */
static void set_written(committer *c)
{
    commit_proof *p = &c->proof;
    size_t certain_count = is_beyond_doubt(c) ? p->written.count - p->older_count : 0;
    positions now = {0};
    ck_positions_set(&now, c->outcome.positions, c->outcome.position_count);
    size_t new_count = now.count;
    for (size_t i = certain_count; i < p->written.count; i++)
        add(&now, &p->written.items[i]);
    free(p->written.items);
    p->written = now;
    p->older_count = now.count - new_count;
}

/* What a predecessor has committed and is still open: as if it were our own last commit. */
static void inherit(committer *c, const rd_kafka_topic_partition_list_t *judged)
{
    commit_proof *p = &c->proof;
    ck_positions_set(&p->before, p->committed.items, p->committed.count);
    for (int i = 0; i < judged->cnt; i++) {
        const rd_kafka_topic_partition_t *at = &judged->elems[i];
        if (ck_witness_found(at) != OPEN)
            continue;
        ckafka_position found[WITNESS_MAX];
        size_t count;
        ckafka_position stood = {.offset = ck_witness_read(at, &c->targets, found, &count),
                                 .topic = ck_names_index(&c->sources, at->topic),
                                 .partition = at->partition};
        update(&p->before, &stood);
        for (size_t n = 0; n < count; n++)
            add(&p->written, &found[n]);
    }
    p->epoch = atomic_load(c->assignment_epoch);
    p->disconnects = atomic_load(&c->watch->disconnect_count) - 1; /* never beyond doubt */
    p->mark[0] = 0;
}

void ck_committer_begin_assignment(committer *c, const ckafka_position *starts, size_t count,
                                   const rd_kafka_topic_partition_list_t *judged,
                                   bool is_taken_back)
{
    /* Nothing is to be found out any more. */
    if (is_taken_back)
        forget_written(&c->proof);
    ck_positions_set(&c->proof.committed, starts, count);
    if (c->proof.written.count == 0)
        inherit(c, judged);
}

void ck_committer_keep_commit(committer *c)
{
    commit_proof *p = &c->proof;
    set_written(c);
    p->epoch = c->epoch;
    p->disconnects = atomic_load(&c->watch->disconnect_count);
    p->producers = atomic_load(&c->producer_count);
    p->looked_at = ck_now_ms();
    memcpy(p->mark, c->mark, sizeof p->mark);
    ck_positions_set(&p->before, p->committed.items, p->committed.count);
    for (size_t i = 0; i < c->positions.count; i++)
        update(&p->committed, &c->positions.items[i]);
}

int64_t ck_committer_before(const committer *c, const ckafka_position *at)
{
    const ckafka_position *known = find(&c->proof.committed, at);
    return known ? known->offset : -1;
}

/* Null where nothing was written there: the one of this partition number, or else any. */
static const next_offset *next_in(const committer *c, size_t target, int32_t partition)
{
    const next_offsets *next = &c->next[target];
    for (size_t i = 0; i < next->count; i++)
        if (next->items[i].partition == partition)
            return &next->items[i];
    return next->count > 0 ? &next->items[0] : NULL;
}

void ck_committer_name_witnesses(const committer *c, int32_t partition,
                                 char witnesses[WITNESSES_MAX])
{
    bool has_changelog = false, has_other = false;
    for (size_t t = 0; t < c->targets.count; t++) {
        bool *is_named = (int)t == c->changelog ? &has_changelog : &has_other;
        const next_offset *next = *is_named ? NULL : next_in(c, t, partition);
        if (!next)
            continue;
        *is_named = true;
        ck_witness_name(witnesses, c->targets.items[t], next->partition, next->offset);
    }
}

void ck_committer_free_proof(commit_proof *p)
{
    free(p->written.items);
    free(p->before.items);
    free(p->committed.items);
}

/* -- looking for it ---------------------------------------------------------------------------- */

static sight look_for(committer *c, rd_kafka_t *reader, const ckafka_position *written)
{
    return ck_witness_look(reader, c->targets.items[written->topic], written->partition,
                           written->offset);
}

/* Of the partitions that the last commit has written to. */
typedef struct tally {
    size_t gone, open, untold;
} tally;

/* Looks again at what nobody tells, and at what is open, for so long. */
static tally look_for_all(committer *c, int64_t untold_ms, int64_t open_ms)
{
    const positions *written = &c->proof.written;
    rd_kafka_t *reader = written->count ? ck_witness_reader(c->settings, c->watch) : NULL;
    tally found = {.untold = reader ? 0 : written->count};
    int64_t since = ck_now_ms();
    for (size_t i = 0; reader && i < written->count; i++) {
        sight sight = look_for(c, reader, &written->items[i]);
        while (((sight == UNTOLD && ck_now_ms() - since < untold_ms) ||
                (sight == OPEN && ck_now_ms() - since < open_ms)) &&
               !ck_committer_is_closing(c)) {
            ck_pause_ms(PAUSE_MS);
            /* While Kafka is away there is nobody to lose patience with. */
            if (atomic_load(&c->watch->is_away))
                since = ck_now_ms();
            sight = look_for(c, reader, &written->items[i]);
        }
        found.gone += sight == GONE;
        found.open += sight == OPEN;
        found.untold += sight == UNTOLD;
    }
    ck_retire(reader, c->watch, NULL);
    return found;
}

/* -- what follows from it ---------------------------------------------------------------------- */

/* What its offsets say is looked for where it begins. */
static void leave_to_successor(committer *c, const char *why)
{
    char text[200];
    snprintf(text, sizeof text, "%s; the next process reads it again", why);
    ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, text);
}

/* The last commit was aborted, in ${gone_count} partitions: the group is set back before it, and so
 * is the outcome. */
static void take_back(committer *c, size_t gone_count, int32_t kind)
{
    commit_proof *p = &c->proof;
    size_t written_count = p->written.count, older_count = p->older_count;
    forget_written(p);
    ck_watch_note(c->watch, 3, "TXNGONE",
                  "Kafka has aborted what it had committed before: that is read again");
    /* Where a part is left, or others have been committed, a person must look. */
    if (gone_count != written_count || older_count > 0 || p->epoch != c->epoch) {
        ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
                             "Kafka has aborted what it had committed before: set the group back"
                             " behind it, and remove the state");
        return;
    }
    if (!ck_committer_is_member(c) || !ck_committer_commit_positions(c, &p->before, c->mark)) {
        leave_to_successor(c, "Kafka has aborted what it had committed before");
        return;
    }
    ck_positions_set(&p->committed, p->before.items, p->before.count);
    c->outcome.kind = kind;
    c->outcome_positions =
        ck_grow(c->outcome_positions, sizeof *c->outcome_positions * (p->before.count + 1));
    for (size_t i = 0; i < p->before.count; i++)
        c->outcome_positions[i] = p->before.items[i];
    c->outcome.positions = c->outcome_positions;
    c->outcome.position_count = p->before.count;
}

/* Nobody has told within reason. */
static void leave_untold(committer *c)
{
    if (!ck_committer_is_closing(c))
        leave_to_successor(c, "nobody tells what has become of what was committed before");
}

void ck_committer_look_back(committer *c)
{
    commit_proof *p = &c->proof;
    if (p->written.count == 0 || (p->older_count == 0 && is_beyond_doubt(c)) ||
        ck_committer_has_given_up(c))
        return;
    /* Open for so long, or known to be left without markers, it goes with the next one. */
    tally found = look_for_all(c, DECIDED_MS, c->has_ended_pending ? 0 : DECIDED_MS);
    if (found.gone > 0)
        take_back(c, found.gone, CKAFKA_OUTCOME_TAKEN_BACK);
    else if (found.untold > 0)
        leave_untold(c);
    else if (found.open == 0)
        forget_written(p);
}

void ck_committer_look_at_outputs(committer *c)
{
    tally found = look_for_all(c, DECIDED_MS, 0);
    if (found.gone == 0 && found.untold > 0)
        leave_untold(c);
    if (found.gone == 0)
        return;
    snprintf(c->outcome.code, sizeof c->outcome.code, "%s",
             rd_kafka_err2name(RD_KAFKA_RESP_ERR_INVALID_TXN_STATE));
    /* Nobody was told of it yet. */
    take_back(c, found.gone, CKAFKA_OUTCOME_ABORTED);
}

/* -- while there is nothing to do -------------------------------------------------------------- */

/* With nothing more to come there is no next commit to end the last one with, and nobody sees what it
 * has written.  Nothing can be written there to that end alone that readers would not take for more.  So
 * all of it is aborted, and our successor, finding its witnesses gone, reads it again. */
void ck_committer_look_while_idle(committer *c)
{
    commit_proof *p = &c->proof;
    if (atomic_load(&c->watch->is_away))
        p->looked_at = ck_now_ms();
    if (p->written.count == 0 || ck_now_ms() - p->looked_at < IDLE_MS || is_beyond_doubt(c))
        return;
    p->looked_at = ck_now_ms();
    tally found = look_for_all(c, 0, 0);
    if (found.gone + found.untold + found.open == 0)
        forget_written(p);
    /* A part of it cannot be taken back, nor what a predecessor has written, which is known only in part. */
    if (found.open == 0 || found.open < p->written.count || p->older_count > 0 || !p->mark[0])
        return;
    c->epoch = p->epoch;
    /* Once we have committed again, Kafka is through with the one before. */
    if (!ck_committer_is_member(c) || !ck_committer_commit_beside(c) ||
        look_for_all(c, 0, 0).open < p->written.count)
        return;
    /* A leader that is new may not know for a while how far its followers are, and shows less than there
     * is.  Once it has stored more of ours it does know. */
    tally after = {.untold = p->written.count};
    if (ck_committer_open_in(c, &p->written))
        after = look_for_all(c, 0, 0);
    ck_committer_abort(c);
    if (after.open + after.untold == 0)
        return;
    ck_watch_note(c->watch, 3, "TXNHELD",
                  "Kafka has left open what it had committed: it is aborted, to be read again");
    leave_to_successor(c, "Kafka has left open what it had committed: it was taken back");
}
