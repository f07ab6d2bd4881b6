/* The line of a client in CLIENT LIST and CLIENT INFO. */
#ifndef KELVIN_COMMANDS_CLIENT_LINE_H
#define KELVIN_COMMANDS_CLIENT_LINE_H

#include "base/buffer.h"
#include "call/call.h"

/* The call that asks for the line: its request was run from the loop's buffer, but is still a part of its client's. */
struct line_caller {
    uint64_t id;            /* the client's */
    size_t request_size;    /* bytes, as they were sent */
    size_t arguments_size;
};

struct line_caller line_caller_of(const struct call *call);

/* Appends the client's line, with the newline. `now_us` is monotonic. On the client's own worker. */
void client_line(struct buffer *out, const struct client *client, const struct line_caller *caller, int64_t now_us);

#endif
