/* Watch: WATCH's keys, and whether they have changed.
 *
 * A watch is in a list of its key's partition, under that partition's lock. A change of the key, by whatever hand, breaks the
 * transactions of all clients that watch it; moving the key between the tiers is no change. What time does to a key is not an event: a
 * watch notes when its key, or the next field of its hash, expires, and EXEC compares that with its clock.
 *
 * While no client watches a key, a change costs one read of a counter.
 */
#ifndef KELVIN_ENGINE_WATCH_H
#define KELVIN_ENGINE_WATCH_H

#include "call/key.h"

struct engine;
struct transaction;
struct watch;
struct watch_table;

struct watch_table *watch_table_create(struct engine *engine);
void watch_table_destroy(struct watch_table *table);        /* NULL is fine */

/* The call's client, whose transaction it is, watches this open key; once, however often it is asked. The key's partition is locked. */
void watch_add(struct call *call, struct transaction *transaction, const struct key *key);
/* The client watches nothing any more. Locks the keys' partitions. */
void watch_end(struct client *client);

/* The key has changed or is gone. Its partition is locked. Any thread. */
void watch_touch(struct engine *engine, const struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* All partitions are locked, and the database is about to become empty: its keys that exist change. */
void watch_touch_database(struct engine *engine, int db);
/* The same for all watched keys, whether they exist or not: their hashes are not valid any more. */
void watch_touch_all(struct engine *engine);
/* The same before two databases change places: keys change that exist in either. */
void watch_touch_swapped(struct engine *engine, int a, int b);

/* The partitions of the client's watched keys are owned: whether one of the keys has changed, or has expired by now_ms. */
bool watch_is_broken(const struct client *client, int64_t now_ms);
/* Adds the partitions of the client's watched keys to the set. */
void watch_add_partitions(const struct client *client, struct partition_bits *bits);

#endif
