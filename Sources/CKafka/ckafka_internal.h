/* What the C files of this target share.  ck_ keeps their names apart from those of other targets
 * in one program. */
#pragma once

#include "ckafka.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The defects worked around here, and the sizes relied upon, are those of one version. */
_Static_assert(RD_KAFKA_VERSION >= 0x020000ff, "librdkafka 2.0 or newer");
_Static_assert(sizeof(void *) == 8, "tags travel as pointers");

enum {
    NOTES_KEPT = 64,
};

/* What the library's own threads report about one handle; its opaque. */
typedef struct watch {
    pthread_mutex_t lock;
    ckafka_note notes[NOTES_KEPT];
    size_t note_start, note_count;
    atomic_int is_away;          /* no broker answers */
    atomic_uint disconnect_count; /* connections lost since the handle was made */
    atomic_int retiring_count;    /* handles that may still write notes */
    atomic_int user_count;        /* who still uses the handle; it is not destroyed before */
    _Atomic(rd_kafka_t *) current, probed; /* the handle, and the one that a probe asks */
    int wake_descriptor;          /* written when brokers are back, for which they are probed; 0: they are not */
    char refusal[300];           /* why a broker that is there does not let us in */
    int64_t refused_at;
    void *owner;                 /* for rebalance and delivery callbacks */
} watch;

/* A batch as it is filled; grows to the largest batch, and shrinks after an unusual one. */
typedef struct intake {
    uint8_t *arena;
    size_t arena_count, arena_capacity;
    ckafka_record *records;
    size_t record_count, record_capacity;
    ckafka_position *ends;
    size_t end_count, end_capacity;
} intake;

/* Headers as the library made them, one list a record read since the last transaction was handed
 * over: an output that has its record's headers takes them along, and they are not made again. */
typedef struct kept_headers {
    rd_kafka_headers_t **items; /* null where they were taken along */
    size_t count, capacity;
} kept_headers;

/* Where outputs go to, and where what they refer to lies. */
typedef struct outlet {
    rd_kafka_t *rk;
    rd_kafka_topic_t **topics;
    const uint8_t *arena;
    bool is_lent;       /* the arena stays as it is until every output had its delivery report */
    int64_t now_ms;     /* of outputs that have no time */
    kept_headers *kept; /* null where there are none */
} outlet;

typedef struct names {
    char **items;
    size_t count;
} names;

void ck_watch_open(watch *w, void *owner);
void ck_watch_close(watch *w);
void ck_watch_note(watch *w, int level, const char *facility, const char *text);
/* Why a broker has not let us in; false where none has refused so lately.  It is knocked at every second, but
 * of what stays the same the library tells every 30 s: a question must be sure that it is still so, who only
 * waits is not. */
enum { REFUSAL_FRESH_MS = 5000, REFUSAL_KEPT_MS = 45000 };
bool ck_watch_refusal(watch *w, int64_t age_ms, char *text, size_t size);
size_t ck_watch_take(watch *w, ckafka_note *notes, size_t capacity);

int ck_fail(ckafka_fault *fault, int kind, int code, const char *message);
/* Tells a fault that was kept behind records, once: -1, or 0 where there is none. */
int ck_tell_held(ckafka_fault *held, ckafka_fault *fault);
/* Ends the process with a sentence: something on which memory safety rests is not so. */
_Noreturn void ck_broken(const char *sentence);
/* Whether an error says that a right or a topic is missing, which waiting alone does not mend. */
bool ck_is_refusal(rd_kafka_resp_err_t code);
/* The sentence for it; ${what} is the topic, the group or the transactional id. */
void ck_refusal_text(char *text, size_t size, rd_kafka_resp_err_t code, const char *what);
/* Whether an error says that records arrived and cannot be read.  librdkafka drops them and reads
   on: going on would step over them, so it is never taken for a broker that is away. */
int ck_is_damage(rd_kafka_resp_err_t code);

/* A configuration from a list, callbacks of ${w} set; null with a fault. */
rd_kafka_conf_t *ck_configure(const char *settings, watch *w, ckafka_fault *fault);

/* A copy of a list; the caller's to free. */
char *ck_settings_copy(const char *settings);

/* The value of a setting in a list, "none" without one; the caller's to free. */
char *ck_setting_of(const char *settings, const char *name);

