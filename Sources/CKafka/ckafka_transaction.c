/* What everybody needs who writes transactions: a worker's committer, and the command's hand. */
#include "ckafka_internal.h"

#include <time.h>

enum {
    RECORD_OVERHEAD = 128, /* batch and record heads, at the most */
    WARM_UP_MS = 2000,
    WARM_UP_TURN_MAX = 20,
    RETRY_MS = 50,
};

void ck_pause_ms(int milliseconds)
{
    struct timespec t = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    nanosleep(&t, NULL);
}

bool ck_may_repeat(const rd_kafka_error_t *error)
{
    return rd_kafka_error_is_retriable(error) && !rd_kafka_error_is_fatal(error) &&
           !rd_kafka_error_txn_requires_abort(error);
}

int ck_check_outputs(const names *targets, const int64_t *byte_count_max,
                     const ckafka_output *outputs, size_t count, ckafka_fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        const ckafka_output *o = &outputs[i];
        if (o->topic < 0 || (size_t)o->topic >= targets->count)
            return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__INVALID_ARG,
                           "an output for a topic that is no target");
        int64_t size = (int64_t)(o->key_count > 0 ? o->key_count : 0) +
                       (o->value_count > 0 ? o->value_count : 0) + o->headers_count +
                       RECORD_OVERHEAD;
        if (size <= byte_count_max[o->topic])
            continue;
        ck_fail(fault, CKAFKA_FAULT_TOO_LARGE, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                targets->items[o->topic]);
        fault->index = (int64_t)i;
        fault->byte_count = size;
        fault->byte_count_max = byte_count_max[o->topic];
        return -1;
    }
    return 0;
}

bool ck_is_fence(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
           code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
}

bool ck_warm_up(rd_kafka_t *rk, rd_kafka_topic_t **topics, size_t count,
                bool (*is_stopped)(void *), void *argument, topic_refusal *refused)
{
    if (refused)
        refused->code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t i = 0; i < count; i++) {
        for (int turn = 0;; turn++) {
            const struct rd_kafka_metadata *metadata = NULL;
            if (is_stopped(argument))
                return false;
            rd_kafka_resp_err_t code = rd_kafka_metadata(rk, 0, topics[i], &metadata, WARM_UP_MS);
            bool is_there = !code && metadata->topic_cnt == 1 && !metadata->topics[0].err &&
                            metadata->topics[0].partition_cnt > 0;
            rd_kafka_resp_err_t topic_code =
                !code && metadata->topic_cnt == 1 ? metadata->topics[0].err : code;
            if (!code)
                rd_kafka_metadata_destroy(metadata);
            rd_kafka_poll(rk, 0);
            if (is_there)
                break;
            if (!code && turn == WARM_UP_TURN_MAX) {
                /* The first transaction that needs it finds out that it is not there. */
                if (refused && !refused->code && ck_is_refusal(topic_code))
                    *refused = (topic_refusal){.index = i, .code = topic_code};
                break;
            }
            ck_pause_ms(RETRY_MS);
        }
    }
    return true;
}
