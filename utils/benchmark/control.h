/* Control: opens connections to the server and runs INFO. Blocking, with a timeout of some seconds for each step. */
#ifndef KELVIN_BENCHMARK_CONTROL_H
#define KELVIN_BENCHMARK_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct options;
struct redisContext;

enum protocol { PROTOCOL_RESP2 = 2, PROTOCOL_RESP3 = 3 };

/* Connects, authenticates, selects the database, and switches to the protocol last (after a switch to RESP3 the context
 * can't be used for commands: its reader supports RESP2 only). NULL: `error` has the reason. Freed with redisFree.
 */
struct redisContext *control_open(const struct options *options, enum protocol protocol, char *error,
    size_t error_size);

/* The fields of INFO that show what a run did, at one moment. */
struct server_info {
    uint64_t keyspace_hits, keyspace_misses, evicted_keys;
    uint64_t used_memory, used_memory_rss;
    uint64_t tier_hot_hits, tier_cold_hits, tier_misses;
    int has_tier;           /* the reply has the three above */
};

/* Runs INFO on a context that uses RESP2. Fields that the reply does not have are 0. */
enum status control_info(struct redisContext *context, struct server_info *info);

#endif
