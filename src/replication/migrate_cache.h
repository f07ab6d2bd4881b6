/* Migrate cache: connections that MIGRATE has used and left open, for the next MIGRATE to the same server with the same user and database: a slot that is moved by keys
 * takes many. One that is not used for MIGRATE_CACHE_MS is closed, and so is the oldest one beyond MIGRATE_CACHE_MAX.
 *
 * Thread-safe; its lock is a leaf. A cache that is NULL has none, and keeps none.
 */
#ifndef KELVIN_REPLICATION_MIGRATE_CACHE_H
#define KELVIN_REPLICATION_MIGRATE_CACHE_H

#include "base/bytes.h"
#include "replication/migrate_link.h"

enum { MIGRATE_CACHE_MAX = 64, MIGRATE_CACHE_MS = 10000 };

struct migrate_cache;

struct migrate_cache *migrate_cache_create(void);
void migrate_cache_destroy(struct migrate_cache *cache);        /* closes them */

/* `name`: what has to be the same. True: *link, but for its timeout, is the caller's now, and is open: the other server has neither closed it nor sent anything. */
bool migrate_cache_take(struct migrate_cache *cache, struct bytes name, struct migrate_link *link);
/* A link on which all replies were read is the cache's now; any other one is closed. */
void migrate_cache_keep(struct migrate_cache *cache, struct bytes name, struct migrate_link *link);
int migrate_cache_count(struct migrate_cache *cache);
/* Closes what was not used for too long. */
void migrate_cache_cron(struct migrate_cache *cache);

#endif
