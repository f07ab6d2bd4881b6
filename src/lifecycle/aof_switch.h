/* CONFIG SET appendonly yes | no, while the server runs.
 *
 * On: a new log is created in `<appenddirname>.new`, and a checkpoint is taken as its base; changes after the checkpoint's cut are logged
 * there. When the base is committed the directory is renamed to `<appenddirname>`, and an older log there is removed. Until then the older
 * log stays as it is. Failures are tried again.
 * Off: the log is flushed, synced and left as it is, as Redis does.
 *
 * A log that was switched off is kept in memory until the end, as threads may still read its state.
 */
#ifndef KELVIN_LIFECYCLE_AOF_SWITCH_H
#define KELVIN_LIFECYCLE_AOF_SWITCH_H

#include <stdbool.h>

struct aof;
struct engine;
struct aof_switch;

struct aof_switch *aof_switch_create(struct engine *engine);
void aof_switch_stop(struct aof_switch *aof_switch);        /* cancels a switch in progress, and starts none any more */
void aof_switch_destroy(struct aof_switch *aof_switch);     /* after all other threads have ended: closes the log, too. NULL is fine */

/* Starts to switch, in the background, unless it is so already. False: no thread could be created, and nothing changes. Any thread. */
bool aof_switch_start(struct aof_switch *aof_switch, bool on);
/* Starts a switch for which no thread could be created in aof_switch_go_on. Main worker's cron. */
void aof_switch_retry(struct aof_switch *aof_switch);
bool aof_switch_wants(struct aof_switch *aof_switch, bool on);  /* false: another thread has asked for the other state since */
bool aof_switch_is_running(const struct aof_switch *aof_switch);
bool aof_switch_has_failed(const struct aof_switch *aof_switch);        /* the last attempt to switch it on did, and it is still wanted */

/* Before a shutdown: a switch in progress comes to its end (one that fails is tried once more), and none is started until aof_switch_go_on.
 * Any thread. */
void aof_switch_hold(struct aof_switch *aof_switch);
void aof_switch_go_on(struct aof_switch *aof_switch);

/* At the start: removes what a crash left of a log that was being created. */
void aof_switch_clean(struct engine *engine);

/* Connects a log with the engine's workers. Before aof_start. */
void engine_attach_aof(struct engine *engine, struct aof *aof);

#endif
