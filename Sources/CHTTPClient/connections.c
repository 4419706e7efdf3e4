/* The connections of a client, and when the packets of what is written to them go out. */
#include "internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static void set_corks(const struct chttp_client *client, int is_set)
{
    size_t index;
    for (index = 0; index < client->held_count; index++)
        setsockopt(client->held_fds[index], IPPROTO_TCP, TCP_CORK, &is_set, sizeof(is_set));
}

/*
 * libcurl writes each frame of HTTP/2 by itself, two a request.  Held back, the kernel gathers them
 * until they are released: the peer wakes up for many requests, and answers them together.  A socket
 * that does not take the option sends as ever.
 */
void connections_hold(struct chttp_client *client)
{
    if (!client->is_held)
        set_corks(client, 1);
    client->is_held = 1;
}

void connections_release(struct chttp_client *client)
{
    if (client->is_held)
        set_corks(client, 0);
    client->is_held = 0;
}

/* Called by libcurl: right after it opens a socket, and instead of closing one. */

int connection_opened(void *closure, curl_socket_t fd, curlsocktype purpose)
{
    struct chttp_client *client = closure;
    if (purpose == CURLSOCKTYPE_IPCXN && client->held_count < HELD_COUNT_MAX)
        client->held_fds[client->held_count++] = fd;
    return CURL_SOCKOPT_OK;
}

int connection_close(void *closure, curl_socket_t fd)
{
    struct chttp_client *client = closure;
    size_t index;
    for (index = 0; index < client->held_count; index++)
        if (client->held_fds[index] == fd)
            client->held_fds[index] = client->held_fds[--client->held_count];
    return close(fd);
}
