/* Unit: calls that are one step for everybody else: a transaction, a script, a command that needs all partitions.
 *
 * A unit owns partitions (keyspace/owners.h) from its first call until its changes are in the log, as one group. Its calls run on a fiber,
 * each under the mutexes of its keys only, so nothing is locked while the unit waits, and it may wait in the middle: for a record, a job,
 * another owner, or because others should have their turn on the worker. It is then *suspended*, and its client is parked.
 *
 * Its life, on its client's worker:
 *   unit_run      checks that it may run; makes its keys resident, as far as they are known; claims its partitions; enters the fiber.
 *                 Before the claim is granted nothing was done: the request may start again from the top.
 *   the handler   of EXEC, EVAL ...: runs calls with unit_call
 *   the end       the group is appended, waiting clients are noted, the owners are cleared, the reply is given to the client
 *
 * A unit that needs a partition that it does not own takes it if it is free, and waits if it may: only the holder of the one token may
 * wait while it owns something. A unit that may write has the token from the start if it may need partitions that are not known in advance.
 * Others start again from the beginning, with the token: they have changed nothing.
 *
 * A command with COMMAND_OWNS_KEYS (MIGRATE) owns the partitions of its keys from its first run to its last, and waits for jobs in between. It
 * never claims more, so it needs no token: while it owns something it waits for its job, which waits for no owner and has a thread of its
 * own (JOB_OF_OWNER), for loads, and for memory, none of which wait for owners.
 *
 * A script of a log or a stream (older versions of Redis log scripts as they are) is a unit that claims and collects nothing: its thread owns
 * all partitions already, or no client is served, and the stream has the script itself. What it waits for, its thread waits for in place, and
 * then runs the request again.
 *
 * Owner: its worker, but for what is atomic.
 */
#ifndef KELVIN_ENGINE_UNIT_H
#define KELVIN_ENGINE_UNIT_H

#include "base/fiber.h"
#include "call/call.h"
#include "engine/blocking.h"
#include "engine/engine.h"
#include "engine/event_list.h"
#include "engine/publish.h"
#include "engine/script_start.h"
#include "keyspace/owners.h"
#include "stream/history.h"

struct running_script;
struct worker;

enum unit_wait {
    UNIT_RUNS,
    UNIT_WAITS_FOR_CLIENT,      /* for what its client is parked for: loads, a job, memory */
    UNIT_WAITS_FOR_OWNERS,      /* for its claim */
    UNIT_WAITS_FOR_SCRIPTS,     /* to begin: too many scripts have begun on this worker */
    UNIT_WAITS_FOR_TURN,        /* others first */
};

/* Why a unit ends early. */
enum unit_stop {
    UNIT_GOES_ON,
    UNIT_RESTARTS,              /* it may not wait for what it needs: it gives up what it owns, and runs again */
    UNIT_KILLED,                /* SCRIPT KILL, FUNCTION KILL */
    UNIT_ABANDONED,             /* the server ends */
};

/* A script that has called a command that writes is not killed, and one that is killed does not write: what comes first excludes the other. */
enum script_fate { SCRIPT_MAY_BE_KILLED, SCRIPT_HAS_WRITTEN, SCRIPT_IS_KILLED };

/* A message for the other nodes of a cluster, followed by its bytes. */
struct unit_message {
    struct unit_message *next;
    enum topic_kind kind;
    struct bytes channel, text;
};

