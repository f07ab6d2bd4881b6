/* Callbacks of the link, on its thread: where to continue, what was received. */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "engine/job.h"
#include "engine/role.h"
#include "replication/applier.h"
#include "replication/follow_private.h"
#include "replication/link.h"
#include "replication/primary.h"
#include "stream/backlog.h"

enum {
    INBOX_MEMORY = 16 << 20,        /* bytes that are not applied yet; more of them are on the disk */
    INBOX_SHARE = 32,               /* of maxmemory, if that is less: what is applied needs the rest */
    INBOX_KEPT = 1 << 20,           /* bytes that stay in memory although they are applied */
    INBOX_ROOM_MIN = 1 << 20,
    AGAIN_MS_MIN = 1000, AGAIN_MS_MAX = 10000,      /* the pause before all is asked for again because the stream could not be applied */
    LOOK_MS = 100,                  /* for what ends a wait without a change: a directive, and the time */
};

/* --- the inbox and the applier --- */

static uint64_t inbox_memory(const struct config *config)
{
    uint64_t share = (uint64_t)config_number(config, CONFIG_MAXMEMORY) / INBOX_SHARE;

    return share > 0 && share < INBOX_MEMORY ? share : INBOX_MEMORY;
}

static void make_inbox(struct follow *follow, int64_t offset)
{
    struct engine *engine = follow->engine;
    uint64_t memory = inbox_memory(engine->config);
    struct backlog_options options = {
        .memory_size = memory < INBOX_KEPT ? memory : INBOX_KEPT,
        .reader_memory = memory,
        .disk_size = (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_DISK_SIZE),
        .first = (uint64_t)offset,
        .dir = ".",
        .name = "inbox",
        .closer = engine->closer,
    };
    struct backlog *inbox = backlog_create(&options);
    struct backlog_reader *first = backlog_attach(inbox, options.first);

    mutex_lock(&follow->lock);
    CHECK(follow->inbox == NULL && follow->applier == NULL);
    follow->inbox = inbox;
    follow->first = first;
    mutex_unlock(&follow->lock);
}

void follow_end_inbox(struct follow *follow)
{
    struct applier *applier;
    struct backlog *inbox;
    struct backlog_reader *first;

    mutex_lock(&follow->lock);
    applier = follow->applier;
    inbox = follow->inbox;
    first = follow->first;
    follow->applier = NULL;
    follow->inbox = NULL;
    follow->first = NULL;
    mutex_unlock(&follow->lock);
    if (applier != NULL) {
        follow->errors += applier_errors(applier);
        applier_stop(applier);
    }
    backlog_detach(first);
    backlog_destroy(inbox);
}

void follow_ack_now(void *context)
{
    struct follow *follow = context;

    mutex_lock(&follow->lock);
    if (follow->link != NULL)
        link_ack_now(follow->link);
    mutex_unlock(&follow->lock);
}

void follow_break(struct follow *follow, int64_t pause_ms)
{
    mutex_lock(&follow->lock);
    follow_set_data(follow, FOLLOW_DATA_BROKEN);
    follow->again_ms = clock_mono_us() / 1000 + pause_ms;
    mutex_unlock(&follow->lock);
}

/* Returns the bytes that were received and not applied. 0: all are applied, or no more will be. */
static uint64_t size_unapplied(struct follow *follow, bool *goes_on)
{
    uint64_t size = 0;

    *goes_on = false;
    mutex_lock(&follow->lock);
    if (follow->inbox != NULL && follow->applier != NULL) {
        uint64_t end = backlog_end(follow->inbox);

        size = end - (uint64_t)applier_offset(follow->applier);
        *goes_on = !applier_has_all(follow->applier, end);
    }
    mutex_unlock(&follow->lock);
    return size;
}

/* The directive is read each time: an operator may end the wait. */
static bool may_wait_on(const struct follow *follow, int64_t began_us)
{
    int64_t limit_us = config_number(follow->engine->config, CONFIG_REPL_PROMOTION_TIMEOUT) * 1000000;

    return !follow->stopping && !job_must_end(follow->engine) && clock_mono_us() - began_us < limit_us;
}

void follow_await_applier(struct follow *follow)
{
    struct waiting *waiting = &follow->engine->waiting;
    int64_t began_us = clock_mono_us();
    uint32_t version = waiting_version(waiting);
    bool goes_on;
    uint64_t size = size_unapplied(follow, &goes_on);

    if (goes_on && size > 0)
        log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Promotion: %" PRIu64 " bytes that were received are applied first", size);
    while (goes_on && may_wait_on(follow, began_us)) {
        waiting_wait(waiting, version, LOOK_MS);
        version = waiting_version(waiting);
        size = size_unapplied(follow, &goes_on);
    }
    if (goes_on)
        log_write(follow_log(follow), LOG_LEVEL_WARNING, "Promotion: %" PRIu64 " bytes that were received are lost, as they were not applied within "
            "repl-promotion-timeout", size);
    else if (size > 0)
        log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Promotion: of what was received the last %" PRIu64 " bytes are not applied: they are no complete "
            "command or transaction", size);
}

