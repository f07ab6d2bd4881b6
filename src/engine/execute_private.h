/* Execute, private: what the files of execute share. What every call goes through stays together, where it is inlined: in execute.c, and
 * from the locks on in execute_locked.c. The others have what few calls need. All on the call's worker.
 */
#ifndef KELVIN_ENGINE_EXECUTE_PRIVATE_H
#define KELVIN_ENGINE_EXECUTE_PRIVATE_H

#include "engine/engine.h"
#include "tier/tier.h"

enum { BIG_CALL_COLD_KEYS = 512 };

enum residency {
    RESIDENT,
    WAITING,        /* for loads */
    UNREADABLE,
    REAPED,         /* some of a hash's many dead fields were removed: the call starts again from the top, others come in between */
    HELD,           /* a key that is to be changed is needed as it is, and too big to be copied (tier rule 9) */
    QUEUED,         /* another call that needs many cold keys is running (tier rule 7) */
    TOO_BIG,        /* it would need too much memory at once */
    SHORT,          /* a key is to be loaded, and there is no memory for it just now (tier rule 7) */
    REPLIES_FULL,   /* its reply holds a long string, and replies hold too many already; nothing was changed */
    OWNED,          /* a partition belongs to a unit (engine/unit.h) */
    BUSY,           /* the same, and the unit has run for so long that the call is refused */
    FROZEN,         /* the last dump before the end is being taken: no write may come after it */
    REDIRECTED,     /* its slot has gone since the call was checked, or keys of a slot that moves are not here; replied */
    HOMELESS,       /* the partition that has the pages of a value is to be locked, too (call->lacks_home) */
    NOT_WRITABLE,   /* this server has become a replica since the call was checked: it is refused */
};

/* execute.c */

void execute_find_keys(struct call *call, struct worker *worker);
/* Monitors get what has run, or begins to wait for a key. */
void execute_notify_monitors(struct call *call, struct worker *worker);
/* Counts a call that has ended. */
void execute_account(struct call *call, struct worker *worker, int64_t taken_ns);

/* execute_unit.c: a request that is run as a unit, or queued for one; false: it was refused. */
enum attempt { RAN, PARKED, REFUSED };
/* The error that was replied is taken back. */
void execute_take_back(struct call *call);
/* An EXEC was refused, with an error: the transaction is discarded, and the error is given as the reason. */
void execute_discard(struct call *call);
/* Whether there is memory for queueing the call's command. False: it is parked, or an error was replied. */
bool execute_may_queue(struct call *call, struct worker *worker);
enum attempt execute_unit(struct call *call, struct worker *worker);

/* execute_locked.c. Locks, runs, unlocks. Afterwards the call is parked, asks for more keys, or is done. */
enum run_result execute_once(struct call *call, struct worker *worker);

/* execute_note.c: slow log, latency events, error statistics. */

/* The client's call is parked, and not by a blocking command. */
void execute_note_parked(struct client *client);
/* Notes that the client's call runs again. */
void execute_note_resumed(struct client *client, int64_t now_us);
/* The client's call has ended that had waited. */
void execute_note_waits(struct call *call);

void execute_note_call(struct call *call, int64_t us);
void execute_note_keys(struct call *call, int64_t ns);      /* for HOTKEYS */
void execute_note_error(struct call *call);
/* Counts a call that was refused; its error has been replied. */
void execute_count_rejected(struct call *call);

/* execute_refuse.c */

/* There is no such command, or it has no such subcommand. */
void execute_reply_unknown(struct call *call);
/* A script, or a function, runs for too long. */
void execute_reply_busy(struct call *call, bool is_function);
/* Asked for monitors and clients that get messages; these are caught up. False: the call is refused, with an error. */
bool execute_allows_listener(struct call *call);
/* Whether a dump and the log can be written, or are not needed. False: the call is refused, with an error. */
bool execute_disks_allow(struct call *call, uint32_t flags);
/* Whether the disks and this server's role allow a call whose commands have these flags: any of them, and all of them. The same. */
bool execute_role_allows(struct call *call, uint32_t any_flags, uint32_t common_flags);
/* Why writes are refused by the role; NULL: they are not. */
const char *execute_write_refusal(const struct engine *engine);
extern const char execute_stale_error[], execute_readonly_error[];

/* The call waits for cold keys. True: not any longer than its client's CLIENT TIER-WAIT; an error was replied, and the loads go on. Without locks. */
bool execute_ends_cold_wait(struct call *call, struct worker *worker);

/* Gates. Without locks. `flags` are those of the call's command, or of all that it will run. */

/* True if the call may go on; else it is parked, or was refused. */
bool execute_pass_memory_gate(struct call *call, struct worker *worker, uint32_t flags);
/* CLIENT PAUSE. */
bool execute_is_paused(struct call *call, uint32_t flags);

/* execute_gate.c */

/* Asked when the reserve for a checkpoint's old values seemed used up. False: the call is parked. */
bool execute_wait_for_reserve(struct call *call, struct worker *worker, uint32_t flags);
/* Asked when memory is over the high watermark, or short. True if the call may go on; else it is parked, or was refused. */
bool execute_make_room(struct call *call, struct worker *worker);
/* While memory is short: values that the call changes and that don't fit by themselves. They would be demoted and loaded again, for ever. Above
 * tier-high-watermark the largest are evicted, if maxmemory-policy allows it; beyond maxmemory the call gets an error (TOO_BIG). With the partitions
 * locked, and the keys looked up. */
enum residency execute_weigh_values(struct call *call);

/* execute_keys.c. With the partitions locked. */

/* Returns whether a held key (entry_is_held) keeps this call from running. */
bool execute_is_held(struct call *call, struct keyspace *keyspace, const struct call_key *key);
/* Removes dead fields of a hash with times. Returns whether some of very many were removed. */
bool execute_reap(struct call *call, struct keyspace *keyspace, const struct call_key *key);
/* Decides about a call for BIG_CALL_COLD_KEYS keys and more: RESIDENT, TOO_BIG (it gets an error) or QUEUED. */
enum residency execute_weigh(struct call *call);
/* A load needs memory, too: whether it may take `bytes` now. A call that takes memory itself has passed the gate in this turn, and owes what it loads: if it had to find credit a second time, what it took the first
 * time would be what is missing, each time again. One that has pins goes on: no call waits for memory while it holds them. */
bool execute_may_load(struct call *call, uint64_t bytes);
/* Returns whether there is no memory for a key that is not in RAM, when memory seemed short. */
bool execute_lacks_memory(struct call *call, struct keyspace *keyspace, const struct call_key *key);
bool execute_make_resident(struct call *call, struct keyspace *keyspace, struct call_key *key);
/* The key's entry has a value in pages: makes those resident that the call needs. */
enum residency execute_bring_pages(struct call *call, struct worker *worker, struct keyspace *keyspace, const struct call_key *key) REQUIRES(keyspace->partition->lock);
/* The same for what its handler has asked for (key_ask). What it has replied is taken back. RESIDENT: it can run again now. */
enum residency execute_bring_asked(struct call *call, struct worker *worker);
/* The call has changed a value in pages: loads the pages that growing or shrinking needs. */
void execute_load_ahead(struct call *call, struct worker *worker);
enum tier_purpose execute_purpose_of(const struct call *call);
/* Without locks: the call is to be run again, with what its handler asked for. */
void execute_take_asked(struct call *call);

#endif
