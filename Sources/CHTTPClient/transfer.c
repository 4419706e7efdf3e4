/* One request: the options that libcurl gets, and the result that it returns. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int make_room(struct bytes *bytes, size_t count)
{
    size_t capacity = bytes->capacity ? bytes->capacity : 1024;
    char *larger;
    if (bytes->capacity - bytes->count >= count)
        return 0;
    while (capacity - bytes->count < count)
        capacity *= 2;
    larger = realloc(bytes->bytes, capacity);
    if (!larger)
        return -1;
    bytes->bytes = larger;
    bytes->capacity = capacity;
    return 0;
}

static int append(struct bytes *bytes, const char *data, size_t count)
{
    if (make_room(bytes, count) != 0)
        return -1;
    memcpy(bytes->bytes + bytes->count, data, count);
    bytes->count += count;
    return 0;
}

/* Where room was made. */
static char *copy(struct bytes *bytes, const void *data, size_t count)
{
    char *start = bytes->bytes + bytes->count;
    if (count > 0)
        memcpy(start, data, count);
    bytes->count += count;
    return start;
}

static struct curl_slist *add_line(struct transfer *transfer, struct curl_slist *node,
                                   const char *line)
{
    node->data = copy(&transfer->request, line, strlen(line) + 1);
    node->next = NULL;
    if (transfer->header_lines != node)
        node[-1].next = node;
    return node + 1;
}

struct transfer *transfer_new(struct chttp_client *client)
{
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    if (transfer) {
        transfer->client = client;
        transfer->body_byte_count_max = client->options.body_byte_count_max;
    }
    return transfer;
}

/* libcurl would call a body a form, and ask before sending a large one. */
static const char no_type[] = "Content-Type:", no_question[] = "Expect:";

int transfer_fill(struct transfer *transfer, const struct chttp_client_request *request)
{
    const char *line, *end = request->headers + request->header_byte_count;
    size_t method_count = strlen(request->method) + 1, url_count = strlen(request->url) + 1;
    size_t node_count = 2;
    struct curl_slist *node;
    int has_type = 0;
    for (line = request->headers; line < end; line += strlen(line) + 1)
        node_count++;
    /* All at once: the nodes point into the block, which must not move. */
    if (make_room(&transfer->request,
                  node_count * sizeof(*node) + request->header_byte_count + sizeof(no_type) +
                      sizeof(no_question) + method_count + url_count +
                      request->body_byte_count) != 0)
        return -1;
    transfer->id = request->id;
    transfer->header_lines = node = (struct curl_slist *)(void *)transfer->request.bytes;
    transfer->request.count = node_count * sizeof(*node);
    for (line = request->headers; line < end; line += strlen(line) + 1) {
        has_type |= strncasecmp(line, no_type, sizeof(no_type) - 1) == 0;
        node = add_line(transfer, node, line);
    }
    if (!has_type)
        node = add_line(transfer, node, no_type);
    add_line(transfer, node, no_question);
    transfer->method = copy(&transfer->request, request->method, method_count);
    transfer->url = copy(&transfer->request, request->url, url_count);
    transfer->request_body = copy(&transfer->request, request->body, request->body_byte_count);
    transfer->request_body_byte_count = request->body_byte_count;
    return 0;
}

static void empty(struct bytes *bytes)
{
    bytes->count = 0;
    if (bytes->capacity <= IDLE_BYTE_COUNT_MAX)
        return;
    free(bytes->bytes);
    *bytes = (struct bytes){0};
}

/* For another request: nothing of this one stays but memory and the handle with its options. */
void transfer_empty(struct transfer *transfer)
{
    empty(&transfer->request);
    empty(&transfer->headers);
    empty(&transfer->body);
    transfer->is_sent = transfer->is_cut = 0;
    transfer->session = NULL;
    transfer->stream = 0;
    transfer->is_on_wire = transfer->is_answered = transfer->attempt_count = 0;
    transfer->sent_byte_count = 0;
    transfer->due_us = 0;
    transfer->error = CURLE_OK;
    transfer->status = transfer->http_version = 0;
    transfer->message[0] = 0;
}

