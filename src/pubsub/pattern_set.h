/* Pattern set: a copy of all patterns with their numbers of subscribers on each worker, as of one instant. Immutable, so that a channel is
 * matched against it without a lock. Thread-safe by its reference count.
 */
#ifndef KELVIN_PUBSUB_PATTERN_SET_H
#define KELVIN_PUBSUB_PATTERN_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "containers/dict.h"

struct pattern_set;

/* From a dict whose keys are patterns and whose values are arrays of `worker_count` numbers, uint32_t. With one holder. */
struct pattern_set *pattern_set_create(const struct dict *patterns, int worker_count, uint64_t version);
void pattern_set_hold(struct pattern_set *set);
void pattern_set_release(struct pattern_set *set);      /* the last holder frees it; NULL is fine */

uint64_t pattern_set_version(const struct pattern_set *set);
/* Returns the sum of the subscribers of all patterns that match, and sets wanted[i] for the workers that have any. */
uint64_t pattern_set_match(const struct pattern_set *set, struct bytes channel, bool *wanted);

#endif
