/* The life of a worker: its handles, their threads, and its statistics. */
#include "ckafka_worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RETIRE_MS = 60000 };

/* Runs inside our own polls too. The text becomes ours. */
static int on_statistics(rd_kafka_t *rk, char *json, size_t count, void *opaque)
{
    ckafka_worker *w = ((watch *)opaque)->owner;
    if (w->statistics)
        rd_kafka_mem_free(rk, w->statistics);
    w->statistics = json;
    w->statistics_count = count;
    return 1;
}

static int subscribe(ckafka_worker *w, ckafka_fault *fault)
{
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_new((int)w->sources.count);
    for (size_t i = 0; i < w->sources.count; i++)
        rd_kafka_topic_partition_list_add(list, w->sources.items[i], RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(w->consumer, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code)
        return ck_fail(fault, CKAFKA_FAULT_MISCONFIGURED, code, "the topics cannot be subscribed to");
    return 0;
}

static int open_consumer(ckafka_worker *w, const char *settings, ckafka_fault *fault)
{
    static const uint64_t one = 1;
    rd_kafka_conf_t *conf = ck_configure(settings, &w->watch, fault);
    if (!conf)
        return -1;
    rd_kafka_conf_set_rebalance_cb(conf, ck_worker_on_rebalance);
    rd_kafka_conf_set_stats_cb(conf, on_statistics);
    w->consumer = ck_open_handle(RD_KAFKA_CONSUMER, conf, false, &w->watch, fault);
    if (!w->consumer)
        return -1;
    rd_kafka_poll_set_consumer(w->consumer);
    w->main_queue = rd_kafka_queue_get_consumer(w->consumer);
    w->records = rd_kafka_queue_new(w->consumer);
    rd_kafka_queue_io_event_enable(w->main_queue, w->wake_descriptor, &one, sizeof one);
    rd_kafka_queue_io_event_enable(w->records, w->wake_descriptor, &one, sizeof one);
    return 0;
}

static void free_worker(ckafka_worker *w)
{
    close(w->wake_descriptor);
    ck_intake_free(&w->in);
    ck_free_kept_headers(&w->kept);
    free(w->event_partitions);
    free(w->early);
    free(w->refusals);
    rd_kafka_mem_free(NULL, w->statistics);
    rd_kafka_mem_free(NULL, w->shown_statistics);
    free(w->user);
    free(w->password);
    free(w->group);
    ck_names_free(&w->sources);
    ck_watch_close(&w->watch);
    free(w);
}

ckafka_worker *ckafka_worker_new(const char *settings, struct rd_kafka_s *inquirer,
                                 const char *sources, int32_t watchdog_ms, ckafka_fault *fault)
{
    ckafka_worker *w = ck_take_memory(sizeof *w);
    ck_names_read(&w->sources, sources);
    w->refusals = ck_take_memory(sizeof *w->refusals * (w->sources.count + 1));
    w->watchdog_ms = watchdog_ms;
    w->inquirer = inquirer;
    (void)ck_is_set_back(&w->clock_lead_ms);
    w->user = ck_setting_of(settings, "sasl.username");
    w->password = ck_setting_of(settings, "sasl.password");
    w->group = ck_setting_of(settings, "group.id");
    ck_watch_open(&w->watch, w);
    w->wake_descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->wake_descriptor < 0) {
        ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no descriptor");
        goto failed;
    }
    w->watch.wake_descriptor = w->wake_descriptor;
    if (open_consumer(w, settings, fault))
        goto failed;
    if (subscribe(w, fault))
        goto failed;
    return w;
failed:
    if (w->main_queue)
        rd_kafka_queue_destroy(w->main_queue);
    if (w->records)
        rd_kafka_queue_destroy(w->records);
    if (w->consumer)
        rd_kafka_destroy_flags(w->consumer, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    if (ck_retired_all(&w->watch, 0))
        free_worker(w);
    return NULL;
}

int ckafka_worker_wake_descriptor(const ckafka_worker *w)
{
    return w->wake_descriptor;
}

void ckafka_worker_forget_wakes(const ckafka_worker *w)
{
    ck_calm(w->wake_descriptor);
}

struct rd_kafka_s *ckafka_worker_consumer(const ckafka_worker *w)
{
    return w->consumer;
}

size_t ckafka_worker_take_statistics(ckafka_worker *w, const char **json)
{
    rd_kafka_mem_free(NULL, w->shown_statistics);
    w->shown_statistics = w->statistics;
    w->statistics = NULL;
    *json = w->shown_statistics;
    return w->shown_statistics ? w->statistics_count : 0;
}

int ckafka_worker_check_fatal(const ckafka_worker *w, ckafka_fault *fault)
{
    char text[360];
    rd_kafka_resp_err_t code = rd_kafka_fatal_error(w->consumer, text, sizeof text);
    bool is_fence = code == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;
    return code ? ck_fail(fault, is_fence ? CKAFKA_FAULT_FENCED : CKAFKA_FAULT_UNUSABLE, code, text) : 0;
}

int ckafka_worker_is_away(const ckafka_worker *w)
{
    return atomic_load(&w->watch.is_away);
}

const char *ckafka_worker_refusal(const ckafka_worker *w)
{
    const refusal *oldest = NULL;
    for (size_t i = 0; i <= w->sources.count; i++)
        if (w->refusals[i].since && (!oldest || w->refusals[i].since < oldest->since))
            oldest = &w->refusals[i];
    return oldest ? oldest->text : NULL;
}

int ckafka_worker_login_refusal(ckafka_worker *w, char *text, size_t size)
{
    return ck_watch_refusal(&w->watch, REFUSAL_KEPT_MS, text, size);
}

int ckafka_worker_is_assigning(const ckafka_worker *w)
{
    return w->event == CKAFKA_EVENT_ASSIGN && !w->is_event_shown;
}

size_t ckafka_worker_take_notes(ckafka_worker *w, ckafka_note *notes, size_t capacity)
{
    return ck_watch_take(&w->watch, notes, capacity);
}

/* The part of closing that may hang. */
static bool depart(void *argument)
{
    ckafka_worker *w = argument;
    ck_worker_drop_early(w);
    ck_worker_drop_holdings(w);
    ck_worker_finish_event(w);
    rd_kafka_consumer_close(w->consumer);
    rd_kafka_queue_destroy(w->main_queue);
    rd_kafka_queue_destroy(w->records);
    ck_retire(w->consumer, &w->watch, NULL, NULL);
    return ck_retired_all(&w->watch, RETIRE_MS);
}

int ckafka_worker_close(ckafka_worker *w, int deadline_ms)
{
    w->is_closing = true;
    if (!ck_run_within(depart, w, deadline_ms))
        return 0;
    free_worker(w);
    return 1;
}
