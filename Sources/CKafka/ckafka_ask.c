/* Questions about offsets, asked of any handle. */
#include "ckafka_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITION_MAX = 100000, LOST_DEADLINE_MS = 2000 };

rd_kafka_resp_err_t ck_ask_partition_count(rd_kafka_t *rk, const char *topic, int deadline_ms,
                                        int *count)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    if (!handle)
        return rd_kafka_last_error();
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 0, handle, &metadata, deadline_ms);
    if (!code) {
        if (metadata->topic_cnt != 1)
            code = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
        else if (metadata->topics[0].err)
            code = metadata->topics[0].err;
        else if (metadata->topics[0].partition_cnt <= 0 ||
                 metadata->topics[0].partition_cnt > PARTITION_MAX)
            code = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
        else
            *count = metadata->topics[0].partition_cnt;
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    return code;
}

/* Offsets of a list of partitions into an array by partition number; -1 where there is none. */
static rd_kafka_resp_err_t list_to_offsets(const rd_kafka_topic_partition_list_t *list,
                                           int64_t *offsets, int count)
{
    for (int i = 0; i < list->cnt; i++) {
        if (list->elems[i].err)
            return list->elems[i].err;
        if (list->elems[i].partition >= 0 && list->elems[i].partition < count)
            offsets[list->elems[i].partition] =
                list->elems[i].offset < 0 ? -1 : list->elems[i].offset;
    }
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t read_group_answer(rd_kafka_event_t *event, int64_t *offsets, int count)
{
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    if (code)
        return code;
    size_t group_count = 0;
    const rd_kafka_group_result_t **groups = rd_kafka_ListConsumerGroupOffsets_result_groups(
        rd_kafka_event_ListConsumerGroupOffsets_result(event), &group_count);
    if (group_count != 1)
        return RD_KAFKA_RESP_ERR__BAD_MSG;
    const rd_kafka_error_t *error = rd_kafka_group_result_error(groups[0]);
    if (error)
        return rd_kafka_error_code(error);
    const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(groups[0]);
    return list ? list_to_offsets(list, offsets, count) : RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* Without "require stable": an older answer only makes the asker wait longer. */
static rd_kafka_resp_err_t ask_group(rd_kafka_t *rk, const char *group,
                                     const rd_kafka_topic_partition_list_t *list, int deadline_ms,
                                     int64_t *offsets)
{
    char text[200];
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
    rd_kafka_AdminOptions_set_request_timeout(options, deadline_ms, text, sizeof text);
    rd_kafka_ListConsumerGroupOffsets_t *question =
        rd_kafka_ListConsumerGroupOffsets_new(group, list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_ListConsumerGroupOffsets(rk, &question, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, deadline_ms + 1000);
    rd_kafka_resp_err_t code = event ? read_group_answer(event, offsets, list->cnt)
                                     : RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ListConsumerGroupOffsets_destroy(question);
    rd_kafka_AdminOptions_destroy(options);
    return code;
}

rd_kafka_resp_err_t ck_ask_offsets(rd_kafka_t *rk, const char *group, const char *topic,
                                   int deadline_ms, int64_t **offsets, size_t *count)
{
    int partition_count = 0;
    rd_kafka_resp_err_t code = ck_ask_partition_count(rk, topic, deadline_ms, &partition_count);
    if (code)
        return code;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partition_count);
    int64_t *found = ck_take_memory(sizeof *found * (size_t)partition_count);
    for (int i = 0; i < partition_count; i++) {
        rd_kafka_topic_partition_list_add(list, topic, i)->offset = RD_KAFKA_OFFSET_END;
        found[i] = -1;
    }
    if (group) {
        code = ask_group(rk, group, list, deadline_ms, found);
    } else {
        /* One request a leader instead of two a partition; the end is one of Kafka's own "times". */
        code = rd_kafka_offsets_for_times(rk, list, deadline_ms);
        if (!code)
            code = list_to_offsets(list, found, partition_count);
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (code) {
        free(found);
        return code;
    }
    *offsets = found;
    *count = (size_t)partition_count;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void ck_set_lost(ckafka_fault *fault, const char *topic, int32_t partition, int64_t position,
                 int64_t start, int64_t end)
{
    ck_fail(fault, CKAFKA_FAULT_LOST, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, topic);
    fault->partition = partition;
    fault->position = position;
    fault->start = start;
    fault->end = end;
}

rd_kafka_resp_err_t ck_ask_edges(rd_kafka_t *asker, const rd_kafka_topic_partition_list_t *list,
                                 int64_t time, int deadline_ms,
                                     rd_kafka_topic_partition_list_t **edges,
                                     char refused[REFUSED_SIZE])
{
    rd_kafka_topic_partition_list_t *asked = rd_kafka_topic_partition_list_new(list->cnt + 1);
    for (int i = 0; i < list->cnt; i++)
        rd_kafka_topic_partition_list_add(asked, list->elems[i].topic, list->elems[i].partition)
            ->offset = time;
    rd_kafka_resp_err_t code =
        list->cnt ? rd_kafka_offsets_for_times(asker, asked, deadline_ms) : 0;
    for (int i = 0; i < asked->cnt && !code; i++) {
        code = asked->elems[i].err;
        if (code && refused)
            snprintf(refused, REFUSED_SIZE, "%s", asked->elems[i].topic);
    }
    if (code) {
        rd_kafka_topic_partition_list_destroy(asked);
        return code;
    }
    *edges = asked;
    return code;
}

void ck_fail_lost(ckafka_fault *fault, rd_kafka_t *asker, const char *topic, int32_t partition,
                  int64_t position)
{
    int64_t edges[2] = {-1, -1};
    static const int64_t times[2] = {RD_KAFKA_OFFSET_BEGINNING, RD_KAFKA_OFFSET_END};
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1), *told = NULL;
    rd_kafka_topic_partition_list_add(list, topic, partition);
    for (int i = 0; i < 2 && !ck_ask_edges(asker, list, times[i], LOST_DEADLINE_MS, &told, NULL); i++) {
        edges[i] = told->elems[0].offset;
        rd_kafka_topic_partition_list_destroy(told);
    }
    rd_kafka_topic_partition_list_destroy(list);
    /* Both, or none. */
    bool is_known = edges[1] >= 0;
    ck_set_lost(fault, topic, partition, position, is_known ? edges[0] : -1, edges[1]);
}
