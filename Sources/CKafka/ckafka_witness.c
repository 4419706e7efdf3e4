/*
 * What a process that begins anew knows of its predecessor's last commit.
 *
 * Kafka may abort what it has committed (see ckafka_committer_proof.c), also after the process that was
 * told of the commit has ended.  So each offset of a transaction carries, behind the transaction's mark,
 * where its partition stood before, and witnesses: up to where the transaction's outputs reach, in one
 * partition of the changelog and in one of another target, those with the partition's own number where
 * there are such.  Before reading begins somewhere, the witnesses of what was committed there are looked
 * for; where one was aborted, reading begins before it, with state made anew.  Nothing is written for
 * that: until the next commit it would be found out again.
 *
 * What is still open was committed, and the next commit there will end it.  The changelog's partition
 * cannot wait for that, for state comes first: see KafkaChangelogReader.
 *
 * More witnesses would make each offset larger, and there are many of those a second.  A transaction of
 * whose outputs only some were aborted is read again as a whole, or not at all.
 */
#include "ckafka_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TURN_MS = 2000,
    TOPIC_MAX = 249,
    METADATA_MAX = WITNESSES_MAX + 100,
};

rd_kafka_t *ck_witness_reader(const char *settings, watch *w)
{
    ckafka_fault fault;
    char message[200];
    rd_kafka_conf_t *conf = ck_configure(settings, w, &fault);
    if (!conf)
        return NULL;
    rd_kafka_conf_set(conf, "isolation.level", "read_committed", message, sizeof message);
    rd_kafka_conf_set(conf, "enable.partition.eof", "true", message, sizeof message);
    /* One record is wanted of each partition. */
    rd_kafka_conf_set(conf, "fetch.message.max.bytes", "16384", message, sizeof message);
    rd_kafka_conf_set(conf, "queued.min.messages", "1", message, sizeof message);
    return ck_open_handle(RD_KAFKA_CONSUMER, conf, w, &fault);
}

/* Who has no right to look takes it as it was told. */
static sight leave_unread(rd_kafka_t *reader, const char *topic)
{
    char text[TOPIC_MAX + 100];
    snprintf(text, sizeof text, "no right to read %s: should Kafka take back what was committed there,"
             " nobody would know", topic);
    ck_watch_note(rd_kafka_opaque(reader), 4, "RIGHTS", text);
    return VISIBLE;
}

