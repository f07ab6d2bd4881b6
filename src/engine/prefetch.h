/* Prefetch: the requests of a pipeline are looked at before they run, so that the memory they will touch is on its way into the CPU's cache.
 * Only the first argument after the command's name is looked at, as nearly all commands have their key there.
 */
#ifndef KELVIN_ENGINE_PREFETCH_H
#define KELVIN_ENGINE_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct engine;

/* Results that engine_run need not compute again. */
struct request_hint {
    /* Set by the caller. */
    struct bytes key;       /* the first argument after the name; borrowed */
    int db;

    uint64_t hash;          /* of it */
    /* Private. */
    const char *at;         /* what is to be fetched next; NULL: nothing */
    bool is_absent;         /* the key has no entry: what the tier knows of it is fetched */
};

/* Computes the hashes, and begins to fetch. Waits for no lock: what is in a partition that another thread has locked is not fetched. */
void prefetch_requests(const struct engine *engine, struct request_hint *hints, int count);
/* The same for hashes that the caller has set; no key is looked at. */
void prefetch_hashed(const struct engine *engine, struct request_hint *hints, int count);

#endif
