/* Who has a static member's name, when Kafka says that it is not the member that asks. */
#include "ckafka_internal.h"

#include <stdio.h>
#include <string.h>

enum { HOLDER_MS = 3000 };

void ck_remember_member(rd_kafka_t *consumer)
{
    watch *w = rd_kafka_opaque(consumer);
    char *id = rd_kafka_memberid(consumer);
    pthread_mutex_lock(&w->lock);
    if (id && *id)
        snprintf(w->member_id, sizeof w->member_id, "%s", id);
    pthread_mutex_unlock(&w->lock);
    rd_kafka_mem_free(consumer, id);
}

/* Whether the member is the one that has our name, and not by our own last id. */
static bool is_other(rd_kafka_t *consumer, const rd_kafka_MemberDescription_t *member)
{
    char name[256] = "";
    size_t size = sizeof name;
    rd_kafka_conf_get(rd_kafka_conf(consumer), "group.instance.id", name, &size);
    const char *its_name = rd_kafka_MemberDescription_group_instance_id(member);
    if (!its_name || strcmp(its_name, name) != 0)
        return false;
    watch *w = rd_kafka_opaque(consumer);
    pthread_mutex_lock(&w->lock);
    bool is_own = strcmp(rd_kafka_MemberDescription_consumer_id(member), w->member_id) == 0;
    pthread_mutex_unlock(&w->lock);
    return !is_own;
}

/* Whether somebody else has our name; so it is taken, too, where the group does not answer. */
static bool is_name_taken(rd_kafka_t *consumer)
{
    char group[256] = "", text[200];
    size_t size = sizeof group;
    rd_kafka_conf_get(rd_kafka_conf(consumer), "group.id", group, &size);
    const char *groups[] = {group};
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(consumer, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    rd_kafka_AdminOptions_set_request_timeout(options, HOLDER_MS, text, sizeof text);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
    rd_kafka_DescribeConsumerGroups(consumer, groups, 1, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, HOLDER_MS + 1000);
    size_t count = 0;
    const rd_kafka_ConsumerGroupDescription_t **told = NULL;
    if (event && !rd_kafka_event_error(event))
        told = rd_kafka_DescribeConsumerGroups_result_groups(
            rd_kafka_event_DescribeConsumerGroups_result(event), &count);
    bool is_taken = count != 1 || rd_kafka_ConsumerGroupDescription_error(told[0]);
    for (size_t i = 0;
         !is_taken && i < rd_kafka_ConsumerGroupDescription_member_count(told[0]); i++)
        is_taken = is_other(consumer, rd_kafka_ConsumerGroupDescription_member(told[0], i));
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
    return is_taken;
}

/* Where no heartbeat was answered for a whole session, librdkafka ends the session by itself and
 * forgets its member id.  Until the lost partitions are given back it goes on with heartbeats, which
 * name nobody then; a coordinator that is back from an outage, and still knows the member, calls
 * that fenced, and for the library it is fatal (#3437).  There is no other instance to wait for. */
int ck_fail_fatal(rd_kafka_t *consumer, ckafka_fault *fault)
{
    char text[360];
    rd_kafka_resp_err_t code = rd_kafka_fatal_error(consumer, text, sizeof text);
    if (!code)
        return 0;
    if (code != RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
        return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code, text);
    if (is_name_taken(consumer))
        return ck_fail(fault, CKAFKA_FAULT_FENCED, code, text);
    return ck_fail(fault, CKAFKA_FAULT_UNUSABLE, code,
                   "the session ended while Kafka was away, and the client library cannot begin "
                   "another: a restart does");
}
