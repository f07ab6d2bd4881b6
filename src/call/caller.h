/* Caller: who has a call run, and what the call is spared or does in another way because of that.
 *
 * A caller is a row of this table: the set of its traits, a constant in client->caller. Everything that the executor, the units and the
 * commands do differently for a caller is a trait, so this table lists all of it. Inside a transaction or a script call->unit is set as well;
 * "in a unit" below is that state and not a caller.
 *
 *                  | finds commands | refused, paused | lacks memory      | cold key            | owned partition | promise | its changes       | events    | has to wait
 *   ---------------+----------------+-----------------+-------------------+---------------------+-----------------+---------+-------------------+-----------+-------------
 *   client         | by their names | yes             | parks, or OOM     | load, parks         | parks, or BUSY  | waits   | logged            | published | parks
 *   client in unit | by their names | before it began | before it began   | load, is suspended  | claims it       | served  | group in the log  | at the end| is suspended
 *   script         | by their names | each command    | before it began   | as its unit         | as its unit     | as unit | group in the log  | at the end| is suspended
 *   proxy          | by their names | writes held: no | is not asked      | in place, locked    | is held back    | serves  | logged            | published | is not served
 *   replay         | as logged      | no              | waits for memory  | ahead, or in place  | owns all        | none    | nowhere           | none      | runs again
 *   applier        | as logged      | by its own rule | waits for memory  | ahead, or in place  | waits, no BUSY  | waits   | as bytes received | published | runs again
 *   its group      | as logged      | by its own rule | waits for memory  | ahead, or in place  | owns it         | none    | as bytes received | published | runs again
 *
 * Scripts in a log or in a primary's stream have CALLER_SCRIPT beside the row of the log or of the stream.
 *
 * Owner: the client's worker, or the thread that replays or applies.
 */
#ifndef KELVIN_CALL_CALLER_H
#define KELVIN_CALL_CALLER_H

enum caller_trait {
    TRAIT_LOGGED_NAMES = 1 << 0,    /* finds commands by the names of their rows: `rename-command` does not concern it */
    /* Limits of times, and of sizes up to STREAMED_SIZE_MAX, checks of libraries and SCRIPT KILL are for clients, not for what was accepted before. */
    TRAIT_OBEYED = 1 << 1,
    TRAIT_UNGATED = 1 << 2,         /* not refused by role, disks, loading or a busy script; not paused; not queued as a big call */
    TRAIT_UNMETERED = 1 << 3,       /* the memory gate does not ask: it runs for a call that has passed */
    TRAIT_WAITS_IN_PLACE = 1 << 4,  /* never parked for memory, loads or jobs: its thread waits, or runs the call again */
    TRAIT_NOT_PARKED = 1 << 5,      /* never parked at all: what can't run now is given up, and tried again at another chance */
    TRAIT_LOADS_LOCKED = 1 << 6,    /* loads a cold key in place, under the lock: it must not wait, and there are few */
    TRAIT_BLIND = 1 << 7,           /* overwrites without loading the old value, even if a notification depends on that */
    TRAIT_SERVES = 1 << 8,          /* it keeps a promise: it waits for no promise, and serves no other client */
    TRAIT_CLAIMS_NOTHING = 1 << 9,  /* commands that need several partitions at once run as they are; its units claim and load nothing */
    TRAIT_OWNS = 1 << 10,           /* its thread owns what the call needs, or no client is served: no owner keeps it out */
    TRAIT_NEVER_BUSY = 1 << 11,     /* waits for a script that takes long instead of replying BUSY */
    TRAIT_UNLOGGED = 1 << 12,       /* its changes are not logged as the call's own words; messages are not sent to replicas */
    TRAIT_SILENT = 1 << 13,         /* no events, no messages: they were sent when the log was written */
    TRAIT_OFF_WORKER = 1 << 14,     /* its thread is no worker: events are posted to workers at once */
    TRAIT_UNMONITORED = 1 << 15,    /* MONITOR does not show its calls */
    TRAIT_IN_SCRIPT = 1 << 16,      /* runs the commands of a script */
};

enum caller {
    CALLER_CLIENT = 0,
    CALLER_SCRIPT = TRAIT_IN_SCRIPT,
    /* Runs the command of a client that waits for a key (engine/blocking.h). */
    CALLER_PROXY = TRAIT_UNGATED | TRAIT_UNMETERED | TRAIT_NOT_PARKED | TRAIT_LOADS_LOCKED | TRAIT_SERVES | TRAIT_NEVER_BUSY | TRAIT_UNMONITORED,
    CALLERS_OF_HISTORY = TRAIT_LOGGED_NAMES | TRAIT_OBEYED | TRAIT_UNGATED | TRAIT_WAITS_IN_PLACE | TRAIT_BLIND | TRAIT_CLAIMS_NOTHING | TRAIT_UNLOGGED,
    /* Replays a log; clients are not served, or get -LOADING (lifecycle/replay.h). */
    CALLER_REPLAY = CALLERS_OF_HISTORY | TRAIT_OWNS | TRAIT_SILENT | TRAIT_UNMONITORED,
    /* Applies a primary's stream while clients are served (replication/applier.h). */
    CALLER_APPLIER = CALLERS_OF_HISTORY | TRAIT_NEVER_BUSY | TRAIT_OFF_WORKER,
    /* The same between MULTI and EXEC: the group owns its partitions. */
    CALLER_APPLIER_GROUP = CALLER_APPLIER | TRAIT_OWNS,
};

#endif
