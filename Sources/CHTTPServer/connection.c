/* Connections: made, timed, dropped. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CAPACITY_FIRST = 4096 };

int64_t chttp_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Bytes. */

int chttp_append(struct bytes *bytes, const char *data, size_t count)
{
    if (count == 0)
        return 0;
    if (bytes->capacity - bytes->count < count) {
        size_t capacity = bytes->capacity ? bytes->capacity : CAPACITY_FIRST;
        char *larger;
        while (capacity - bytes->count < count)
            capacity *= 2;
        larger = realloc(bytes->bytes, capacity);
        if (!larger)
            return -1;
        bytes->bytes = larger;
        bytes->capacity = capacity;
    }
    memcpy(bytes->bytes + bytes->count, data, count);
    bytes->count += count;
    return 0;
}

void chttp_empty(struct bytes *bytes)
{
    bytes->count = 0;
    /* A little is kept for the next time. */
    if (bytes->capacity > CAPACITY_FIRST) {
        free(bytes->bytes);
        memset(bytes, 0, sizeof(*bytes));
    }
}

/* Deadlines. */

void chttp_unschedule(struct connection *connection)
{
    struct deadline_list *list;
    if (connection->deadline_kind == DEADLINE_NONE)
        return;
    list = &connection->server->deadlines[connection->deadline_kind];
    if (connection->earlier)
        connection->earlier->later = connection->later;
    else
        list->first = connection->later;
    if (connection->later)
        connection->later->earlier = connection->earlier;
    else
        list->last = connection->earlier;
    connection->earlier = connection->later = NULL;
    connection->deadline_kind = DEADLINE_NONE;
}

void chttp_schedule(struct connection *connection, enum deadline_kind kind)
{
    struct deadline_list *list = &connection->server->deadlines[kind];
    chttp_unschedule(connection);
    connection->deadline_kind = kind;
    connection->deadline_ms = chttp_now_ms() + list->duration_ms;
    connection->earlier = list->last;
    if (list->last)
        list->last->later = connection;
    else
        list->first = connection;
    list->last = connection;
}

/* Lives. */

void chttp_forget_request(struct connection *connection)
{
    connection->server->lanes[connection->lane].byte_count -= connection->lane_byte_count;
    connection->lane_byte_count = 0;
    chttp_empty(&connection->body);
    chttp_empty(&connection->head);
    connection->id = 0;
}

struct connection *chttp_find(struct chttp_server *server, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    struct connection *connection = slot < server->slot_count ? server->slots[slot] : NULL;
    if (!connection || connection->id != id)
        return NULL;
    return connection->stage == STAGE_HELD || connection->stage == STAGE_JUDGED ? connection
                                                                                : NULL;
}

struct connection *chttp_find_stream(struct chttp_server *server, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    struct connection *connection = slot < server->slot_count ? server->slots[slot] : NULL;
    return connection && connection->id == id && connection->stage == STAGE_STREAMING ? connection
                                                                                      : NULL;
}

uint32_t chttp_server_connection_count(const struct chttp_server *server)
{
    return server->slot_count - server->free_slot_count - server->stage_counts[STAGE_DROPPED];
}

struct connection *chttp_connection_make(struct chttp_server *server, int fd)
{
    struct connection *connection;
    if (server->free_slot_count == 0)
        return NULL;
    connection = calloc(1, sizeof(*connection));
    if (!connection)
        return NULL;
    connection->server = server;
    connection->fd = fd;
    connection->deadline_kind = DEADLINE_NONE;
    connection->slot = server->free_slots[--server->free_slot_count];
    server->slots[connection->slot] = connection;
    server->stage_counts[STAGE_OPEN]++;
    return connection;
}

void chttp_connection_free(struct connection *connection)
{
    struct chttp_server *server = connection->server;
    chttp_unschedule(connection);
    chttp_forget_request(connection);
    free(connection->unread.bytes);
    free(connection->head.bytes);
    free(connection->body.bytes);
    free(connection->unsent.bytes);
    server->stage_counts[connection->stage]--;
    server->slots[connection->slot] = NULL;
    server->free_slots[server->free_slot_count++] = connection->slot;
    free(connection);
}

void chttp_set_stage(struct connection *connection, enum stage stage)
{
    struct chttp_server *server = connection->server;
    struct lane *lane = &server->lanes[connection->lane];
    server->stage_counts[connection->stage]--;
    lane->connection_count -= connection->stage == STAGE_BODY;
    connection->stage = stage;
    server->stage_counts[stage]++;
    lane->connection_count += stage == STAGE_BODY;
}

void chttp_drop(struct connection *connection)
{
    if (connection->stage == STAGE_DROPPED)
        return;
    chttp_unschedule(connection);
    /* Its bytes, at once; itself later, as the caller may still look at it. */
    chttp_forget_request(connection);
    chttp_set_stage(connection, STAGE_DROPPED);
    close(connection->fd);
    connection->fd = -1;
    chttp_postpone(connection);
}

void chttp_postpone(struct connection *connection)
{
    struct chttp_server *server = connection->server;
    if (connection->is_pending)
        return;
    connection->is_pending = 1;
    connection->next_pending = NULL;
    if (server->pending_last)
        server->pending_last->next_pending = connection;
    else
        server->pending = connection;
    server->pending_last = connection;
}

void chttp_reap(struct chttp_server *server)
{
    struct connection **link = &server->pending;
    server->pending_last = NULL;
    while (*link) {
        struct connection *connection = *link;
        if (connection->stage == STAGE_DROPPED) {
            *link = connection->next_pending;
            chttp_connection_free(connection);
        } else {
            server->pending_last = connection;
            link = &connection->next_pending;
        }
    }
}
