/* Answers, and the ways of not giving one. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { TORN_BLOCK_BYTE_COUNT = 16 << 10 };

static struct connection *find_held(struct chttp_server *server, uint64_t id)
{
    uint32_t slot = (uint32_t)id;
    struct connection *connection = slot < server->slot_count ? server->slots[slot] : NULL;
    return connection && connection->id == id && connection->stage == STAGE_HELD ? connection
                                                                                 : NULL;
}

static void resume(struct connection *connection)
{
    chttp_set_stage(connection, STAGE_ANSWERING);
    chttp_schedule(connection, DEADLINE_REQUEST);
    connection->server->has_moved = 1;
    MHD_resume_connection(connection->handle);
}

/* A body that ends too early. */

struct torn {
    size_t sent;
    uint8_t bytes[];
};

static ssize_t read_torn(void *closure, uint64_t position, char *buffer, size_t size)
{
    struct torn *torn = closure;
    size_t count;
    if (position >= torn->sent)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    count = torn->sent - (size_t)position;
    if (count > size)
        count = size;
    memcpy(buffer, torn->bytes + position, count);
    return (ssize_t)count;
}

static struct MHD_Response *make_torn(const uint8_t *body, size_t count, size_t sent)
{
    struct MHD_Response *response;
    struct torn *torn = malloc(sizeof(*torn) + sent);
    if (!torn)
        return NULL;
    torn->sent = sent;
    memcpy(torn->bytes, body, sent);
    response = MHD_create_response_from_callback(count, TORN_BLOCK_BYTE_COUNT, read_torn, torn,
                                                 free);
    if (!response)
        free(torn);
    return response;
}

static int add_headers(struct MHD_Response *response, const char *headers, size_t count)
{
    const char *position = headers, *end = headers + count;
    while (position < end) {
        const char *name = position, *value = name + strlen(name) + 1;
        if (MHD_add_response_header(response, name, value) != MHD_YES)
            return -1;
        position = value + strlen(value) + 1;
    }
    return 0;
}

int chttp_server_respond(struct chttp_server *server, uint64_t id, unsigned int status,
                         const char *headers, size_t header_byte_count,
                         const uint8_t *body, size_t body_byte_count, size_t sent)
{
    struct connection *connection = find_held(server, id);
    struct MHD_Response *response;
    if (!connection)
        return 0;
    if (sent < body_byte_count)
        response = make_torn(body, body_byte_count, sent);
    else
        response = MHD_create_response_from_buffer(body_byte_count, (void *)body,
                                                   MHD_RESPMEM_MUST_COPY);
    if (!response || status < 200 || status > 999 ||
        add_headers(response, headers, header_byte_count) != 0 ||
        (server->is_stopping &&
         MHD_add_response_header(response, "Connection", "close") != MHD_YES)) {
        if (response)
            MHD_destroy_response(response);
        chttp_server_reset(server, id);
        return -1;
    }
    connection->answer = response;
    connection->status = status;
    resume(connection);
    return 0;
}

void chttp_server_reset(struct chttp_server *server, uint64_t id)
{
    struct linger abort = {.l_onoff = 1, .l_linger = 0};
    struct connection *connection = find_held(server, id);
    if (!connection)
        return;
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    resume(connection);
}