/* The stream can't be read on: all data is asked for again. The next stream may be as bad, so there is a pause, about as long as it took until
 * this one was found to be bad. */
static void on_applier_failed(void *context, const char *reason)
{
    struct follow *follow = context;
    int64_t now_ms = clock_mono_us() / 1000, pause_ms;

    mutex_lock(&follow->lock);
    pause_ms = now_ms - follow->sync_ms;
    if (pause_ms < AGAIN_MS_MIN)
        pause_ms = AGAIN_MS_MIN;
    if (pause_ms > AGAIN_MS_MAX)
        pause_ms = AGAIN_MS_MAX;
    role_set_link(follow->engine, false);
    mutex_unlock(&follow->lock);
    follow_break(follow, pause_ms);
    log_write(follow_log(follow), LOG_LEVEL_WARNING, "The primary's stream can't be applied: %s. A full synchronization begins in %" PRId64 " ms.", reason,
        pause_ms);
}

void follow_start_applier(struct follow *follow, int64_t offset, int db)
{
    struct applier_options options = {
        .engine = follow->engine, .inbox = follow->inbox, .offset = offset, .db = db, .address = follow->address, .context = follow,
        .ack = follow_ack_now, .failed = on_applier_failed,
    };
    struct applier *applier = applier_start(&options);
    struct backlog_reader *first;

    mutex_lock(&follow->lock);
    follow->applier = applier;
    first = follow->first;
    follow->first = NULL;
    if (applier == NULL)
        follow->again_ms = clock_mono_us() / 1000 + AGAIN_MS_MIN;
    mutex_unlock(&follow->lock);
    backlog_detach(first);
    if (applier == NULL)
        log_write(follow_log(follow), LOG_LEVEL_WARNING, "The primary's stream can't be applied: the system gives no thread, or what came during the load could not be kept"
            " on the disk. The link connects again.");
}

/* Ends the request to take over with the replica's reply; later replies are those to an ordinary PSYNC. */
static void end_hand_over(struct follow *follow, enum follow_hand end)
{
    int asked = FOLLOW_HAND_ASKED;

    if (atomic_compare_exchange_strong(&follow->hand, &asked, end))
        waiting_bump(&follow->engine->waiting);
}

/* Checks whether an earlier request has made the replica a primary. If the connection broke after an earlier request, that one may have
 * made it a primary: then it has all of this server's history, and the next PSYNC is an ordinary one, which shows that. A server that was
 * restarted without it is no primary for this one. */
static void check_earlier_request(struct follow *follow)
{
    if (follow->hand_tries < 2) {
        end_hand_over(follow, FOLLOW_HAND_REFUSED);
        return;
    }
    follow->hand_is_uncertain = true;
    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Failover: its reply to an earlier request may have been lost; the next PSYNC shows whether it has taken over");
}

/* --- the link's host: on the link's thread --- */

/* The ID to ask with. As long as nothing was appended under the new ID the old one is as good: a primary that was restarted and becomes a replica of
 * what was its replica continues. */
static const char *id_of(const struct follow *follow, const struct history_point *now)
{
    bool is_own = follow->inbox == NULL && now->identity.second_offset == now->offset + 1;

    return is_own ? now->identity.second_id : now->identity.id;
}

static void choose_request(struct follow *follow, struct link_position *position)
{
    if (follow->hand != FOLLOW_HAND_ASKED)
        return;
    position->failover = !follow->hand_is_uncertain;
    position->continues_only = follow->hand_is_uncertain;
    follow->hand_tries++;
}

static bool is_broken(struct follow *follow)
{
    bool is;

    mutex_lock(&follow->lock);
    is = follow->data == FOLLOW_DATA_BROKEN;
    mutex_unlock(&follow->lock);
    return is;
}

static bool has_loaded(struct follow *follow)
{
    return !follow_is_loading(follow);
}

static void on_position(void *context, struct link_position *position)
{
    struct follow *follow = context;
    struct history_point now;

    follow_await(follow, has_loaded);
    if (follow->inbox != NULL && follow->applier == NULL)
        follow_end_inbox(follow);          /* of a full synchronization that broke off */
    history_point(&follow->engine->history, &now);
    *position = (struct link_position){ .offset = now.offset };
    if (is_broken(follow))
        return;
    choose_request(follow, position);
    memcpy(position->id, follow->hand == FOLLOW_HAND_ASKED ? now.identity.id : id_of(follow, &now), sizeof(position->id));
    memcpy(follow->asked_id, position->id, sizeof(follow->asked_id));
    if (follow->inbox != NULL)
        position->offset = (int64_t)backlog_end(follow->inbox);
}

