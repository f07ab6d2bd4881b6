/* Fetcher: a thread that reads the server at intervals, so that the screen never waits for it.
 *
 *     fetcher_fd becomes readable when there is something new; fetcher_take returns it.
 */
#ifndef KELVIN_TOP_FETCHER_H
#define KELVIN_TOP_FETCHER_H

#include <stdbool.h>

#include "base/message.h"
#include "reading.h"

struct fetcher;
struct options;

/* One attempt to read the server. */
struct fetched {
    struct reading *reading;        /* NULL: it failed; the taker destroys it */
    struct advice advice;           /* the newest; nothing is known without one */
    struct message failure;
};

/* NULL: `message` has the reason. The thread runs until the process ends, by _exit, as a name look-up can't be interrupted; `options` has to
 * exist as long. */
struct fetcher *fetcher_start(const struct options *options, struct message *message);
int fetcher_fd(const struct fetcher *fetcher);
/* False: nothing new. What was not taken in time is replaced by what is newer. */
bool fetcher_take(struct fetcher *fetcher, struct fetched *fetched);

#endif
