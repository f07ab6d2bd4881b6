/* Shutdown: SHUTDOWN and the signals. On a thread of its own it does what is to be done before the end while the workers
 * go on serving; then the process ends, or, if that failed, goes on as if nothing had been asked.
 *
 * A server with replicas first waits until they have acknowledged all of its history, for shutdown-timeout at most, while writes wait.
 *
 * Threads: any, unless said otherwise. One at a time: a client that asks meanwhile waits for the same one. A task (lifecycle/task.h).
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

/* `flags`: enum config_shutdown. `wait` (may be NULL) is finished when the end was refused: the client gets an error, and else no reply.
 * With CONFIG_SHUTDOWN_NOSAVE a shutdown in progress cancels its dump and ends; with CONFIG_SHUTDOWN_NOW it waits for no replica any more. */
void shutdown_ask(struct shutdown *shutdown, int flags, struct job *wait);
/* A signal: with the flags that are configured for it. A second SIGINT ends at once, with status 1. On the main worker. */
void shutdown_signal(struct shutdown *shutdown, int number);
/* Milliseconds for which replicas are still waited for (shutdown-timeout); -1: they are not. Any thread. */
int64_t shutdown_left_ms(const struct shutdown *shutdown);
/* SHUTDOWN ABORT. False: none is in progress, or it is too late. */
bool shutdown_abort(struct shutdown *shutdown);

#endif
