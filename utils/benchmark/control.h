/* Control: opens connections to the server and asks it questions. Blocking, with a limit of seconds on each step. */
#ifndef KELVIN_BENCHMARK_CONTROL_H
#define KELVIN_BENCHMARK_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct options;
struct redisContext;

enum protocol { PROTOCOL_RESP2 = 2, PROTOCOL_RESP3 = 3 };

/* Connects, authenticates, selects the database, and switches to the protocol last (nothing may be asked through the
 * context after a switch to RESP3: its reader knows RESP2 only). NULL: `error` says why. Freed with redisFree.
 */
struct redisContext *control_open(const struct options *options, enum protocol protocol, char *error,
    size_t error_size);

/* The fields of INFO that tell what a run did, as they are at one moment. */
struct server_info {
    uint64_t keyspace_hits, keyspace_misses, evicted_keys;
    uint64_t used_memory, used_memory_rss;
    uint64_t tier_hot_hits, tier_cold_hits, tier_misses;
    int has_tier;           /* the server told the three above */
};

/* Through a context that speaks RESP2. Fields that the server does not tell are 0. */
enum status control_info(struct redisContext *context, struct server_info *info);

#endif
