/* Bus again: a message of the bus is read, and written again from what was read. For tests and the fuzz target. */
#ifndef KELVIN_TESTS_BUS_AGAIN_H
#define KELVIN_TESTS_BUS_AGAIN_H

#include "base/buffer.h"
#include "cluster/bus_message.h"

/* Appends the message as it is written, with the extensions in the order of Redis. */
void bus_again_write(const struct bus_message *message, struct buffer *out);

#endif
