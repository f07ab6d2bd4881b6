/* Values: what is written under a key, and whether what comes back is that.
 *
 * Size and bytes are a function of the key's number and the generation, nothing else; so a reader knows every byte
 * without having been the writer. The bytes are printable and do not compress. Two generations of a key are of the
 * same size and differ in their bytes (those of a byte or two may coincide), which tells an update that was lost.
 */
#ifndef KELVIN_BENCHMARK_VALUES_H
#define KELVIN_BENCHMARK_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct value_rule {
    uint64_t size_min, size_max;    /* every key has its own size between these */
    uint64_t generation;
};

size_t value_size(const struct value_rule *rule, uint64_t key);
void value_write(const struct value_rule *rule, uint64_t key, size_t size, char *out);

/* The index of the first byte that differs from the value of that size, value.size when none does. */
size_t value_difference(const struct value_rule *rule, uint64_t key, struct bytes value);

#endif
