#include "replication/failover.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "replication/follow.h"
#include "replication/hold.h"
#include "replication/primary.h"

enum {
    ASK_US = 1000000,               /* so often replicas are asked for an ACK, which they send each second, too */
};

struct failover {
    struct engine *engine;
    struct mutex lock;              /* guards thread, and the start */
    struct thread thread;
    struct failover_request request;        /* immutable while the thread runs */
    int64_t until_us;               /* the thread's; INT64_MAX: no limit */
    _Atomic int state;              /* enum view_failover; the thread changes it, but for the start */
    _Atomic uint64_t begun;         /* failovers so far; the number of the last one. Changed under the lock */
    _Atomic uint64_t aborted;       /* number of the last one that FAILOVER ABORT has ended */
    _Atomic bool stopping;
    uint64_t asked;                 /* the thread's: LSN of the end of the last GETACK */
    int64_t asked_us;
};

struct failover *failover_create(struct engine *engine)
{
    struct failover *failover = mem_zalloc(sizeof(*failover));

    failover->engine = engine;
    mutex_init(&failover->lock);
    return failover;
}

void failover_destroy(struct failover *failover)
{
    if (failover == NULL)
        return;
    mutex_release(&failover->lock);
    mem_free(failover);
}

enum view_failover failover_state(const struct failover *failover)
{
    return failover != NULL ? (enum view_failover)failover->state : VIEW_NO_FAILOVER;
}

static struct log *log_of(const struct failover *failover)
{
    return failover->engine->log;
}

static void bump(const struct failover *failover)
{
    waiting_bump(&failover->engine->waiting);
}

/* Until it is so of the failover of this number, or the server ends. */
static void wait_until(const struct failover *failover, uint64_t number, bool (*is_so)(const struct failover *failover, uint64_t number))
{
    struct waiting *waiting = &failover->engine->waiting;

    for (;;) {
        uint32_t version = waiting_version(waiting);

        if (is_so(failover, number) || failover->stopping)
            return;
        waiting_wait(waiting, version, -1);
    }
}

static bool is_aborted(const struct failover *failover)
{
    return failover->aborted == failover->begun;
}

static bool must_end(const struct failover *failover)
{
    return is_aborted(failover) || failover->stopping;
}

static bool is_stopping(const void *context)
{
    const struct failover *failover = context;

    return failover->stopping;
}

static void set_state(struct failover *failover, enum view_failover state)
{
    failover->state = state;
    bump(failover);
}

/* REPLICAOF came in between. */
static bool is_superseded(const struct failover *failover)
{
    return role_is_replica(failover->engine);
}

/* --- the target --- */

static bool is_named(const struct failover_request *request, const struct replica_view *replica)
{
    return request->port == replica->port && strcasecmp(request->host, replica->ip) == 0;
}

static const struct replica_view *find_named(const struct failover_request *request, const struct replica_view *replicas, int count)
{
    for (int i = 0; i < count; i++) {
        if (is_named(request, &replicas[i]))
            return &replicas[i];
    }
    return NULL;
}

static int look_at_replicas(const struct failover *failover, struct replica_view replicas[VIEW_REPLICAS])
{
    return primary_view(failover->engine->replication.primary, replicas, VIEW_REPLICAS);
}

/* The replica that may take over: it has acknowledged the history up to `lsn`. */
static bool find_ready(const struct failover *failover, uint64_t lsn, struct replica_view *found)
{
    int64_t offset = history_offset_of(&failover->engine->history, lsn);
    struct replica_view replicas[VIEW_REPLICAS];
    int count = look_at_replicas(failover, replicas);

    if (lsn == failover->asked)
        offset -= (int64_t)strlen(PRIMARY_GETACK);
    for (int i = 0; i < count; i++) {
        if (replicas[i].state != REPLICA_ONLINE || replicas[i].offset < offset || replicas[i].port == 0)
            continue;
        if (failover->request.has_target && !is_named(&failover->request, &replicas[i]))
            continue;
        *found = replicas[i];
        return true;
    }
    return false;
}

