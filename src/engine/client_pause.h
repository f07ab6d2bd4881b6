/* Client pause: requests of clients wait. For CLIENT PAUSE until a time, for a failover (writes only) until it ends; both may be on at once, and what
 * calls look at (engine->pause_until_ms, pause_writes_only) is the stricter of the two.
 *
 * Threads: any. Lock: the pause's own, a leaf.
 */
#ifndef KELVIN_ENGINE_CLIENT_PAUSE_H
#define KELVIN_ENGINE_CLIENT_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct client_pause;
struct engine;

struct client_pause *client_pause_create(void);
void client_pause_destroy(struct client_pause *pause);      /* NULL is fine */

/* CLIENT PAUSE until a wall clock time; a pause that is on may be made longer and stricter, but not shorter or weaker. */
void client_pause_until(struct engine *engine, int64_t now_ms, int64_t until_ms, bool writes_only);
/* CLIENT UNPAUSE: clients go on, unless writes are held. */
void client_pause_end(struct engine *engine);
/* Writes, expiry and eviction are held, or not any more. */
void client_pause_hold(struct engine *engine, bool is_held);
/* Ends what is over; now and then. */
void client_pause_tick(struct engine *engine, int64_t now_ms);

#endif
