/*
 * The embedded broker: librdkafka's mock cluster, in a library of its own, so that no worker has
 * it.  One thread uses a broker at a time.
 */
#ifndef CLOCALKAFKA_H
#define CLOCALKAFKA_H

#include <stddef.h>
#include <stdint.h>

typedef struct clocalkafka_mock clocalkafka_mock;

enum { CLOCALKAFKA_MESSAGE_SIZE = 256 };

/*
 * clocalkafka_mock_new(broker_count, message):
 * Start ${broker_count} brokers on loopback, on ports of their own choice.  NULL where the system
 * has no room for them: ${message}, of CLOCALKAFKA_MESSAGE_SIZE bytes, then says why.
 */
clocalkafka_mock *clocalkafka_mock_new(int broker_count, char *message);
/* clocalkafka_mock_bootstrap_servers: lives as long as the broker. */
const char *clocalkafka_mock_bootstrap_servers(const clocalkafka_mock *mock);
/* clocalkafka_mock_create_topic: 0, or -1 where there is one or the name is none. */
int clocalkafka_mock_create_topic(clocalkafka_mock *mock, const char *topic, int partition_count);
/*
 * clocalkafka_mock_push_errors(mock, api, codes, count):
 * Answer the next ${count} requests of the kind ${api} with ${codes}, one each.
 */
void clocalkafka_mock_push_errors(clocalkafka_mock *mock, int16_t api, const int32_t *codes,
                                  size_t count);
void clocalkafka_mock_clear_errors(clocalkafka_mock *mock, int16_t api);
/* clocalkafka_mock_set_round_trip: 0, or -1 where there is no such broker. */
int clocalkafka_mock_set_round_trip(clocalkafka_mock *mock, int32_t broker, int milliseconds);
/* clocalkafka_mock_set_leader: 0, or -1; the broker -1 is none. */
int clocalkafka_mock_set_leader(clocalkafka_mock *mock, const char *topic, int32_t partition,
                                int32_t broker);
void clocalkafka_mock_close(clocalkafka_mock *mock);

#endif
