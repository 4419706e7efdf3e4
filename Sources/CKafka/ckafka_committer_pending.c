/*
 * Offsets that Kafka has left pending.
 *
 * Where it passes over the markers of a transaction (see ckafka_committer_proof.c) and one of them was
 * the group's, nobody is told the group's positions any more.  The next marker of the same producer
 * there ends them, so we write one: a transaction of one offset and nothing else, committed.  The offset
 * lies beside those of the group, in a topic that it does not read: what is pending stays as it was sent.
 *
 * Committed, though what is pending may have been aborted: all outputs of a transaction are stored
 * before its offsets are sent, so it lacks nothing; and what was aborted all the same is found out
 * afterwards, by its outputs or its witnesses, and read again.  An abort instead would let everything be
 * read again of which some may have been committed.
 */
#include "ckafka_committer.h"

#include <stdlib.h>

enum {
    QUESTION_MS = 5000,
    REMOVAL_MS = 5000,
};

/* Whether the group's coordinator answers, and only "stable" offsets are not told. */
static bool is_only_stable_untold(committer *c)
{
    for (size_t i = 0; i < c->sources.count; i++) {
        int64_t *offsets = NULL;
        size_t count;
        if (ck_ask_group_offsets(c->inquirer, c->group, c->sources.items[i], QUESTION_MS, &offsets,
                                 &count))
            return false;
        free(offsets);
    }
    return true;
}

/* A topic that the group does not read, but may; null where there is none. */
static const char *unread_topic(const committer *c)
{
    if (c->changelog >= 0)
        return c->targets.items[c->changelog];
    for (size_t t = 0; t < c->targets.count; t++)
        if (ck_names_index(&c->sources, c->targets.items[t]) < 0)
            return c->targets.items[t];
    return NULL;
}

/* Kafka lets a group's offsets in topics that it does not read be removed, and else forgets them
 * after some days: where that is not allowed, nothing is lost but order. */
static void remove_offsets(committer *c, const rd_kafka_topic_partition_list_t *list)
{
    char text[200];
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(c->inquirer, RD_KAFKA_ADMIN_OP_DELETECONSUMERGROUPOFFSETS);
    rd_kafka_AdminOptions_set_request_timeout(options, REMOVAL_MS, text, sizeof text);
    rd_kafka_DeleteConsumerGroupOffsets_t *removal =
        rd_kafka_DeleteConsumerGroupOffsets_new(c->group, list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(c->inquirer);
    rd_kafka_DeleteConsumerGroupOffsets(c->inquirer, &removal, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, REMOVAL_MS + 1000);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteConsumerGroupOffsets_destroy(removal);
    rd_kafka_AdminOptions_destroy(options);
}

bool ck_committer_commit_beside(committer *c)
{
    const char *topic = unread_topic(c);
    if (!topic)
        return false;
    rd_kafka_topic_partition_list_t *beside = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(beside, topic, 0)->offset = 0;
    bool is_done = ck_committer_commit_offsets(c, rd_kafka_topic_partition_list_copy(beside));
    if (is_done)
        remove_offsets(c, beside);
    rd_kafka_topic_partition_list_destroy(beside);
    return is_done;
}

bool ck_committer_end_pending(committer *c)
{
    if (!is_only_stable_untold(c) || !ck_committer_is_member(c))
        return false;
    ck_watch_note(c->watch, 4, "TXNPEND",
                  "Kafka has ended a transaction and left its offsets pending");
    if (!ck_committer_commit_beside(c))
        /* An abort would free the offsets, and what was written would be written once more. */
        ck_committer_give_up(c, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT,
                             "Kafka has ended a transaction and left its offsets pending, and it"
                             " cannot be ended by us");
    return true;
}
