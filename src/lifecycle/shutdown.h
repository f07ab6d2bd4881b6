/* Shutdown: SHUTDOWN and the signals. On a thread of its own it does what is to be done before the end (shutdown_prepare), while the
 * workers go on serving; then the process ends, or, if that failed, goes on as if nothing had been asked.
 *
 * Threads: any, but where said. One end at a time: who asks meanwhile waits for the same one.
 */
#ifndef KELVIN_LIFECYCLE_SHUTDOWN_H
#define KELVIN_LIFECYCLE_SHUTDOWN_H

#include <stdbool.h>

#include "base/message.h"
#include "engine/job.h"

struct engine;
struct shutdown;

struct shutdown *shutdown_create(struct engine *engine);
/* After the workers, before the job pool. NULL is fine. */
void shutdown_destroy(struct shutdown *shutdown);

/* `flags`: enum config_shutdown. `wait` (NULL: nobody) is finished when the end was refused: the client gets an error. It is never
 * answered otherwise. With CONFIG_SHUTDOWN_NOSAVE one that is under way gives its dump up and ends. */
void shutdown_ask(struct shutdown *shutdown, int flags, struct job *wait);
/* A signal: with the flags that are configured for it. A second SIGINT ends at once, with status 1. On the main worker. */
void shutdown_signal(struct shutdown *shutdown, int number);
/* SHUTDOWN ABORT. False: there is none under way, or it is too late. */
bool shutdown_abort(struct shutdown *shutdown);

/* What is to be done before the process may end (`flags`: enum config_shutdown, 0 is the default): a log that is being switched on or off
 * comes to where it goes; with save points or CONFIG_SHUTDOWN_SAVE a dump. False: it failed, the server should go on, and does, as if nothing had been asked; `message`
 * says why. Not if flags has CONFIG_SHUTDOWN_FORCE. Blocks; not on a worker. */
bool shutdown_prepare(struct engine *engine, int flags, struct message *message);

#endif
