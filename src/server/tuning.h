/* Tuning: hands settings to those who keep copies of them, at start and with each CONFIG SET. */
#ifndef KELVIN_SERVER_TUNING_H
#define KELVIN_SERVER_TUNING_H

#include "engine/engine.h"

/* Applies all and registers for changes. The engine is complete but does not serve yet. */
void tuning_apply(struct engine *engine);

/* Bytes of a memtable of the store: tier-write-buffer, but no more than a sixteenth of maxmemory, for two may be held. */
size_t tuning_write_buffer(const struct config *config);

#endif
