#include "value/lzf.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <liblzf/lzf.h>

/* token = 000lllll: l + 1 bytes follow as they are
 *       | lllooooo oooooooo: l + 2 bytes, from o + 1 before the end of what is unpacked so far
 *       | 111ooooo l oooooooo: l + 9 bytes, likewise
 */
enum {
    RATIO_MAX = 88,                 /* 264 bytes for a token of three */
    CLAIM_CHECKED_MIN = 1 << 20,    /* for smaller sizes checking costs more than it saves */
    INPUT_SIZE_MIN = 2,             /* lzf_compress reads two bytes of any input */
};

/* True if the tokens give exactly `size` bytes; only their lengths are looked at. */
static bool tokens_give(struct bytes input, size_t size)
{
    const uint8_t *in = (const uint8_t *)input.data, *in_end = in + input.size;

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
    if (input.size == 0 || size == 0)           /* lzf_decompress reads one byte of any input */
        return input.size == size ? STATUS_OK : STATUS_CORRUPT;
    if (size > UINT_MAX || input.size > UINT_MAX || size / RATIO_MAX > input.size ||
        (size >= CLAIM_CHECKED_MIN && !tokens_give(input, size)))
        return STATUS_CORRUPT;
    if (lzf_decompress(input.data, (unsigned)input.size, buffer_reserve(out, size), (unsigned)size) != size)
        return STATUS_CORRUPT;
    out->size += size;
    return STATUS_OK;
}

size_t lzf_encode(struct bytes input, char *out, size_t room)
{
    if (input.size < INPUT_SIZE_MIN || input.size > UINT_MAX)
        return 0;
    return lzf_compress(input.data, (unsigned)input.size, out, room < UINT_MAX ? (unsigned)room : UINT_MAX);
}