/* A handle; ${conf} is taken in any case, ${is_intercepted} where it has an interceptor.  ${w} is the opaque
 * of ${conf}: where it is retiring after a failure, the memory that it lies in must stay. */
rd_kafka_t *ck_open_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf, bool is_intercepted, watch *w,
                           ckafka_fault *fault);

/* Broker threads of 2.0.2 sleep up to a second where they found the consumer's queue full, or a partition
 * not yet to be fetched: they wait for an operation, and not for that.  Setting credentials, those in use
 * or any where SASL is off, is the one public call that wakes all of them without traffic: 56,000 to
 * 198,000 records/s with a small queue. */
void ck_wake_brokers(rd_kafka_t *rk, const char *user, const char *password);

/* Runs ${work} on a thread of its own, and waits for it until ${deadline_ms} have passed.  Whether it
 * ended by then with true; else it goes on by itself, and what it uses must stay. */
bool ck_run_within(bool (*work)(void *), void *argument, int deadline_ms);
/* Destroys a handle on a thread of its own: rd_kafka_destroy of 2.0.2 may hang after a broker
 * outage (#4519, #4674), and nobody waits for it.  ${free_after}, null for none, is called after it with
 * what the handle's threads and messages may still use. */
void ck_retire(rd_kafka_t *rk, watch *w, void (*free_after)(void *), void *used);
/* Leaves a handle that must not be destroyed to the process's end, and its watch with it. */
void ck_abandon(watch *w);
/* Waits for the retired handles of a watch; false if some still hang. */
bool ck_retired_all(watch *w, int wait_ms);

void ck_names_read(names *n, const char *list);
void ck_names_free(names *n);
int ck_names_index(const names *n, const char *name); /* -1: none */

void ck_intake_reset(intake *in);
void ck_intake_free(intake *in);
/* Copies a message: key, value and headers.  A single short header is detached from it and kept as
 * well, where ${kept} is not null. */
void ck_intake_add(intake *in, rd_kafka_message_t *message, int topic, kept_headers *kept);
void ck_intake_end(intake *in, int topic, int32_t partition, int64_t offset);
void ck_intake_show(const intake *in, ckafka_batch *batch);
void ck_drop_kept_headers(kept_headers *kept);
void ck_free_kept_headers(kept_headers *kept);

/* A list of the library's from one in an arena. */
rd_kafka_headers_t *ck_read_headers(const uint8_t *at, size_t count);
/* Hands one output to the library with these headers, null for none, which it takes where it takes the
 * output. */
rd_kafka_resp_err_t ck_produce(const outlet *out, const ckafka_output *output,
                               rd_kafka_headers_t *headers, void *opaque);
/* The same with the output's own headers. */
rd_kafka_resp_err_t ck_produce_output(const outlet *out, const ckafka_output *output, void *opaque);
/* Hands the first of ${outputs} over in one call, as far as they are alike: one topic, one
 * partition or none, no headers and no time of their own.  Returns how many were taken from the front on, 0 also
 * where there is no such run; then ${code} says why the next one was not, 0 where it was not tried.
 * ${taken} is how many were taken in all: more where one was refused for itself, behind which others
 * went on. */
size_t ck_produce_run(const outlet *out, const ckafka_output *outputs, size_t count, void *opaque,
                      size_t *taken, rd_kafka_resp_err_t *code);

/* Whether an error says that somebody else has our transactional id. */
bool ck_is_fence(rd_kafka_resp_err_t code);
void ck_pause_ms(int milliseconds);

int64_t ck_now_ms(void); /* monotonic */
int64_t ck_wall_ms(void);
/* Whether the wall clock was set back since the call before, of which ${lead_ms} is what it left. */
bool ck_is_set_back(int64_t *lead_ms);
/* A condition on the monotonic clock, and a wait for it of at most so long, under its lock. */
void ck_open_condition(pthread_cond_t *condition);
void ck_wait_condition(pthread_cond_t *condition, pthread_mutex_t *lock, int milliseconds);
void ck_calm(int descriptor); /* forgets wakes so far */
/* Waits until ${descriptor} is readable, at most ${wait_ms}. */
void ck_wait_readable(int descriptor, int64_t wait_ms);
void *ck_take_memory(size_t size); /* calloc or abort: a worker without memory cannot go on */
void *ck_grow(void *memory, size_t size);
