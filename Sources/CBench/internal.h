#pragma once

#include "cbench.h"

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The workers' settings, so that loops are compared and not sizes of queues. */
extern const char *const bench_reading[][2];
extern const size_t bench_reading_count;
extern const char *const bench_writing[][2];
extern const size_t bench_writing_count;

int64_t bench_now_us(void);
void *bench_take_memory(size_t size);
/* Fill in the message.  Returns -1. */
int bench_fail(char *message, size_t message_size, const char *what, const char *why);
/* Settings into a client of librdkafka; NULL, with the message, where it refuses one.  The opaque is
 * for delivery reports, which come where ${on_delivery} is given. */
rd_kafka_t *bench_open(rd_kafka_type_t type, const char *const pairs[][2], size_t pair_count,
                       const char *settings,
                       void (*on_delivery)(rd_kafka_t *, const rd_kafka_message_t *, void *),
                       void *opaque, char *message, size_t message_size);
/* TLS with a certificate for 127.0.0.1 that lives as long as the bench: whoever trusts the file at
 * ${path}, which gets it, trusts it.  NULL where it cannot be made. */
struct ssl_ctx_st *bench_open_tls(const char *path);
