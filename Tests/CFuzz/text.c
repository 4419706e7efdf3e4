#include "ctext.h"
#include "include/cfuzz.h"

#include <stdlib.h>
#include <string.h>

/* The plainest code that does what CText does: one byte at a time, and no table. */

static int value_of(uint8_t byte, int alphabet)
{
    int is_url = alphabet != CTEXT_STANDARD, is_standard = alphabet != CTEXT_URL;
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    if ((is_url && byte == '-') || (is_standard && byte == '+') ||
        (alphabet == CTEXT_LENIENT && byte == ' '))
        return 62;
    if ((is_url && byte == '_') || (is_standard && byte == '/'))
        return 63;
    return -1;
}

static size_t plain_decode(uint8_t *out, const uint8_t *text, size_t count, int alphabet)
{
    unsigned int bits = 0, bit_count = 0;
    for (size_t index = 0; index < count; index++) {
        int value = value_of(text[index], alphabet);
        if (value < 0)
            return index;
        bits = bits << 6 | (unsigned int)value;
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            *out++ = (uint8_t)(bits >> bit_count);
        }
    }
    return count;
}

static int is_plain(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

/* Each as large as its function asks for, so that the sanitizer sees a byte more. */
struct room {
    uint8_t *text, *plain, *out, *encoded;
    uint64_t *quotes;
};

static const char *check_decode(struct room *room, const uint8_t *text, size_t count, int level)
{
    for (int alphabet = CTEXT_URL; alphabet <= CTEXT_LENIENT; alphabet++) {
        size_t expected = plain_decode(room->plain, text, count, alphabet);
        size_t found = ctext_base64_decode_at(level, room->out, text, count, alphabet);
        if (found != expected)
            return "decode finds another foreign byte than plain code";
        if (found == count && memcmp(room->out, room->plain, count * 3 / 4) != 0)
            return "decode gives other bytes than plain code";
    }
    return NULL;
}

static const char *check_token(struct room *room, const uint8_t *text, size_t count, int level)
{
    size_t byte_count = count * 3 / 4, control_count = 0;
    int is_special = 0;
    struct ctext_plain plain = {0};
    size_t expected = plain_decode(room->plain, text, count, CTEXT_LENIENT);
    size_t found =
        ctext_token_decode_at(level, room->out, room->quotes, &plain, text, count, byte_count);
    if (found != expected)
        return "a token's decode finds another foreign byte";
    if (found < count)
        return NULL;
    if (memcmp(room->out, room->plain, byte_count) != 0)
        return "a token's decode gives other bytes";
    for (size_t index = 0; index < byte_count; index++) {
        uint8_t byte = room->plain[index];
        if ((room->quotes[index / 64] >> index % 64 & 1) != (byte == '"'))
            return "a quote is missing, or is none";
        control_count += byte < 0x20;
        is_special |= byte == '\\' || byte >= 0x80;
    }
    if (room->quotes[(byte_count + 63) / 64] != ~(uint64_t)0)
        return "the word after the quotes is not set";
    if (plain.control_count != control_count || plain.is_special != is_special)
        return "controls or special bytes are miscounted";
    return NULL;
}

static const char *check_encode(struct room *room, const uint8_t *bytes, size_t count)
{
    size_t length = ctext_base64url_encode(room->encoded, bytes, count);
    if (length != (count * 4 + 2) / 3)
        return "encode gives another length";
    if (plain_decode(room->plain, room->encoded, length, CTEXT_URL) != length ||
        memcmp(room->plain, bytes, count) != 0)
        return "what was encoded is not what is decoded";
    return NULL;
}

static const char *check_plain_end(const uint8_t *text, size_t count)
{
    for (size_t start = 0; start <= count; start += start < 17 ? 1 : 61) {
        size_t end = start;
        while (end < count && is_plain(text[end]))
            end++;
        if (ctext_plain_end(text, start, count) != end)
            return "plain text ends elsewhere";
    }
    return NULL;
}

static const char *check_at(struct room *room, const uint8_t *bytes, size_t count, size_t shift)
{
    uint8_t *text = room->text + shift;
    const char *broken;
    memcpy(text, bytes, count);
    for (int level = CTEXT_SCALAR; level <= ctext_level_best(); level++) {
        if ((broken = check_decode(room, text, count, level)))
            return broken;
        /* The caller refuses a length of 1 mod 4. */
        if (count % 4 != 1 && (broken = check_token(room, text, count, level)))
            return broken;
    }
    broken = check_encode(room, text, count);
    return broken ? broken : check_plain_end(text, count);
}

/* The first byte says at which of 64 shifts; the text ends where its memory ends. */
const char *cfuzz_text(const uint8_t *bytes, size_t count)
{
    if (count < 2)
        return NULL;
    size_t shift = bytes[0] % 64;
    bytes++;
    count--;
    struct room room = {
        malloc(shift + count),
        malloc(count + 1),
        malloc(count / 4 * 3 + 3 + CTEXT_SLACK),
        malloc((count * 4 + 2) / 3 + 1),
        malloc(((count * 3 / 4 + 63) / 64 + 1) * sizeof(uint64_t)),
    };
    if (!room.text || !room.plain || !room.out || !room.encoded || !room.quotes)
        abort();
    const char *broken = check_at(&room, bytes, count, shift);
    free(room.text);
    free(room.plain);
    free(room.out);
    free(room.encoded);
    free(room.quotes);
    return broken;
}
