/* Values: generates the values of keys, and checks values that were read.
 *
 * Size and bytes depend only on the key's number and the generation, so that a process that did not write a value can
 * check every byte of it. The bytes are printable and do not compress. Two generations of a key have the same size and
 * different bytes (values of one or two bytes may be equal), so that a lost update is found.
 */
#ifndef KELVIN_BENCHMARK_VALUES_H
#define KELVIN_BENCHMARK_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct value_rule {
    uint64_t size_min, size_max;    /* each key has its own size in this range */
    uint64_t generation;
};

size_t value_size(const struct value_rule *rule, uint64_t key);
void value_write(const struct value_rule *rule, uint64_t key, size_t size, char *out);

/* Returns the index of the first byte that differs from the expected value of this size, value.size if none does. */
size_t value_difference(const struct value_rule *rule, uint64_t key, struct bytes value);

#endif
