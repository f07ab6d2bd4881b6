/* LZF: the compression of long strings in RDB files, and of the inner chunks of lists (list-compress-depth). What DUMP and the store's
 * records hold is not compressed. liblzf does the work; this file adds what it does not check.
 */
#ifndef KELVIN_VALUE_LZF_H
#define KELVIN_VALUE_LZF_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

/* Appends exactly `size` bytes to `out`. STATUS_CORRUPT if the input does not unpack to exactly `size` bytes, or if `size` is 4 GiB or
 * more; from 1 MiB on this is checked before memory is allocated. `out` then has its old size. The caller limits `size`. */
enum status lzf_decode(struct bytes input, size_t size, struct buffer *out);

/* Writes `input` compressed into `out`, which has room for `room` bytes. Returns the compressed size; 0 if it needs more room (up to 3
 * bytes of `room` may stay unused), or if `input` has less than 2 bytes, or 4 GiB and more. Needs 256 KiB of stack.
 *
 * The same input may give other bytes the next time, all of which unpack to it: the library does not clear its table. */
size_t lzf_encode(struct bytes input, char *out, size_t room);

#endif
