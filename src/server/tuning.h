/* Tuning: hands settings to the rooms that keep copies of them, at the start and with each CONFIG SET. */
#ifndef KELVIN_SERVER_TUNING_H
#define KELVIN_SERVER_TUNING_H

#include "engine/engine.h"

/* Applies all and registers for changes. The engine is complete but does not serve yet. */
void tuning_apply(struct engine *engine);

/* Bytes of a memtable of the store: tier-write-buffer, but no more than a sixteenth of maxmemory, for two may be held. */
size_t tuning_write_buffer(const struct config *config);

/* Bytes: the smallest maxmemory, in whole MiB, at which what the server needs for itself fits below tier-low-watermark: what it used before
 * there was data, write buffers, block cache, a batch and LevelDB's copy of it, and one database in all partitions. What grows with
 * the data (the record map, tables of the store, more databases) is not in it. After info_start. */
uint64_t tuning_memory_min(const struct engine *engine);
/* Warns in the log if maxmemory is below that. */
void tuning_look_at_memory(struct engine *engine);

#endif
