/* A client: its life, its answers in words, and questions about topics and offsets. */
#include "ckafka_client.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SCRAM_MENDED = 0x020601ff };

/* -- answers in words ------------------------------------------------------------------------- */

void ck_client_clear(ckafka_client *c)
{
    c->text_count = 0;
}

void ck_client_add(ckafka_client *c, const char *text)
{
    size_t count = strlen(text ? text : "") + 1;
    if (c->text_count + count + 1 > c->text_capacity) {
        c->text_capacity = (c->text_count + count + 1) * 2;
        c->text = ck_grow(c->text, c->text_capacity);
    }
    memcpy(c->text + c->text_count, text ? text : "", count);
    c->text_count += count;
    c->text[c->text_count] = '\0'; /* the list's end, overwritten by what follows */
}

const char *ck_client_text(ckafka_client *c)
{
    return c->text_count ? c->text : "\0";
}

int ck_fail_answer(ckafka_fault *fault, rd_kafka_resp_err_t code, const char *text)
{
    int kind = CKAFKA_FAULT_UNAVAILABLE;
    switch (code) {
    case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
    case RD_KAFKA_RESP_ERR_INVALID_PARTITIONS:
    case RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR:
    case RD_KAFKA_RESP_ERR_INVALID_REQUEST:
    case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
        kind = CKAFKA_FAULT_MISCONFIGURED;
        break;
    default:
        break;
    }
    return ck_fail(fault, kind, code, text && *text ? text : rd_kafka_err2str(code));
}

int ck_client_fail(ckafka_client *c, ckafka_fault *fault, rd_kafka_resp_err_t code,
                   const char *text)
{
    char refusal[300], sentence[600];
    rd_kafka_poll(c->rk, 0);
    if (!ck_watch_refusal(&c->watch, refusal, sizeof refusal))
        return ck_fail_answer(fault, code, text);
    /* It says its nonce twice (#4895); brokers since CVE-2024-56128 do not take that: seen with
     * 2.0.2 and Kafka 4.3.1, where Java's client comes in with the same password. */
    bool is_hopeless = c->is_scram && rd_kafka_version() < SCRAM_MENDED;
    snprintf(sentence, sizeof sentence, "%s%s",
             is_hopeless ? "librdkafka before 2.6.1 cannot sign in by SCRAM to Kafka 3.8.1 and "
                           "later, use PLAIN over TLS or a certificate: "
                         : "",
             refusal);
    return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, code, sentence);
}

static bool is_scram(const char *settings)
{
    static const char *const names[] = {"sasl.mechanism", "sasl.mechanisms"};
    bool is_found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *mechanism = ck_setting_of(settings, names[i]);
        is_found = is_found || strncmp(mechanism, "SCRAM", 5) == 0;
        free(mechanism);
    }
    return is_found;
}

/* -- life ------------------------------------------------------------------------------------- */

ckafka_client *ckafka_client_new(const char *settings, ckafka_fault *fault)
{
    ckafka_client *c = ck_take_memory(sizeof *c);
    c->user = ck_setting_of(settings, "sasl.username");
    c->password = ck_setting_of(settings, "sasl.password");
    c->is_scram = is_scram(settings);
    ck_watch_open(&c->watch, c);
    rd_kafka_conf_t *conf = ck_configure(settings, &c->watch, fault);
    if (conf)
        c->rk = ck_open_handle(RD_KAFKA_CONSUMER, conf, &c->watch, fault);
    if (c->rk)
        return c;
    if (!ck_retired_all(&c->watch, 0))
        return NULL;
    ck_watch_close(&c->watch);
    free(c->user);
    free(c->password);
    free(c);
    return NULL;
}

rd_kafka_t *ckafka_client_handle(const ckafka_client *c)
{
    return c->rk;
}

void ckafka_client_close(ckafka_client *c, int deadline_ms)
{
    ck_retire(c->rk, &c->watch, NULL, NULL);
    if (!ck_retired_all(&c->watch, deadline_ms))
        return; /* it hangs; the process's end takes it */
    ck_watch_close(&c->watch);
    free(c->user);
    free(c->password);
    free(c->text);
    free(c->offsets);
    free(c->partitions);
    free(c->nodes);
    free(c->held);
    free(c);
}

size_t ckafka_client_take_notes(ckafka_client *c, ckafka_note *notes, size_t capacity)
{
    rd_kafka_poll(c->rk, 0);
    return ck_watch_take(&c->watch, notes, capacity);
}

/* -- questions -------------------------------------------------------------------------------- */

int ckafka_client_cluster_id(ckafka_client *c, int deadline_ms, const char **text,
                             ckafka_fault *fault)
{
    char *id = rd_kafka_clusterid(c->rk, deadline_ms);
    if (!id)
        return ck_client_fail(c, fault, RD_KAFKA_RESP_ERR__TIMED_OUT,
                              "no broker told its cluster's id in time");
    ck_client_clear(c);
    ck_client_add(c, id);
    rd_kafka_mem_free(c->rk, id);
    *text = c->text;
    return 0;
}

