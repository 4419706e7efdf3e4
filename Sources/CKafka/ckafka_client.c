/* A client: its life, and what its failures mean. */
#include "ckafka_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRAM_MENDED = 0x020601ff };

int ckafka_fail_answer(ckafka_fault *fault, int32_t code, const char *text)
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

int ckafka_client_fail(ckafka_client *c, ckafka_fault *fault, int32_t code, const char *text)
{
    char refusal[300], sentence[600];
    rd_kafka_poll(c->rk, 0);
    if (!ck_watch_refusal(&c->watch, refusal, sizeof refusal))
        return ckafka_fail_answer(fault, code, text);
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

static void free_client(ckafka_client *c)
{
    ck_watch_close(&c->watch);
    free(c->user);
    free(c->password);
    free(c);
}

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
    if (ck_retired_all(&c->watch, 0))
        free_client(c);
    return NULL;
}

rd_kafka_t *ckafka_client_handle(const ckafka_client *c)
{
    return c->rk;
}

void ckafka_client_close(ckafka_client *c, int deadline_ms)
{
    ck_retire(c->rk, &c->watch, NULL, NULL);
    /* One that hangs is left to the process's end. */
    if (ck_retired_all(&c->watch, deadline_ms))
        free_client(c);
}

size_t ckafka_client_take_notes(ckafka_client *c, ckafka_note *notes, size_t capacity)
{
    rd_kafka_poll(c->rk, 0);
    return ck_watch_take(&c->watch, notes, capacity);
}