/* The role changes with the lock, which the end of a load holds, too: so it is up after both. */
static void on_state(void *context, enum link_state state)
{
    struct follow *follow = context;

    mutex_lock(&follow->lock);
    follow->state = state;
    follow->io_ms = clock_mono_us() / 1000;
    if (state != LINK_CONNECTED)
        role_set_link(follow->engine, false);
    else if (follow->data == FOLLOW_DATA_GOES_ON)
        role_set_link(follow->engine, true);
    mutex_unlock(&follow->lock);
}

static void on_connected(void *context, int fd)
{
    struct follow *follow = context;

    mutex_lock(&follow->lock);
    endpoint_of_peer(fd, follow->address);
    endpoint_of_self(fd, follow->local_address);
    follow->fd = fd;
    mutex_unlock(&follow->lock);
}

static void on_failed(void *context, enum link_failure failure, const char *reason)
{
    struct follow *follow = context;

    if (failure == LINK_FAILED_IMAGE) {
        follow->no_images = true;
        follow_configure(follow);
    }
    if (failure == LINK_FAILED_REFUSED)
        end_hand_over(follow, FOLLOW_HAND_REFUSED);
    log_write(follow_log(follow), LOG_LEVEL_WARNING, "The link to the primary %s:%d: %s", follow->host, follow->port, reason);
    if (failure == LINK_FAILED_IS_PRIMARY)
        check_earlier_request(follow);
}

static void on_continued(void *context, const char *id)
{
    struct follow *follow = context;
    struct history_point now;

    if (id == NULL)
        id = follow->asked_id;
    history_point(&follow->engine->history, &now);
    if (strcmp(id, now.identity.id) != 0) {
        history_rename(&follow->engine->history, id);
        primary_drop_all(follow->engine->replication.primary);      /* they ask again, and learn the new ID */
    }
    history_point(&follow->engine->history, &now);
    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Successful partial resynchronization with primary, at offset %" PRId64, now.offset);
    if (follow->inbox == NULL) {
        make_inbox(follow, now.offset);
        follow_start_applier(follow, now.offset, now.db >= 0 ? now.db : 0);
    }
    follow_restore_log(follow->engine);
    end_hand_over(follow, FOLLOW_HAND_TAKEN);
}

static void on_full_resync(void *context, const char *id, int64_t offset)
{
    struct follow *follow = context;

    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Full resync from primary: %s:%" PRId64, id, offset);
    follow_join_loader(follow);     /* the one before, which has ended */
    follow_end_inbox(follow);
    mutex_lock(&follow->lock);
    follow_set_data(follow, FOLLOW_DATA_GOES_ON);
    follow->again_ms = 0;
    memcpy(follow->sync_id, id, sizeof(follow->sync_id));
    follow->sync_offset = offset;
    follow->sync_ms = clock_mono_us() / 1000;
    follow->received = follow->total = 0;
    mutex_unlock(&follow->lock);
    make_inbox(follow, offset);
    end_hand_over(follow, FOLLOW_HAND_TAKEN);
}

static void on_rdb_progress(void *context, uint64_t received, int64_t total)
{
    struct follow *follow = context;

    mutex_lock(&follow->lock);
    if ((int64_t)received > follow->received)
        atomic_fetch_add(&follow->engine->replica_input, received - (uint64_t)follow->received);
    follow->received = (int64_t)received;
    follow->total = total;
    follow->io_ms = clock_mono_us() / 1000;
    mutex_unlock(&follow->lock);
}

static bool on_received(void *context, struct bytes bytes)
{
    struct follow *follow = context;

    if (backlog_room(follow->inbox) < INBOX_ROOM_MIN + bytes.size)
        return false;
    backlog_append(follow->inbox, bytes);
    atomic_fetch_add(&follow->engine->replica_input, bytes.size);
    mutex_lock(&follow->lock);
    follow->io_ms = clock_mono_us() / 1000;
    if (follow->applier != NULL)
        applier_wake(follow->applier);
    mutex_unlock(&follow->lock);
    return true;
}

static void on_progress(void *context, struct link_progress *progress)
{
    struct follow *follow = context;
    struct engine *engine = follow->engine;
    struct aof *aof = engine->aof;

    *progress = (struct link_progress){ .applied = 0, .synced = -1 };
    if (follow_is_loading(follow))
        return;
    mutex_lock(&follow->lock);
    if (follow->applier != NULL)
        progress->applied = applier_offset(follow->applier);
    mutex_unlock(&follow->lock);
    if (aof != NULL)
        progress->synced = history_offset_of(&engine->history, aof_durable(aof));
}

struct link_host follow_link_host(struct follow *follow)
{
    return (struct link_host){
        .context = follow, .meter = follow->engine->meter, .connected = on_connected, .position = on_position, .state_changed = on_state, .failed = on_failed,
        .continued = on_continued, .full_resync = on_full_resync, .rdb_progress = on_rdb_progress, .rdb_received = follow_load_rdb, .image_received = follow_load_image,
        .received = on_received, .progress = on_progress,
    };
}