static void show_topics(ckafka_client *c, const struct rd_kafka_metadata *metadata,
                        ckafka_topics *topics)
{
    size_t partition_count = 0, node_count = 0, name_count = 0;
    for (int t = 0; t < metadata->topic_cnt; t++) {
        const rd_kafka_metadata_topic_t *topic = &metadata->topics[t];
        partition_count += (size_t)topic->partition_cnt;
        for (int p = 0; p < topic->partition_cnt; p++)
            node_count +=
                (size_t)(topic->partitions[p].replica_cnt + topic->partitions[p].isr_cnt);
    }
    c->partitions = ck_grow(c->partitions, sizeof *c->partitions * (partition_count + 1));
    c->nodes = ck_grow(c->nodes, sizeof *c->nodes * (node_count + 1));
    ck_client_clear(c);
    partition_count = node_count = 0;
    for (int t = 0; t < metadata->topic_cnt; t++) {
        const rd_kafka_metadata_topic_t *topic = &metadata->topics[t];
        if (topic->err)
            continue;
        ck_client_add(c, topic->topic);
        for (int p = 0; p < topic->partition_cnt; p++) {
            const rd_kafka_metadata_partition_t *from = &topic->partitions[p];
            ckafka_partition *to = &c->partitions[partition_count++];
            *to = (ckafka_partition){
                .topic = (int32_t)name_count, .partition = from->id, .leader = from->leader};
            to->replica_start = (int32_t)node_count;
            to->replica_count = from->replica_cnt;
            for (int i = 0; i < from->replica_cnt; i++)
                c->nodes[node_count++] = from->replicas[i];
            to->in_sync_start = (int32_t)node_count;
            to->in_sync_count = from->isr_cnt;
            for (int i = 0; i < from->isr_cnt; i++)
                c->nodes[node_count++] = from->isrs[i];
        }
        name_count++;
    }
    *topics = (ckafka_topics){
        .names = ck_client_text(c),
        .name_count = name_count,
        .partitions = c->partitions,
        .partition_count = partition_count,
        .nodes = c->nodes,
        .node_count = node_count,
        .broker_count = (size_t)metadata->broker_cnt,
    };
}

int ckafka_client_topics(ckafka_client *c, const char *topic, int deadline_ms,
                         ckafka_topics *topics, ckafka_fault *fault)
{
    rd_kafka_topic_t *handle = topic ? rd_kafka_topic_new(c->rk, topic, NULL) : NULL;
    if (topic && !handle)
        return ck_fail_answer(fault, rd_kafka_last_error(), topic);
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_metadata(c->rk, topic ? 0 : 1, handle, &metadata, deadline_ms);
    if (handle)
        rd_kafka_topic_destroy(handle);
    if (code)
        return ck_client_fail(c, fault, code, NULL);
    /* A topic that may not be seen differs from one that does not exist only if it is asked for. */
    bool is_hidden = topic && metadata->topic_cnt == 1 &&
                     metadata->topics[0].err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    if (!is_hidden)
        show_topics(c, metadata, topics);
    rd_kafka_metadata_destroy(metadata);
    return is_hidden ? ck_fail_answer(fault, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
                                      topic) : 0;
}

static int show_offsets(ckafka_client *c, rd_kafka_resp_err_t code, int64_t *found,
                        const int64_t **offsets, ckafka_fault *fault)
{
    if (code)
        return ck_client_fail(c, fault, code, NULL);
    free(c->offsets);
    c->offsets = found;
    *offsets = found;
    return 0;
}

int ckafka_client_offsets(ckafka_client *c, const char *topic, int64_t at_ms, int deadline_ms,
                          const int64_t **offsets, size_t *count, ckafka_fault *fault)
{
    int64_t *found = NULL;
    rd_kafka_resp_err_t code = ck_ask_offsets(c->rk, topic, at_ms, deadline_ms, &found, count);
    return show_offsets(c, code, found, offsets, fault);
}

int ckafka_client_group_offsets(ckafka_client *c, const char *group, const char *topic,
                                int deadline_ms, const int64_t **offsets, size_t *count,
                                ckafka_fault *fault)
{
    int64_t *found = NULL;
    rd_kafka_resp_err_t code = ck_ask_group_offsets(c->rk, group, topic, deadline_ms, &found, count);
    return show_offsets(c, code, found, offsets, fault);
}

int ckafka_client_watermarks(ckafka_client *c, const char *topic, int32_t partition,
                             int deadline_ms, int64_t *start, int64_t *end, ckafka_fault *fault)
{
    rd_kafka_resp_err_t code =
        ck_ask_marks(c->rk, topic, partition, deadline_ms, start, end);
    return code ? ck_client_fail(c, fault, code, NULL) : 0;
}
