#include "ctext.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Rows of tables[alphabet]: the six bits of a character, 0xff for a foreign byte. */
static uint8_t tables[3][256];
static int level_best = CTEXT_SCALAR;

static const uint8_t url_characters[64] __attribute__((nonstring)) =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

__attribute__((constructor)) static void
ctext_prepare(void)
{
    for (int alphabet = 0; alphabet < 3; alphabet++) {
        for (int byte = 0; byte < 256; byte++)
            tables[alphabet][byte] = 0xff;
        for (int value = 0; value < 62; value++)
            tables[alphabet][url_characters[value]] = (uint8_t)value;
    }
    tables[CTEXT_URL]['-'] = tables[CTEXT_LENIENT]['-'] = 62;
    tables[CTEXT_URL]['_'] = tables[CTEXT_LENIENT]['_'] = 63;
    tables[CTEXT_STANDARD]['+'] = tables[CTEXT_LENIENT]['+'] = 62;
    tables[CTEXT_STANDARD]['/'] = tables[CTEXT_LENIENT]['/'] = 63;
    tables[CTEXT_LENIENT][' '] = 62;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        level_best = CTEXT_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512vbmi"))
        level_best = CTEXT_AVX512;
#endif
}

int
ctext_level_best(void)
{
    return level_best;
}

/* Decode from character ${done} on; the bytes before it are already in ${out}. */
static size_t
decode_scalar(uint8_t *out, const uint8_t *text, size_t done, size_t count, int alphabet)
{
    const uint8_t *table = tables[alphabet];
    size_t index = done;
    out += done / 4 * 3;

    for (; index + 4 <= count; index += 4) {
        uint32_t a = table[text[index]], b = table[text[index + 1]];
        uint32_t c = table[text[index + 2]], d = table[text[index + 3]];
        if ((a | b | c | d) & 0x80)
            break;
        uint32_t word = a << 18 | b << 12 | c << 6 | d;
        *out++ = (uint8_t)(word >> 16);
        *out++ = (uint8_t)(word >> 8);
        *out++ = (uint8_t)word;
    }
    uint32_t word = 0;
    size_t start = index;
    for (; index < count; index++) {
        uint32_t value = table[text[index]];
        if (value & 0x80)
            return index;
        word = word << 6 | value;
    }
    switch (count - start) {
    case 2:
        *out = (uint8_t)(word >> 4);
        break;
    case 3:
        out[0] = (uint8_t)(word >> 10);
        out[1] = (uint8_t)(word >> 2);
        break;
    default:
        break;
    }
    return count;
}

#if defined(__x86_64__)

/*
 * 32 characters to 24 bytes.  Return nonzero where a byte is foreign.  The look-ups by nibble are
 * those of Mula and Lemire, "Faster Base64 Encoding and Decoding Using AVX2 Instructions" (2018);
 * the other alphabets are first mapped to the standard one.
 */
__attribute__((target("avx2"))) static inline int
decode_block_avx2(uint8_t *out, const uint8_t *text, int alphabet)
{
    const __m256i lut_lo = _mm256_setr_epi8(
        0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x13, 0x1a, 0x1b, 0x1b, 0x1b, 0x1a,
        0x15, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x13, 0x1a, 0x1b, 0x1b, 0x1b, 0x1a);
    const __m256i lut_hi = _mm256_setr_epi8(
        0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10,
        0x10, 0x10, 0x01, 0x02, 0x04, 0x08, 0x04, 0x08, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10);
    const __m256i lut_roll = _mm256_setr_epi8(
        0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 16, 19, 4, -65, -65, -71, -71, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i slash = _mm256_set1_epi8(0x2f);
    __m256i block = _mm256_loadu_si256((const __m256i *)text);
    __m256i foreign = _mm256_setzero_si256();

    if (alphabet != CTEXT_STANDARD) {
        __m256i minus = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('-'));
        __m256i underscore = _mm256_cmpeq_epi8(block, _mm256_set1_epi8('_'));
        if (alphabet == CTEXT_URL)
            foreign = _mm256_or_si256(
                _mm256_cmpeq_epi8(block, _mm256_set1_epi8('+')), _mm256_cmpeq_epi8(block, slash));
        else
            minus = _mm256_or_si256(minus, _mm256_cmpeq_epi8(block, _mm256_set1_epi8(' ')));
        block = _mm256_blendv_epi8(block, _mm256_set1_epi8('+'), minus);
        block = _mm256_blendv_epi8(block, slash, underscore);
    }
    __m256i high = _mm256_and_si256(_mm256_srli_epi32(block, 4), slash);
    __m256i low = _mm256_and_si256(block, slash);
    __m256i is_slash = _mm256_cmpeq_epi8(block, slash);
    foreign = _mm256_or_si256(
        foreign,
        _mm256_and_si256(_mm256_shuffle_epi8(lut_lo, low), _mm256_shuffle_epi8(lut_hi, high)));
    if (!_mm256_testz_si256(foreign, foreign))
        return 1;
    block = _mm256_add_epi8(
        block, _mm256_shuffle_epi8(lut_roll, _mm256_add_epi8(is_slash, high)));
    block = _mm256_maddubs_epi16(block, _mm256_set1_epi32(0x01400140));
    block = _mm256_madd_epi16(block, _mm256_set1_epi32(0x00011000));
    block = _mm256_shuffle_epi8(
        block,
        _mm256_setr_epi8(
            2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1,
            2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1));
    block = _mm256_permutevar8x32_epi32(block, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, -1, -1));
    _mm256_storeu_si256((__m256i *)out, block);
    return 0;
}

