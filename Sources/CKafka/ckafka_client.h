/* The client's inside, for the files it is written in. */
#pragma once

#include "ckafka_internal.h"

struct ckafka_client {
    watch watch;
    rd_kafka_t *rk;
    char *user, *password; /* SASL's, or any text */
};
