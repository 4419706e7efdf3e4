/*
 * Two readers of one request must not differ on where it ends: that is how requests are smuggled.
 * So what another reader could take in another way is refused, on the first request of a connection
 * as on the last.
 */
#define _GNU_SOURCE /* memrchr */
#include "head.h"

#include <string.h>
#include <strings.h>

static int is_token(struct span span)
{
    size_t index;
    for (index = 0; index < span.count; index++) {
        unsigned char byte = (unsigned char)span.bytes[index];
        if (byte <= 0x20 || byte >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", byte))
            return 0;
    }
    return span.count > 0;
}

int chttp_is_first_byte(char byte)
{
    return is_token((struct span){&byte, 1});
}

static int is_control(unsigned char byte)
{
    return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

static int has_control(struct span span)
{
    size_t index;
    for (index = 0; index < span.count; index++)
        if (is_control((unsigned char)span.bytes[index]))
            return 1;
    return 0;
}

static int is_visible(struct span span)
{
    size_t index;
    for (index = 0; index < span.count; index++)
        if ((unsigned char)span.bytes[index] <= 0x20 || (unsigned char)span.bytes[index] >= 0x7f)
            return 0;
    return span.count > 0;
}

static int is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static struct span trimmed(struct span span)
{
    while (span.count > 0 && is_blank(*span.bytes)) {
        span.bytes++;
        span.count--;
    }
    while (span.count > 0 && is_blank(span.bytes[span.count - 1]))
        span.count--;
    return span;
}

static int is_named(struct span span, const char *name)
{
    return span.count == strlen(name) && strncasecmp(span.bytes, name, span.count) == 0;
}

/* Takes one line, without its CR LF, off the front of what is known to end in one. */
static struct span take_line(struct span *head)
{
    const char *end = memchr(head->bytes, '\n', head->count);
    struct span line = {head->bytes, (size_t)(end - head->bytes)};
    head->bytes += line.count + 1;
    head->count -= line.count + 1;
    line.count--;
    return line;
}

unsigned int chttp_head_scan(struct head_scan *scan, struct span bytes, size_t *length)
{
    *length = 0;
    while (scan->scanned_count < bytes.count) {
        const char *found = memchr(bytes.bytes + scan->scanned_count, '\n',
                                   bytes.count - scan->scanned_count);
        size_t end;
        if (!found) {
            scan->scanned_count = bytes.count;
            break;
        }
        end = (size_t)(found - bytes.bytes);
        scan->scanned_count = end + 1;
        if (end == scan->line_start || found[-1] != '\r')
            return 400;
        if (end == scan->line_start + 1) {
            *length = end + 1;
            break;
        }
        scan->line_start = end + 1;
    }
    return 0;
}

/* A target that is a whole URL, as proxies send it (RFC 9112, 3.2.2): what follows the host counts. */
static unsigned int read_url(struct head *head)
{
    static const char *const schemes[] = {"http://", "https://"};
    size_t index;
    for (index = 0; index < 2; index++) {
        size_t count = strlen(schemes[index]);
        struct span rest = head->target;
        const char *path;
        if (rest.count < count || strncasecmp(rest.bytes, schemes[index], count) != 0)
            continue;
        rest.bytes += count;
        rest.count -= count;
        path = memchr(rest.bytes, '/', rest.count);
        head->authority = (struct span){rest.bytes, path ? (size_t)(path - rest.bytes) : rest.count};
        head->target = path ? (struct span){path, rest.count - head->authority.count}
                            : (struct span){"/", 1};
        return head->authority.count == 0 ? 400 : 0;
    }
    return 0;
}

static unsigned int read_request_line(struct span line, struct head *head)
{
    const char *first = memchr(line.bytes, ' ', line.count);
    const char *last = memrchr(line.bytes, ' ', line.count);
    struct span version;
    if (!first || first == last)
        return 400;
    head->method = (struct span){line.bytes, (size_t)(first - line.bytes)};
    head->target = (struct span){first + 1, (size_t)(last - first - 1)};
    version = (struct span){last + 1, (size_t)(line.bytes + line.count - last - 1)};
    if (!is_token(head->method) || !is_visible(head->target))
        return 400;
    if (version.count != 8 || memcmp(version.bytes, "HTTP/", 5) != 0 || version.bytes[6] != '.' ||
        version.bytes[7] < '0' || version.bytes[7] > '9')
        return 400;
    if (version.bytes[5] != '1')
        return 505;
    head->is_version_1_0 = version.bytes[7] == '0';
    head->is_kept = !head->is_version_1_0;
    return head->method.count > METHOD_BYTE_COUNT_MAX ? 431 : read_url(head);
}

struct field_counts {
    unsigned int host, length, encoding;
};

static unsigned int read_length(struct span value, struct head *head)
{
    size_t index;
    for (index = 0; index < value.count; index++)
        if (value.bytes[index] < '0' || value.bytes[index] > '9')
            return 400;
    if (value.count == 0)
        return 400;
    /* Beyond what a signed number of 64 bits surely holds: larger than any body. */
    if (value.count > 18)
        return 413;
    head->has_body_byte_count = 1;
    for (index = 0; index < value.count; index++)
        head->body_byte_count = head->body_byte_count * 10 + (uint64_t)(value.bytes[index] - '0');
    return 0;
}

static void read_connection(struct span value, struct head *head)
{
    while (value.count > 0) {
        const char *comma = memchr(value.bytes, ',', value.count);
        size_t count = comma ? (size_t)(comma - value.bytes) : value.count;
        struct span option = trimmed((struct span){value.bytes, count});
        if (is_named(option, "close"))
            head->is_kept = 0;
        else if (is_named(option, "keep-alive") && head->is_version_1_0)
            head->is_kept = 1;
        count += comma != NULL;
        value.bytes += count;
        value.count -= count;
    }
}

static unsigned int read_field(struct span name, struct span value, struct head *head,
                               struct field_counts *counts)
{
    if (is_named(name, "Host")) {
        counts->host++;
        /* Else two readers would take it for two hosts. */
        if (head->authority.count > 0 &&
            (value.count != head->authority.count ||
             strncasecmp(value.bytes, head->authority.bytes, value.count) != 0))
            return 400;
    }
    if (is_named(name, "Content-Length")) {
        counts->length++;
        return counts->length > 1 ? 400 : read_length(value, head);
    }
    if (is_named(name, "Transfer-Encoding")) {
        counts->encoding++;
        if (!is_named(value, "chunked"))
            return 501;
        head->is_chunked = 1;
    }
    if (is_named(name, "Connection"))
        read_connection(value, head);
    if (is_named(name, "Expect") && is_named(value, "100-continue"))
        head->wants_continue = !head->is_version_1_0;
    return 0;
}

static int split(struct span line, struct span *name, struct span *value)
{
    const char *colon = memchr(line.bytes, ':', line.count);
    if (!colon)
        return 0;
    *name = (struct span){line.bytes, (size_t)(colon - line.bytes)};
    *value = trimmed((struct span){colon + 1, line.count - name->count - 1});
    return 1;
}

int chttp_field_next(struct span *fields, struct span *name, struct span *value)
{
    return fields->count > 0 && split(take_line(fields), name, value);
}

unsigned int chttp_head_read(struct span bytes, struct head *head)
{
    struct field_counts counts = {0};
    struct span rest;
    unsigned int status;
    memset(head, 0, sizeof(*head));
    /* Without the empty line. */
    bytes.count -= 2;
    if (bytes.count == 0)
        return 400;
    status = read_request_line(take_line(&bytes), head);
    head->fields = rest = bytes;
    while (status == 0 && rest.count > 0) {
        struct span name, value, line = take_line(&rest);
        /* A folded line begins with a blank, and no name has one. */
        if (!split(line, &name, &value) || !is_token(name) || has_control(value))
            return 400;
        status = read_field(name, value, head, &counts);
    }
    if (status)
        return status;
    if (counts.host > 1 || (counts.host == 0 && !head->is_version_1_0))
        return 400;
    if (counts.length + counts.encoding > 1 || (counts.encoding && head->is_version_1_0))
        return 400;
    return 0;
}
