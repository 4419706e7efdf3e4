/* The producer of ingest: idempotent, never blocking, a receipt for each output. */
#include "ckafka_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    PURGE_MS = 1000,
    PURGE_MS_MIN = 50, /* reports of what was purged are there at once */
    REPLACE_MS = 1500,
    RETIRE_MS_MIN = 100,
};

/* Outputs handed over one after the other with one tag and the same headers.
 *
 * Their messages share one list of headers, though the library takes it for each message's own and
 * frees it with the message: it never writes to a list, and with a message's delivery report the list is
 * detached again.  So no message may end without its report: see close_client.  A list of its own for
 * every record, made, filled and freed, was a fifth of what ingest costs under load. */
typedef struct lot {
    uint64_t tag;
    rd_kafka_headers_t *headers; /* null where there are none */
    size_t holder_count;         /* messages, and whoever fills it */
} lot;

struct ckafka_producer {
    char *settings;
    names targets;
    watch watch;
    int wake_descriptor;
    rd_kafka_t *rk;
    rd_kafka_topic_t **topics;
    bool is_named; /* the library has the targets' names */
    rd_kafka_queue_t *queue;
    size_t queue_byte_count_max;
    size_t waiting_count, waiting_byte_count;
    ckafka_receipt *receipts;
    size_t receipt_count, receipt_capacity, shown_count;
};

static void add_receipt(ckafka_producer *p, uint64_t tag, rd_kafka_resp_err_t code)
{
    if (p->receipt_count > p->shown_count) {
        ckafka_receipt *last = &p->receipts[p->receipt_count - 1];
        if (last->tag == tag && last->code == code && last->output_count < UINT32_MAX) {
            last->output_count++;
            return;
        }
    }
    if (p->receipt_count == p->receipt_capacity) {
        p->receipt_capacity = p->receipt_capacity ? p->receipt_capacity * 2 : 1024;
        p->receipts = ck_grow(p->receipts, sizeof *p->receipts * p->receipt_capacity);
    }
    p->receipts[p->receipt_count++] =
        (ckafka_receipt){.tag = tag, .output_count = 1, .code = code};
}

static lot *open_lot(uint64_t tag, const uint8_t *arena, const ckafka_output *output)
{
    lot *l = ck_take_memory(sizeof *l);
    l->tag = tag;
    l->holder_count = 1;
    if (output->headers_count > 0)
        l->headers =
            ck_read_headers(arena + output->headers_start, (size_t)output->headers_count);
    return l;
}

static void let_go(lot *l)
{
    if (!l || --l->holder_count > 0)
        return;
    if (l->headers)
        rd_kafka_headers_destroy(l->headers);
    free(l);
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    ckafka_producer *p = ((watch *)opaque)->owner;
    lot *l = message->_private;
    rd_kafka_headers_t *headers;
    (void)rk;
    /* Const to the callback, but its headers can be detached. */
    if (rd_kafka_message_detach_headers((rd_kafka_message_t *)message, &headers))
        headers = NULL;
    /* A second report of a message would find its lot freed, or the list given to another. */
    if (p->waiting_count == 0 || headers != l->headers)
        ck_broken("a record had two delivery reports, or another's headers");
    p->waiting_count--;
    p->waiting_byte_count -= message->len + message->key_len;
    /* In the order of the library's events: one that says that all brokers are down may come next. */
    if (!message->err)
        atomic_store(&p->watch.is_away, 0);
    add_receipt(p, l->tag, message->err);
    let_go(l);
}

static int open_topics(ckafka_producer *p, ckafka_fault *fault)
{
    for (size_t i = 0; i < p->targets.count; i++) {
        p->topics[i] = rd_kafka_topic_new(p->rk, p->targets.items[i], NULL);
        if (!p->topics[i])
            return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, rd_kafka_last_error(),
                           p->targets.items[i]);
    }
    return 0;
}

