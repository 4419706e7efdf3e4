/* The embedded broker: librdkafka's mock cluster, which lives in a handle of its own. */
#include "ckafka_internal.h"

#include <librdkafka/rdkafka_mock.h>
#include <stdlib.h>

struct ckafka_mock {
    rd_kafka_t *rk;
    rd_kafka_mock_cluster_t *cluster;
    watch watch;
};

ckafka_mock *ckafka_mock_new(int broker_count, ckafka_fault *fault)
{
    ckafka_mock *m = ck_take_memory(sizeof *m);
    ck_watch_open(&m->watch, NULL);
    rd_kafka_conf_t *conf = ck_configure("client.id\0tollway-broker\0", &m->watch, fault);
    if (conf)
        m->rk = ck_open_handle(RD_KAFKA_PRODUCER, conf, &m->watch, fault);
    if (m->rk)
        m->cluster = rd_kafka_mock_cluster_new(m->rk, broker_count);
    if (m->cluster)
        return m;
    if (m->rk) {
        ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE,
             "the embedded broker could not listen on loopback");
        rd_kafka_destroy(m->rk);
    }
    if (!ck_retired_all(&m->watch, 0))
        return NULL;
    ck_watch_close(&m->watch);
    free(m);
    return NULL;
}

const char *ckafka_mock_bootstrap_servers(const ckafka_mock *m)
{
    return rd_kafka_mock_cluster_bootstraps(m->cluster);
}

int ckafka_mock_create_topic(ckafka_mock *m, const char *topic, int partition_count,
                             ckafka_fault *fault)
{
    rd_kafka_resp_err_t code = rd_kafka_mock_topic_create(m->cluster, topic, partition_count, 1);
    return code ? ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, code, topic) : 0;
}

void ckafka_mock_push_errors(ckafka_mock *m, int16_t api, const int32_t *codes, size_t count)
{
    rd_kafka_resp_err_t *errors = ck_take_memory(sizeof *errors * count);
    for (size_t i = 0; i < count; i++)
        errors[i] = codes[i];
    rd_kafka_mock_push_request_errors_array(m->cluster, api, count, errors);
    free(errors);
}

void ckafka_mock_clear_errors(ckafka_mock *m, int16_t api)
{
    rd_kafka_mock_clear_request_errors(m->cluster, api);
}

int ckafka_mock_set_round_trip(ckafka_mock *m, int32_t broker, int milliseconds)
{
    return rd_kafka_mock_broker_set_rtt(m->cluster, broker, milliseconds);
}

void ckafka_mock_close(ckafka_mock *m)
{
    rd_kafka_mock_cluster_destroy(m->cluster);
    rd_kafka_destroy(m->rk);
    ck_watch_close(&m->watch);
    free(m);
}
