/* Pulse: whether the workers take their turns. A worker without work ends a turn with each tick of its timer, so one without a new turn hangs, or runs a
 * call that takes as long.
 *
 * Owner: the caller, which looks from time to time, at least once in the patience; each user has a pulse of its own. The workers only count their turns, as
 * they do for INFO.
 */
#ifndef KELVIN_ENGINE_PULSE_H
#define KELVIN_ENGINE_PULSE_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct pulse;

struct pulse *pulse_create(const struct engine *engine);        /* its workers are there, and do not change */
void pulse_destroy(struct pulse *pulse);                        /* NULL is fine */

/* Whether each worker has ended a turn within the patience, as far as the looks tell: half of cluster-node-timeout, but at least three ticks. `now_ms` is
 * monotonic. */
bool pulse_look(struct pulse *pulse, int64_t now_ms);

#endif
