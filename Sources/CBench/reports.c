/* The least that sending reports costs: libcurl and, for each, the signature that Apple asks for. */
#include "internal.h"

#include <curl/curl.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { FLIGHT_MAX = 1024, WAIT_MS = 1000, BODY_MAX = 512, HEADER_MAX = 1024 };

/* One request after the other, in an easy handle of its own. */
struct lane {
    CURL *easy;
    struct curl_slist *headers;
    char authorization[HEADER_MAX];
    char body[BODY_MAX];
};

struct sender {
    const cbench_reports *options;
    CURLM *multi;
    EVP_PKEY *key;
    struct lane lanes[FLIGHT_MAX];
    size_t started_count;
    cbench_reports_result *result;
};

static size_t ignore(char *bytes, size_t size, size_t count, void *opaque)
{
    (void)bytes;
    (void)opaque;
    return size * count;
}

/* A header as long as one with a JSON Web Token, signed anew as Apple asks. */
static int authorize(struct sender *s, struct lane *lane)
{
    /* As many bytes as our header and claims, in base64url. */
    static const char claims[] =
        "eyJhbGciOiJFUzI1NiIsImtpZCI6IkJFTkNIS0VZMDAiLCJ0eXAiOiJKV1QifQ."
        "eyJpc3MiOiIwMDAwMDAwMC0wMDAwLTQwMDAtODAwMC0wMDAwMDAwMDAwMDAiLCJpYXQiOjE3OTAwMDAwMDAsImV4"
        "cCI6MTc5MDAwMDMwMCwiYXVkIjoiYXBwc3RvcmVjb25uZWN0LXYxIiwiYmlkIjoiY29tLmV4YW1wbGUifQ";
    unsigned char signature[80];
    size_t count = sizeof signature;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int is_signed = context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, s->key) == 1 &&
                    EVP_DigestSign(context, signature, &count, (const unsigned char *)claims,
                                   sizeof claims - 1) == 1;
    EVP_MD_CTX_free(context);
    if (!is_signed)
        return -1;
    char text[128];
    EVP_EncodeBlock((unsigned char *)text, signature, 64);
    snprintf(lane->authorization, sizeof lane->authorization, "Authorization: Bearer %s.%.86s",
             claims, text);
    return 0;
}

static int start(struct sender *s, struct lane *lane)
{
    size_t number = s->started_count++;
    if (authorize(s, lane) != 0)
        return -1;
    int count = snprintf(lane->body, sizeof lane->body,
                         "{\"requestIdentifier\":\"00000000-0000-4000-8000-%012zx\","
                         "\"externalPurchaseId\":\"00000000-0000-4000-8000-%012zx\","
                         "\"status\":\"NO_LINE_ITEM\"}",
                         number, number);
    curl_easy_setopt(lane->easy, CURLOPT_POSTFIELDSIZE, (long)count);
    return curl_multi_add_handle(s->multi, lane->easy) == CURLM_OK ? 0 : -1;
}

static int open_lane(struct sender *s, struct lane *lane)
{
    lane->easy = curl_easy_init();
    if (!lane->easy || authorize(s, lane) != 0)
        return -1;
    /* The list keeps a copy: its text is ours to write anew for each request. */
    lane->headers = curl_slist_append(NULL, "Accept: application/json");
    lane->headers = curl_slist_append(lane->headers, "Content-Type: application/json");
    lane->headers = curl_slist_append(lane->headers, lane->authorization);
    struct curl_slist *last = lane->headers->next->next;
    free(last->data);
    last->data = lane->authorization;
    curl_easy_setopt(lane->easy, CURLOPT_PRIVATE, lane);
    curl_easy_setopt(lane->easy, CURLOPT_URL, s->options->url);
    curl_easy_setopt(lane->easy, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(lane->easy, CURLOPT_POSTFIELDS, lane->body);
    curl_easy_setopt(lane->easy, CURLOPT_HTTPHEADER, lane->headers);
    curl_easy_setopt(lane->easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(lane->easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(lane->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(lane->easy, CURLOPT_HTTP_VERSION,
                     s->options->is_http1 ? (long)CURL_HTTP_VERSION_1_1
                                          : (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(lane->easy, CURLOPT_PIPEWAIT, s->options->is_http1 ? 0L : 1L);
    if (*s->options->certificate)
        curl_easy_setopt(lane->easy, CURLOPT_CAINFO, s->options->certificate);
    return 0;
}

static int take_answers(struct sender *s, char *message, size_t message_size)
{
    CURLMsg *ended;
    int left;
    while ((ended = curl_multi_info_read(s->multi, &left)) != NULL) {
        struct lane *lane;
        long status = 0;
        CURL *easy = ended->easy_handle;
        CURLcode code = ended->data.result;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        if (code != CURLE_OK || status != 200)
            return bench_fail(message, message_size, "a report",
                              code ? curl_easy_strerror(code) : "is not accepted");
        s->result->accepted_count++;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&lane);
        curl_multi_remove_handle(s->multi, easy);
        if (s->started_count < s->options->report_count && start(s, lane) != 0)
            return bench_fail(message, message_size, "libcurl", "a request cannot start");
    }
    return 0;
}

static int64_t processor_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return ((int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
}

int cbench_reports_run(const cbench_reports *options, cbench_reports_result *result, char *message,
                       size_t message_size)
{
    struct sender *s = bench_take_memory(sizeof *s);
    *result = (cbench_reports_result){0};
    s->options = options;
    s->result = result;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s->multi = curl_multi_init();
    s->key = EVP_EC_gen("P-256");
    if (options->flight_count == 0 || options->flight_count > FLIGHT_MAX || !s->multi || !s->key)
        return bench_fail(message, message_size, "libcurl", "cannot be set up");
    curl_multi_setopt(s->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, (long)options->flight_count);
    int64_t start_us = bench_now_us(), start_processor_us = processor_us();
    for (size_t i = 0; i < options->flight_count && s->started_count < options->report_count; i++)
        if (open_lane(s, &s->lanes[i]) != 0 || start(s, &s->lanes[i]) != 0)
            return bench_fail(message, message_size, "libcurl", "a request cannot start");
    while (result->accepted_count < options->report_count) {
        int running;
        if (curl_multi_perform(s->multi, &running) != CURLM_OK ||
            take_answers(s, message, message_size) != 0)
            return -1;
        if (running > 0)
            curl_multi_poll(s->multi, NULL, 0, WAIT_MS, NULL);
    }
    result->elapsed_us = bench_now_us() - start_us;
    result->processor_us = processor_us() - start_processor_us;
    return 0; /* the process ends with it: nothing is freed */
}
