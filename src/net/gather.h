/* Gather: small requests that several clients have sent are kept until the loop has read from all of them, or from 16, and run then. What they
 * will touch is fetched into the CPU's cache together, as for the requests of one pipeline (engine/prefetch.h).
 *
 * Owner: the loop's thread. What is gathered runs before the turn ends, and before libuv closes a handle.
 */
#ifndef KELVIN_NET_GATHER_H
#define KELVIN_NET_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/prefetch.h"

struct connection;
struct loop;

enum { GATHER_COUNT = 16, GATHER_SIZE = 512 };

struct gather {
    struct connection *connections[GATHER_COUNT];
    struct request_hint hints[GATHER_COUNT];        /* an empty key: none was found, or it has no hint */
    size_t sizes[GATHER_COUNT];
    int count;
    bool running;
    char data[GATHER_COUNT][GATHER_SIZE];
};

/* Keeps a copy of what was read; the connection had nothing that waits to be run. Runs all when there is no room for more. False: too large. */
bool gather_add(struct loop *loop, struct connection *connection, const char *data, size_t size);
/* Runs all that is there. */
void gather_run(struct loop *loop);

#endif
