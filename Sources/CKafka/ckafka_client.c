/* Questions and orders to a cluster, and plain reading by hand. */
#include "ckafka_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SCRAM_MENDED = 0x020601ff };

struct ckafka_client {
    watch watch;
    rd_kafka_t *rk;
    char *user, *password; /* SASL's, or any text */
    bool is_scram;
    char *text; /* the last answer in words */
    size_t text_count, text_capacity;
    int64_t *offsets;
    ckafka_partition *partitions;
    int32_t *nodes;
    ckafka_held *held;
};

/* -- answers in words ------------------------------------------------------------------------- */

static void clear_text(ckafka_client *c)
{
    c->text_count = 0;
}

static void add_text(ckafka_client *c, const char *text)
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

static const char *shown_text(ckafka_client *c)
{
    return c->text_count ? c->text : "\0";
}

/* What a failed answer means for the asker. */
static int fail_answer(ckafka_fault *fault, rd_kafka_resp_err_t code, const char *text)
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

/* A question that nobody answered, perhaps because no broker lets us in: that does not pass. */
static int fail_question(ckafka_client *c, ckafka_fault *fault, rd_kafka_resp_err_t code,
                         const char *text)
{
    char refusal[300], sentence[600];
    rd_kafka_poll(c->rk, 0);
    if (!ck_watch_refusal(&c->watch, refusal, sizeof refusal))
        return fail_answer(fault, code, text);
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

void ckafka_client_close(ckafka_client *c, int deadline_ms)
{
    ck_retire(c->rk, &c->watch, NULL);
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
        return fail_question(c, fault, RD_KAFKA_RESP_ERR__TIMED_OUT,
                             "no broker told its cluster's id in time");
    clear_text(c);
    add_text(c, id);
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
    clear_text(c);
    partition_count = node_count = 0;
    for (int t = 0; t < metadata->topic_cnt; t++) {
        const rd_kafka_metadata_topic_t *topic = &metadata->topics[t];
        if (topic->err)
            continue;
        add_text(c, topic->topic);
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
        .names = shown_text(c),
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
        return fail_answer(fault, rd_kafka_last_error(), topic);
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code =
        rd_kafka_metadata(c->rk, topic ? 0 : 1, handle, &metadata, deadline_ms);
    if (handle)
        rd_kafka_topic_destroy(handle);
    if (code)
        return fail_question(c, fault, code, NULL);
    /* One that may not be seen is told from one that is not there only where it is asked for. */
    bool is_hidden = topic && metadata->topic_cnt == 1 &&
                     metadata->topics[0].err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    if (!is_hidden)
        show_topics(c, metadata, topics);
    rd_kafka_metadata_destroy(metadata);
    return is_hidden ? fail_answer(fault, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, topic) : 0;
}

static int show_offsets(ckafka_client *c, rd_kafka_resp_err_t code, int64_t *found,
                        const int64_t **offsets, ckafka_fault *fault)
{
    if (code)
        return fail_question(c, fault, code, NULL);
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
    return code ? fail_question(c, fault, code, NULL) : 0;
}

/* -- orders ----------------------------------------------------------------------------------- */

typedef struct order {
    rd_kafka_AdminOptions_t *options;
    rd_kafka_queue_t *queue;
    int deadline_ms;
} order;

static order open_order(ckafka_client *c, rd_kafka_admin_op_t kind, int deadline_ms)
{
    char text[200];
    order o = {rd_kafka_AdminOptions_new(c->rk, kind), rd_kafka_queue_new(c->rk), deadline_ms};
    /* Refused only for deadlines out of the library's range, and then its own holds. */
    rd_kafka_AdminOptions_set_request_timeout(o.options, deadline_ms, text, sizeof text);
    if (kind == RD_KAFKA_ADMIN_OP_CREATETOPICS || kind == RD_KAFKA_ADMIN_OP_DELETETOPICS)
        rd_kafka_AdminOptions_set_operation_timeout(o.options, deadline_ms, text, sizeof text);
    return o;
}

static rd_kafka_event_t *await_order(order *o)
{
    return rd_kafka_queue_poll(o->queue, o->deadline_ms + 1000);
}

static void close_order(order *o, rd_kafka_event_t *event)
{
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(o->queue);
    rd_kafka_AdminOptions_destroy(o->options);
}

/* The first failure of an answer; ${allowed} is none. */
static int judge_topics(const rd_kafka_topic_result_t **results, size_t count,
                        rd_kafka_resp_err_t allowed, ckafka_fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[i]);
        char text[380];
        if (!code || code == allowed)
            continue;
        const char *why = rd_kafka_topic_result_error_string(results[i]);
        snprintf(text, sizeof text, "%s: %s", rd_kafka_topic_result_name(results[i]),
                 why ? why : rd_kafka_err2str(code));
        return fail_answer(fault, code, text);
    }
    return 0;
}