__attribute__((target("avx2"))) static size_t
decode_avx2(uint8_t *out, const uint8_t *text, size_t count, int alphabet)
{
    size_t index = 0;

    for (; index + 32 <= count; index += 32)
        if (decode_block_avx2(out + index / 4 * 3, text + index, alphabet))
            return decode_scalar(out, text, index, count, alphabet);
    /* The last whole quads again as one block that overlaps what is done. */
    size_t quads = count & ~(size_t)3;
    if (index < quads && quads >= 32) {
        if (decode_block_avx2(out + (quads - 32) / 4 * 3, text + quads - 32, alphabet))
            return decode_scalar(out, text, index, count, alphabet);
        index = quads;
    }
    return decode_scalar(out, text, index, count, alphabet);
}

/* 64 values of six bits to 48 bytes; the 16 bytes above them are undefined. */
__attribute__((target("avx512f,avx512bw,avx512vbmi"))) static inline __m512i
pack_avx512(__m512i values)
{
    const __m512i order = _mm512_set_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        60, 61, 62, 56, 57, 58, 52, 53, 54, 48, 49, 50, 44, 45, 46, 40,
        41, 42, 36, 37, 38, 32, 33, 34, 28, 29, 30, 24, 25, 26, 20, 21,
        22, 16, 17, 18, 12, 13, 14, 8, 9, 10, 4, 5, 6, 0, 1, 2);

    values = _mm512_maddubs_epi16(values, _mm512_set1_epi32(0x01400140));
    values = _mm512_madd_epi16(values, _mm512_set1_epi32(0x00011000));
    return _mm512_permutexvar_epi8(order, values);
}

__attribute__((target("avx512f,avx512bw,avx512vbmi"))) static size_t
decode_avx512(uint8_t *out, const uint8_t *text, size_t count, int alphabet)
{
    /* Two registers hold the table of the 128 ASCII bytes; a byte above has its own top bit. */
    const __m512i lower = _mm512_loadu_si512(tables[alphabet]);
    const __m512i upper = _mm512_loadu_si512(tables[alphabet] + 64);

    for (size_t index = 0; index < count; index += 64) {
        size_t left = count - index;
        __mmask64 here = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        __m512i block = _mm512_maskz_loadu_epi8(here, text + index);
        __m512i values = _mm512_permutex2var_epi8(lower, block, upper);
        __mmask64 foreign = here & _mm512_movepi8_mask(_mm512_or_si512(values, block));
        if (foreign)
            return index + (size_t)__builtin_ctzll(foreign);
        _mm512_storeu_si512(
            out + index / 4 * 3, pack_avx512(_mm512_maskz_mov_epi8(here, values)));
    }
    return count;
}

#endif

size_t
ctext_base64_decode_at(int level, uint8_t *out, const uint8_t *text, size_t count, int alphabet)
{
#if defined(__x86_64__)
    if (level == CTEXT_AVX512)
        return decode_avx512(out, text, count, alphabet);
    if (level == CTEXT_AVX2)
        return decode_avx2(out, text, count, alphabet);
#endif
    return decode_scalar(out, text, 0, count, alphabet);
}

size_t
ctext_base64_decode(uint8_t *out, const uint8_t *text, size_t count, int alphabet)
{
    return ctext_base64_decode_at(level_best, out, text, count, alphabet);
}

size_t
ctext_base64url_encode(uint8_t *out, const uint8_t *bytes, size_t count)
{
    const uint8_t *start = out;
    size_t index = 0;

    for (; index + 3 <= count; index += 3) {
        uint32_t word =
            (uint32_t)bytes[index] << 16 | (uint32_t)bytes[index + 1] << 8 | bytes[index + 2];
        *out++ = url_characters[word >> 18];
        *out++ = url_characters[word >> 12 & 63];
        *out++ = url_characters[word >> 6 & 63];
        *out++ = url_characters[word & 63];
    }
    if (count - index == 1) {
        *out++ = url_characters[bytes[index] >> 2];
        *out++ = url_characters[bytes[index] << 4 & 63];
    } else if (count - index == 2) {
        uint32_t word = (uint32_t)bytes[index] << 8 | bytes[index + 1];
        *out++ = url_characters[word >> 10];
        *out++ = url_characters[word >> 4 & 63];
        *out++ = url_characters[word << 2 & 63];
    }
    return (size_t)(out - start);
}

