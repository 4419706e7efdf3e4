/* A body in chunks, a byte at a time but for the data. */
#include "head.h"

/* Sizes beyond any body are refused by their digits. */
enum { SIZE_DIGIT_COUNT_MAX = 8 };
/*
 * Sizes, extensions and trailers may be so much longer than the data, and a little at first:
 * chunks of one byte are honest, a stream of extensions is not.
 */
enum { FRAMING_BYTE_COUNT_FREE = 16 << 10, FRAMING_BYTES_PER_BYTE_MAX = 16 };

static int digit_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    if (byte >= 'a' && byte <= 'f')
        return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

static enum chunk_stage after_size_digit(struct chunks *chunks, char byte)
{
    int digit = digit_value(byte);
    if (digit >= 0) {
        chunks->missing_count = chunks->missing_count << 4 | (uint64_t)digit;
        return ++chunks->digit_count > SIZE_DIGIT_COUNT_MAX ? CHUNK_BAD : CHUNK_SIZE;
    }
    if (chunks->digit_count == 0)
        return CHUNK_BAD;
    if (byte == ';')
        return CHUNK_EXTENSION;
    return byte == '\r' ? CHUNK_SIZE_END : CHUNK_BAD;
}

static int is_text(char byte)
{
    unsigned char value = (unsigned char)byte;
    return value == '\t' || (value >= 0x20 && value != 0x7f);
}

static enum chunk_stage after(struct chunks *chunks, char byte)
{
    switch (chunks->stage) {
    case CHUNK_SIZE:
        return after_size_digit(chunks, byte);
    case CHUNK_EXTENSION:
        if (byte == '\r')
            return CHUNK_SIZE_END;
        return is_text(byte) ? CHUNK_EXTENSION : CHUNK_BAD;
    case CHUNK_SIZE_END:
        chunks->digit_count = 0;
        if (byte != '\n')
            return CHUNK_BAD;
        return chunks->missing_count > 0 ? CHUNK_DATA : CHUNK_TRAILER;
    case CHUNK_DATA_CR:
        return byte == '\r' ? CHUNK_DATA_LF : CHUNK_BAD;
    case CHUNK_DATA_LF:
        return byte == '\n' ? CHUNK_SIZE : CHUNK_BAD;
    case CHUNK_TRAILER:
        if (byte == '\r')
            return CHUNK_LAST_LF;
        return chttp_is_first_byte(byte) ? CHUNK_TRAILER_LINE : CHUNK_BAD;
    case CHUNK_TRAILER_LINE:
        if (byte == '\r')
            return CHUNK_TRAILER_END;
        return is_text(byte) ? CHUNK_TRAILER_LINE : CHUNK_BAD;
    case CHUNK_TRAILER_END:
        return byte == '\n' ? CHUNK_TRAILER : CHUNK_BAD;
    case CHUNK_LAST_LF:
        return byte == '\n' ? CHUNK_COMPLETE : CHUNK_BAD;
    default:
        return CHUNK_BAD;
    }
}

size_t chttp_chunks_read(struct chunks *chunks, struct span bytes, struct span *data)
{
    size_t index;
    data->bytes = bytes.bytes;
    data->count = 0;
    for (index = 0; index < bytes.count; index++) {
        if (chunks->stage == CHUNK_COMPLETE || chunks->stage == CHUNK_BAD)
            return index;
        if (chunks->stage == CHUNK_DATA) {
            data->bytes = bytes.bytes + index;
            data->count = bytes.count - index;
            if (data->count >= chunks->missing_count) {
                data->count = (size_t)chunks->missing_count;
                chunks->stage = CHUNK_DATA_CR;
            }
            chunks->missing_count -= data->count;
            chunks->data_count += data->count;
            return index + data->count;
        }
        chunks->stage = after(chunks, bytes.bytes[index]);
        if (++chunks->framing_count >
            FRAMING_BYTE_COUNT_FREE + FRAMING_BYTES_PER_BYTE_MAX * chunks->data_count)
            chunks->stage = CHUNK_BAD;
    }
    return index;
}