static int judge_event(rd_kafka_event_t *event, ckafka_fault *fault)
{
    if (!event)
        return fail_answer(fault, RD_KAFKA_RESP_ERR__TIMED_OUT, "no answer in time");
    if (rd_kafka_event_error(event))
        return fail_answer(fault, rd_kafka_event_error(event), rd_kafka_event_error_string(event));
    return 0;
}

int ckafka_client_create_topic(ckafka_client *c, const char *topic, int partition_count,
                               int replication_factor, const char *settings, int deadline_ms,
                               ckafka_fault *fault)
{
    char text[300];
    rd_kafka_NewTopic_t *plan = rd_kafka_NewTopic_new(topic, partition_count, replication_factor,
                                                      text, sizeof text);
    if (!plan)
        return fail_answer(fault, RD_KAFKA_RESP_ERR__INVALID_ARG, text);
    for (const char *at = settings; at && *at;) {
        const char *value = at + strlen(at) + 1;
        rd_kafka_NewTopic_set_config(plan, at, value);
        at = value + strlen(value) + 1;
    }
    order o = open_order(c, RD_KAFKA_ADMIN_OP_CREATETOPICS, deadline_ms);
    rd_kafka_CreateTopics(c->rk, &plan, 1, o.options, o.queue);
    rd_kafka_event_t *event = await_order(&o);
    int result = judge_event(event, fault);
    if (!result) {
        size_t count = 0;
        const rd_kafka_topic_result_t **results = rd_kafka_CreateTopics_result_topics(
            rd_kafka_event_CreateTopics_result(event), &count);
        result = judge_topics(results, count, RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS, fault);
    }
    close_order(&o, event);
    rd_kafka_NewTopic_destroy(plan);
    return result;
}

int ckafka_client_delete_topics(ckafka_client *c, const char *topics, int deadline_ms,
                                ckafka_fault *fault)
{
    names list;
    ck_names_read(&list, topics);
    rd_kafka_DeleteTopic_t **plans = ck_take_memory(sizeof *plans * (list.count + 1));
    for (size_t i = 0; i < list.count; i++)
        plans[i] = rd_kafka_DeleteTopic_new(list.items[i]);
    order o = open_order(c, RD_KAFKA_ADMIN_OP_DELETETOPICS, deadline_ms);
    rd_kafka_DeleteTopics(c->rk, plans, list.count, o.options, o.queue);
    rd_kafka_event_t *event = await_order(&o);
    int result = judge_event(event, fault);
    if (!result) {
        size_t count = 0;
        const rd_kafka_topic_result_t **results = rd_kafka_DeleteTopics_result_topics(
            rd_kafka_event_DeleteTopics_result(event), &count);
        result = judge_topics(results, count, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, fault);
    }
    close_order(&o, event);
    rd_kafka_DeleteTopic_destroy_array(plans, list.count);
    free(plans);
    ck_names_free(&list);
    return result;
}

static int judge_resource(const rd_kafka_ConfigResource_t **resources, size_t count,
                          ckafka_fault *fault)
{
    if (count != 1)
        return fail_answer(fault, RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no topic");
    rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resources[0]);
    return code ? fail_answer(fault, code, rd_kafka_ConfigResource_error_string(resources[0])) : 0;
}

int ckafka_client_configuration(ckafka_client *c, const char *topic, int only_set, int deadline_ms,
                                const char **pairs, ckafka_fault *fault)
{
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    order o = open_order(c, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, deadline_ms);
    rd_kafka_DescribeConfigs(c->rk, &resource, 1, o.options, o.queue);
    rd_kafka_event_t *event = await_order(&o);
    int result = judge_event(event, fault);
    size_t count = 0;
    const rd_kafka_ConfigResource_t **resources = NULL;
    if (!result) {
        resources = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event), &count);
        result = judge_resource(resources, count, fault);
    }
    if (!result) {
        const rd_kafka_ConfigEntry_t **entries =
            rd_kafka_ConfigResource_configs(resources[0], &count);
        clear_text(c);
        for (size_t i = 0; i < count; i++) {
            if (only_set && rd_kafka_ConfigEntry_source(entries[i]) !=
                                RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG)
                continue;
            add_text(c, rd_kafka_ConfigEntry_name(entries[i]));
            add_text(c, rd_kafka_ConfigEntry_value(entries[i]));
        }
        *pairs = shown_text(c);
    }
    close_order(&o, event);
    rd_kafka_ConfigResource_destroy(resource);
    return result;
}

