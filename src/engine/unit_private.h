/* Unit, private: what the files of unit share with each other and with execute.c. */
#ifndef KELVIN_ENGINE_UNIT_PRIVATE_H
#define KELVIN_ENGINE_UNIT_PRIVATE_H

#include "engine/unit.h"

#define UNIT_NO_STACK "OOM there is no memory for the stack of this call"

/* unit_plan.c: what a request needs before it runs. */

/* A key that is known in advance. */
struct planned {
    int db;
    struct bytes name;
    uint64_t hash;
    uint32_t flags;
    bool is_hint;                   /* a script has declared it: it may use it, or not */
    bool changes_db;                /* its command is MOVE or COPY to another database */
};
/* Returns false to end the walk. */
typedef bool visit_key(void *context, const struct planned *key);
void unit_visit_keys(const struct call *call, visit_key *visit, void *context);
/* The database in which the next command that is queued will run. */
int unit_queued_db(const struct call *call);

/* Checks what EXEC has to know before anything else. True if it may run; else the reason was replied. */
bool unit_may_exec(struct call *call);
/* The flags of all commands that the request may run. */
uint32_t unit_flags(const struct call *call);
bool unit_may_write(const struct unit *unit);
/* Fills the claim with the partitions of the keys that are known in advance. */
void unit_want(struct unit *unit, struct call *call);
/* Asks for cold keys that are known in advance. Without locks. */
enum unit_loading { UNIT_IS_RESIDENT, UNIT_IS_LOADING, UNIT_CANT_LOAD };
enum unit_loading unit_load(struct call *call, struct worker *worker);

/* unit_call.c: unit_call for the request's own command, which is counted when the unit has ended. */
bool unit_call_uncounted(struct unit *unit, struct call *call);

/* unit.c */

/* Takes ownership of the partitions that the unit's claim was granted. False, for a unit that has not begun: a promise to a waiting client
 * is held there (blocking.h), and its client is woken when that has ended. */
bool unit_take_partitions(struct unit *unit);
/* The request of a client with a suspended unit is run again: goes on if what the unit waits for has come. */
enum run_result unit_resume(struct call *call, struct worker *worker);

#endif