/* An ACK that a GETACK asks for says, from redis-server, what was applied before the GETACK. Two of them are sent: a replica that has
 * acknowledged the first has received the second, and lacks nothing. */
static void ask(struct failover *failover)
{
    struct engine *engine = failover->engine;
    int64_t now_us = clock_mono_us();
    int count;

    if (primary_count(engine->replication.primary) > 0 && now_us - failover->asked_us >= ASK_US) {
        failover->asked_us = now_us;
        failover->asked = history_append_signs(&engine->history, BYTES(PRIMARY_GETACK PRIMARY_GETACK));
    }
    primary_lagging(engine, failover->asked, false, &count);        /* sends what waits */
}

/* --- the thread --- */

static enum follow_ask hand_over(struct failover *failover, const char *host, int port, uint64_t lsn)
{
    enum follow_ask result = follow_hand_over(failover->engine->replication.follow, host, port, lsn);

    if (result != FOLLOW_ASK_BEGUN)
        return result;
    set_state(failover, VIEW_FAILOVER_RUNS);
    log_write(log_of(failover), LOG_LEVEL_NOTICE, "Failover: replica %s:%d is asked to take over", host, port);
    return result;
}

/* The time is up. True: the target is asked nevertheless. */
static bool end_in_time(struct failover *failover)
{
    const struct failover_request *request = &failover->request;

    if (!request->forces) {
        log_write(log_of(failover), LOG_LEVEL_NOTICE, "Failover: no replica has got all changes in time; this server stays the primary");
        return false;
    }
    log_write(log_of(failover), LOG_LEVEL_NOTICE, "Failover: the time is up; the replica has to take over with what it has");
    return hand_over(failover, request->host, (int)request->port, FOLLOW_ANY_LSN) == FOLLOW_ASK_BEGUN;
}

/* Until the time is up, or replicas are to be asked again. */
static int64_t left_ms(const struct failover *failover)
{
    int64_t now_us = clock_mono_us(), end_us = failover->asked_us + ASK_US;

    if (end_us <= now_us)
        end_us = now_us + ASK_US;       /* there is none to be asked; one that comes ends the wait */
    if (failover->until_us < end_us)
        end_us = failover->until_us;
    return end_us > now_us ? (end_us - now_us) / 1000 + 1 : 0;
}

/* False: this server stays what it is. */
static bool await_replica(struct failover *failover)
{
    struct waiting *waiting = &failover->engine->waiting;
    struct replica_view found;

    for (;;) {
        uint32_t version = waiting_version(waiting);
        uint64_t lsn = history_end(&failover->engine->history);
        enum follow_ask asked;

        if (must_end(failover) || is_superseded(failover))
            return false;
        if (clock_mono_us() >= failover->until_us)
            return end_in_time(failover);
        if (find_ready(failover, lsn, &found)) {
            asked = hand_over(failover, found.ip, found.port, lsn);
            if (asked != FOLLOW_ASK_LONGER)
                return asked == FOLLOW_ASK_BEGUN;
        }
        ask(failover);
        waiting_wait(waiting, version, left_ms(failover));
    }
}

static void take_back(struct failover *failover, const char *why)
{
    if (follow_take_back(failover->engine->replication.follow))
        log_write(log_of(failover), LOG_LEVEL_WARNING, "Failover: %s; this server is the primary again", why);
}

static bool has_reply(const struct failover *failover, uint64_t number)
{
    return follow_hand(failover->engine->replication.follow) != FOLLOW_HAND_ASKED || failover->aborted == number;
}

static void await_take_over(struct failover *failover)
{
    struct follow *follow = failover->engine->replication.follow;

    wait_until(failover, failover->begun, has_reply);
    if (failover->stopping)
        return;
    if (follow_hand(follow) == FOLLOW_HAND_TAKEN)
        log_write(log_of(failover), LOG_LEVEL_NOTICE, "Failover: the replica has taken over");
    else if (follow_hand(follow) == FOLLOW_HAND_REFUSED)
        take_back(failover, "the replica has refused to take over");
    else if (is_aborted(failover))
        take_back(failover, "aborted");
}

