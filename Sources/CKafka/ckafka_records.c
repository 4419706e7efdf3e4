/* The copying of records in and out. */
#include "ckafka_internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    ARENA_KEPT = 8 << 20, /* an arena that one batch made larger is given back */
    HEADER_NULL = -1,
    /* Up to `message.copy.max.bytes`, by default 65,535, the library copies a value into its request
     * and needs the lender's memory no longer than to the delivery report. */
    LENT_MAX = 60000,
    /* One for each record of a full transaction, and none so large that they would weigh. */
    KEPT_HEADERS_MAX = 10000,
    KEPT_HEADERS_BYTE_MAX = 256,
    /* Outputs handed over in one call, and from how many on it costs less than a call for each. */
    RUN_MAX = 128,
    RUN_MIN = 2,
};

/* -- records in ------------------------------------------------------------------------------- */

void ck_intake_reset(intake *in)
{
    if (in->arena_capacity > ARENA_KEPT) {
        free(in->arena);
        in->arena = NULL;
        in->arena_capacity = 0;
    }
    in->arena_count = in->record_count = in->end_count = 0;
}

void ck_intake_free(intake *in)
{
    free(in->arena);
    free(in->records);
    free(in->ends);
    memset(in, 0, sizeof *in);
}

static void intake_reserve(intake *in, size_t count)
{
    if (in->arena_count + count <= in->arena_capacity)
        return;
    size_t capacity = in->arena_capacity ? in->arena_capacity * 2 : 65536;
    while (capacity < in->arena_count + count)
        capacity *= 2;
    in->arena = ck_grow(in->arena, capacity);
    in->arena_capacity = capacity;
}

static void intake_put(intake *in, const void *bytes, size_t count)
{
    if (count == 0)
        return;
    intake_reserve(in, count);
    memcpy(in->arena + in->arena_count, bytes, count);
    in->arena_count += count;
}

static void intake_put_length(intake *in, uint32_t length)
{
    uint8_t bytes[4] = {length, length >> 8, length >> 16, length >> 24};
    intake_put(in, bytes, sizeof bytes);
}

/* How many there are. */
static size_t intake_put_headers(intake *in, const rd_kafka_message_t *message)
{
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    const char *name;
    const void *value;
    size_t count, index = 0;
    for (; !rd_kafka_header_get_all(headers, index, &name, &value, &count); index++) {
        size_t name_count = strlen(name);
        intake_put_length(in, (uint32_t)name_count);
        intake_put(in, name, name_count);
        intake_put_length(in, value ? (uint32_t)count : UINT32_MAX);
        if (value)
            intake_put(in, value, count);
    }
    return index;
}

static int32_t keep_headers(kept_headers *kept, rd_kafka_message_t *message)
{
    rd_kafka_headers_t *headers;
    if (kept->count == KEPT_HEADERS_MAX || rd_kafka_message_detach_headers(message, &headers))
        return -1;
    if (kept->count == kept->capacity) {
        kept->capacity = kept->capacity ? kept->capacity * 2 : 1024;
        kept->items = ck_grow(kept->items, sizeof *kept->items * kept->capacity);
    }
    kept->items[kept->count] = headers;
    return (int32_t)kept->count++;
}

void ck_drop_kept_headers(kept_headers *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        if (kept->items[i])
            rd_kafka_headers_destroy(kept->items[i]);
    kept->count = 0;
}

void ck_free_kept_headers(kept_headers *kept)
{
    ck_drop_kept_headers(kept);
    free(kept->items);
    memset(kept, 0, sizeof *kept);
}

void ck_intake_add(intake *in, rd_kafka_message_t *message, int topic, kept_headers *kept)
{
    if (in->record_count == in->record_capacity) {
        in->record_capacity = in->record_capacity ? in->record_capacity * 2 : 1024;
        in->records = ck_grow(in->records, in->record_capacity * sizeof *in->records);
    }
    ckafka_record *record = &in->records[in->record_count++];
    rd_kafka_timestamp_type_t kind;
    record->topic = topic;
    record->partition = message->partition;
    record->offset = message->offset;
    record->timestamp_ms = rd_kafka_message_timestamp(message, &kind);
    if (kind == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE)
        record->timestamp_ms = -1;
    record->key_start = (int64_t)in->arena_count;
    record->key_count = message->key ? (int64_t)message->key_len : -1;
    if (message->key)
        intake_put(in, message->key, message->key_len);
    record->value_start = (int64_t)in->arena_count;
    record->value_count = message->payload ? (int64_t)message->len : -1;
    if (message->payload)
        intake_put(in, message->payload, message->len);
    record->headers_start = (int64_t)in->arena_count;
    size_t header_count = intake_put_headers(in, message);
    record->headers_count = (int64_t)in->arena_count - record->headers_start;
    record->kept_headers = -1;
    if (kept && header_count == 1 && record->headers_count <= KEPT_HEADERS_BYTE_MAX)
        record->kept_headers = keep_headers(kept, message);
}

void ck_intake_end(intake *in, int topic, int32_t partition, int64_t offset)
{
    if (in->end_count == in->end_capacity) {
        in->end_capacity = in->end_capacity ? in->end_capacity * 2 : 64;
        in->ends = ck_grow(in->ends, in->end_capacity * sizeof *in->ends);
    }
    in->ends[in->end_count++] =
        (ckafka_position){.offset = offset, .topic = topic, .partition = partition};
}