/* Until ${until_ms}; what does not end by then is left to the process's end.  What waits is given up.
 * Destroying the handle frees messages without a report, and their headers with each of them: where a
 * report is missing the handle stays. */
static void close_client(ckafka_producer *p, int64_t until_ms)
{
    if (!p->rk)
        return;
    rd_kafka_purge(p->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                              RD_KAFKA_PURGE_F_NON_BLOCKING);
    int64_t left = until_ms - ck_now_ms();
    rd_kafka_flush(p->rk, left > PURGE_MS ? PURGE_MS : left > PURGE_MS_MIN ? (int)left : PURGE_MS_MIN);
    for (size_t i = 0; i < p->targets.count; i++)
        if (p->topics[i])
            rd_kafka_topic_destroy(p->topics[i]);
    memset(p->topics, 0, sizeof *p->topics * p->targets.count);
    if (p->queue)
        rd_kafka_queue_destroy(p->queue);
    if (p->waiting_count == 0)
        ck_retire(p->rk, &p->watch, NULL, NULL);
    else
        ck_abandon(&p->watch);
    p->rk = NULL;
    p->queue = NULL;
    p->waiting_count = p->waiting_byte_count = 0;
}

static int open_client(ckafka_producer *p, ckafka_fault *fault)
{
    static const uint64_t one = 1;
    rd_kafka_conf_t *conf = ck_configure(p->settings, &p->watch, fault);
    if (!conf)
        return -1;
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    p->rk = ck_open_handle(RD_KAFKA_PRODUCER, conf, false, &p->watch, fault);
    if (!p->rk)
        return -1;
    if (p->is_named && open_topics(p, fault)) {
        close_client(p, ck_now_ms());
        return -1;
    }
    p->queue = rd_kafka_queue_get_main(p->rk);
    rd_kafka_queue_io_event_enable(p->queue, p->wake_descriptor, &one, sizeof one);
    return 0;
}

static void free_producer(ckafka_producer *p)
{
    close(p->wake_descriptor);
    ck_names_free(&p->targets);
    ck_watch_close(&p->watch);
    free(p->settings);
    free(p->topics);
    free(p->receipts);
    free(p);
}

ckafka_producer *ckafka_producer_new(const char *settings, const char *targets,
                                     size_t queue_byte_count_max, ckafka_fault *fault)
{
    ckafka_producer *p = ck_take_memory(sizeof *p);
    p->settings = ck_settings_copy(settings);
    ck_names_read(&p->targets, targets);
    ck_watch_open(&p->watch, p);
    p->topics = ck_take_memory(sizeof *p->topics * (p->targets.count + 1));
    p->queue_byte_count_max = queue_byte_count_max;
    p->wake_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->wake_descriptor < 0) {
        ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no descriptor");
    } else {
        p->watch.wake_descriptor = p->wake_descriptor;
        if (open_client(p, fault) == 0)
            return p;
    }
    if (ck_retired_all(&p->watch, 0))
        free_producer(p);
    return NULL;
}

void ckafka_producer_name_targets(ckafka_producer *p)
{
    /* A topic that cannot be named refuses its outputs. */
    if (!p->is_named && p->rk && open_topics(p, NULL) == 0)
        p->is_named = true;
}

int ckafka_producer_wake_descriptor(const ckafka_producer *p)
{
    return p->wake_descriptor;
}

/* Whether they lie in the same place. */
static bool has_same_headers(const ckafka_output *one, const ckafka_output *other)
{
    return one->headers_start == other->headers_start && one->headers_count == other->headers_count;
}

