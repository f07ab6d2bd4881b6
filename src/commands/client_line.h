/* The line of a client in CLIENT LIST and CLIENT INFO. */
#ifndef KELVIN_COMMANDS_CLIENT_LINE_H
#define KELVIN_COMMANDS_CLIENT_LINE_H

#include "base/buffer.h"
#include "call/client.h"

/* Appends the client's line, with the newline. `caller` is the ID of the client that runs the command. On the client's own worker. */
void client_line(struct buffer *out, const struct client *client, uint64_t caller, int64_t now_ms);

#endif
