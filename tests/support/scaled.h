/* How much a long unit test does: `make test` sets KELVIN_SHORT, as for the tests over the wire (scaled in tests/support/server.py). */
#ifndef KELVIN_SUPPORT_SCALED_H
#define KELVIN_SUPPORT_SCALED_H

/* Returns the number of rounds, or a fifth of it with KELVIN_SHORT; at least 1. Any thread. */
int scaled(int rounds);

#endif
