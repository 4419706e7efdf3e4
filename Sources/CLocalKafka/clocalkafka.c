/* The embedded broker: librdkafka's mock cluster, which lives in a handle of its own. */
#include "clocalkafka.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(RD_KAFKA_VERSION >= 0x020000ff, "the mock cluster is that of librdkafka 2");

struct clocalkafka_mock {
    rd_kafka_t *rk;
    rd_kafka_mock_cluster_t *cluster;
};

/* Whatever has no memory ends at once, as everywhere. */
static void *take_memory(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

static rd_kafka_t *open_handle(char *message)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    /* It says what its clients do wrong, and they say so themselves. */
    rd_kafka_conf_set_log_cb(conf, NULL);
    if (rd_kafka_conf_set(conf, "client.id", "tollway-broker", message,
                          CLOCALKAFKA_MESSAGE_SIZE) != RD_KAFKA_CONF_OK) {
        rd_kafka_conf_destroy(conf);
        return NULL;
    }
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, message, CLOCALKAFKA_MESSAGE_SIZE);
    /* Where its threads were not seen to start in time (a clock that is shifted), 2.0.2 gives up
     * and leaves them running with what is in the configuration: that must stay. */
    int errno_was = errno;
    if (!rk && !(rd_kafka_last_error() == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE &&
                 errno_was == EDEADLK))
        rd_kafka_conf_destroy(conf);
    return rk;
}

clocalkafka_mock *clocalkafka_mock_new(int broker_count, char *message)
{
    message[0] = '\0';
    clocalkafka_mock *m = take_memory(sizeof *m);
    m->rk = open_handle(message);
    if (!m->rk)
        goto no_handle;
    m->cluster = rd_kafka_mock_cluster_new(m->rk, broker_count);
    if (!m->cluster)
        goto no_cluster;
    return m;

no_cluster:
    snprintf(message, CLOCALKAFKA_MESSAGE_SIZE, "%s",
             "the embedded broker could not listen on loopback");
    rd_kafka_destroy(m->rk);
no_handle:
    free(m);
    return NULL;
}

const char *clocalkafka_mock_bootstrap_servers(const clocalkafka_mock *m)
{
    return rd_kafka_mock_cluster_bootstraps(m->cluster);
}

int clocalkafka_mock_create_topic(clocalkafka_mock *m, const char *topic, int partition_count)
{
    return rd_kafka_mock_topic_create(m->cluster, topic, partition_count, 1) ? -1 : 0;
}

void clocalkafka_mock_push_errors(clocalkafka_mock *m, int16_t api, const int32_t *codes,
                                  size_t count)
{
    rd_kafka_resp_err_t *errors = take_memory(sizeof *errors * count);
    for (size_t i = 0; i < count; i++)
        errors[i] = codes[i];
    rd_kafka_mock_push_request_errors_array(m->cluster, api, count, errors);
    free(errors);
}

void clocalkafka_mock_clear_errors(clocalkafka_mock *m, int16_t api)
{
    rd_kafka_mock_clear_request_errors(m->cluster, api);
}

int clocalkafka_mock_set_round_trip(clocalkafka_mock *m, int32_t broker, int milliseconds)
{
    return rd_kafka_mock_broker_set_rtt(m->cluster, broker, milliseconds) ? -1 : 0;
}

int clocalkafka_mock_set_leader(clocalkafka_mock *m, const char *topic, int32_t partition,
                                int32_t broker)
{
    return rd_kafka_mock_partition_set_leader(m->cluster, topic, partition, broker) ? -1 : 0;
}

void clocalkafka_mock_close(clocalkafka_mock *m)
{
    rd_kafka_mock_cluster_destroy(m->cluster);
    rd_kafka_destroy(m->rk);
    free(m);
}
