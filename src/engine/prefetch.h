/* Prefetch: the requests of a pipeline are looked at before they run, so that the memory they will touch is on its way into the CPU's cache.
 *
 * The caller passes all requests of a batch through one stage before any goes through the next one; what a stage has fetched is there when the
 * next one needs it. Only the first argument after the command's name is looked at, as nearly all commands have their key there.
 */
#ifndef KELVIN_ENGINE_PREFETCH_H
#define KELVIN_ENGINE_PREFETCH_H

#include <stdint.h>

#include "base/bytes.h"

struct client;
struct engine;

/* What engine_run need not compute again. */
struct request_hint {
    uint64_t hash;          /* of the first argument after the name */
};

/* First stage: the partition. */
void prefetch_partition(const struct engine *engine, struct bytes key, struct request_hint *hint);
/* Second stage: the bucket; third stage: the entry. Neither waits for a lock: nothing is fetched if another thread has the partition. */
void prefetch_bucket(const struct engine *engine, const struct client *client, const struct request_hint *hint);
void prefetch_entry(const struct engine *engine, const struct client *client, const struct request_hint *hint);

#endif
