/* What the yardsticks share: settings, a clock, failures. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const bench_reading[][2] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"auto.offset.reset", "earliest"},
    {"isolation.level", "read_committed"},
    {"partition.assignment.strategy", "range"},
    {"session.timeout.ms", "15000"},
    {"heartbeat.interval.ms", "3000"},
    {"socket.nagle.disable", "true"},
    {"check.crcs", "true"},
    {"fetch.wait.max.ms", "50"},
    {"fetch.error.backoff.ms", "100"},
    {"fetch.message.max.bytes", "196608"},
    {"fetch.max.bytes", "8388608"},
    {"queued.min.messages", "5000"},
    {"queued.max.messages.kbytes", "2048"},
};
const size_t bench_reading_count = COUNT_OF(bench_reading);

const char *const bench_writing[][2] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"partitioner", "murmur2_random"},
    {"compression.type", "lz4"},
    {"batch.size", "262144"},
    {"linger.ms", "5"},
    {"socket.nagle.disable", "true"},
    {"queue.buffering.max.kbytes", "65536"},
    {"queue.buffering.max.messages", "500000"},
};
const size_t bench_writing_count = COUNT_OF(bench_writing);

int64_t bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void *bench_take_memory(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

int bench_fail(char *message, size_t message_size, const char *what, const char *why)
{
    snprintf(message, message_size, "%s: %s", what, why);
    return -1;
}

rd_kafka_t *bench_open(rd_kafka_type_t type, const char *const pairs[][2], size_t pair_count,
                       const char *settings,
                       void (*on_delivery)(rd_kafka_t *, const rd_kafka_message_t *, void *),
                       void *opaque, char *message, size_t message_size)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char why[300] = "";
    rd_kafka_conf_res_t result = RD_KAFKA_CONF_OK;
    for (size_t i = 0; i < pair_count && result == RD_KAFKA_CONF_OK; i++)
        result = rd_kafka_conf_set(conf, pairs[i][0], pairs[i][1], why, sizeof why);
    for (const char *at = settings; *at && result == RD_KAFKA_CONF_OK;) {
        const char *value = at + strlen(at) + 1;
        result = rd_kafka_conf_set(conf, at, value, why, sizeof why);
        at = value + strlen(value) + 1;
    }
    if (on_delivery)
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, opaque);
    rd_kafka_t *rk =
        result == RD_KAFKA_CONF_OK ? rd_kafka_new(type, conf, why, sizeof why) : NULL;
    if (!rk) {
        rd_kafka_conf_destroy(conf);
        bench_fail(message, message_size, "a Kafka client cannot be made", why);
    }
    return rk;
}
