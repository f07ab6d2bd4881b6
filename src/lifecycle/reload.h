/* Reload: the data set of a running server is emptied and loaded again, from the dump or from the log: DEBUG RELOAD, DEBUG LOADAOF.
 *
 * A task (lifecycle/task.h). Its thread owns all partitions meanwhile, as a unit does, so that clients wait that need a key, and all others
 * are served. It has no part in the log: what is loaded is what the log says. So with appendonly yes a dump is only loaded if it was just
 * made, at the instant from which on all is owned; and keys that have expired are kept then, as the log does not say that they are gone.
 *
 * When it is done, all keys that clients watch have changed, and all caches of clients are invalid. If it fails while the log is on, the
 * log is loaded; if that fails, the process ends with status 1, as what it would serve is not what its log says.
 */
#ifndef KELVIN_LIFECYCLE_RELOAD_H
#define KELVIN_LIFECYCLE_RELOAD_H

#include <stdbool.h>

#include "base/message.h"
#include "engine/job.h"
#include "lifecycle/task.h"

struct engine;

struct reload_options {
    bool from_log;              /* needs appendonly yes */
    /* Else from the dump. Anything but the defaults needs appendonly no. */
    bool without_save;          /* the dump that is there */
    bool without_flush;         /* to what is there: keys and libraries of the same names are an error, ... */
    bool merges;                /* ... or are replaced */
};

/* A client that waits for it: call_wait_job was called with it. */
struct reload {
    struct job job;
    struct engine *engine;
    struct reload_options options;
    bool good;
    struct message message;     /* why not */
};

/* TASK_BUSY: one runs, the log is being switched on or off, or the server is about to end. The job is finished only if it was started. Any thread. */
enum task_start reload_start(struct reload *reload);
/* Joins the thread. After the workers have ended. */
void reload_stop(struct engine *engine);

#endif
