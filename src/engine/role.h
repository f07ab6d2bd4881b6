#ifndef KELVIN_ENGINE_ROLE_H
#define KELVIN_ENGINE_ROLE_H

#include "engine/engine.h"

static inline bool role_is_replica(const struct engine *engine) { return false; }
static inline bool role_link_is_up(const struct engine *engine) { return false; }

#endif
