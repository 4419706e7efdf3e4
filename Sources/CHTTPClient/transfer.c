/* One request: the options that libcurl gets, and the result that it returns. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int append(struct bytes *bytes, const char *data, size_t count)
{
    if (bytes->capacity - bytes->count < count) {
        size_t capacity = bytes->capacity ? bytes->capacity : 1024;
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

static int add_line(struct transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->header_lines, line);
    if (!longer)
        return -1;
    transfer->header_lines = longer;
    return 0;
}

struct transfer *transfer_make(struct chttp_client *client,
                               const struct chttp_client_request *request)
{
    const char *line = request->headers, *end = request->headers + request->header_byte_count;
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    int has_type = 0;
    if (!transfer)
        return NULL;
    transfer->id = request->id;
    transfer->body_byte_count_max = client->options.body_byte_count_max;
    transfer->method = strdup(request->method);
    transfer->url = strdup(request->url);
    transfer->request_body_byte_count = request->body_byte_count;
    transfer->request_body = malloc(request->body_byte_count + 1);
    if (!transfer->method || !transfer->url || !transfer->request_body)
        goto failed;
    if (request->body_byte_count > 0)
        memcpy(transfer->request_body, request->body, request->body_byte_count);
    for (; line < end; line += strlen(line) + 1) {
        has_type |= strncasecmp(line, "Content-Type:", 13) == 0;
        if (add_line(transfer, line) != 0)
            goto failed;
    }
    /* libcurl would call a body a form, and ask before sending a large one. */
    if (!has_type && add_line(transfer, "Content-Type:") != 0)
        goto failed;
    if (add_line(transfer, "Expect:") != 0)
        goto failed;
    return transfer;

failed:
    transfer_free(transfer);
    return NULL;
}

void transfer_free(struct transfer *transfer)
{
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->header_lines);
    free(transfer->method);
    free(transfer->url);
    free(transfer->request_body);
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
    return CURL_PREREQFUNC_OK;
}

static size_t on_header(char *data, size_t size, size_t count, void *closure)
{
    struct transfer *transfer = closure;
    size_t byte_count = size * count;
    /* Each answer begins anew: after "100 Continue" comes the one that counts. */
    if (byte_count >= 5 && memcmp(data, "HTTP/", 5) == 0)
        transfer->headers.count = 0;
    if (transfer->headers.count + byte_count > HEADER_BYTE_COUNT_MAX)
        return 0;
    return append(&transfer->headers, data, byte_count) == 0 ? byte_count : 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *closure)
{
    struct transfer *transfer = closure;
    size_t byte_count = size * count;
    size_t room = transfer->body_byte_count_max - transfer->body.count;
    if (byte_count > room) {
        transfer->is_cut = append(&transfer->body, data, room) == 0;
        return 0;
    }
    return append(&transfer->body, data, byte_count) == 0 ? byte_count : 0;
}

static int is_loopback(const char *url)
{
    static const char *const hosts[] = {"://127.", "://localhost", "://[::1]"};
    size_t index;
    for (index = 0; index < sizeof(hosts) / sizeof(hosts[0]); index++)
        if (strstr(url, hosts[index]))
            return 1;
    return 0;
}

static CURLcode set_method(struct transfer *transfer)
{
    CURLcode error;
    if (strcmp(transfer->method, "HEAD") == 0)
        return curl_easy_setopt(transfer->easy, CURLOPT_NOBODY, 1L);
    if (strcmp(transfer->method, "GET") == 0 && transfer->request_body_byte_count == 0)
        return curl_easy_setopt(transfer->easy, CURLOPT_HTTPGET, 1L);
    if (strcmp(transfer->method, "DELETE") == 0 && transfer->request_body_byte_count == 0)
        return curl_easy_setopt(transfer->easy, CURLOPT_CUSTOMREQUEST, transfer->method);
    error = curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                             (curl_off_t)transfer->request_body_byte_count);
    if (error == CURLE_OK)
        error = curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, transfer->request_body);
    if (error == CURLE_OK)
        error = curl_easy_setopt(transfer->easy, CURLOPT_CUSTOMREQUEST, transfer->method);
    return error;
}

/* Sets one option in a ladder that ends with the first failure. */
#define SET(option, value)                                              \
    do {                                                                \
        CURLcode failure = curl_easy_setopt(easy, (option), (value));   \
        if (failure != CURLE_OK)                                        \
            return failure;                                             \
    } while (0)

CURLcode transfer_prepare(struct transfer *transfer, struct chttp_client *client)
{
    CURL *easy = client->spare_count > 0 ? client->spares[--client->spare_count] : curl_easy_init();
    if (!easy)
        return CURLE_OUT_OF_MEMORY;
    transfer->easy = easy;
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->message);
    SET(CURLOPT_URL, transfer->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_TCP_NODELAY, 1L);
    SET(CURLOPT_USERAGENT, client->user_agent);
    if (client->authority_file)
        SET(CURLOPT_CAINFO, client->authority_file);
    if (is_loopback(transfer->url))
        SET(CURLOPT_NOPROXY, "*");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    /* Wait for a connection that can be shared rather than open one a request. */
    SET(CURLOPT_PIPEWAIT, strncmp(transfer->url, "https:", 6) == 0 ? 1L : 0L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)client->options.connect_timeout_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)client->options.total_timeout_ms);
    SET(CURLOPT_HTTPHEADER, transfer->header_lines);
    SET(CURLOPT_PREREQFUNCTION, on_connected);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
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
