#include "replication/failover.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "engine/client_pause.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "replication/primary.h"

enum { LOOK_US = 2000, REPLICAS_MAX = 128 };

struct failover {
    struct engine *engine;
    struct mutex lock;
    pthread_t thread;                   /* lock: has_thread */
    bool has_thread;
    struct failover_request request;    /* the thread's while it runs */
    _Atomic int state;                  /* enum failover_state */
    _Atomic bool is_aborted, is_stopping;
};

struct failover *failover_create(struct engine *engine)
{
    struct failover *failover = mem_zalloc(sizeof(*failover));

    failover->engine = engine;
    mutex_init(&failover->lock);
    return failover;
}

void failover_stop(struct failover *failover)
{
    failover->is_stopping = true;
    mutex_lock(&failover->lock);
    if (failover->has_thread)
        pthread_join(failover->thread, NULL);
    failover->has_thread = false;
    mutex_unlock(&failover->lock);
}

void failover_destroy(struct failover *failover)
{
    if (failover == NULL)
        return;
    mutex_release(&failover->lock);
    mem_free(failover);
}

enum failover_state failover_state(const struct failover *failover)
{
    return (enum failover_state)failover->state;
}

bool failover_abort(struct failover *failover)
{
    if (failover->state == FAILOVER_NONE)
        return false;
    failover->is_aborted = true;
    return true;
}

/* --- the thread --- */

static bool is_over(const struct failover *failover)
{
    return failover->is_aborted || failover->is_stopping;
}

static void pause_us(int64_t us)
{
    struct timespec pause = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&pause, NULL);
}

static bool is_wanted(const struct failover_request *request, const struct replica_view *replica)
{
    return request->host[0] == '\0' || (strcmp(request->host, replica->ip) == 0 && request->port == replica->port);
}

/* A replica that has acknowledged the history up to its end, `*offset`. */
static bool find_synced(const struct failover *failover, struct replica_view *found, int64_t *offset)
{
    struct engine *engine = failover->engine;
    struct replica_view views[REPLICAS_MAX];
    struct history_point now;
    int count = primary_view(engine->primary, views, REPLICAS_MAX);

    history_point(&engine->history, &now);
    *offset = now.offset;
    for (int i = 0; i < count; i++) {
        if (views[i].state != REPLICA_ONLINE || views[i].offset != now.offset || !is_wanted(&failover->request, &views[i]))
            continue;
        *found = views[i];
        return true;
    }
    return false;
}

/* What is in the history goes out, although no worker's turn ends. */
static void send_history(const struct failover *failover)
{
    struct engine *engine = failover->engine;
    int count;

    (void)primary_lagging(engine, 0, false, &count);
}

static void log_begin(const struct failover *failover, const char *why, const char *host, int port)
{
    log_write(failover->engine->log, LOG_LEVEL_NOTICE, "%s, failing over to %s:%d.", why, host, port);
}

/* True: this server is a replica of the one that is to take over. */
static bool begin(struct failover *failover, int64_t until_ms)
{
    struct failover_request *request = &failover->request;
    struct follow *follow = failover->engine->follow;
    struct replica_view found;
    int64_t offset;

    if (find_synced(failover, &found, &offset) && follow_fail_over(follow, found.ip, found.port, offset) == FOLLOW_OK) {
        log_begin(failover, "Failover target is synced", found.ip, found.port);
        return true;
    }
    if (until_ms == 0 || clock_mono_us() / 1000 < until_ms)
        return false;
    if (request->is_forced && follow_fail_over(follow, request->host, request->port, -1) == FOLLOW_OK) {
        log_begin(failover, "Failover time out exceeded", request->host, request->port);
        return true;
    }
    log_write(failover->engine->log, LOG_LEVEL_NOTICE, "Failover aborted: no replica has caught up in time");
    failover->is_aborted = true;
    return false;
}

/* Until the other server has taken over, or does not. */
static void see_through(struct failover *failover)
{
    struct engine *engine = failover->engine;
    enum follow_takeover takeover;

    while ((takeover = follow_takeover(engine->follow)) == FOLLOW_ASKS && !is_over(failover))
        pause_us(LOOK_US);
    if (takeover == FOLLOW_TAKEN || failover->is_stopping)
        return;
    log_write(engine->log, LOG_LEVEL_NOTICE, "Failover aborted: %s",
        takeover == FOLLOW_REFUSED ? "the target has refused to take over" : "as FAILOVER ABORT asked for");
    (void)follow_primary(engine->follow, NULL, 0);
}

static void *failover_main(void *context)
{
    struct failover *failover = context;
    struct engine *engine = failover->engine;
    int64_t timeout_ms = failover->request.timeout_ms, until_ms = timeout_ms > 0 ? clock_mono_us() / 1000 + timeout_ms : 0;
    bool has_begun = false;

    pthread_setname_np(pthread_self(), "kelvin-failover");
    meter_join(engine->meter);
    while (!is_over(failover) && !(has_begun = begin(failover, until_ms))) {
        send_history(failover);
        pause_us(LOOK_US);
    }
    if (has_begun) {
        failover->state = FAILOVER_RUNS;
        see_through(failover);
    } else if (failover->is_aborted) {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Failover has ended: this server stays the primary");
    }
    failover->state = FAILOVER_NONE;
    client_pause_hold(engine, false);
    meter_leave(engine->meter);
    return NULL;
}

/* --- starting --- */

enum failover_result failover_check(const struct failover *failover)
{
    if (failover->state != FAILOVER_NONE)
        return FAILOVER_RUNS_ALREADY;
    if (role_is_replica(failover->engine))
        return FAILOVER_OF_REPLICA;
    return primary_count(failover->engine->primary) > 0 ? FAILOVER_OK : FAILOVER_NO_REPLICAS;
}

static enum failover_result check_target(const struct failover *failover, const struct failover_request *request)
{
    struct replica_view views[REPLICAS_MAX];
    int count = primary_view(failover->engine->primary, views, REPLICAS_MAX);

    if (request->host[0] == '\0')
        return FAILOVER_OK;
    for (int i = 0; i < count; i++) {
        if (is_wanted(request, &views[i]))
            return views[i].state == REPLICA_ONLINE ? FAILOVER_OK : FAILOVER_NOT_ONLINE;
    }
    return FAILOVER_NOT_A_REPLICA;
}

static bool start_thread(struct failover *failover) REQUIRES(failover->lock);
static bool start_thread(struct failover *failover)
{
    if (failover->has_thread)
        pthread_join(failover->thread, NULL);       /* of the last one; it has ended, or is just about to */
    failover->has_thread = pthread_create(&failover->thread, NULL, failover_main, failover) == 0;
    return failover->has_thread;
}

enum failover_result failover_start(struct failover *failover, const struct failover_request *request)
{
    enum failover_result result;

    mutex_lock(&failover->lock);
    result = failover_check(failover);
    if (result == FAILOVER_OK)
        result = check_target(failover, request);
    if (result == FAILOVER_OK) {
        failover->request = *request;
        failover->is_aborted = false;
        failover->state = FAILOVER_WAITS;
        client_pause_hold(failover->engine, true);
        if (!start_thread(failover)) {
            failover->state = FAILOVER_NONE;
            client_pause_hold(failover->engine, false);
            result = FAILOVER_NO_THREAD;
        }
    }
    mutex_unlock(&failover->lock);
    return result;
}
