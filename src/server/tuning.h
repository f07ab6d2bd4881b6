/* Tuning: hands settings to the rooms that keep copies of them, at the start and with each CONFIG SET. */
#ifndef KELVIN_SERVER_TUNING_H
#define KELVIN_SERVER_TUNING_H

#include "engine/engine.h"

/* Applies all and registers for changes. The engine is complete but does not serve yet. */
void tuning_apply(struct engine *engine);

/* Bytes of a memtable of the store: tier-write-buffer, but no more than a sixteenth of maxmemory, for two may be held. */
size_t tuning_write_buffer(const struct config *config);

/* Warns in the log if maxmemory is below the smallest value with which the server can work. */
void tuning_look_at_memory(struct engine *engine);

#endif
