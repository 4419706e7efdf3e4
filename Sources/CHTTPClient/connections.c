/* The connections of a client, and when the packets of what is written to them go out. */
#include "internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * libcurl writes each frame of HTTP/2 by itself, two a request.  Held back (1), the kernel gathers
 * them until they are let go (0): the peer wakes up for many requests, and answers them together.
 * A socket that does not take the option sends as ever.
 */
void connections_hold(const struct chttp_client *client, int is_held)
{
    size_t index;
    for (index = 0; index < client->held_count; index++)
        setsockopt(client->held_fds[index], IPPROTO_TCP, TCP_CORK, &is_held, sizeof(is_held));
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
