/* The connections that libcurl has requests on, and which of them are dead. */
#include "internal.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int local_port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t byte_count = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &byte_count) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return address.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&address)->sin_port) : 0;
}

/* NULL where it is not among the known. */
static struct connection *connection_at(struct chttp_client *client, int local_port)
{
    size_t index;
    for (index = 0; index < client->connection_count; index++) {
        struct connection *connection = &client->connections[index];
        if (connection->local_port == 0)
            connection->local_port = local_port_of(connection->fd);
        if (connection->local_port == local_port && local_port > 0)
            return connection;
    }
    return NULL;
}

void connection_sends(struct chttp_client *client, struct transfer *transfer, int local_port)
{
    const struct connection *connection = connection_at(client, local_port);
    transfer->local_port = local_port;
    transfer->answer_count = connection ? connection->answer_count : 0;
}

/*
 * Counts the answer of a transfer that has ended.  Where its time is over and its connection gave no
 * answer to any request since it was sent, the connection is dead.  libcurl would keep one of HTTP/2
 * and send all further requests there (curl issue 17225); shut down, it ends like one that the peer
 * closed.  Returns its descriptor, on which libcurl must act, or -1.
 */
int connection_hears(struct chttp_client *client, const struct transfer *transfer)
{
    struct connection *connection =
        transfer->is_sent ? connection_at(client, transfer->local_port) : NULL;
    if (!connection)
        return -1;
    if (transfer->error == CURLE_OK)
        connection->answer_count++;
    if (transfer->error != CURLE_OPERATION_TIMEDOUT ||
        connection->answer_count != transfer->answer_count)
        return -1;
    shutdown(connection->fd, SHUT_RDWR);
    return connection->fd;
}

/* Called by libcurl: right after it opens a socket, and instead of closing one. */

int connection_opened(void *closure, curl_socket_t fd, curlsocktype purpose)
{
    struct chttp_client *client = closure;
    if (purpose == CURLSOCKTYPE_IPCXN && client->connection_count < CONNECTION_COUNT_MAX)
        client->connections[client->connection_count++] = (struct connection){.fd = fd};
    return CURL_SOCKOPT_OK;
}

int connection_close(void *closure, curl_socket_t fd)
{
    struct chttp_client *client = closure;
    size_t index;
    for (index = 0; index < client->connection_count; index++)
        if (client->connections[index].fd == fd)
            client->connections[index] = client->connections[--client->connection_count];
    return close(fd);
}
