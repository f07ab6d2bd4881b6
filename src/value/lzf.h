/* LZF: the compression of long strings in RDB. Only read: what Kelvin writes is not compressed. */
#ifndef KELVIN_VALUE_LZF_H
#define KELVIN_VALUE_LZF_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

/* Appends exactly `size` bytes to `out`. STATUS_CORRUPT if the input does not give exactly as many; a size that no input
 * of this length could give is refused before memory is asked for. `out` is as it was then. */
enum status lzf_decode(struct bytes input, size_t size, struct buffer *out);

#endif
