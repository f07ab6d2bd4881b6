/* Redirect: whether this server runs a call, by the slot of its keys: it is a node of a cluster, and other slots are those of other nodes.
 *
 * A call is looked at twice: early, without locks and before anything is waited for; and under the locks of its keys, since the slot may have gone while it
 * waited. A slot changes its state with its partition locked, so a call that runs sees one state. A call that was parked runs again from the top. Existence of
 * keys decides for a slot that moves, in RAM or not: cold keys are loaded, also those that are only overwritten.
 *
 *   state                   | a call                                           | after ASKING
 *   ------------------------+--------------------------------------------------+--------------------------------------------------
 *   SLOT_UNASSIGNED         | CLUSTERDOWN                                      | CLUSTERDOWN
 *   SLOT_FOREIGN            | MOVED                                            | MOVED
 *   SLOT_RECEIVED           | MOVED; of the migration that brings it: runs     | the same
 *   SLOT_OF_PRIMARY         | MOVED; a read after READONLY: runs               | the same
 *   SLOT_OWNED              | runs                                             | runs
 *   SLOT_HANDED_OVER        | a write waits for the next state, others run     | the same
 *   SLOT_IN_DOUBT           | waits for the next state                         | the same
 *   SLOT_EXPORTING          | all keys are here: runs; none: ASK; else TRYAGAIN| the same
 *   SLOT_IMPORTING          | MOVED                                            | runs; several keys, and some are not here: TRYAGAIN
 *
 * In the last two MOVE, and COPY to another database, get TRYAGAIN. Whether a key is here is asked for the database of the call.
 * MIGRATE runs in the last two. What a primary sends, a log, and proxies of clients that wait are not asked (TRAIT_UNGATED). Calls inside a unit were
 * judged with it; after its slot has gone they are refused.
 *
 * Owner: redirect_set, one thread at a time. All else: any thread.
 */
#ifndef KELVIN_ENGINE_REDIRECT_H
#define KELVIN_ENGINE_REDIRECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "call/call.h"
#include "keyspace/slot.h"

struct engine;

/* RECEIVED, HANDED_OVER, IN_DOUBT: at the ends of an atomic migration (cluster/slot_export.h). */
enum slot_state { SLOT_UNASSIGNED, SLOT_FOREIGN, SLOT_RECEIVED, SLOT_OF_PRIMARY, SLOT_OWNED, SLOT_HANDED_OVER, SLOT_IN_DOUBT, SLOT_EXPORTING, SLOT_IMPORTING };

/* A picture of all slots; by number. */
struct slot_states {
    uint8_t states[SLOT_COUNT];         /* enum slot_state */
    bool is_down;                       /* cluster_state: fail */
    uint64_t receipt;                   /* number of the migration that brings the SLOT_RECEIVED; 0: none */
};

/* Appends "host:port" for clients of this kind: the owner of the slot, or the node to which it moves. False: there is none, or it is this one: the slot
 * has just changed. Any thread, also with partitions locked. */
typedef bool redirect_address(void *context, unsigned slot, bool is_move, bool is_tls, struct buffer *out);

struct redirect {                       /* engine->redirect; NULL: no cluster */
    _Atomic uint8_t states[SLOT_COUNT]; /* in the order of hashes */
    _Atomic bool is_down;
    _Atomic uint64_t receipt;           /* see slot_states; client->receipt of the connection that brings them */
    _Atomic uint64_t flushed;           /* the last receipt during which the data set was emptied: it is worth nothing */
    redirect_address *address;
    void *context;
};

struct redirect *redirect_create(redirect_address *address, void *context);
void redirect_destroy(struct redirect *redirect);      /* NULL is fine */

/* The new states, partition by partition; clients that wait for keys of a slot that this server no longer serves, or while the cluster is down, run
 * their calls again, and so learn where it is. Without locks. */
void redirect_set(struct engine *engine, const struct slot_states *states);

/* Writes wait for the end of an atomic migration. */
static inline bool slot_state_is_held(enum slot_state state)
{
    return state == SLOT_HANDED_OVER || state == SLOT_IN_DOUBT;
}

static inline enum slot_state redirect_state(const struct redirect *redirect, uint64_t hash)
{
    return (enum slot_state)atomic_load_explicit(&redirect->states[hash >> SLOT_SHIFT], memory_order_relaxed);
}

/* Whether writes wait for the end of an atomic migration. `redirect` NULL: no. */
static inline bool redirect_is_held(const struct redirect *redirect, uint64_t hash)
{
    enum slot_state state = redirect != NULL ? redirect_state(redirect, hash) : SLOT_OWNED;

    return UNLIKELY(slot_state_is_held(state));
}

/* The usual call, which is let pass at once, early and under the locks: one key, of a slot that this server has, in a cluster that is up. */
static inline bool redirect_is_usual(const struct redirect *redirect, const struct call *call)
{
    return call->key_count == 1 && call->unit == NULL && redirect_state(redirect, call->keys[0].hash) == SLOT_OWNED &&
        !atomic_load_explicit(&redirect->is_down, memory_order_relaxed);
}

/* Whether another node sends keys to this one: the clock of their owner says when they expire, until they are this node's. `redirect` NULL: no. */
static inline bool redirect_receives(const struct redirect *redirect)
{
    return UNLIKELY(redirect != NULL) && atomic_load_explicit(&redirect->receipt, memory_order_relaxed) != 0;
}

/* Whether this connection brings keys of slots that are received. */
static inline bool redirect_is_receipt(const struct redirect *redirect, uint64_t receipt)
{
    return receipt != 0 && receipt == redirect->receipt && receipt != redirect->flushed;
}

/* The data set was emptied, with all partitions locked. `redirect` NULL is fine. */
static inline void redirect_note_flush(struct redirect *redirect)
{
    if (redirect != NULL)
        redirect->flushed = redirect->receipt;
}

/* Whether a key that is only overwritten has to be loaded. */
static inline bool redirect_needs_existence(const struct redirect *redirect, uint64_t hash)
{
    return redirect_state(redirect, hash) >= SLOT_EXPORTING;
}

/* REPLIED: where to go, and the transaction of EXEC has ended. WAITS: it is to be parked for PARKED_FOR_PAUSE. */
enum redirect_result { REDIRECT_RUNS, REDIRECT_REPLIED, REDIRECT_WAITS };

/* Early. The call has its keys, or is EXEC. For a command that is queued cold keys of a slot that moves are loaded in place. False: REPLIED. */
bool redirect_allows(struct call *call);
/* With the partitions of its keys locked, and the keys that are here resident. */
enum redirect_result redirect_judge_locked(struct call *call);
/* For a unit that owns its partitions and has not begun, without locks. *slot_judged: the slot that it has and that does not move, or -1. In each
 * other slot that moves, commands of a script are asked whether their keys are here; if this one begins to move later, the unit comes before that. */
enum redirect_result redirect_judge_unit(struct call *call, int *slot_judged);
/* Early, for a command of a script, which has its keys. NULL: it may run. `slot`: that of the script's keys so far, -1 for none yet; NULL: it may use
 * keys of several slots. */
const char *redirect_refuses_in_script(const struct call *call, int *slot);

#endif
