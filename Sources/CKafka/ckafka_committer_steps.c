/* The steps of a transaction.  Each may block; only the committer's thread takes them. */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIRST_REPORT_MS = 2000,
    DOUBTFUL_MS = 5000,        /* a commit that took longer may have been sent twice */
    RETRY_MS = 50,
    RETRY_MAX = 200,
};

void ck_committer_enter(committer *c, enum phase phase)
{
    atomic_store(&c->phase_since, ck_now_ms());
    atomic_store(&c->phase, phase);
}

void ck_committer_set_code(committer *c, rd_kafka_resp_err_t code)
{
    snprintf(c->outcome.code, sizeof c->outcome.code, "%s", rd_kafka_err2name(code));
}

/* What an error of a transactional call means; takes the error. Retriable ones are the caller's. */
enum verdict ck_committer_judge(committer *c, rd_kafka_error_t *error)
{
    enum verdict verdict = REBUILD;
    if (!rd_kafka_error_is_fatal(error) && rd_kafka_error_txn_requires_abort(error))
        verdict = ABORT;
    ck_committer_set_code(c, rd_kafka_error_code(error));
    ck_watch_note(c->watch, 4, "TXNERR", rd_kafka_error_string(error));
    ck_committer_note_refusal(c, rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return verdict;
}

static enum verdict judge_produce_error(committer *c, rd_kafka_resp_err_t code, size_t target)
{
    char text[200];
    ck_committer_set_code(c, code);
    if (rd_kafka_fatal_error(c->producer, text, sizeof text))
        return REBUILD;
    ck_committer_note_refusal(c, code, c->targets.items[target]);
    return ABORT;
}

/* Hands over the outputs: those of the changelog, or the others, or all. */
enum verdict ck_committer_produce(committer *c, bool only_changelog, bool only_others,
                                  int64_t until)
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
enum verdict ck_committer_flush(committer *c, int64_t until)
{
    char text[200];
    while (c->waiting_count > 0) {
        rd_kafka_flush(c->producer, 200);
        if (c->failed_count > 0)
            return judge_produce_error(c, c->failed_code, c->failed_target);
        if (rd_kafka_fatal_error(c->producer, text, sizeof text)) {
            ck_committer_set_code(c, rd_kafka_fatal_error(c->producer, text, sizeof text));
            return REBUILD;
        }
        if (ck_now_ms() > until) {
            /* An abort would wait for the same broker; a new producer's start ends it as well. */
            ck_committer_set_code(c, RD_KAFKA_RESP_ERR__TIMED_OUT);
            return REBUILD;
        }
    }
    return c->failed_count > 0 ? judge_produce_error(c, c->failed_code, c->failed_target) : FINE;
}

rd_kafka_topic_partition_list_t *ck_committer_position_list(committer *c)
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
enum verdict ck_committer_send_offsets(committer *c, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(c->consumer);
    enum verdict verdict = FINE;
    if (!metadata || generation_of(metadata) < 0 || ck_committer_has_moved(c)) {
        /* The broker would take offsets without a generation from anybody. */
        ck_committer_set_code(c, RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION);
        if (metadata)
            rd_kafka_consumer_group_metadata_destroy(metadata);
        rd_kafka_topic_partition_list_destroy(list);
        return ABORT;
    }
    ck_committer_enter(c, SENDING_OFFSETS);
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
        verdict = ck_committer_judge(c, error);
        break;
    }
    ck_committer_enter(c, RESTING);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_consumer_group_metadata_destroy(metadata);
    return verdict;
}

/* Commits or aborts. A call that stays retriable is in doubt: a new producer decides. */
enum verdict ck_committer_end(committer *c, bool commits)
{
    enum verdict verdict = FINE;
    int64_t started = ck_now_ms();
    ck_committer_enter(c, ENDING);
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
        verdict = ck_committer_judge(c, error);
        break;
    }
    ck_committer_enter(c, RESTING);
    /* The request may have been sent twice, and a stray one would end the next transaction of this
     * producer; a new one fences it. */
    if (ck_now_ms() - started > DOUBTFUL_MS)
        c->must_rebuild = true;
    return verdict;
}

/* An abort before the first delivery report may overtake AddPartitionsToTxn and be fatal (#4849). */
enum verdict ck_committer_abort(committer *c)
{
    int64_t until = ck_now_ms() + FIRST_REPORT_MS;
    while (c->waiting_count > 0 && c->stored_count + c->failed_count == 0 && ck_now_ms() < until)
        rd_kafka_poll(c->producer, RETRY_MS);
    char code[sizeof c->outcome.code];
    memcpy(code, c->outcome.code, sizeof code);
    enum verdict verdict = ck_committer_end(c, false);
    memcpy(c->outcome.code, code, sizeof code); /* why it was aborted, not how */
    /* A message without its report may still point into the arena. */
    return verdict == FINE && c->waiting_count == 0 ? FINE : REBUILD;
}

bool ck_committer_is_member(committer *c)
{
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(c->consumer);
    bool is_known = metadata && generation_of(metadata) >= 0;
    if (metadata)
        rd_kafka_consumer_group_metadata_destroy(metadata);
    return is_known && !ck_committer_has_moved(c);
}
