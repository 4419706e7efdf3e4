/* A client's admin calls: topics, their settings, and groups. */
#include "ckafka_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        return ck_fail_answer(fault, code, text);
    }
    return 0;
}

static int judge_event(rd_kafka_event_t *event, ckafka_fault *fault)
{
    if (!event)
        return ck_fail_answer(fault, RD_KAFKA_RESP_ERR__TIMED_OUT, "no answer in time");
    if (rd_kafka_event_error(event))
        return ck_fail_answer(fault, rd_kafka_event_error(event),
                              rd_kafka_event_error_string(event));
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
        return ck_fail_answer(fault, RD_KAFKA_RESP_ERR__INVALID_ARG, text);
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
        return ck_fail_answer(fault, RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no topic");
    rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resources[0]);
    return code ? ck_fail_answer(fault, code,
                                 rd_kafka_ConfigResource_error_string(resources[0])) : 0;
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
        ck_client_clear(c);
        for (size_t i = 0; i < count; i++) {
            if (only_set && rd_kafka_ConfigEntry_source(entries[i]) !=
                                RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG)
                continue;
            ck_client_add(c, rd_kafka_ConfigEntry_name(entries[i]));
            ck_client_add(c, rd_kafka_ConfigEntry_value(entries[i]));
        }
        *pairs = ck_client_text(c);
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
    ck_client_clear(c);
    for (size_t m = 0; m < member_count; m++)
        ck_client_add(c, member_name(rd_kafka_ConsumerGroupDescription_member(group, m)));
    for (size_t m = 0; m < member_count; m++) {
        const rd_kafka_MemberAssignment_t *assignment = rd_kafka_MemberDescription_assignment(
            rd_kafka_ConsumerGroupDescription_member(group, m));
        const rd_kafka_topic_partition_list_t *list =
            assignment ? rd_kafka_MemberAssignment_partitions(assignment) : NULL;
        for (int i = 0; list && i < list->cnt; i++) {
            ck_client_add(c, list->elems[i].topic);
            c->held = ck_grow(c->held, sizeof *c->held * (held_count + 1));
            c->held[held_count++] = (ckafka_held){(int32_t)m, list->elems[i].partition};
        }
    }
    *shown = (ckafka_group){
        .state = rd_kafka_consumer_group_state_name(rd_kafka_ConsumerGroupDescription_state(group)),
        .names = ck_client_text(c),
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
            result = ck_fail_answer(fault, RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no group");
    }
    if (!result) {
        const rd_kafka_error_t *error = rd_kafka_ConsumerGroupDescription_error(groups[0]);
        rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : 0;
        if (code && code != RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND)
            result = ck_fail_answer(fault, code, rd_kafka_error_string(error));
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
        return ck_fail_answer(fault, RD_KAFKA_RESP_ERR__BAD_MSG, "an answer about no group");
    const rd_kafka_error_t *error = rd_kafka_group_result_error(groups[0]);
    rd_kafka_resp_err_t code = error ? rd_kafka_error_code(error) : 0;
    const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(groups[0]);
    for (int i = 0; !code && list && i < list->cnt; i++)
        code = list->elems[i].err;
    /* Kafka's message for it names members that do not exist. */
    if (code == RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID || code == RD_KAFKA_RESP_ERR_NON_EMPTY_GROUP ||
        code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS)
        return ck_fail(fault, CKAFKA_FAULT_FENCED, code, "the group still has members");
    return code ? ck_fail_answer(fault, code, NULL) : 0;
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
