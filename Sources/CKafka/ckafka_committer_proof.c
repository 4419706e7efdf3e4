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
 * positions any more: see end_pending in ckafka_committer.c.
 *
 * A process that begins anew has the witnesses that its predecessor's offsets carry: see
 * ckafka_witness.c.  Where its offsets are pending nobody tells it those either: the runbook does.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_MS = 50,
    /* Above the 40 s for which the transaction of somebody who died may hold a partition back. */
    DECIDED_MS = 45000,
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

/* What a predecessor has committed and is not known to be there: as if it were our own last commit. */
static void inherit(committer *c, const rd_kafka_topic_partition_list_t *judged)
{
    commit_proof *p = &c->proof;
    ck_positions_set(&p->before, p->committed.items, p->committed.count);
    for (int i = 0; i < judged->cnt; i++) {
        const rd_kafka_topic_partition_t *at = &judged->elems[i];
        if ((uintptr_t)at->opaque != UNTOLD)
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
                                   const rd_kafka_topic_partition_list_t *judged)
{
    bool is_taken_back = false;
    for (int i = 0; i < judged->cnt; i++)
        is_taken_back |= (uintptr_t)judged->elems[i].opaque == GONE;
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

void ck_committer_name_witnesses(const committer *c, char witnesses[WITNESSES_MAX])
{
    bool has_changelog = false, has_other = false;
    for (size_t t = 0; t < c->targets.count; t++) {
        bool *is_named = (int)t == c->changelog ? &has_changelog : &has_other;
        if (*is_named || c->next[t].count == 0)
            continue;
        *is_named = true;
        ck_witness_name(witnesses, c->targets.items[t], c->next[t].items[0].partition,
                        c->next[t].items[0].offset);
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

/* In how many of the partitions that the last commit has written to it is gone, and in how many
 * nobody tells within ${patience_ms}. */
static void look_for_all(committer *c, int64_t patience_ms, size_t *gone_count,
                         size_t *untold_count)
{
    const positions *written = &c->proof.written;
    *gone_count = 0;
    *untold_count = written->count;
    rd_kafka_t *reader = written->count ? ck_witness_reader(c->settings, c->watch) : NULL;
    int64_t until = ck_now_ms() + patience_ms;
    for (size_t i = 0; reader && i < written->count; i++) {
        sight sight = look_for(c, reader, &written->items[i]);
        while (sight == UNTOLD && ck_now_ms() < until && !ck_committer_is_closing(c)) {
            ck_pause_ms(PAUSE_MS);
            sight = look_for(c, reader, &written->items[i]);
        }
        *gone_count += sight == GONE;
        *untold_count -= sight != UNTOLD;
    }
    ck_retire(reader, c->watch, NULL);
}

/* -- what follows from it ---------------------------------------------------------------------- */

/* The last commit was aborted, in ${gone_count} partitions: the group is set back before it, and so
 * is the outcome. */
static void take_back(committer *c, size_t gone_count, int32_t kind)
{
    commit_proof *p = &c->proof;
    size_t written_count = p->written.count, older_count = p->older_count;
    forget_written(p);
    ck_watch_note(c->watch, 3, "TXNGONE",
                  "Kafka has aborted what it had committed before: that is read again");
    /* Where a part is left, or others have been committed or another instance reads on by now, a
     * person must look. */
    if (gone_count != written_count || older_count > 0 || p->epoch != c->epoch ||
        !ck_committer_is_member(c) || !ck_committer_commit_positions(c, &p->before, c->mark)) {
        ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
                             "Kafka has aborted what it had committed before: set the group back"
                             " behind it, and remove the state");
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

void ck_committer_look_back(committer *c)
{
    commit_proof *p = &c->proof;
    if (p->written.count == 0 || (p->older_count == 0 && is_beyond_doubt(c)) ||
        ck_committer_has_given_up(c))
        return;
    size_t gone_count, untold_count;
    /* Untold for so long, or known to be left without markers, it is still open, and goes with the
     * next one. */
    look_for_all(c, c->has_ended_pending ? 0 : DECIDED_MS, &gone_count, &untold_count);
    if (gone_count > 0)
        take_back(c, gone_count, CKAFKA_OUTCOME_TAKEN_BACK);
    else if (untold_count == 0)
        forget_written(p);
}

void ck_committer_look_at_outputs(committer *c)
{
    size_t gone_count, untold_count;
    look_for_all(c, 0, &gone_count, &untold_count);
    if (gone_count == 0)
        return;
    snprintf(c->outcome.code, sizeof c->outcome.code, "%s",
             rd_kafka_err2name(RD_KAFKA_RESP_ERR_INVALID_TXN_STATE));
    /* Nobody was told of it yet. */
    take_back(c, gone_count, CKAFKA_OUTCOME_ABORTED);
}
