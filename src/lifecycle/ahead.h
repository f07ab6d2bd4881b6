/* Ahead: the replay's look-ahead. Sees commands some hundreds before they run, finds the keys whose old values they will need, and has
 * the loaders read those that are cold; for the others it asks the CPU for the lines that will be touched.
 *
 * Hints only: what it believes of databases and keys may be wrong by the time a command runs, which then loads in place.
 * The log is at most AHEAD_COMMANDS (persist/aof_replay.c) ahead; loads under way are bounded by a share of maxmemory as well.
 *
 * Owner: the replay's thread.
 */
#ifndef KELVIN_LIFECYCLE_AHEAD_H
#define KELVIN_LIFECYCLE_AHEAD_H

#include "engine/engine.h"

struct ahead {
    struct engine *engine;
    struct load_batch loads;        /* posted, not handed over yet */
    uint64_t load_count;            /* in `loads` */
    int db;                         /* selected where the look-ahead is */
    uint64_t seen, run;             /* commands */
    uint64_t barrier;               /* no hints until this many commands have run: a flush or a swap is among them */
    uint64_t room;                  /* loads that may still be posted before memory is looked at again */
};

/* A command that will run. */
void ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count);
/* The next command is about to run: hands the loads over. */
void ahead_submit(struct ahead *ahead);
/* It has run; `db` is selected now. */
void ahead_ran(struct ahead *ahead, int db);

#endif
