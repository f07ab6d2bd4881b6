/* The names of the flags of scripts and functions (enum script_flags in host.h). */
#ifndef KELVIN_SCRIPT_FLAGS_H
#define KELVIN_SCRIPT_FLAGS_H

#include <stdint.h>

#include "base/bytes.h"

/* The flag with this name, compared with regard to case; 0: none. */
uint32_t script_flag_of(struct bytes name);
/* The flags in the order in which clients see them: the name of the one at `index`, and the flag; NULL: there are no more. */
const char *script_flag_at(int index, uint32_t *flag);

#endif
