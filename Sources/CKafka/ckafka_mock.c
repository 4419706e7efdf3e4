/* The embedded broker: librdkafka's mock cluster, which lives in a handle of its own. */
#include "ckafka_internal.h"

#include <arpa/inet.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Brokers that can be down at one time. */
#define BROKER_MAX 16
/* A port takes a moment to be free again: how often it is asked for, a millisecond apart. */
#define HOLD_ATTEMPT_MAX 5000

struct ckafka_mock {
    rd_kafka_t *rk;
    rd_kafka_mock_cluster_t *cluster;
    watch watch;
    /* For each broker that is down, a socket that keeps its port and does not listen; else -1. */
    int held_ports[BROKER_MAX];
};

/* The port of a broker, from the list of bootstrap servers; 0 where there is none. */
static int port_of(const ckafka_mock *m, int32_t broker)
{
    const char *text = rd_kafka_mock_cluster_bootstraps(m->cluster);
    for (int32_t number = 1; number < broker && text; number++) {
        text = strchr(text, ',');
        text = text ? text + 1 : NULL;
    }
    text = text ? strchr(text, ':') : NULL;
    return text ? atoi(text + 1) : 0;
}

/* librdkafka ends the whole process when a broker comes back and its port, one out of the range
   that outgoing connections draw from, was taken meanwhile.  So the port is kept. */
static int hold_port(const ckafka_mock *m, int32_t broker)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port_of(m, broker));
    int on = 1;
    for (int attempt = 0; attempt < HOLD_ATTEMPT_MAX; attempt++) {
        int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (descriptor < 0)
            return -1;
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0)
            return descriptor;
        close(descriptor);
        usleep(1000);
    }
    return -1;
}

static void release_port(ckafka_mock *m, int32_t broker)
{
    if (m->held_ports[broker - 1] >= 0)
        close(m->held_ports[broker - 1]);
    m->held_ports[broker - 1] = -1;
}

ckafka_mock *ckafka_mock_new(int broker_count, ckafka_fault *fault)
{
    ckafka_mock *m = ck_take_memory(sizeof *m);
    for (int broker = 0; broker < BROKER_MAX; broker++)
        m->held_ports[broker] = -1;
    ck_watch_open(&m->watch, NULL);
    rd_kafka_conf_t *conf = ck_configure("client.id\0tollway-broker\0", &m->watch, fault);
    if (conf)
        m->rk = ck_open_handle(RD_KAFKA_PRODUCER, conf, fault);
    if (m->rk)
        m->cluster = rd_kafka_mock_cluster_new(m->rk, broker_count);
    if (m->cluster)
        return m;
    if (m->rk) {
        ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE,
             "the embedded broker could not listen on loopback");
        rd_kafka_destroy(m->rk);
    }
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

int ckafka_mock_set_broker(ckafka_mock *m, int32_t broker, int is_up)
{
    if (broker < 1 || broker > BROKER_MAX)
        return RD_KAFKA_RESP_ERR__INVALID_ARG;
    release_port(m, broker);
    if (is_up) {
        /* Asked for once more: an error that says so is kinder than the end of the process. */
        int probe = hold_port(m, broker);
        if (probe < 0)
            return RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
        close(probe);
        return rd_kafka_mock_broker_set_up(m->cluster, broker);
    }
    rd_kafka_resp_err_t code = rd_kafka_mock_broker_set_down(m->cluster, broker);
    if (!code)
        m->held_ports[broker - 1] = hold_port(m, broker);
    return code;
}

int ckafka_mock_set_round_trip(ckafka_mock *m, int32_t broker, int milliseconds)
{
    return rd_kafka_mock_broker_set_rtt(m->cluster, broker, milliseconds);
}

void ckafka_mock_close(ckafka_mock *m)
{
    for (int32_t broker = 1; broker <= BROKER_MAX; broker++)
        release_port(m, broker);
    rd_kafka_mock_cluster_destroy(m->cluster);
    rd_kafka_destroy(m->rk);
    ck_watch_close(&m->watch);
    free(m);
}
