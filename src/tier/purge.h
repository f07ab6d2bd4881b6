/* Purge: the records of flushed databases leave the store.
 *
 * A flush gives its database a new incarnation; here is the set of the old ones that the store has not forgotten yet. Of their keys nothing is
 * written: it forgets each incarnation as a whole (store_purge).
 */
#ifndef KELVIN_TIER_PURGE_H
#define KELVIN_TIER_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct tier;
struct purge;

struct purge *purge_create(void);
void purge_destroy(struct purge *purge);        /* NULL is fine */

/* The set. Any thread, any lock may be held. */
void purge_add(struct purge *purge, uint32_t incarnation);      /* adding it twice is fine */
bool purge_has(struct purge *purge, uint32_t incarnation);
size_t purge_count(struct purge *purge);

/* Adds all incarnations in the store that no database has. Before the replay; costs one seek for each incarnation in the store. */
enum status purge_find(struct tier *tier);

/* Purges some incarnations. By the writer. True if there is more to do at once. */
bool purge_step(struct tier *tier);

#endif
