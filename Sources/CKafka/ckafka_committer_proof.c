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
 * A process that begins anew knows nothing of this: the runbook does.
 */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TURN_MS = 2000,
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

/* Positions of partitions that are known already. */
static void update(positions *known, const positions *newer)
{
    for (size_t n = 0; n < newer->count; n++)
        for (size_t i = 0; i < known->count; i++)
            if (known->items[i].topic == newer->items[n].topic &&
                known->items[i].partition == newer->items[n].partition)
                known->items[i].offset = newer->items[n].offset;
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

static bool has(const positions *of, const ckafka_position *at)
{
    for (size_t i = 0; i < of->count; i++)
        if (of->items[i].topic == at->topic && of->items[i].partition == at->partition)
            return true;
    return false;
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
        if (!has(&now, &p->written.items[i])) {
            now.items = ck_grow(now.items, sizeof *now.items * (now.count + 1));
            now.items[now.count++] = p->written.items[i];
        }
    free(p->written.items);
    p->written = now;
    p->older_count = now.count - new_count;
}

void ck_committer_begin_assignment(committer *c, const ckafka_position *starts, size_t count)
{
    ck_positions_set(&c->proof.committed, starts, count);
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
    update(&p->committed, &c->positions);
}

void ck_committer_free_proof(commit_proof *p)
{
    free(p->written.items);
    free(p->before.items);
    free(p->committed.items);
}

/* -- looking for it ---------------------------------------------------------------------------- */

enum sight { UNTOLD, VISIBLE, GONE };

/* What a read_committed reader finds in the place of a record that is known to be decided. */
static enum sight look_at(rd_kafka_t *reader, const char *topic, int32_t partition, int64_t offset)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(reader, topic, NULL);
    if (!handle)
        return UNTOLD;
    enum sight sight = UNTOLD;
    if (rd_kafka_consume_start(handle, partition, offset) == 0) {
        rd_kafka_message_t *message = rd_kafka_consume(handle, partition, TURN_MS);
        if (message && !message->err)
            sight = message->offset == offset ? VISIBLE : GONE;
        else if (message && message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            sight = GONE;
        if (message)
            rd_kafka_message_destroy(message);
        rd_kafka_consume_stop(handle, partition);
    }
    rd_kafka_topic_destroy(handle);
    return sight;
}

/* The last record of a commit in one partition.  UNTOLD while the partition's last stable offset is
 * before it, and where nobody answers. */
static enum sight look_for(committer *c, rd_kafka_t *reader, const ckafka_position *written)
{
    const char *topic = c->targets.items[written->topic];
    int64_t start, stable;
    if (ck_ask_marks(reader, topic, written->partition, TURN_MS, &start, &stable) ||
        stable < written->offset)
        return UNTOLD;
    /* What retention took was there. */
    if (start >= written->offset)
        return VISIBLE;
    return look_at(reader, topic, written->partition, written->offset - 1);
}

/* A reader with the producer's way to Kafka; settings of a producer are nothing to it. */
static rd_kafka_t *open_reader(committer *c)
{
    ckafka_fault fault;
    char message[200];
    rd_kafka_conf_t *conf = ck_configure(c->settings, c->watch, &fault);
    if (!conf)
        return NULL;
    rd_kafka_conf_set(conf, "isolation.level", "read_committed", message, sizeof message);
    rd_kafka_conf_set(conf, "enable.partition.eof", "true", message, sizeof message);
    return ck_open_handle(RD_KAFKA_CONSUMER, conf, &fault);
}

/* In how many of the partitions that the last commit has written to it is gone, and in how many
 * nobody tells within ${patience_ms}. */
static void look_for_all(committer *c, int64_t patience_ms, size_t *gone_count,
                         size_t *untold_count)
{
    const positions *written = &c->proof.written;
    *gone_count = 0;
    *untold_count = written->count;
    rd_kafka_t *reader = written->count ? open_reader(c) : NULL;
    int64_t until = ck_now_ms() + patience_ms;
    for (size_t i = 0; reader && i < written->count; i++) {
        enum sight sight = look_for(c, reader, &written->items[i]);
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