void ckafka_producer_produce(ckafka_producer *p, const ckafka_output *outputs, size_t count,
                             const uint8_t *arena, const uint64_t *tags)
{
    ckafka_producer_name_targets(p);
    const outlet out = {
        .rk = p->rk, .topics = p->topics, .arena = arena, .now_ms = ck_wall_ms()};
    lot *l = NULL;
    for (size_t i = 0; i < count; i++) {
        const ckafka_output *o = &outputs[i];
        if (!l || tags[i] != tags[i - 1] || !has_same_headers(o, o - 1)) {
            let_go(l);
            l = open_lot(tags[i], arena, o);
        }
        size_t size = (size_t)(o->key_count > 0 ? o->key_count : 0) +
                      (size_t)(o->value_count > 0 ? o->value_count : 0);
        rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR__QUEUE_FULL;
        if (o->topic < 0 || (size_t)o->topic >= p->targets.count)
            code = RD_KAFKA_RESP_ERR__INVALID_ARG;
        else if (!p->rk || !p->topics[o->topic])
            code = RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
        else if (p->waiting_byte_count + size <= p->queue_byte_count_max)
            code = ck_produce(&out, o, l->headers, l);
        if (code) {
            add_receipt(p, tags[i], code);
            ckafka_signal_raise(p->wake_descriptor);
            continue;
        }
        l->holder_count++;
        p->waiting_count++;
        p->waiting_byte_count += size;
    }
    let_go(l);
}

/* After a fatal error nothing waiting will be stored by this client: all of it fails, and a new
 * client takes what comes. What was stored after all is a repeat for dedupe to absorb. */
static int replace_client(ckafka_producer *p, ckafka_fault *fault)
{
    close_client(p, ck_now_ms() + REPLACE_MS);
    /* The new one says it again; who would have seen the brokers come back has ended. */
    atomic_store(&p->watch.is_away, 0);
    return open_client(p, fault);
}

int ckafka_producer_reopen(ckafka_producer *p, const char *settings, ckafka_fault *fault)
{
    free(p->settings);
    p->settings = ck_settings_copy(settings);
    return replace_client(p, fault);
}

int ckafka_producer_take_receipts(ckafka_producer *p, const ckafka_receipt **receipts,
                                  size_t *count, ckafka_fault *fault)
{
    char text[300];
    if (p->shown_count > 0) {
        p->receipt_count -= p->shown_count;
        memmove(p->receipts, p->receipts + p->shown_count, sizeof *p->receipts * p->receipt_count);
        p->shown_count = 0;
    }
    ck_calm(p->wake_descriptor);
    int result = 0;
    if (!p->rk)
        result = open_client(p, fault);
    if (p->rk)
        rd_kafka_poll(p->rk, 0);
    if (p->rk && rd_kafka_fatal_error(p->rk, text, sizeof text)) {
        ck_watch_note(&p->watch, 3, "FATAL", text);
        result = replace_client(p, fault);
    }
    *receipts = p->receipts;
    *count = p->receipt_count;
    p->shown_count = p->receipt_count;
    return result;
}

size_t ckafka_producer_waiting_count(const ckafka_producer *p)
{
    return p->waiting_count;
}

size_t ckafka_producer_waiting_byte_count(const ckafka_producer *p)
{
    return p->waiting_byte_count;
}

int ckafka_producer_is_away(const ckafka_producer *p)
{
    return atomic_load(&p->watch.is_away);
}

int ckafka_producer_login_refusal(ckafka_producer *p, char *text, size_t size)
{
    return ck_watch_refusal(&p->watch, REFUSAL_KEPT_MS, text, size);
}

size_t ckafka_producer_take_notes(ckafka_producer *p, ckafka_note *notes, size_t capacity)
{
    return ck_watch_take(&p->watch, notes, capacity);
}

int ckafka_producer_flush(ckafka_producer *p, int deadline_ms)
{
    if (p->rk)
        rd_kafka_flush(p->rk, deadline_ms);
    return p->waiting_count == 0;
}

void ckafka_producer_close(ckafka_producer *p, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    if (p->rk)
        rd_kafka_flush(p->rk, deadline_ms);
    close_client(p, until);
    /* A handle that hangs may still write notes: then the memory is left to the process's end. */
    int64_t left = until - ck_now_ms();
    if (ck_retired_all(&p->watch, left > RETIRE_MS_MIN ? (int)left : RETIRE_MS_MIN))
        free_producer(p);
}
