/* LZF: the compression of long strings in RDB files, and of the inner chunks of lists (list-compress-depth). What DUMP and the store's
 * records hold is not compressed.
 *
 * The format is that of Marc Lehmann's library: runs of literal bytes, and references to three or more bytes at most 8192 back.
 */
#ifndef KELVIN_VALUE_LZF_H
#define KELVIN_VALUE_LZF_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

/* Appends exactly `size` bytes to `out`. STATUS_CORRUPT if the input does not give exactly as many; if `size` is 1 MiB or more, that is
 * found out before memory is asked for. `out` is as it was then. How much may be unpacked at all is the caller's to say. */
enum status lzf_decode(struct bytes input, size_t size, struct buffer *out);

/* Writes `input` compressed into `out`, which has room for `room` bytes. Returns how many there are; 0 if it needs more room than
 * that. Inputs of less than 4 bytes never get smaller. Of what does not compress, less and less is looked at. At most 2 GiB. */
size_t lzf_encode(struct bytes input, char *out, size_t room);

#endif
