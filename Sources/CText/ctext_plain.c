/* Where plain text ends: what a JSON string holds as it is. */
#include "ctext.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__x86_64__)

/* Whole blocks from ${index} on: return the first byte that is not plain, or where the blocks end. */
__attribute__((target("avx2"))) static size_t
plain_end_avx2(const uint8_t *text, size_t index, size_t count)
{
    const __m256i below_blank = _mm256_set1_epi8(0x1f);
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\');

    for (; index + 32 <= count; index += 32) {
        __m256i block = _mm256_loadu_si256((const __m256i *)(text + index));
        __m256i plain = _mm256_andnot_si256(
            _mm256_or_si256(_mm256_cmpeq_epi8(block, quote), _mm256_cmpeq_epi8(block, backslash)),
            _mm256_cmpgt_epi8(block, below_blank));
        unsigned mask = ~(unsigned)_mm256_movemask_epi8(plain);
        if (mask)
            return index + (size_t)__builtin_ctz(mask);
    }
    return index;
}

#endif

size_t
ctext_plain_end(const uint8_t *text, size_t start, size_t count)
{
    size_t index = start;

#if defined(__x86_64__)
    if (ctext_level_best() >= CTEXT_AVX2)
        index = plain_end_avx2(text, index, count);
#endif
#if defined(__SSE2__)
    /* A byte from 0x80 on is negative, so that one comparison finds it and what is below 0x20. */
    const __m128i blank = _mm_set1_epi8(0x20);
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    for (; index + 16 <= count; index += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(text + index));
        __m128i marks = _mm_or_si128(
            _mm_cmplt_epi8(block, blank),
            _mm_or_si128(_mm_cmpeq_epi8(block, quote), _mm_cmpeq_epi8(block, backslash)));
        int mask = _mm_movemask_epi8(marks);
        if (mask)
            return index + (size_t)__builtin_ctz((unsigned)mask);
    }
#endif
    while (index < count && text[index] >= 0x20 && text[index] < 0x80 && text[index] != '"'
           && text[index] != '\\')
        index++;
    return index;
}
