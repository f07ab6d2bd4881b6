/* Lifecycle: what happens to the data set as a whole, each on a thread of its own: checkpoints (rewrite), dumps (save), backups, switching
 * the log on and off (aof_switch), and the end of the process (shutdown).
 *
 * The engine does not know this room. It calls it through engine->upper.
 */
#ifndef KELVIN_LIFECYCLE_LIFECYCLE_H
#define KELVIN_LIFECYCLE_LIFECYCLE_H

struct engine;

/* Creates the parts and sets engine->upper. Main thread, before the workers start. */
void lifecycle_create(struct engine *engine);
/* About ten times a second, on the main worker. */
void lifecycle_cron(struct engine *engine);
/* Ends what runs and joins its threads. After the workers have ended, before the job pool. */
void lifecycle_stop(struct engine *engine);
/* Frees the parts; closes the log. After all other threads have ended. */
void lifecycle_destroy(struct engine *engine);

#endif