int ckafka_client_replace_configuration(ckafka_client *c, const char *topic, const char *settings,
                                        int deadline_ms, ckafka_fault *fault)
{
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    for (const char *at = settings; at && *at;) {
        const char *value = at + strlen(at) + 1;
        rd_kafka_ConfigResource_set_config(resource, at, value);
        at = value + strlen(value) + 1;
    }
    order o = open_order(c, RD_KAFKA_ADMIN_OP_ALTERCONFIGS, deadline_ms);
    rd_kafka_AlterConfigs(c->rk, &resource, 1, o.options, o.queue);
    rd_kafka_event_t *event = await_order(&o);
    int result = judge_event(event, fault);
    if (!result) {
        size_t count = 0;
        const rd_kafka_ConfigResource_t **resources = rd_kafka_AlterConfigs_result_resources(
            rd_kafka_event_AlterConfigs_result(event), &count);
        result = judge_resource(resources, count, fault);
    }
    close_order(&o, event);
    rd_kafka_ConfigResource_destroy(resource);
    return result;
}

/* A member that says its name over restarts has that one, others what the broker's log calls them. */
static const char *member_name(const rd_kafka_MemberDescription_t *member)
{
    const char *name = rd_kafka_MemberDescription_group_instance_id(member);
    if (!name || !*name)
        name = rd_kafka_MemberDescription_client_id(member);
    return name && *name ? name : "?";
}

static void show_group(ckafka_client *c, const rd_kafka_ConsumerGroupDescription_t *group,
                       ckafka_group *shown)
{
    size_t member_count = rd_kafka_ConsumerGroupDescription_member_count(group), held_count = 0;
    clear_text(c);
    for (size_t m = 0; m < member_count; m++)
        add_text(c, member_name(rd_kafka_ConsumerGroupDescription_member(group, m)));
    for (size_t m = 0; m < member_count; m++) {
        const rd_kafka_MemberAssignment_t *assignment = rd_kafka_MemberDescription_assignment(
            rd_kafka_ConsumerGroupDescription_member(group, m));
        const rd_kafka_topic_partition_list_t *list =
            assignment ? rd_kafka_MemberAssignment_partitions(assignment) : NULL;
        for (int i = 0; list && i < list->cnt; i++) {
            add_text(c, list->elems[i].topic);
            c->held = ck_grow(c->held, sizeof *c->held * (held_count + 1));
            c->held[held_count++] = (ckafka_held){(int32_t)m, list->elems[i].partition};
        }
    }
    *shown = (ckafka_group){
        .state = rd_kafka_consumer_group_state_name(rd_kafka_ConsumerGroupDescription_state(group)),
        .names = shown_text(c),
        .member_count = member_count,
        .held = c->held,
        .held_count = held_count,
    };
}

int ckafka_client_group(ckafka_client *c, const char *group, int deadline_ms, ckafka_group *shown,
                        ckafka_fault *fault)
{
    order o = open_order(c, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, deadline_ms);
    rd_kafka_DescribeConsumerGroups(c->rk, &group, 1, o.options, o.queue);
    rd_kafka_event_t *event = await_order(&o);
    int result = judge_event(event, fault);
    size_t count = 0;
    const rd_kafka_ConsumerGroupDescription_t **groups = NULL;
    if (!result) {
        groups = rd_kafka_DescribeConsumerGroups_result_groups(
            rd_kafka_event_DescribeConsumerGroups_result(event), &count);
        if (count != 1)
            result = fail_answer(fault, RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no group");
    }
    if (!result) {
        const rd_kafka_error_t *error = rd_kafka_ConsumerGroupDescription_error(groups[0]);
        rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : 0;
        if (code && code != RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND)
            result = fail_answer(fault, code, rd_kafka_error_string(error));
        else
            show_group(c, groups[0], shown);
    }
    close_order(&o, event);
    return result;
}

static int judge_groups(rd_kafka_event_t *event, ckafka_fault *fault)
{
    size_t count = 0;
    const rd_kafka_group_result_t **groups = rd_kafka_AlterConsumerGroupOffsets_result_groups(
        rd_kafka_event_AlterConsumerGroupOffsets_result(event), &count);
    if (count != 1)
        return fail_answer(fault, RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no group");
    const rd_kafka_error_t *error = rd_kafka_group_result_error(groups[0]);
    rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : 0;
    const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(groups[0]);
    for (int i = 0; !code && list && i < list->cnt; i++)
        code = list->elems[i].err;
    /* Kafka's words for it speak of members that do not exist. */
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID || code == RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP ||
        code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS)
        return ck_fail(fault, CKAFKA_FAULT_FENCED, code, "the group still has members");
    return code ? fail_answer(fault, code, NULL) : 0;
}

int ckafka_client_set_group_offsets(ckafka_client *c, const char *group, const char *topic,
                                    const ckafka_position *positions, size_t count, int deadline_ms,
                                    ckafka_fault *fault)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count + 1);
    for (size_t i = 0; i < count; i++)
        rd_kafka_topic_partition_list_add(list, topic, positions[i].partition)->offset =
            positions[i].offset;
    rd_kafka_AlterConsumerGroupOffsets_t *plan = rd_kafka_AlterConsumerGroupOffsets_new(group, list);
    order o = open_order(c, RD_KAFKA_ADMIN_OP_ALTERCONSUMERGROUPOFFSETS, deadline_ms);
    rd_kafka_AlterConsumerGroupOffsets(c->rk, &plan, 1, o.options, o.queue);
    rd_kafka_event_t *event = await_order(&o);
    int result = judge_event(event, fault);
    if (!result)
        result = judge_groups(event, fault);
    close_order(&o, event);
    rd_kafka_AlterConsumerGroupOffsets_destroy(plan);
    rd_kafka_topic_partition_list_destroy(list);
    return result;
}