struct unit {
    /* Kept from one unit to the next, empty. */
    struct claim claim;
    struct arena arena;
    struct reply reply;                 /* the client's, when the unit has ended */
    struct history_group group;             /* what will be logged */
    struct event_list events;           /* notifications that will be sent to other clients when it is logged, in the order of the changes */
    /* Zero when it begins: */
    struct worker *worker;
    struct unit *prev, *next;           /* in its worker's list, while it has a fiber; or in the queue of scripts */
    struct client *client;              /* whose request it is; may be `dead` */
    const struct command *command;      /* of the request */
    const struct bytes *args;           /* of the request, valid until the unit is suspended; set again whenever it is entered */
    int arg_count;
    struct fiber *fiber;                /* NULL: it has not begun */
    bool failed, error_counted;         /* the request was replied an error; it is in the statistics already */
    bool keeps_reply;                   /* see struct call */
    bool owns_all;
    bool has_script;                    /* it may run one: counted while it has a fiber */
    int slot_judged;                    /* its script was found to run there, to its end (redirect_allows_unit); -1: none */
    bool was_queued;                    /* it has waited for other scripts, and need not again */
    bool counts_as_busy;                /* in engine->busy.count */
    bool releases_pins;                 /* after each call: scripts, which may read more than fits */
    enum unit_wait wait;
    enum unit_stop stop;
    int restarts;
    int64_t now_ms, now_us;             /* wall clock: the time for all its calls, in two units */
    /* Monotonic clock: when the fiber was last entered, how long it had run before, and the time that was read last. */
    int64_t entered_ns, ran_ns, clock_ns;
    struct random random;               /* the worker's generator as it was before the first attempt: all attempts draw the same numbers */
    uint64_t script_random;             /* the same for the script's own generator; 0: not begun */
    uint64_t change_count;
    struct publish_batch messages;      /* of PUBLISH, with the notifications of what came before them */
    struct unit_message *first_message, *last_message;      /* of PUBLISH, for the other nodes of a cluster */
    struct noted_list noted;        /* what its calls have changed: served when it has ended */
    struct script_start start;          /* what the request is to run; or not found yet */
    struct running_script *script;      /* the script that runs; NULL: none */
    _Atomic int script_fate;            /* enum script_fate; any thread */
};

/* A request whose command is run as a unit. `call` has its command and keys; gates have been passed. `start`: what a script's request is to
 * run, which the unit takes over; NULL: it is none. */
enum run_result unit_run(struct call *call, struct worker *worker, const struct script_start *start);

/* On the fiber. Runs a command for the unit, of which `call` has command, client, reply and arguments, and waits for what it needs. False:
 * the unit is to end (unit->stop); nothing was replied. */
bool unit_call(struct unit *unit, struct call *call);
/* On the fiber: runs a command that runs calls of its own (EVAL in EXEC). */
void unit_run_inner(struct unit *unit, struct call *call);
/* On the fiber: a call of the unit that is to be run: the arguments are borrowed. */
struct call unit_new_call(struct unit *unit, struct client *client, struct reply *reply, const struct bytes *args, int arg_count);

/* On the fiber: lets others have their turn if the unit has run for long. False: the unit is to end. */
bool unit_go_on(struct unit *unit);

/* Returns whether the call is a unit's that owns partitions: it must not wait for what waits until no unit owns one. */
static inline bool unit_owns_something(const struct call *call)
{
    uint32_t count = call->partitions->count;

    return call->unit != NULL && partition_bits_next(&call->unit->claim.owned, 0, count) < count;
}

/* Values of a claim's `busy`. */
enum unit_busy { UNIT_BUSY_WITH_SCRIPT = 1, UNIT_BUSY_WITH_FUNCTION = 2 };
/* Returns whether the owner of a partition has run for so long that clients are refused with -BUSY. */
static inline bool unit_is_busy(const struct claim *claim)
{
    return atomic_load_explicit(&claim->busy, memory_order_relaxed) != 0;
}
/* Notes how long a unit has run: those that wait for it may be refused from some time on. */
void unit_note_busy(struct unit *unit, int64_t ran_ns);

/* The other nodes of the cluster get this message when the unit has ended. */
void unit_keep_message(struct unit *unit, enum topic_kind kind, struct bytes channel, struct bytes text);

/* The client is being closed, and its unit waits to begin: the unit is dropped. False: it has begun, and has to go on to its end. */
bool unit_drop(struct unit *unit);
/* A suspended unit ends now. What it has changed is neither logged nor replied. On its worker. */
void unit_abandon(struct unit *unit);
/* Frees what the worker keeps for its next unit. */
void unit_free_spare(struct worker *worker);
#endif
