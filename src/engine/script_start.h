/* Script start: what a request of EVAL, FCALL ... is going to run. engine/script_run.h fills it. */
#ifndef KELVIN_ENGINE_SCRIPT_START_H
#define KELVIN_ENGINE_SCRIPT_START_H

#include <stdbool.h>
#include <stdint.h>

struct source;
struct library;
struct library_function;

/* The script or function that a request is going to run. */
struct script_start {
    struct source *source;                  /* held; or NULL: a function */
    struct library *library;                /* held */
    const struct library_function *function;        /* of the library */
    uint32_t flags;                         /* enum script_flags, or SCRIPT_COMPATIBLE */
    bool reads_only;                        /* EVAL_RO, FCALL_RO, or the script says so */
    bool lacks_memory;                      /* writes that need memory get an error */
    bool is_found;
};

#endif
