/* Failover: FAILOVER makes a replica the primary, and this server its replica, without losing a write.
 *
 *   WAITS   writes, expiry and eviction are held; until a replica has acknowledged the whole history
 *   RUNS    this server is a replica, and asks the other one by PSYNC ... FAILOVER to take over. It does: the failover is over. It refuses, or FAILOVER
 *           ABORT: this server is a primary again
 *
 * The role is changed under the locks of all partitions, and only if the history still ends where the replica has acknowledged it. So what calls
 * in the middle have added meanwhile is not lost: it is waited for.
 *
 * A thread of its own does it ("kelvin-failover"). Threads: any. Lock: the failover's own, a leaf.
 */
#ifndef KELVIN_REPLICATION_FAILOVER_H
#define KELVIN_REPLICATION_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "replication/follow.h"

struct engine;
struct failover;

struct failover *failover_create(struct engine *engine);
void failover_stop(struct failover *failover);          /* its thread has ended then; before follow_stop */
void failover_destroy(struct failover *failover);       /* NULL is fine */

struct failover_request {
    char host[FOLLOW_HOST_SIZE];    /* "": any replica */
    int port;
    int64_t timeout_ms;             /* of waiting for the replica; 0: none */
    bool is_forced;                 /* after that time the replica named takes over, whatever it lacks */
};

enum failover_result {
    FAILOVER_OK,
    FAILOVER_RUNS_ALREADY, FAILOVER_OF_REPLICA, FAILOVER_NO_REPLICAS, FAILOVER_NOT_A_REPLICA, FAILOVER_NOT_ONLINE, FAILOVER_NO_THREAD,
};
/* Whether one may begin, whatever is asked for. */
enum failover_result failover_check(const struct failover *failover);
enum failover_result failover_start(struct failover *failover, const struct failover_request *request);
/* False: there is none. */
bool failover_abort(struct failover *failover);

enum failover_state { FAILOVER_NONE, FAILOVER_WAITS, FAILOVER_RUNS };
enum failover_state failover_state(const struct failover *failover);

#endif
