/* Load ring: the loads of one worker whose records are in segments, read and installed by the worker itself, without threads between
 * (base/read_ring.h). The loads of a turn are submitted in one system call; completions come into the worker's loop, and clients of this
 * worker that waited go on in the same turn.
 *
 * Loaders (tier/loader.h) get what the ring does not read: records in LevelDB, records of more than LOAD_RING_RECORD_MAX bytes, loads whose
 * read failed here (they read again, and report what is wrong), and everything where io_uring can't be used.
 *
 * At most LOAD_RING_DEPTH reads are in flight, with LOAD_RING_BYTES of buffers; more loads wait in the ring.
 *
 * What has been read is installed between two calls of the worker: a call that takes long delays it, also for clients of other workers that
 * wait for the same keys.
 *
 * Owner: its worker. It may be opened by another thread before the worker runs.
 */
#ifndef KELVIN_TIER_LOAD_RING_H
#define KELVIN_TIER_LOAD_RING_H

#include "tier/tier.h"

enum { LOAD_RING_DEPTH = 128, LOAD_RING_RECORD_MAX = 64 * 1024, LOAD_RING_BYTES = 2 * 1024 * 1024 };

struct load_ring;

/* NULL: io_uring can't be used, so loaders read all. The first ring that can't be opened logs the reason. */
struct load_ring *load_ring_open(struct tier *tier, struct worker *worker);
/* On the worker, before its loop ends: reads and installs what is still in flight or waits, so that no load is left. NULL is fine. */
void load_ring_close(struct load_ring *ring);

/* Readable when load_ring_collect has something to do: for the worker's loop. */
int load_ring_descriptor(const struct load_ring *ring);

/* Installs what has been read, and submits what waited for it. Clients that waited are in the mail then, and this worker is not rung: it
 * reads its mail next. */
void load_ring_collect(struct load_ring *ring);

#endif
