/* Tuning: hands settings to those who keep copies of them, at start and with each CONFIG SET. */
#ifndef KELVIN_SERVER_TUNING_H
#define KELVIN_SERVER_TUNING_H

#include "engine/engine.h"

/* Applies all and registers for changes. The engine is complete but does not serve yet. */
void tuning_apply(struct engine *engine);

#endif