static void
look_scalar(uint64_t *quotes, struct ctext_plain *plain, const uint8_t *bytes, size_t count)
{
    for (size_t start = 0; start < count; start += 64) {
        size_t end = count - start < 64 ? count - start : 64;
        uint64_t word = 0;
        for (size_t index = 0; index < end; index++) {
            uint8_t byte = bytes[start + index];
            word |= (uint64_t)(byte == '"') << index;
            plain->control_count += byte < 0x20;
            plain->is_special |= byte == '\\' || byte >= 0x80;
        }
        *quotes++ = word;
    }
    *quotes = ~(uint64_t)0;
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) static inline uint64_t
mask_avx2(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low)
        | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

__attribute__((target("avx2,popcnt"))) static void
look_avx2(uint64_t *quotes, struct ctext_plain *plain, const uint8_t *bytes, size_t count)
{
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\');
    const __m256i control = _mm256_set1_epi8(0x1f);
    uint64_t special = 0;

    for (size_t start = 0; start < count; start += 64) {
        uint64_t here = count - start < 64 ? ((uint64_t)1 << (count - start)) - 1 : ~(uint64_t)0;
        __m256i low = _mm256_loadu_si256((const __m256i *)(bytes + start));
        __m256i high = _mm256_loadu_si256((const __m256i *)(bytes + start + 32));
        *quotes++ = here & mask_avx2(_mm256_cmpeq_epi8(low, quote), _mm256_cmpeq_epi8(high, quote));
        uint64_t controls = here
            & mask_avx2(
                _mm256_cmpeq_epi8(_mm256_min_epu8(low, control), low),
                _mm256_cmpeq_epi8(_mm256_min_epu8(high, control), high));
        plain->control_count += (size_t)__builtin_popcountll(controls);
        special |= here
            & mask_avx2(
                _mm256_or_si256(_mm256_cmpeq_epi8(low, backslash), low),
                _mm256_or_si256(_mm256_cmpeq_epi8(high, backslash), high));
    }
    *quotes = ~(uint64_t)0;
    plain->is_special = special != 0;
}

/* Looks at the 48 bytes of a block while they are still in their register. */
__attribute__((target("avx512f,avx512bw,avx512vbmi,popcnt"))) static size_t
token_avx512(
    uint8_t *out, uint64_t *quotes, struct ctext_plain *plain, const uint8_t *text, size_t count,
    size_t byte_count)
{
    const __m512i lower = _mm512_loadu_si512(tables[CTEXT_LENIENT]);
    const __m512i upper = _mm512_loadu_si512(tables[CTEXT_LENIENT] + 64);
    uint64_t word = 0, special = 0;
    size_t filled = 0, controls = 0;

    for (size_t index = 0; index < count; index += 64) {
        size_t left = count - index;
        __mmask64 here = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
        __m512i block = _mm512_maskz_loadu_epi8(here, text + index);
        __m512i values = _mm512_permutex2var_epi8(lower, block, upper);
        __mmask64 foreign = here & _mm512_movepi8_mask(_mm512_or_si512(values, block));
        if (foreign)
            return index + (size_t)__builtin_ctzll(foreign);
        __m512i bytes = pack_avx512(_mm512_maskz_mov_epi8(here, values));
        size_t done = index / 4 * 3;
        _mm512_storeu_si512(out + done, bytes);

        size_t size = byte_count - done < 48 ? byte_count - done : 48;
        uint64_t valid = ((uint64_t)1 << size) - 1;
        uint64_t marks = valid & _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('"'));
        controls += (size_t)__builtin_popcountll(
            valid & _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8(0x20)));
        special |= valid
            & (_mm512_movepi8_mask(bytes)
                | _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\\')));
        word |= marks << filled;
        filled += size;
        if (filled >= 64) {
            *quotes++ = word;
            filled -= 64;
            word = marks >> (size - filled);
        }
    }
    if (filled > 0)
        *quotes++ = word;
    *quotes = ~(uint64_t)0;
    plain->control_count = controls;
    plain->is_special = special != 0;
    return count;
}

#endif

size_t
ctext_token_decode_at(
    int level, uint8_t *out, uint64_t *quotes, struct ctext_plain *plain, const uint8_t *text,
    size_t count, size_t byte_count)
{
#if defined(__x86_64__)
    if (level == CTEXT_AVX512)
        return token_avx512(out, quotes, plain, text, count, byte_count);
#endif
    size_t good_count = ctext_base64_decode_at(level, out, text, count, CTEXT_LENIENT);
    if (good_count < count)
        return good_count;
    plain->control_count = 0;
    plain->is_special = 0;
#if defined(__x86_64__)
    if (level == CTEXT_AVX2)
        look_avx2(quotes, plain, out, byte_count);
    else
#endif
        look_scalar(quotes, plain, out, byte_count);
    return count;
}

size_t
ctext_token_decode(
    uint8_t *out, uint64_t *quotes, struct ctext_plain *plain, const uint8_t *text, size_t count,
    size_t byte_count)
{
    return ctext_token_decode_at(level_best, out, quotes, plain, text, count, byte_count);
}
