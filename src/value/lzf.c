#include "value/lzf.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* token = 000lllll: l + 1 bytes follow as they are
 *       | lllooooo oooooooo: l + 2 bytes, o + 1 back in what was already given
 *       | 111ooooo l oooooooo: l + 9 bytes, likewise
 */
enum {
    RATIO_MAX = 88,                 /* 264 bytes for a token of three */
    CLAIM_CHECKED_MIN = 1 << 20,    /* from here on the size is checked before memory is asked for; below it that costs more than it saves */
};

/* True if the tokens give exactly `size` bytes; only their lengths are looked at. */
static bool gives(const uint8_t *in, const uint8_t *in_end, size_t size)
{
    while (in < in_end) {
        unsigned token = *in++;
        size_t length = token < 32 ? token + 1 : (token >> 5) + 2, skip = token < 32 ? length : 1;

        if (length == 9 && token >= 32) {
            if (in == in_end)
                return false;
            length += *in++;
        }
        if (skip > (size_t)(in_end - in) || length > size)
            return false;
        in += skip;
        size -= length;
    }
    return size == 0;
}

enum status lzf_decode(struct bytes input, size_t size, struct buffer *out)
{
    const uint8_t *in = (const uint8_t *)input.data, *in_end = in + input.size;
    uint8_t *start, *to, *to_end;

    if (size / RATIO_MAX > input.size || (size >= CLAIM_CHECKED_MIN && !gives(in, in_end, size)))
        return STATUS_CORRUPT;
    start = to = (uint8_t *)buffer_reserve(out, size);
    to_end = to + size;
    while (in < in_end) {
        unsigned token = *in++;
        size_t length, back;

        if (token < 32) {
            length = token + 1;
            if (length > (size_t)(in_end - in) || length > (size_t)(to_end - to))
                return STATUS_CORRUPT;
            memcpy(to, in, length);
            in += length;
            to += length;
            continue;
        }
        length = (token >> 5) + 2;
        if (length == 9) {
            if (in == in_end)
                return STATUS_CORRUPT;
            length += *in++;
        }
        if (in == in_end)
            return STATUS_CORRUPT;
        back = ((size_t)(token & 31) << 8 | *in++) + 1;
        if (back > (size_t)(to - start) || length > (size_t)(to_end - to))
            return STATUS_CORRUPT;
        /* The two runs may overlap, and the later bytes then repeat the earlier: byte by byte is the meaning. */
        if (back >= length) {
            memcpy(to, to - back, length);
            to += length;
        } else {
            for (; length > 0; length--, to++)
                *to = *(to - back);
        }
    }
    if (to != to_end)
        return STATUS_CORRUPT;
    out->size += size;
    return STATUS_OK;
}

/* Writing: the last place at which each hash of three bytes was seen is the only candidate for a reference. */
enum {
    TABLE_BITS_MIN = 6, TABLE_BITS_MAX = 13, BACK_MAX = 8192, LENGTH_MAX = 264, LITERALS_MAX = 32, LENGTH_MIN = 3,
    SKIP_SHIFT = 6,                 /* after 64 bytes without a reference every second place is tried, and so on */
};

struct encoder {
    const uint8_t *in;
    size_t size, literals_at;       /* where the bytes begin that are not yet written */
    uint8_t *out;
    size_t out_size, room;
};

static uint32_t three_bytes(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
}

static bool put_literals(struct encoder *encoder, size_t until)
{
    while (encoder->literals_at < until) {
        size_t count = until - encoder->literals_at;

        if (count > LITERALS_MAX)
            count = LITERALS_MAX;
        if (count + 1 > encoder->room - encoder->out_size)
            return false;
        encoder->out[encoder->out_size++] = (uint8_t)(count - 1);
        memcpy(encoder->out + encoder->out_size, encoder->in + encoder->literals_at, count);
        encoder->out_size += count;
        encoder->literals_at += count;
    }
    return true;
}

static bool put_reference(struct encoder *encoder, size_t at, size_t from, size_t length)
{
    size_t back = at - from - 1, code = length - 2;
    uint8_t *out;

    if (!put_literals(encoder, at) || encoder->room - encoder->out_size < 3)
        return false;
    out = encoder->out + encoder->out_size;
    if (code < 7) {
        *out++ = (uint8_t)(code << 5 | back >> 8);
    } else {
        *out++ = (uint8_t)(7 << 5 | back >> 8);
        *out++ = (uint8_t)(code - 7);
    }
    *out++ = (uint8_t)back;
    encoder->out_size = (size_t)(out - encoder->out);
    encoder->literals_at = at + length;
    return true;
}

/* The table is no larger than the input is worth, as it has to be emptied each time. */
static int table_bits(size_t size)
{
    int bits = TABLE_BITS_MIN;

    while (bits < TABLE_BITS_MAX && ((size_t)1 << bits) < size)
        bits++;
    return bits;
}

size_t lzf_encode(struct bytes input, char *out, size_t room)
{
    struct encoder encoder = { .in = (const uint8_t *)input.data, .size = input.size, .out = (uint8_t *)out, .room = room };
    uint32_t seen[1 << TABLE_BITS_MAX];         /* place + 1 */
    int bits = table_bits(input.size);

    memset(seen, 0, sizeof(seen[0]) << bits);
    for (size_t at = 0; at + LENGTH_MIN < encoder.size; ) {
        uint32_t bytes = three_bytes(encoder.in + at), *slot = &seen[bytes * 2654435761u >> (32 - bits)];
        size_t from = *slot, length = LENGTH_MIN, length_max = encoder.size - at < LENGTH_MAX ? encoder.size - at : LENGTH_MAX;

        *slot = (uint32_t)at + 1;
        if (from == 0 || at - (from - 1) > BACK_MAX || three_bytes(encoder.in + from - 1) != bytes) {
            at += 1 + ((at - encoder.literals_at) >> SKIP_SHIFT);
            continue;
        }
        from--;
        while (length < length_max && encoder.in[from + length] == encoder.in[at + length])
            length++;
        if (!put_reference(&encoder, at, from, length))
            return 0;
        at += length;
    }
    return put_literals(&encoder, encoder.size) ? encoder.out_size : 0;
}
