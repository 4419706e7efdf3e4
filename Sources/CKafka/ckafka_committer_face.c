/* The loop's side of the committer: handing a transaction over, and polling its commit result. */
#include "ckafka_committer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_life(committer *c)
{
    unsigned char bytes[8] = {0};
    if (getentropy(bytes, sizeof bytes) != 0)
        abort(); /* two lives with one mark could take each other's commit for their own */
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(c->life + 2 * i, 3, "%02x", bytes[i]);
}

static void free_committer(committer *c)
{
    ck_transaction_free(&c->transaction);
    free(c->outputs);
    ck_free_kept_headers(&c->kept);
    free(c->positions.items);
    free(c->outcome_positions);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

committer *ck_committer_open(const committer_setup *setup, const char *settings,
                             const int64_t *target_byte_count_max, ckafka_fault *fault)
{
    /* Wrong settings are refused now, not by the thread. */
    if (ckafka_check_settings(settings, fault))
        return NULL;
    committer *c = ck_take_memory(sizeof *c);
    ck_open_condition(&c->changed);
    pthread_mutex_init(&c->lock, NULL);
    c->setup = *setup;
    ck_transaction_prepare(&c->transaction, settings, setup->targets, target_byte_count_max,
                           setup->watch);
    c->transaction.is_transactional = setup->is_transactional;
    c->transaction.is_stopped = ck_committer_is_closing;
    c->transaction.owner = c;
    make_life(c);
    if (pthread_create(&c->thread, NULL, ck_committer_run, c) != 0) {
        free_committer(c);
        ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "no thread");
        return NULL;
    }
    return c;
}

bool ck_committer_is_ready(committer *c)
{
    return atomic_load(&c->is_ready) != 0;
}

unsigned ck_committer_producer_count(committer *c)
{
    return atomic_load(&c->producer_count);
}

int ck_committer_prepare(committer *c, size_t output_count, ckafka_output **outputs,
                         ckafka_fault *fault)
{
    if (ck_committer_check(c, fault))
        return -1;
    pthread_mutex_lock(&c->lock);
    c->is_prepared = c->state == NOTHING;
    pthread_mutex_unlock(&c->lock);
    if (!c->is_prepared)
        return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__STATE,
                       "a transaction is under way already");
    if (output_count > c->output_capacity) {
        free(c->outputs);
        c->outputs = ck_take_memory(sizeof *c->outputs * output_count);
        c->output_capacity = output_count;
    }
    c->output_count = output_count;
    *outputs = c->outputs;
    return 0;
}

int ck_committer_submit(committer *c, const uint8_t *arena, unsigned lent_bit,
                        const ckafka_position *positions, size_t position_count,
                        kept_headers *kept, ckafka_fault *fault)
{
    if (position_count == 0)
        return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__INVALID_ARG,
                    "a transaction without positions: nothing would fence it");
    if (!c->is_prepared)
        return ck_fail(fault, CKAFKA_FAULT_OURS, RD_KAFKA_RESP_ERR__STATE,
                       "a transaction that was not prepared");
    c->is_prepared = false;
    if (ck_committer_check(c, fault) ||
        ck_transaction_check(&c->transaction, c->outputs, c->output_count, fault))
        return -1;
    c->positions.items =
        ck_grow(c->positions.items, sizeof *c->positions.items * position_count);
    memcpy(c->positions.items, positions, sizeof *positions * position_count);
    c->positions.count = position_count;
    kept_headers empty = c->kept; /* since the last transaction ended */
    c->kept = *kept;
    *kept = empty;
    c->arena = arena;
    c->lent_bit = lent_bit;
    atomic_fetch_or(c->setup.lent, lent_bit);
    c->epoch = atomic_load(c->setup.assignment_epoch);
    pthread_mutex_lock(&c->lock);
    c->state = SUBMITTED;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return 0;
}

void ck_committer_discard(committer *c)
{
    pthread_mutex_lock(&c->lock);
    if (c->state == DONE)
        c->state = NOTHING;
    c->is_discarded = c->state != NOTHING;
    pthread_mutex_unlock(&c->lock);
}

bool ck_committer_is_discarding(committer *c)
{
    pthread_mutex_lock(&c->lock);
    bool is_discarding = c->is_discarded;
    pthread_mutex_unlock(&c->lock);
    return is_discarding;
}

int ck_committer_check(committer *c, ckafka_fault *fault)
{
    int phase = atomic_load(&c->transaction.phase);
    int64_t lasted = ck_now_ms() - atomic_load(&c->transaction.phase_since);
    if (phase == ASKING && lasted > UNTOLD_PATIENCE_MS)
        return ckafka_fail_untold(fault, RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT, "",
                                  UNTOLD_PATIENCE_MS / 1000);
    if ((phase == SENDING_OFFSETS || phase == ENDING) && lasted > c->setup.watchdog_ms) {
        char text[120];
        snprintf(text, sizeof text, "%s hangs for more than %d ms: its coordinator does not answer",
                 phase == ENDING ? "ending a transaction" : "sending offsets", c->setup.watchdog_ms);
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, RD_KAFKA_RESP_ERR__TIMED_OUT, text);
    }
    pthread_mutex_lock(&c->lock);
    int result = c->fault.kind ? -1 : 0;
    if (result)
        *fault = c->fault;
    pthread_mutex_unlock(&c->lock);
    return result;
}

int ck_committer_take(committer *c, int wait_ms, ckafka_outcome *outcome, ckafka_fault *fault)
{
    int64_t until = ck_now_ms() + wait_ms;
    memset(outcome, 0, sizeof *outcome);
    for (;;) {
        if (ck_committer_check(c, fault))
            return -1;
        pthread_mutex_lock(&c->lock);
        if (c->state != NOTHING && c->state != DONE && ck_now_ms() < until)
            ck_wait_condition(&c->changed, &c->lock, COMMITTER_LOOK_MS);
        /* Where the thread has given up, its result is not returned any more. */
        bool is_done = c->state == DONE && c->fault.kind == CKAFKA_FAULT_NONE;
        bool is_waiting = c->state != NOTHING && !is_done && !c->is_discarded;
        if (is_done) {
            *outcome = c->outcome;
            c->state = NOTHING;
        }
        pthread_mutex_unlock(&c->lock);
        if (!is_waiting || ck_now_ms() >= until)
            return is_done ? 0 : ck_committer_check(c, fault);
    }
}

bool ck_committer_close(committer *c, int deadline_ms)
{
    int64_t until = ck_now_ms() + deadline_ms;
    pthread_mutex_lock(&c->lock);
    c->is_closing = true;
    pthread_cond_broadcast(&c->changed);
    while (!c->has_ended && ck_now_ms() < until)
        ck_wait_condition(&c->changed, &c->lock, (int)(until - ck_now_ms()));
    bool has_ended = c->has_ended;
    pthread_mutex_unlock(&c->lock);
    if (!has_ended)
        return false;
    pthread_join(c->thread, NULL);
    ck_committer_drop_producer(c);
    free_committer(c);
    return true;
}