static void failover_main(void *context)
{
    struct failover *failover = context;
    struct engine *engine = failover->engine;

    if (hold_await(engine, is_stopping, failover) && await_replica(failover))
        await_take_over(failover);
    else if (is_aborted(failover))
        log_write(log_of(failover), LOG_LEVEL_NOTICE, "Failover: aborted");
    if (!failover->stopping)
        hold_end(engine);
    set_state(failover, VIEW_NO_FAILOVER);
}

/* --- start and end --- */

/* In the order in which Redis looks. */
static enum failover_result check(const struct failover *failover, const struct failover_request *request)
{
    struct replica_view replicas[VIEW_REPLICAS];
    int count = look_at_replicas(failover, replicas);
    const struct replica_view *named = find_named(request, replicas, count);

    if (failover->state != VIEW_NO_FAILOVER)
        return FAILOVER_IN_PROGRESS;
    if (role_is_replica(failover->engine))
        return FAILOVER_IS_REPLICA;
    if (count == 0)
        return FAILOVER_NO_REPLICAS;
    if (request->forces && (request->timeout_ms == 0 || !request->has_target))
        return FAILOVER_FORCE_NEEDS_BOTH;
    if (request->has_target && named == NULL)
        return FAILOVER_NO_SUCH_REPLICA;
    if (request->has_target && named->state != REPLICA_ONLINE)
        return FAILOVER_NOT_ONLINE;
    return FAILOVER_STARTED;
}

static int64_t time_limit(const struct failover_request *request)
{
    int64_t now_us = clock_mono_us();

    return request->timeout_ms > 0 && request->timeout_ms < (INT64_MAX - now_us) / 1000 ? now_us + request->timeout_ms * 1000 : INT64_MAX;
}

static enum failover_result start(struct failover *failover, const struct failover_request *request) REQUIRES(failover->lock);
static enum failover_result start(struct failover *failover, const struct failover_request *request)
{
    thread_join(&failover->thread);         /* it has ended */
    failover->request = *request;
    failover->until_us = time_limit(request);
    failover->begun++;
    failover->asked = 0;
    failover->asked_us = 0;
    set_state(failover, VIEW_FAILOVER_WAITS);
    hold_begin(failover->engine);
    if (thread_start(&failover->thread, "kelvin-failover", failover->engine->meter, failover_main, failover) == 0)
        return FAILOVER_STARTED;
    hold_end(failover->engine);
    set_state(failover, VIEW_NO_FAILOVER);
    return FAILOVER_NO_THREAD;
}

enum failover_result failover_start(struct failover *failover, const struct failover_request *request)
{
    enum failover_result result;

    mutex_lock(&failover->lock);
    result = check(failover, request);
    if (result == FAILOVER_STARTED)
        result = start(failover, request);
    mutex_unlock(&failover->lock);
    if (result == FAILOVER_STARTED)
        log_write(log_of(failover), LOG_LEVEL_NOTICE, "FAILOVER requested%s%s", request->has_target ? " to " : "",
            request->has_target ? request->host : "");
    return result;
}

uint64_t failover_abort(struct failover *failover)
{
    uint64_t number = 0;

    mutex_lock(&failover->lock);
    if (failover->state != VIEW_NO_FAILOVER)
        failover->aborted = number = failover->begun;
    mutex_unlock(&failover->lock);
    bump(failover);
    return number;
}

/* A failover begins only when the one before it has ended. */
static bool has_ended(const struct failover *failover, uint64_t number)
{
    return failover->begun != number || failover->state == VIEW_NO_FAILOVER;
}

void failover_await_end(struct failover *failover, uint64_t number)
{
    wait_until(failover, number, has_ended);
}

void failover_stop(struct failover *failover)
{
    failover->stopping = true;
    bump(failover);
    mutex_lock(&failover->lock);
    thread_join(&failover->thread);
    mutex_unlock(&failover->lock);
}