void ck_intake_show(const intake *in, ckafka_batch *batch)
{
    batch->records = in->records;
    batch->record_count = in->record_count;
    batch->ends = in->ends;
    batch->end_count = in->end_count;
    batch->arena = in->arena;
    batch->arena_count = in->arena_count;
}

/* -- records out ------------------------------------------------------------------------------ */

static uint32_t read_length(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

rd_kafka_headers_t *ck_read_headers(const uint8_t *at, size_t count)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(1); /* a trace, mostly, and nothing else */
    const uint8_t *end = at + count;
    while (end - at >= 8) {
        uint32_t name_count = read_length(at);
        const uint8_t *name = at + 4;
        if (name_count > (size_t)(end - name) - 4)
            break;
        at = name + name_count;
        uint32_t value_count = read_length(at);
        at += 4;
        if (value_count == UINT32_MAX) {
            rd_kafka_header_add(headers, (const char *)name, name_count, NULL, HEADER_NULL);
            continue;
        }
        if (value_count > (size_t)(end - at))
            break;
        rd_kafka_header_add(headers, (const char *)name, name_count, at, value_count);
        at += value_count;
    }
    return headers;
}

/* Where bytes lie; null where there are none at all. */
static const void *bytes_at(const outlet *out, int32_t start, int32_t count)
{
    static const uint8_t nothing[1];
    return count < 0 ? NULL : count ? out->arena + start : nothing;
}

static size_t size_of(int32_t count)
{
    return count > 0 ? (size_t)count : 0;
}

static int flags_of(const outlet *out, const ckafka_output *output)
{
    return out->is_lent && size_of(output->value_count) <= LENT_MAX ? 0 : RD_KAFKA_MSG_F_COPY;
}

rd_kafka_resp_err_t ck_produce(const outlet *out, const ckafka_output *output,
                               rd_kafka_headers_t *headers, void *opaque)
{
    /* producev and not produceva: the latter frees headers twice on some errors (#4628). */
    return rd_kafka_producev(
        out->rk, RD_KAFKA_V_RKT(out->topics[output->topic]),
        RD_KAFKA_V_PARTITION(output->partition), RD_KAFKA_V_MSGFLAGS(flags_of(out, output)),
        RD_KAFKA_V_KEY(bytes_at(out, output->key_start, output->key_count),
                       size_of(output->key_count)),
        RD_KAFKA_V_VALUE((void *)bytes_at(out, output->value_start, output->value_count),
                         size_of(output->value_count)),
        RD_KAFKA_V_TIMESTAMP(output->timestamp_ms ? output->timestamp_ms : out->now_ms),
        RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
}

/* Whether produce_batch can take it: that knows no headers, and gives the time itself. */
static bool is_simple(const ckafka_output *output)
{
    return output->headers_count <= 0 && output->timestamp_ms == 0;
}

/* Whether one call can take both.  A call has one partition, or the partitioner's for all: told a
 * partition for each message (RD_KAFKA_MSG_F_PARTITION), 2.0.2 loses one whose partition is not there. */
static bool is_of_run(const ckafka_output *first, const ckafka_output *output)
{
    return output->topic == first->topic
        && (output->partition == first->partition || (output->partition < 0 && first->partition < 0));
}

size_t ck_produce_run(const outlet *out, const ckafka_output *outputs, size_t count, void *opaque,
                      size_t *taken, rd_kafka_resp_err_t *code)
{
    rd_kafka_message_t messages[RUN_MAX];
    int flags = count ? flags_of(out, outputs) : 0;
    size_t run = 0;
    *taken = 0;
    *code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (; run < count && run < RUN_MAX; run++) {
        const ckafka_output *o = &outputs[run];
        if (!is_simple(o) || !is_of_run(outputs, o) || flags_of(out, o) != flags)
            break;
        messages[run] = (rd_kafka_message_t){
            .payload = (void *)bytes_at(out, o->value_start, o->value_count),
            .len = size_of(o->value_count),
            .key = (void *)bytes_at(out, o->key_start, o->key_count),
            .key_len = size_of(o->key_count),
            ._private = opaque,
        };
    }
    if (run < RUN_MIN)
        return 0;
    int32_t partition = outputs->partition < 0 ? RD_KAFKA_PARTITION_UA : outputs->partition;
    *taken = (size_t)rd_kafka_produce_batch(out->topics[outputs->topic], partition, flags, messages,
                                            (int)run);
    /* Where the queue is full, it is for all that follow; another error is one record's own. */
    size_t done = 0;
    while (done < run && !messages[done].err)
        done++;
    if (done < run)
        *code = messages[done].err;
    return done;
}

rd_kafka_resp_err_t ck_produce_output(const outlet *out, const ckafka_output *output, void *opaque)
{
    rd_kafka_headers_t *headers = NULL, **kept = NULL;
    if (out->kept && output->kept_headers >= 0 && (size_t)output->kept_headers < out->kept->count)
        kept = &out->kept->items[output->kept_headers];
    if (kept && *kept)
        headers = *kept;
    else if (output->headers_count > 0)
        headers = ck_read_headers(out->arena + output->headers_start,
                                  (size_t)output->headers_count);
    rd_kafka_resp_err_t code = ck_produce(out, output, headers, opaque);
    /* Headers are taken over only on success. */
    if (kept && headers == *kept) {
        if (!code)
            *kept = NULL;
    } else if (code && headers) {
        rd_kafka_headers_destroy(headers);
    }
    return code;
}
