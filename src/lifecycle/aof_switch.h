/* CONFIG SET appendonly yes | no, while the server runs.
 *
 * On: a new log is begun aside, in `<appenddirname>.new`, and a checkpoint taken as its base; what changes behind the checkpoint's cut is
 * logged there. When the base is committed the directory takes its place, and whatever log was there before is removed. Until
 * then an older log stays as it is. Failures are tried again.
 * Off: the log is flushed, synced and left as it is, as Redis does.
 *
 * A log that was switched off is kept in memory until the end, as threads may still ask it something.
 */
#ifndef KELVIN_LIFECYCLE_AOF_SWITCH_H
#define KELVIN_LIFECYCLE_AOF_SWITCH_H

#include <stdbool.h>

struct aof;
struct engine;
struct aof_switch;

struct aof_switch *aof_switch_create(struct engine *engine);
void aof_switch_stop(struct aof_switch *aof_switch);        /* ends what is under way, and nothing begins any more */
void aof_switch_destroy(struct aof_switch *aof_switch);     /* after all other threads have ended: closes the log, too. NULL is fine */

/* Begins to switch, in the background, unless it is so already. False: the system gives no thread, and all stays as it is. Any thread. */
bool aof_switch_start(struct aof_switch *aof_switch, bool on);
/* Begins with what is wanted, but had no thread when it was to go on. Main worker's cron. */
void aof_switch_retry(struct aof_switch *aof_switch);
bool aof_switch_is_running(const struct aof_switch *aof_switch);
bool aof_switch_has_failed(const struct aof_switch *aof_switch);        /* the last attempt to switch it on did, and it is still wanted */

/* Before an end: what is under way comes to its end, whichever (one that fails is tried once more), and nothing else begins until it goes
 * on. Any thread. */
void aof_switch_hold(struct aof_switch *aof_switch);
void aof_switch_go_on(struct aof_switch *aof_switch);

/* At the start: what a crash left of a log that was being begun. */
void aof_switch_clean(struct engine *engine);

/* Connects a log with the engine's workers. Before aof_start. */
void engine_attach_aof(struct engine *engine, struct aof *aof);

#endif
