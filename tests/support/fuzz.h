/* What fuzz targets share. A target is LLVMFuzzerTestOneInput(data, size), which libFuzzer calls, or tests/support/fuzz_main.c where there is
 * no clang. tests/README.md says how to run one.
 *
 * A target reads its input as a row of decisions: fuzz_below takes a byte or a few and returns a number. After the last byte a random
 * source continues, which the first eight bytes seed. So a short input is a seed for a long round, and every byte of a long one decides
 * something. The same input always gives the same round.
 */
#ifndef KELVIN_SUPPORT_FUZZ_H
#define KELVIN_SUPPORT_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/random.h"

struct fuzz_input {
    const uint8_t *data;
    size_t size, at;
    struct random random;       /* for functions of the server that need one, and for what comes after the bytes */
};

int LLVMFuzzerInitialize(int *count, char ***arguments);        /* optional; before the first input */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);   /* returns 0, or does not return */

void     fuzz_begin(struct fuzz_input *input, const uint8_t *data, size_t size);
uint64_t fuzz_next(struct fuzz_input *input);                           /* takes 8 bytes */
uint64_t fuzz_below(struct fuzz_input *input, uint64_t limit);          /* 0 .. limit - 1; takes as many bytes as the limit has, in little-endian */
int64_t  fuzz_integer(struct fuzz_input *input);                        /* of any magnitude, small ones as often as large ones */

/* Fills `room` with a text of at most `size_max` bytes, mostly short: an integer, one byte repeated, or any bytes. */
struct bytes fuzz_text(struct fuzz_input *input, char *room, size_t size_max);

/* Appends the bytes that are left. */
void fuzz_rest(struct fuzz_input *input, struct buffer *out);

/* Changes `bytes` in up to `changes_max` places: bits and bytes (half of these from `telling`, those that mean something to the parser),
 * bytes removed, doubled or cut off; more often in the first 24 bytes, where sizes and counts are. Grows to at most `size_max`.
 * Returns the offset of the first changed byte; what comes before it is as it was. */
size_t fuzz_damage(struct fuzz_input *input, struct buffer *bytes, struct bytes telling, int changes_max, size_t size_max);

/* A copy in a block of exactly its size, so that the sanitizer sees a read beyond the end. Freed with mem_free. */
struct bytes fuzz_exact_copy(struct bytes bytes);

#endif
