/* Ahead: the look-ahead of the replay and of a replica's applier. Sees commands some thousands before they run, finds the keys whose old
 * values they will need, and has those that are cold loaded (lifecycle/fetch.h). Just before a command runs it asks the CPU for the lines that
 * will be touched.
 *
 * Hints only: what it believes of databases and keys may be wrong by the time a command runs, which then loads in place. Only the hashes are facts.
 *
 * Owner: the thread of the replay, or of the applier.
 */
#ifndef KELVIN_LIFECYCLE_AHEAD_H
#define KELVIN_LIFECYCLE_AHEAD_H

#include "engine/engine.h"

enum { AHEAD_COMMANDS_MIN = 4096 };

/* The first key of a command. */
struct ahead_key {
    uint64_t number;                /* of the command */
    uint64_t hash;
    int db;                         /* -1: it has no key */
    int arg;                        /* the key's argument */
};

struct fetch;

struct ahead {
    struct engine *engine;
    struct fetch *fetch;            /* NULL: nothing is loaded ahead */
    int db;                         /* selected where the look-ahead is */
    uint64_t seen;                  /* commands: the number of the last one */
    uint64_t run;                   /* the number of the last one that has run */
    uint64_t fetched;               /* the CPU was asked for the lines up to this one */
    uint64_t barrier;               /* no hints until this many commands have run: a flush or a swap is among them */
    uint64_t recent_count;          /* a power of two */
    struct ahead_key recent[];      /* of the last commands that were seen, by their numbers */
};

/* For a caller that is at most `commands` ahead. */
struct ahead *ahead_create(struct engine *engine, uint64_t commands);
void ahead_destroy(struct ahead *ahead);

/* A command that will probably run. Returns its number: they count from 1. */
uint64_t ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count);
/* The command with this number is about to run (0: one that was not seen): waits until its keys are loaded, and asks the CPU for what it and
 * some after it will touch. Numbers ascend; one that is left out does not run. Returns its first key; NULL: it has none, or it is not known. */
const struct ahead_key *ahead_begin(struct ahead *ahead, uint64_t number);
/* Notes that it has run; `db` is selected now. */
void ahead_ran(struct ahead *ahead, int db);

#endif