void transfer_free(struct transfer *transfer)
{
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    free(transfer->request.bytes);
    free(transfer->headers.bytes);
    free(transfer->body.bytes);
    free(transfer);
}

/* Called by libcurl. */

static int on_connected(void *closure, char *peer, char *local, int peer_port, int local_port)
{
    struct transfer *transfer = closure;
    /*
     * Where a kept connection is reset, libcurl sends again by itself, up to five times.  What may
     * have landed is not for it to repeat: the caller asks first.
     */
    if (transfer->is_sent)
        return CURL_PREREQFUNC_ABORT;
    transfer->is_sent = 1;
    connection_sends(transfer->client, transfer, local_port);
    return CURL_PREREQFUNC_OK;
}

/* -1 where the answer has too many, or memory is out. */
int transfer_add_header(struct transfer *transfer, const char *data, size_t byte_count)
{
    if (transfer->headers.count + byte_count > HEADER_BYTE_COUNT_MAX)
        return -1;
    return append(&transfer->headers, data, byte_count);
}

static size_t on_header(char *data, size_t size, size_t count, void *closure)
{
    struct transfer *transfer = closure;
    size_t byte_count = size * count;
    /* Each answer begins anew: after "100 Continue" comes the one that counts. */
    if (byte_count >= 5 && memcmp(data, "HTTP/", 5) == 0)
        transfer->headers.count = 0;
    return transfer_add_header(transfer, data, byte_count) == 0 ? byte_count : 0;
}

/* Returns how many were added: fewer where the body is cut, or memory is out. */
size_t transfer_add_body(struct transfer *transfer, const char *data, size_t byte_count)
{
    size_t room = transfer->body_byte_count_max - transfer->body.count;
    if (byte_count > room) {
        transfer->is_cut = append(&transfer->body, data, room) == 0;
        return 0;
    }
    return append(&transfer->body, data, byte_count) == 0 ? byte_count : 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *closure)
{
    return transfer_add_body(closure, data, size * count);
}

int is_loopback(const char *url)
{
    static const char *const hosts[] = {"://127.", "://localhost", "://[::1]"};
    size_t index;
    for (index = 0; index < sizeof(hosts) / sizeof(hosts[0]); index++)
        if (strstr(url, hosts[index]))
            return 1;
    return 0;
}

/* Whatever the method of the request before. */
static CURLcode set_method(const struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    int has_body = transfer->request_body_byte_count > 0;
    SET(CURLOPT_HTTPGET, 1L);
    SET(CURLOPT_CUSTOMREQUEST, NULL);
    if (strcmp(transfer->method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
        return CURLE_OK;
    }
    if (strcmp(transfer->method, "GET") == 0 && !has_body)
        return CURLE_OK;
    SET(CURLOPT_CUSTOMREQUEST, transfer->method);
    if (strcmp(transfer->method, "DELETE") == 0 && !has_body)
        return CURLE_OK;
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->request_body_byte_count);
    SET(CURLOPT_POSTFIELDS, transfer->request_body);
    return CURLE_OK;
}

/* What is the same for every connection of a client, whoever speaks over it. */
CURLcode set_connection(CURL *easy, const struct chttp_client *client)
{
    SET(CURLOPT_NOSIGNAL, 1L);
    /* A name is looked up on a thread, which ends when its name servers have let it wait long enough:
     * 18 s of three.  Without this the loop waits for it where the request ends before. */
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    if (client->authority_file)
        SET(CURLOPT_CAINFO, client->authority_file);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)client->options.connect_timeout_ms);
    return CURLE_OK;
}

