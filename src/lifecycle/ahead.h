/* Ahead: the look-ahead of the replay and of a replica's applier. Sees commands some thousands before they run, finds the keys whose old
 * values they will need, and has those that are cold loaded (lifecycle/fetch.h). Just before a command runs it asks the CPU for the lines that
 * will be touched.
 *
 * Hints only: what it believes of databases and keys may be wrong by the time a command runs, which then loads in place.
 *
 * Owner: the thread of the replay, or of the applier.
 */
#ifndef KELVIN_LIFECYCLE_AHEAD_H
#define KELVIN_LIFECYCLE_AHEAD_H

#include "engine/engine.h"

enum { AHEAD_COMMANDS_MIN = 4096 };

struct ahead_key {
    uint64_t hash;
    int db;                         /* -1: the command has no key */
};

struct fetch;

struct ahead {
    struct engine *engine;
    struct fetch *fetch;            /* NULL: nothing is loaded ahead */
    int db;                         /* selected where the look-ahead is */
    uint64_t seen, run;             /* commands */
    uint64_t barrier;               /* no hints until this many commands have run: a flush or a swap is among them */
    uint64_t recent_count;          /* a power of two */
    struct ahead_key recent[];      /* the first keys of the last commands that were seen, by their numbers */
};

/* For a caller that is at most `commands` ahead. */
struct ahead *ahead_create(struct engine *engine, uint64_t commands);
void ahead_destroy(struct ahead *ahead);

/* A command that will run. */
void ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count);
/* The next command is about to run: waits until its keys are loaded. */
void ahead_submit(struct ahead *ahead);
/* Notes that a command has run; `db` is selected now. */
void ahead_ran(struct ahead *ahead, int db);

#endif
