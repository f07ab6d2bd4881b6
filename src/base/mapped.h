/* Mapped: a whole file as bytes in the address space, for reading. What was read counts as resident memory until it is forgotten. */
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
/* `part` of a mapped file, and the rest of its pages, will not be read for now: they are no longer resident. They can be read again. */
void mapped_forget(struct bytes part);

#endif
