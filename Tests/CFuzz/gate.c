#include "../../Sources/CHTTPServer/head.h"
#include "include/cfuzz.h"

#include <stdlib.h>
#include <string.h>

/* What is read of bytes that come in two pieces must be what is read of them in one. */

static struct span copy(const uint8_t *bytes, size_t count)
{
    /* Of its exact size, so that the sanitizer sees a read past it. */
    char *made = malloc(count ? count : 1);
    if (!made)
        abort();
    memcpy(made, bytes, count);
    return (struct span){made, count};
}

static const char *check_fields(struct span head_bytes, struct head *head)
{
    struct span fields = head->fields, name, value;
    const char *end = head_bytes.bytes + head_bytes.count;
    while (fields.count > 0) {
        if (!chttp_field_next(&fields, &name, &value))
            return "a line of a good head cannot be split";
        if (name.count == 0 || memchr(name.bytes, ':', name.count))
            return "a name is empty or has a colon";
        if (value.bytes + value.count > end)
            return "a value ends beyond the head";
        if (memchr(value.bytes, '\r', value.count) || memchr(value.bytes, '\n', value.count) ||
            memchr(value.bytes, 0, value.count))
            return "a value has CR, LF or NUL";
    }
    if (head->method.count > METHOD_BYTE_COUNT_MAX)
        return "a method is too long";
    if (head->is_chunked && head->has_body_byte_count)
        return "a body has two lengths";
    if (memchr(head->target.bytes, ' ', head->target.count))
        return "a target has a blank";
    return NULL;
}

static const char *check_head(struct span bytes, size_t cut, size_t *length)
{
    struct head_scan whole = {0}, pieces = {0};
    size_t first_length = 0, second_length = 0;
    unsigned int status = chttp_head_scan(&whole, bytes, length);
    unsigned int piecewise =
        chttp_head_scan(&pieces, (struct span){bytes.bytes, cut}, &first_length);
    if (piecewise == 0 && first_length == 0)
        piecewise = chttp_head_scan(&pieces, bytes, &second_length);
    else
        second_length = first_length;
    if (piecewise != status || second_length != *length)
        return "a head that comes in two pieces ends elsewhere";
    if (*length > bytes.count)
        return "a head ends beyond its bytes";
    if (status != 0 || *length == 0)
        return NULL;
    struct head head;
    struct span own = copy((const uint8_t *)bytes.bytes, *length);
    const char *broken = NULL;
    status = chttp_head_read(own, &head);
    if (status == 0)
        broken = check_fields(own, &head);
    else if (status != 400 && status != 413 && status != 431 && status != 501 && status != 505)
        broken = "a head is refused with a status of no meaning";
    free((char *)own.bytes);
    return broken;
}

/* Reads on to the end, and appends the data to ${out}. */
static size_t read_chunks(struct chunks *chunks, struct span bytes, char *out)
{
    size_t used = 0, count = 0;
    while (used < bytes.count && chunks->stage != CHUNK_COMPLETE && chunks->stage != CHUNK_BAD) {
        struct span data;
        size_t read = chttp_chunks_read(
            chunks, (struct span){bytes.bytes + used, bytes.count - used}, &data);
        if (read == 0 || read > bytes.count - used ||
            data.bytes + data.count > bytes.bytes + used + read)
            abort();
        if (data.count > 0)
            memcpy(out + count, data.bytes, data.count);
        used += read;
        count += data.count;
    }
    out[count] = 0;
    return used;
}

static const char *check_chunks(struct span bytes, size_t cut)
{
    struct chunks whole = {0}, pieces = {0};
    char *one = calloc(1, bytes.count + 1), *two = calloc(1, bytes.count + 1);
    const char *broken = NULL;
    if (!one || !two)
        abort();
    size_t used = read_chunks(&whole, bytes, one);
    size_t first = read_chunks(&pieces, (struct span){bytes.bytes, cut}, two);
    if (first == cut)
        first += read_chunks(
            &pieces, (struct span){bytes.bytes + cut, bytes.count - cut}, two + pieces.data_count);
    if (first != used || whole.stage != pieces.stage || whole.data_count != pieces.data_count ||
        whole.missing_count != pieces.missing_count)
        broken = "a body that comes in two pieces ends elsewhere";
    else if (memcmp(one, two, (size_t)whole.data_count) != 0)
        broken = "a body that comes in two pieces has other data";
    else if (whole.data_count + whole.framing_count != used)
        broken = "bytes of a body are not counted, or counted twice";
    free(one);
    free(two);
    return broken;
}

/* The first byte says where to cut. */
const char *cfuzz_gate(const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return NULL;
    struct span input = copy(bytes + 1, count - 1);
    size_t cut = bytes[0] * input.count / 255, length = 0;
    const char *broken = check_head(input, cut, &length);
    if (!broken)
        broken = check_chunks(input, cut);
    if (!broken && length > 0) {
        struct span rest = {input.bytes + length, input.count - length};
        broken = check_chunks(rest, rest.count * bytes[0] / 255);
    }
    free((char *)input.bytes);
    return broken;
}
