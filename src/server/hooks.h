/* Hooks: callbacks of lower rooms, connected to the engine. */
#ifndef KELVIN_SERVER_HOOKS_H
#define KELVIN_SERVER_HOOKS_H

#include "engine/engine.h"
#include "tier/tier.h"

/* The engine stays where it is. What they reach for in it (workers, log, lazy_free) is there before the tier is started. */
struct tier_hooks hooks_of_tier(struct engine *engine);
struct key_hooks hooks_of_keys(struct engine *engine);
/* The main worker's cron, for engine->upper. */
void hook_cron(struct engine *engine);

#endif
