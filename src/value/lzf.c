#include "value/lzf.h"

#include <stdint.h>

/* token = 000lllll: l + 1 bytes follow as they are
 *       | lllooooo oooooooo: l + 2 bytes, o + 1 back in what was already given
 *       | 111ooooo l oooooooo: l + 9 bytes, likewise
 */
enum { RATIO_MAX = 88 };        /* 264 bytes for a token of three */

enum status lzf_decode(struct bytes input, size_t size, struct buffer *out)
{
    const uint8_t *in = (const uint8_t *)input.data, *in_end = in + input.size;
    uint8_t *start, *to, *to_end;

    if (size / RATIO_MAX > input.size)
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
