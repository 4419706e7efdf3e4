#pragma once

#include <stddef.h>
#include <stdint.h>

/* Which bytes stand for 62 and 63 besides the 62 letters and digits. */
enum ctext_alphabet {
    /* '-' and '_'. */
    CTEXT_URL = 0,
    /* '+' and '/'. */
    CTEXT_STANDARD = 1,
    /* Both, and a blank for '+': a form or URL reader makes one of it. */
    CTEXT_LENIENT = 2
};

/* The instruction sets that the functions below are written for. */
enum ctext_level {
    CTEXT_SCALAR = 0,
    CTEXT_AVX2 = 1,
    CTEXT_AVX512 = 2
};

/* How far past its last byte ctext_base64_decode may write. */
#define CTEXT_SLACK 64

/**
 * ctext_level_best():
 * The best level that this processor has; what the functions without a level use.
 */
int ctext_level_best(void);

/**
 * ctext_base64_decode(out, text, count, alphabet):
 * Decode ${count} characters without padding into ${out}, which has room for
 * ${count} / 4 * 3 + 3 + CTEXT_SLACK bytes.  Return ${count}, or the index of the first byte that
 * is not in ${alphabet}; ${out} is then undefined.  The caller refuses lengths of 1 mod 4 and, if it
 * is strict, trailing bits: they are dropped here.
 */
size_t ctext_base64_decode(uint8_t *out, const uint8_t *text, size_t count, int alphabet);

/**
 * ctext_base64_decode_at(level, out, text, count, alphabet):
 * The same at a level of the caller's choice, at most ctext_level_best(): for tests.
 */
size_t ctext_base64_decode_at(
    int level, uint8_t *out, const uint8_t *text, size_t count, int alphabet);

/**
 * ctext_base64url_encode(out, bytes, count):
 * Encode ${count} bytes into ${out} without padding.  Return the number of characters,
 * (${count} * 4 + 2) / 3.
 */
size_t ctext_base64url_encode(uint8_t *out, const uint8_t *bytes, size_t count);

/* What ctext_token_decode found besides the quotes. */
struct ctext_plain {
    /* Bytes below 0x20, anywhere. */
    size_t control_count;
    /* Whether there is a backslash or a byte that is not ASCII. */
    int is_special;
};

/**
 * ctext_token_decode(out, quotes, plain, text, count, byte_count):
 * Decode ${count} characters of the lenient alphabet into ${byte_count} bytes, as ctext_base64_decode
 * does, and look at them.  Set one word of ${quotes} for each 64 bytes, bit i for a quote at byte i,
 * and one word more with all bits set.  Fill ${plain}.
 */
size_t ctext_token_decode(
    uint8_t *out, uint64_t *quotes, struct ctext_plain *plain, const uint8_t *text, size_t count,
    size_t byte_count);

/**
 * ctext_token_decode_at(level, out, quotes, plain, text, count, byte_count):
 * The same at a level of the caller's choice, at most ctext_level_best(): for tests.
 */
size_t ctext_token_decode_at(
    int level, uint8_t *out, uint64_t *quotes, struct ctext_plain *plain, const uint8_t *text,
    size_t count, size_t byte_count);

/**
 * ctext_plain_end(text, start, count):
 * The index of the first of ${count} bytes, from ${start} on, that may not stand in a JSON string as
 * it is or is not ASCII: a quote, a backslash, below 0x20 or from 0x80 on.  ${count} if there is none.
 */
size_t ctext_plain_end(const uint8_t *text, size_t start, size_t count);
