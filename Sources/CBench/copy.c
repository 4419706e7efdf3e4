/* The copy loop: the least that consume, produce and commit cost in transactions. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CALL_MS = 30000,
    POLL_MS = 100,
    /* A full consumer queue puts the library's broker threads to sleep; this wakes them, as in
     * the workers (they do it once a batch read). */
    WAKE_EVERY = 1024,
    PARTITION_MAX = 1000,
    TARGET_MAX = 8,
    HEAD_COUNT = 12, /* of an output in the material: its target and two lengths */
};

struct copier {
    const cbench_copy *copy;
    rd_kafka_t *consumer, *producer;
    rd_kafka_topic_t *targets[TARGET_MAX];
    size_t target_count;
    int64_t next[PARTITION_MAX]; /* to be committed; -1: nothing read of it */
    size_t failed_count;
    const uint8_t *material, *material_at, *material_end; /* null: the input itself is written */
    char *message;
    size_t message_size;
};

struct output {
    size_t target;
    const void *key;
    size_t key_count;
    const void *value;
    size_t value_count;
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct copier *c = opaque;
    (void)rk;
    if (message->err)
        c->failed_count++;
}

static int fail_error(struct copier *c, const char *what, rd_kafka_error_t *error)
{
    bench_fail(c->message, c->message_size, what, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return -1;
}

/* The first record for a topic would wait up to a second for its leader. */
static int open_target(struct copier *c, const char *name)
{
    if (c->target_count == TARGET_MAX)
        return bench_fail(c->message, c->message_size, name, "one target too many");
    rd_kafka_topic_t *target = rd_kafka_topic_new(c->producer, name, NULL);
    c->targets[c->target_count++] = target;
    const struct rd_kafka_metadata *metadata;
    rd_kafka_resp_err_t code = rd_kafka_metadata(c->producer, 0, target, &metadata, CALL_MS);
    if (code)
        return bench_fail(c->message, c->message_size, "metadata", rd_kafka_err2str(code));
    rd_kafka_metadata_destroy(metadata);
    return 0;
}

static int open_targets(struct copier *c)
{
    for (const char *at = c->copy->targets; *at; at += strlen(at) + 1)
        if (open_target(c, at))
            return -1;
    return 0;
}

static int open_clients(struct copier *c)
{
    char id[512], instance[512];
    snprintf(id, sizeof id, "%s-%s", c->copy->group, c->copy->instance);
    snprintf(instance, sizeof instance, "%s", c->copy->instance);
    const char *reading[32][2] = {{"group.id", c->copy->group}, {"group.instance.id", instance}};
    const char *writing[32][2] = {
        {"transactional.id", id}, {"transaction.timeout.ms", "40000"}, {"retry.backoff.ms", "5"}};
    memcpy(reading + 2, bench_reading, sizeof reading[0] * bench_reading_count);
    memcpy(writing + 3, bench_writing, sizeof writing[0] * bench_writing_count);
    c->consumer = bench_open(RD_KAFKA_CONSUMER, reading, bench_reading_count + 2,
                             c->copy->settings, NULL, c, c->message, c->message_size);
    c->producer = bench_open(RD_KAFKA_PRODUCER, writing, bench_writing_count + 3,
                             c->copy->settings, on_delivery, c, c->message, c->message_size);
    if (!c->consumer || !c->producer)
        return -1;
    rd_kafka_poll_set_consumer(c->consumer);
    rd_kafka_error_t *error = rd_kafka_init_transactions(c->producer, CALL_MS);
    if (error)
        return fail_error(c, "init_transactions", error);
    if (open_targets(c))
        return -1;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, c->copy->source, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(c->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    return code ? bench_fail(c->message, c->message_size, "subscribe", rd_kafka_err2str(code)) : 0;
}

static int open_material(struct copier *c)
{
    struct stat state;
    if (c->copy->is_skipping || !*c->copy->material)
        return 0;
    int fd = open(c->copy->material, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &state) == 0 && state.st_size > 0)
        bytes = mmap(NULL, (size_t)state.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (bytes == MAP_FAILED)
        return bench_fail(c->message, c->message_size, c->copy->material, strerror(errno));
    close(fd);
    c->material = c->material_at = bytes;
    c->material_end = c->material + state.st_size;
    return 0;
}

static uint32_t read_count(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The next output in the material. */
static void take_output(struct copier *c, struct output *out)
{
    const uint8_t *at = c->material_at;
    out->target = read_count(at);
    out->key_count = read_count(at + 4);
    out->value_count = read_count(at + 8);
    out->key = at + HEAD_COUNT;
    out->value = at + HEAD_COUNT + out->key_count;
    c->material_at = (const uint8_t *)out->value + out->value_count;
}

static int produce(struct copier *c, const struct output *out, int32_t partition,
                   rd_kafka_headers_t *headers)
{
    for (;;) {
        rd_kafka_resp_err_t code = rd_kafka_producev(
            c->producer, RD_KAFKA_V_RKT(c->targets[out->target]), RD_KAFKA_V_PARTITION(partition),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(out->key, out->key_count),
            RD_KAFKA_V_VALUE((void *)out->value, out->value_count),
            RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (!code)
            return 0;
        if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            return bench_fail(c->message, c->message_size, "produce", rd_kafka_err2str(code));
        rd_kafka_poll(c->producer, POLL_MS);
    }
}

/* Produces the input itself, or what the worker wrote for the next input: nothing for some. */
static int copy_record(struct copier *c, rd_kafka_message_t *m)
{
    struct output out = {0, m->key, m->key_len, m->payload, m->len};
    size_t count = 1;
    rd_kafka_headers_t *headers = NULL;
    if (c->material) {
        if (c->material_at == c->material_end)
            c->material_at = c->material;
        count = read_count(c->material_at);
        c->material_at += 4;
    }
    for (size_t i = 0; i < count; i++) {
        if (c->material)
            take_output(c, &out);
        /* Handed on as they are, the cheapest that the library knows; a changelog has none. */
        rd_kafka_resp_err_t code =
            i == 0 ? rd_kafka_message_detach_headers(m, &headers) : RD_KAFKA_RESP_ERR__NOENT;
        if (code && code != RD_KAFKA_RESP_ERR__NOENT)
            return bench_fail(c->message, c->message_size, "headers", rd_kafka_err2str(code));
        bool is_changelog = c->copy->has_changelog && out.target == c->target_count - 1;
        if (produce(c, &out, is_changelog ? m->partition : RD_KAFKA_PARTITION_UA, headers))
            return -1;
        headers = NULL;
    }
    c->next[m->partition] = m->offset + 1;
    return 0;
}

static void wake_broker_threads(struct copier *c)
{
    rd_kafka_error_t *error = rd_kafka_sasl_set_credentials(c->consumer, "none", "none");
    if (error)
        rd_kafka_error_destroy(error);
}

static int commit(struct copier *c)
{
    rd_kafka_consumer_group_metadata_t *metadata = rd_kafka_consumer_group_metadata(c->consumer);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < PARTITION_MAX; i++)
        if (c->next[i] >= 0)
            rd_kafka_topic_partition_list_add(list, c->copy->source, i)->offset = c->next[i];
    rd_kafka_error_t *error =
        rd_kafka_send_offsets_to_transaction(c->producer, list, metadata, -1);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_consumer_group_metadata_destroy(metadata);
    if (error)
        return fail_error(c, "send_offsets_to_transaction", error);
    error = rd_kafka_commit_transaction(c->producer, -1);
    if (error)
        return fail_error(c, "commit_transaction", error);
    return c->failed_count ? bench_fail(c->message, c->message_size, "produce", "not stored") : 0;
}

/* Reads and produces one batch; 1 when there is something to commit. */
static int copy_batch(struct copier *c)
{
    int64_t until = 0;
    size_t count = 0;
    while (count < c->copy->batch_record_max) {
        int64_t left = count ? (until - bench_now_us()) / 1000 : POLL_MS;
        rd_kafka_message_t *m = left > 0 ? rd_kafka_consumer_poll(c->consumer, (int)left) : NULL;
        if (!m)
            break;
        if (m->err) {
            int result = bench_fail(c->message, c->message_size, "consume",
                                    rd_kafka_message_errstr(m));
            rd_kafka_message_destroy(m);
            return result;
        }
        if (count == 0) {
            until = bench_now_us() + (int64_t)c->copy->batch_wait_ms * 1000;
            rd_kafka_error_t *error = rd_kafka_begin_transaction(c->producer);
            if (error)
                return fail_error(c, "begin_transaction", error);
        }
        int result = m->partition < PARTITION_MAX ? copy_record(c, m) : -1;
        rd_kafka_message_destroy(m);
        if (result)
            return -1;
        if (++count % WAKE_EVERY == 0) {
            wake_broker_threads(c);
            rd_kafka_poll(c->producer, 0);
        }
    }
    return count > 0;
}

/* Moves the group to the ends of its partitions; 1 when that is to be committed. */
static int skip(struct copier *c)
{
    rd_kafka_topic_partition_list_t *list;
    rd_kafka_message_t *m = rd_kafka_consumer_poll(c->consumer, POLL_MS);
    if (m)
        rd_kafka_message_destroy(m);
    rd_kafka_resp_err_t code = rd_kafka_assignment(c->consumer, &list);
    if (code)
        return bench_fail(c->message, c->message_size, "assignment", rd_kafka_err2str(code));
    int count = list->cnt;
    for (int i = 0; i < count && !code; i++) {
        int64_t start, end;
        code = rd_kafka_query_watermark_offsets(c->consumer, c->copy->source,
                                                list->elems[i].partition, &start, &end, CALL_MS);
        c->next[list->elems[i].partition] = end;
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (code)
        return bench_fail(c->message, c->message_size, "watermarks", rd_kafka_err2str(code));
    if (count == 0)
        return 0;
    rd_kafka_error_t *error = rd_kafka_begin_transaction(c->producer);
    return error ? fail_error(c, "begin_transaction", error) : 1;
}

int cbench_copy_run(const cbench_copy *copy, char *message, size_t message_size)
{
    struct copier *c = bench_take_memory(sizeof *c);
    c->copy = copy;
    c->message = message;
    c->message_size = message_size;
    for (size_t i = 0; i < PARTITION_MAX; i++)
        c->next[i] = -1;
    if (open_clients(c) || open_material(c))
        return -1;
    for (;;) {
        int result = copy->is_skipping ? skip(c) : copy_batch(c);
        if (result < 0 || (result > 0 && commit(c)))
            return -1;
        if (result > 0 && copy->is_skipping)
            return 0; /* the process ends with it: nothing is freed */
    }
}
