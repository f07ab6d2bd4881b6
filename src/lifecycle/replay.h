/* Replay: the log's commands run again, before clients are served. */
#ifndef KELVIN_LIFECYCLE_REPLAY_H
#define KELVIN_LIFECYCLE_REPLAY_H

#include "base/message.h"
#include "base/status.h"

struct engine;

/* Replays the log into the engine, on the calling thread, while the state is ENGINE_LOADING. */
enum status replay_log(struct engine *engine, struct message *message);

/* The same for the log of a server that runs, from the log's increments (and a base that is an RDB file), while no client can reach a key. */
enum status replay_log_again(struct engine *engine, struct message *message);

#endif