/* What a reader finds in the place of a record. */
static sight look_at(rd_kafka_t *reader, const char *topic, int32_t partition, int64_t offset)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(reader, topic, NULL);
    if (!handle)
        return UNTOLD;
    sight sight = UNTOLD;
    if (rd_kafka_consume_start(handle, partition, offset) == 0) {
        rd_kafka_message_t *message = rd_kafka_consume(handle, partition, TURN_MS);
        if (message && !message->err)
            sight = message->offset == offset ? VISIBLE : GONE;
        else if (message && message->err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
            sight = leave_unread(reader, topic);
        else if (message && message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            sight = GONE;
        if (message)
            rd_kafka_message_destroy(message);
        rd_kafka_consume_stop(handle, partition);
    }
    rd_kafka_topic_destroy(handle);
    return sight;
}

sight ck_witness_look(rd_kafka_t *reader, const char *topic, int32_t partition, int64_t next)
{
    int64_t start, stable;
    switch (ck_ask_marks(reader, topic, partition, TURN_MS, &start, &stable)) {
    case RD_KAFKA_RESP_ERR_NO_ERROR: break;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION: return OPEN;
    default: return UNTOLD;
    }
    if (stable < next)
        return OPEN;
    /* What retention took was there. */
    if (start >= next)
        return VISIBLE;
    return look_at(reader, topic, partition, next - 1);
}

/* -- in words --------------------------------------------------------------------------------- */

void ck_witness_name(char witnesses[WITNESSES_MAX], const char *topic, int32_t partition,
                     int64_t next)
{
    size_t count = strlen(witnesses);
    snprintf(witnesses + count, WITNESSES_MAX - count, " %s/%" PRId32 "/%" PRId64, topic,
             partition, next);
}

char *ck_witness_metadata(const char *mark, int64_t before, const char *witnesses)
{
    char text[METADATA_MAX];
    snprintf(text, sizeof text, "%s %" PRId64 "%s", mark, before, witnesses);
    return strdup(text);
}

/* The offset before it, and where the witnesses begin; -1 where the metadata names none. */
static int64_t read_metadata(const rd_kafka_topic_partition_t *at, char text[METADATA_MAX],
                             const char **witnesses)
{
    if (!at->metadata || at->metadata_size == 0 || at->metadata_size >= METADATA_MAX)
        return -1;
    memcpy(text, at->metadata, at->metadata_size);
    text[at->metadata_size] = 0;
    int64_t before;
    int end = 0;
    if (sscanf(text, "tw.%*s %" SCNd64 "%n", &before, &end) != 1 || before < 0 || text[end] != ' ')
        return -1;
    *witnesses = text + end;
    return before;
}

static bool next_witness(const char **text, char topic[TOPIC_MAX + 1], int32_t *partition,
                         int64_t *next)
{
    int end = 0;
    if (sscanf(*text, " %249[^/ ]/%" SCNd32 "/%" SCNd64 "%n", topic, partition, next, &end) != 3)
        return false;
    *text += end;
    return true;
}

int64_t ck_witness_read(const rd_kafka_topic_partition_t *at, const names *targets,
                        ckafka_position found[WITNESS_MAX], size_t *count)
{
    char text[METADATA_MAX], topic[TOPIC_MAX + 1];
    const char *rest = NULL;
    int64_t before = read_metadata(at, text, &rest);
    *count = 0;
    while (before >= 0 && *count < WITNESS_MAX &&
           next_witness(&rest, topic, &found[*count].partition, &found[*count].offset)) {
        found[*count].topic = ck_names_index(targets, topic);
        *count += found[*count].topic >= 0;
    }
    return before;
}

/* -- hearing them ----------------------------------------------------------------------------- */

/* A committed reader does not see what compaction took either, but who reads everything sees what was
 * aborted, unless that is long ago. */
static sight hear_one(rd_kafka_t *reader, rd_kafka_t *asker, const char *topic, int32_t partition,
                      int64_t next)
{
    sight sight = ck_witness_look(reader, topic, partition, next);
    if (sight != GONE)
        return sight;
    switch (look_at(asker, topic, partition, next - 1)) {
    case VISIBLE: return GONE;
    case GONE: return VISIBLE;
    default: return UNTOLD;
    }
}

typedef struct verdict {
    char topic[TOPIC_MAX + 1];
    int32_t partition;
    int64_t next;
    sight sight;
} verdict;

/* What is known already: offsets of one transaction name the same witnesses, mostly. */
typedef struct verdicts {
    rd_kafka_t *reader, *asker;
    verdict *items;
    size_t count;
} verdicts;

static sight verdict_on(verdicts *v, const char *topic, int32_t partition, int64_t next)
{
    for (size_t i = 0; i < v->count; i++) {
        const verdict *known = &v->items[i];
        if (known->partition == partition && known->next == next &&
            strcmp(known->topic, topic) == 0)
            return known->sight;
    }
    v->items = ck_grow(v->items, sizeof *v->items * (v->count + 1));
    verdict *fresh = &v->items[v->count++];
    snprintf(fresh->topic, sizeof fresh->topic, "%s", topic);
    fresh->partition = partition;
    fresh->next = next;
    fresh->sight = hear_one(v->reader, v->asker, topic, partition, next);
    return fresh->sight;
}

/* One that is gone is enough: what was written beside it is absorbed when it is written again. */
static sight hear_all(verdicts *v, const char *witnesses)
{
    char topic[TOPIC_MAX + 1];
    int32_t partition;
    int64_t next;
    sight all = VISIBLE;
    while (next_witness(&witnesses, topic, &partition, &next)) {
        sight one = verdict_on(v, topic, partition, next);
        if (one == GONE)
            return GONE;
        if (one > all)
            all = one;
    }
    return all;
}

rd_kafka_resp_err_t ck_witness_judge(rd_kafka_topic_partition_list_t *list, rd_kafka_t *asker,
                                     const char *settings, watch *w, bool may_leave_open)
{
    verdicts v = {.asker = asker};
    char text[METADATA_MAX];
    size_t untold_count = 0, open_count = 0, gone_count = 0;
    for (int i = 0; i < list->cnt; i++) {
        rd_kafka_topic_partition_t *at = &list->elems[i];
        const char *witnesses;
        int64_t before = at->offset < 0 ? -1 : read_metadata(at, text, &witnesses);
        if (before < 0)
            continue;
        if (!v.reader && !(v.reader = ck_witness_reader(settings, w)))
            return RD_KAFKA_RESP_ERR__FAIL;
        switch (hear_all(&v, witnesses)) {
        case VISIBLE: break;
        case UNTOLD: untold_count++; break;
        case OPEN:
            at->opaque = (void *)(uintptr_t)OPEN;
            open_count++;
            break;
        case GONE:
            at->offset = before;
            at->opaque = (void *)(uintptr_t)GONE;
            gone_count++;
        }
    }
    free(v.items);
    ck_retire(v.reader, w, NULL);
    if (untold_count > 0 || (open_count > 0 && !may_leave_open))
        return RD_KAFKA_RESP_ERR__IN_PROGRESS;
    if (gone_count > 0)
        ck_watch_note(w, 3, "TXNGONE",
                      "Kafka has aborted what was committed before this process began: that is read"
                      " again");
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}