/* What is the same for every request of a client. */
static CURLcode set_up(struct transfer *transfer, struct chttp_client *client)
{
    CURL *easy = transfer->easy;
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->message);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    /* Each handle keeps both, and requests and answers are small. */
    SET(CURLOPT_BUFFERSIZE, (long)READ_BYTE_COUNT);
    SET(CURLOPT_UPLOAD_BUFFERSIZE, (long)WRITE_BYTE_COUNT);
    SET(CURLOPT_USERAGENT, client->user_agent);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(CURLOPT_TIMEOUT_MS, (long)client->options.total_timeout_ms);
    SET(CURLOPT_SOCKOPTFUNCTION, connection_opened);
    SET(CURLOPT_SOCKOPTDATA, client);
    SET(CURLOPT_CLOSESOCKETFUNCTION, connection_close);
    SET(CURLOPT_CLOSESOCKETDATA, client);
    SET(CURLOPT_PREREQFUNCTION, on_connected);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    return set_connection(easy, client);
}

CURLcode transfer_prepare(struct transfer *transfer, struct chttp_client *client)
{
    CURL *easy = transfer->easy ? transfer->easy : curl_easy_init();
    int is_past_proxies = is_loopback(transfer->url);
    if (!easy)
        return CURLE_OUT_OF_MEMORY;
    if (!transfer->easy) {
        CURLcode failure;
        transfer->easy = easy;
        failure = set_up(transfer, client);
        if (failure != CURLE_OK) {
            curl_easy_cleanup(easy);
            transfer->easy = NULL;
            return failure;
        }
    }
    SET(CURLOPT_URL, transfer->url);
    if (is_past_proxies != transfer->is_past_proxies)
        SET(CURLOPT_NOPROXY, is_past_proxies ? "*" : NULL);
    transfer->is_past_proxies = is_past_proxies;
    /* Wait for a connection that can be shared rather than open one a request; but for a session libcurl
     * would wait for ever. */
    SET(CURLOPT_PIPEWAIT, sessions_are_none(client, transfer->url) ? 1L : 0L);
    SET(CURLOPT_HTTPHEADER, transfer->header_lines);
    return set_method(transfer);
}

void transfer_conclude(struct transfer *transfer, CURLcode error)
{
    /* Only on_connected aborts: the connection was reset. */
    if (error == CURLE_ABORTED_BY_CALLBACK)
        error = CURLE_GOT_NOTHING;
    transfer->error = transfer->is_cut && error == CURLE_WRITE_ERROR ? CURLE_OK : error;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
    curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_VERSION, &transfer->http_version);
}

void transfer_describe(const struct transfer *transfer, struct chttp_client_response *response)
{
    memset(response, 0, sizeof(*response));
    response->id = transfer->id;
    response->error = (int)transfer->error;
    response->message = transfer->message[0] ? transfer->message
                                             : curl_easy_strerror(transfer->error);
    response->outcome = transfer->error == CURLE_OK ? CHTTP_CLIENT_ANSWERED
                        : transfer->is_sent         ? CHTTP_CLIENT_DOUBTFUL
                                                    : CHTTP_CLIENT_NOT_SENT;
    response->status = (unsigned int)transfer->status;
    response->http_major_version = transfer->http_version == CURL_HTTP_VERSION_2_0 ? 2 : 1;
    response->is_cut = transfer->is_cut;
    response->headers = transfer->headers.bytes;
    response->header_byte_count = transfer->headers.count;
    response->body = (const uint8_t *)transfer->body.bytes;
    response->body_byte_count = transfer->body.count;
}

enum chttp_client_error chttp_client_error_of(int error)
{
    switch (error) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return CHTTP_CLIENT_ERROR_URL;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return CHTTP_CLIENT_ERROR_RESOLVE;
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
        return CHTTP_CLIENT_ERROR_CONNECT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return CHTTP_CLIENT_ERROR_TLS_UNTRUSTED;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
        return CHTTP_CLIENT_ERROR_TLS;
    case CURLE_OPERATION_TIMEDOUT:
        return CHTTP_CLIENT_ERROR_TIMEOUT;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        return CHTTP_CLIENT_ERROR_RESET;
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_WEIRD_SERVER_REPLY:
        return CHTTP_CLIENT_ERROR_PROTOCOL;
    default:
        return CHTTP_CLIENT_ERROR_OTHER;
    }
}
