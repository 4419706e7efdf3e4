/* The client's inside, for the files it is written in. */
#pragma once

#include "ckafka_internal.h"

struct ckafka_client {
    watch watch;
    rd_kafka_t *rk;
    char *user, *password; /* SASL's, or any text */
    bool is_scram;
    char *text; /* the last answer in words */
    size_t text_count, text_capacity;
    int64_t *offsets;
    ckafka_partition *partitions;
    int32_t *nodes;
    ckafka_held *held;
};

/* The answer in words: a list, as it grows. */
void ck_client_clear(ckafka_client *c);
void ck_client_add(ckafka_client *c, const char *text);
const char *ck_client_text(ckafka_client *c);

/* What a failed answer means for the asker. */
int ck_fail_answer(ckafka_fault *fault, rd_kafka_resp_err_t code, const char *text);
/* A request without an answer, perhaps because no broker accepts our login: that does not pass. */
int ck_client_fail(ckafka_client *c, ckafka_fault *fault, rd_kafka_resp_err_t code,
                   const char *text);
