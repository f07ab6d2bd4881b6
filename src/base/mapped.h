/* Mapped: a whole file as bytes in the address space, for reading. */
#ifndef KELVIN_BASE_MAPPED_H
#define KELVIN_BASE_MAPPED_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/message.h"

struct mapped {
    struct bytes bytes;
};

/* False: `message` has the system's text, and there is nothing to close. An empty file is fine. */
bool mapped_open(const char *path, struct mapped *mapped, struct message *message);
void mapped_close(struct mapped *mapped);

#endif
