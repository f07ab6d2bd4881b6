/* Removal of keys: what DEL, UNLINK, EXPIRE and RESTORE share. */
#ifndef KELVIN_COMMANDS_KEYS_H
#define KELVIN_COMMANDS_KEYS_H

#include "call/key.h"
#include "config/config.h"

/* How to free the value, by one of the lazyfree-lazy-* settings. */
enum key_removal keys_removal(const struct call *call, enum config_id lazy);

#endif
