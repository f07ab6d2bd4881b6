/* Ahead: the look-ahead of the replay and of a replica's applier. Sees commands some thousands before they run, finds the keys whose old
 * values they will need, and has those that are cold read. Just before a command runs it asks the CPU for the lines that will be touched.
 *
 * Hints only: what it believes of databases and keys may be wrong by the time a command runs, which then loads in place.
 *
 * Two ways. The replay reads far ahead, and has windows of keys loaded in bulk (lifecycle/fetch.h). The applier follows a primary, and is
 * at times a few commands ahead only: each key is looked up here, and the loaders read it; loads under way are bounded by a share of maxmemory.
 *
 * By loads, a key passes through three steps, each a few keys after the one before it, so that the memory that a step reads has come into the cache:
 * its bucket is asked for; its entry and its tag are asked for; it is looked up.
 *
 * Owner: the thread of the replay, or of the applier.
 */
#ifndef KELVIN_LIFECYCLE_AHEAD_H
#define KELVIN_LIFECYCLE_AHEAD_H

#include "engine/engine.h"

enum {
    AHEAD_HINTS = 32,               /* keys between the first step and the last; a power of two */
    AHEAD_KEY_COPY = 48,            /* longer keys are looked up at once */
    AHEAD_COMMANDS_MIN = 4096,
};

struct ahead_hint {
    uint64_t hash;
    uint32_t flags;                 /* KEY_... */
    int db;
    size_t size;
    char key[AHEAD_KEY_COPY];
};

struct ahead_key {
    uint64_t hash;
    int db;                         /* -1: the command has no key */
};

struct fetch;

struct ahead {
    struct engine *engine;
    struct fetch *fetch;            /* NULL: by loads */
    struct load_batch loads;        /* posted, not handed over yet */
    uint64_t load_count;            /* in `loads` */
    int db;                         /* selected where the look-ahead is */
    uint64_t seen, run;             /* commands */
    uint64_t barrier;               /* no hints until this many commands have run: a flush or a swap is among them */
    uint64_t room;                  /* loads that may still be posted before memory is looked at again */
    uint64_t asked, fetched, looked_up;             /* keys that have passed the first, second, third step */
    struct ahead_hint hints[AHEAD_HINTS];           /* those between `looked_up` and `asked` */
    uint64_t recent_count;          /* a power of two */
    struct ahead_key recent[];      /* the first keys of the last commands that were seen, by their numbers */
};

enum ahead_way { AHEAD_BY_LOADS, AHEAD_IN_BULK };

/* For a caller that is at most `commands` ahead. */
struct ahead *ahead_create(struct engine *engine, enum ahead_way way, uint64_t commands);
void ahead_destroy(struct ahead *ahead);

/* A command that will run. */
void ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count);
/* The next command is about to run: hands the loads over. In bulk: waits until its keys are loaded. */
void ahead_submit(struct ahead *ahead);
/* It has run; `db` is selected now. */
void ahead_ran(struct ahead *ahead, int db);

#endif
