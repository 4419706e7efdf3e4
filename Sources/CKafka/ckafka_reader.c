/* Plain reading by hand: partitions without a group. */
#include "ckafka_client.h"

#include <stdlib.h>
#include <string.h>

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
    ckafka_fault held_fault; /* behind what the last poll returned */
};

ckafka_reader *ckafka_reader_new(ckafka_client *client, const char *topics)
{
    ckafka_reader *r = ck_take_memory(sizeof *r);
    r->client = client;
    ck_names_read(&r->topics, topics);
    r->queue = rd_kafka_queue_new(client->rk);
    atomic_fetch_add(&client->watch.user_count, 1);
    return r;
}

int ckafka_reader_start(ckafka_reader *r, int32_t topic, int32_t partition, int64_t offset,
                        ckafka_fault *fault)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(r->client->rk, r->topics.items[topic], NULL);
    if (!handle)
        return ckafka_fail_answer(fault, rd_kafka_last_error(), r->topics.items[topic]);
    if (rd_kafka_consume_start_queue(handle, partition, offset, r->queue) != 0) {
        rd_kafka_topic_destroy(handle);
        return ck_fail(fault, CKAFKA_FAULT_OURS, rd_kafka_last_error(),
                    "a partition that is being read already");
    }
    r->started = ck_grow(r->started, sizeof *r->started * (r->started_count + 1));
    r->started[r->started_count++] = (started){handle, partition};
    return 0;
}

/* An error that the library delivers in the place of a message. */
static int reader_error(rd_kafka_resp_err_t code, ckafka_fault *fault)
{
    if (code == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code,
                    "records that were to be read next were removed meanwhile");
    if (ck_is_damage(code))
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, "the changelog cannot be read");
    return ckafka_fail_answer(fault, code, NULL);
}

int ckafka_reader_poll(ckafka_reader *r, size_t record_max, size_t byte_max, int wait_ms,
                       ckafka_batch *batch, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + wait_ms;
    memset(batch, 0, sizeof *batch);
    ck_intake_reset(&r->in);
    if (ck_tell_held(&r->held_fault, fault))
        return -1;
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
        if (!code || code == RD_KAFKA_RESP_ERR__PARTITION_EOF)
            continue;
        if (r->in.record_count + r->in.end_count == 0)
            return reader_error(code, fault);
        /* What is reported only once, as an end is and a right that is taken, goes out in its order. */
        reader_error(code, &r->held_fault);
        break;
    }
    if (r->in.record_count > 0)
        ck_wake_brokers(r->client->rk, r->client->user, r->client->password);
    ck_intake_show(&r->in, batch);
    return 0;
}

/* Each partition is stopped by the handle's main thread, and rd_kafka_consume_stop waits for that thread
 * without a limit. */
static bool stop(void *argument)
{
    ckafka_reader *r = argument;
    for (size_t i = 0; i < r->started_count; i++) {
        rd_kafka_consume_stop(r->started[i].topic, r->started[i].partition);
        rd_kafka_topic_destroy(r->started[i].topic);
    }
    rd_kafka_queue_destroy(r->queue);
    ck_names_free(&r->topics);
    ck_intake_free(&r->in);
    free(r->started);
    /* The last use of the client: from here on its handle may be destroyed. */
    atomic_fetch_sub(&r->client->watch.user_count, 1);
    free(r);
    return true;
}

void ckafka_reader_close(ckafka_reader *r, int deadline_ms)
{
    ck_run_within(stop, r, deadline_ms);
}