/* -- plain reading ---------------------------------------------------------------------------- */

typedef struct started {
    rd_kafka_topic_t *topic;
    int32_t partition;
} started;

struct ckafka_reader {
    ckafka_client *client;
    names topics;
    rd_kafka_queue_t *queue;
    started *started;
    size_t started_count;
    intake in;
};

ckafka_reader *ckafka_reader_new(ckafka_client *client, const char *topics, ckafka_fault *fault)
{
    (void)fault;
    ckafka_reader *r = ck_take_memory(sizeof *r);
    r->client = client;
    ck_names_read(&r->topics, topics);
    r->queue = rd_kafka_queue_new(client->rk);
    return r;
}

int ckafka_reader_start(ckafka_reader *r, int32_t topic, int32_t partition, int64_t offset,
                        ckafka_fault *fault)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(r->client->rk, r->topics.items[topic], NULL);
    if (!handle)
        return fail_answer(fault, rd_kafka_last_error(), r->topics.items[topic]);
    if (rd_kafka_consume_start_queue(handle, partition, offset, r->queue) != 0) {
        rd_kafka_topic_destroy(handle);
        return ck_fail(fault, CKAFKA_FAULT_OURS, rd_kafka_last_error(),
                    "a partition that is being read already");
    }
    r->started = ck_grow(r->started, sizeof *r->started * (r->started_count + 1));
    r->started[r->started_count++] = (started){handle, partition};
    return 0;
}

int ckafka_reader_poll(ckafka_reader *r, size_t record_max, size_t byte_max, int wait_ms,
                       ckafka_batch *batch, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + wait_ms;
    memset(batch, 0, sizeof *batch);
    ck_intake_reset(&r->in);
    rd_kafka_poll(r->client->rk, 0);
    while (r->in.record_count < record_max && r->in.arena_count < byte_max) {
        int64_t left = r->in.record_count + r->in.end_count > 0 ? 0 : until - ck_now_ms();
        rd_kafka_message_t *message =
            rd_kafka_consume_queue(r->queue, left > 0 ? (int)left : 0);
        if (!message)
            break;
        rd_kafka_resp_err_t code = message->err;
        int topic = message->rkt ? ck_names_index(&r->topics, rd_kafka_topic_name(message->rkt)) : -1;
        if (topic >= 0 && !code)
            ck_intake_add(&r->in, message, topic, NULL);
        else if (topic >= 0 && code == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            ck_intake_end(&r->in, topic, message->partition, message->offset);
        rd_kafka_message_destroy(message);
        if (code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
            return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code,
                        "records that were to be read next were removed meanwhile");
        if (ck_is_damage(code))
            return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the changelog cannot be read");
        /* An end that was told is not told again: it goes out before the error does. */
        if (code && code != RD_KAFKA_RESP_ERR__PARTITION_EOF && r->in.record_count == 0 &&
            r->in.end_count == 0)
            return fail_answer(fault, code, NULL);
    }
    if (r->in.record_count > 0) {
        /* See wake_broker_threads of the worker: with a full queue they sleep otherwise. */
        rd_kafka_error_t *error =
            rd_kafka_sasl_set_credentials(r->client->rk, r->client->user, r->client->password);
        if (error)
            rd_kafka_error_destroy(error);
    }
    ck_intake_show(&r->in, batch);
    return 0;
}

void ckafka_reader_close(ckafka_reader *r)
{
    for (size_t i = 0; i < r->started_count; i++) {
        rd_kafka_consume_stop(r->started[i].topic, r->started[i].partition);
        rd_kafka_topic_destroy(r->started[i].topic);
    }
    rd_kafka_queue_destroy(r->queue);
    ck_names_free(&r->topics);
    ck_intake_free(&r->in);
    free(r->started);
    free(r);
}
