/* Scripts: the room script/ in this engine: an interpreter for each worker, and one for libraries that are being loaded. */
#ifndef KELVIN_ENGINE_SCRIPTS_H
#define KELVIN_ENGINE_SCRIPTS_H

#include "engine/engine.h"
#include "script/registry_load.h"
#include "script/registry_view.h"

/* The worker's view of the registry, up to date. Its interpreter is made when it is needed for the first time. On the worker. */
struct registry_view *scripts_of(struct worker *worker);
/* The memory of its interpreter has changed: for INFO. */
void scripts_measure(struct worker *worker);
/* Bytes of all workers' interpreters. Any thread. */
uint64_t scripts_memory(const struct engine *engine);
/* Lets go of what is no longer current, if the worker has an interpreter. From time to time, on the worker. */
void scripts_refresh(struct worker *worker);
void scripts_release(struct worker *worker);

/* Libraries are loaded in an interpreter of their own, with no lock held, on any thread; redis.log writes to the server's log. */
enum scripts_trust {
    SCRIPTS_OF_CLIENT,          /* FUNCTION LOAD, FUNCTION RESTORE: it may take 500 ms */
    SCRIPTS_OF_DATA,            /* the log, an image, a dump: it was accepted once */
};
struct scripts_load {
    struct registry_load load;
    struct interpreter *interpreter;
    struct script_host host;
};
void scripts_load_init(struct scripts_load *load, struct engine *engine, enum scripts_trust trust);
/* Nothing more is to be loaded, only published. */
void scripts_load_end(struct scripts_load *load);
void scripts_load_release(struct scripts_load *load);

#endif
