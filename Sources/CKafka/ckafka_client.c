/* A client: its life, and what failed answers mean. */
#include "ckafka_client.h"

#include <stdlib.h>

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

int ckafka_client_refusal(ckafka_client *c, char *text, size_t size)
{
    rd_kafka_poll(c->rk, 0);
    return ck_watch_refusal(&c->watch, REFUSAL_FRESH_MS, text, size);
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
    ck_watch_open(&c->watch, c);
    rd_kafka_conf_t *conf = ck_configure(settings, &c->watch, fault);
    if (conf)
        c->rk = ck_open_handle(RD_KAFKA_CONSUMER, conf, false, &c->watch, fault);
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
