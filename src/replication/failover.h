/* Failover: FAILOVER, by which a primary hands its role over to one of its replicas without losing a write.
 *
 *   no failover -> WAITS -> RUNS -> no failover
 *
 * WAITS: writes, expiry and eviction are held back, with a barrier over all workers, until a replica has acknowledged all of the history. RUNS: this
 * server is a replica of that one and asks it by PSYNC with FAILOVER to take over, again and again until it replies. If a reply was lost and it is
 * a primary by then, an ordinary PSYNC decides: it has taken over if it continues this server's history. If it refuses, if the
 * time is up before RUNS, or if it is aborted, this server is the primary again with all of its data. Then what was held back goes on.
 *
 * All of it is done by one thread ("kelvin-failover"), which waits for engine->waiting: replicas that come and their ACKs, the reply to the PSYNC and
 * a change of the role bump it.
 *
 * Threads: any. Lock: failover (guards the start and the end; taken before none).
 */
#ifndef KELVIN_REPLICATION_FAILOVER_H
#define KELVIN_REPLICATION_FAILOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "replication/view.h"

struct engine;
struct failover;

enum failover_result {
    FAILOVER_STARTED,
    FAILOVER_IN_PROGRESS,
    FAILOVER_IS_REPLICA,
    FAILOVER_NO_REPLICAS,
    FAILOVER_FORCE_NEEDS_BOTH,      /* a timeout and a target */
    FAILOVER_NO_SUCH_REPLICA,
    FAILOVER_NOT_ONLINE,            /* the target is being synchronized */
    FAILOVER_NO_THREAD,
};

struct failover_request {
    bool has_target;                /* else: the first replica that has all changes */
    char host[VIEW_HOST_SIZE];      /* as INFO shows the replica */
    int64_t port;
    bool forces;                    /* after the time is up the target takes over, whatever it has */
    int64_t timeout_ms;             /* of WAITS; 0: none */
};

struct failover *failover_create(struct engine *engine);
/* Before follow_stop. The role stays what it is at that moment. */
void failover_stop(struct failover *failover);
void failover_destroy(struct failover *failover);       /* NULL is fine */

/* Writes are held back when it returns FAILOVER_STARTED, and those that run end soon. Returns at once. */
enum failover_result failover_start(struct failover *failover, const struct failover_request *request);
/* Returns the number of the failover that is aborted, at once; 0: none is in progress. */
uint64_t failover_abort(struct failover *failover);
/* Waits until that one has ended, not for one that has begun since. Not on a worker, no locks. */
void failover_await_end(struct failover *failover, uint64_t number);

enum view_failover failover_state(const struct failover *failover);     /* NULL: no failover */

#endif
