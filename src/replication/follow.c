#include "replication/follow.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "engine/dataset.h"
#include "engine/engine.h"
#include "engine/role.h"
#include "engine/tracking.h"
#include "engine/watch.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/import.h"
#include "replication/applier.h"
#include "replication/link.h"
#include "replication/primary.h"
#include "script/registry.h"
#include "stream/backlog.h"
#include "tls/tls_context.h"

enum {
    INBOX_MEMORY = 16 << 20,
    INBOX_ROOM_MIN = 1 << 20,
    POLL_US = 2000,
    AGAIN_MS_MIN = 1000, AGAIN_MS_MAX = 10000,      /* the pause before all is asked for again because the stream could not be applied */
    TAKE_OVER_WAIT_US = 2000000,    /* for what was received before */
};

struct follow {
    struct engine *engine;
    struct tls_context *(*hold_tls)(void *context);
    void *tls_context;

    struct mutex turn;              /* a change of the primary, or of the data set */
    struct link *link;              /* turn; changed under the lock, too */
    pthread_t loader;               /* turn: has_loader */
    bool has_loader;

    struct mutex lock;              /* a leaf; guards what follows */
    char host[FOLLOW_HOST_SIZE];    /* "": none */
    int port;
    struct backlog *inbox;          /* the link appends, the applier reads; NULL: none. Changed by the link's thread, or while there is no link */
    struct applier *applier;        /* NULL: none */
    char sync_id[LINK_ID_SIZE + 1]; /* of the full synchronization under way */
    int64_t sync_offset;
    int sync_db;                    /* selected there; the loader's thread */
    char asked_id[LINK_ID_SIZE + 1];        /* the link's thread: the last PSYNC's */
    enum link_state state;
    int64_t io_ms, received, total;
    int64_t sync_ms, again_ms;      /* monotonic: when the last full synchronization began, and before when none is asked for */
    char address[ENDPOINT_SIZE], local_address[ENDPOINT_SIZE];      /* of the last connection */
    int fd;

    _Atomic bool stopping, loading;
    _Atomic bool restart;           /* what is here can't be continued: all data is asked for */
    _Atomic bool must_reconnect;
    _Atomic bool stop_load;         /* the load ends soon: what it loads is not wanted any more */
    _Atomic int load_fd;
    _Atomic int hand;               /* enum follow_hand */
    _Atomic uint64_t errors;
};

static struct log *log_of(const struct follow *follow)
{
    return follow->engine->log;
}

static void pause_us(int64_t us)
{
    struct timespec pause = { us / 1000000, us % 1000000 * 1000 };

    nanosleep(&pause, NULL);
}

struct follow *follow_create(struct engine *engine, struct tls_context *(*hold_tls)(void *context), void *context)
{
    struct follow *follow = mem_zalloc(sizeof(*follow));

    follow->engine = engine;
    follow->hold_tls = hold_tls;
    follow->tls_context = context;
    follow->load_fd = -1;
    engine->streamed.commands = command_stats_create(command_row_count(engine->commands));
    mutex_init(&follow->turn);
    mutex_init(&follow->lock);
    return follow;
}

/* --- the inbox and the applier --- */

static void make_inbox(struct follow *follow, int64_t offset)
{
    struct engine *engine = follow->engine;
    struct backlog_options options = {
        .memory_size = INBOX_MEMORY,
        .disk_size = (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_DISK_SIZE),
        .first = (uint64_t)offset,
        .dir = ".",
        .name = "inbox",
    };
    struct backlog *inbox = backlog_create(&options);

    mutex_lock(&follow->lock);
    CHECK(follow->inbox == NULL && follow->applier == NULL);
    follow->inbox = inbox;
    mutex_unlock(&follow->lock);
}

/* Ends the applier and forgets what it has not applied. No thread appends to the inbox. */
static void end_inbox(struct follow *follow)
{
    struct applier *applier;
    struct backlog *inbox;

    mutex_lock(&follow->lock);
    applier = follow->applier;
    inbox = follow->inbox;
    follow->applier = NULL;
    follow->inbox = NULL;
    mutex_unlock(&follow->lock);
    if (applier != NULL) {
        follow->errors += applier_errors(applier);
        applier_stop(applier);
    }
    backlog_destroy(inbox);
}

static void on_ack(void *context)
{
    struct follow *follow = context;

    mutex_lock(&follow->lock);
    if (follow->link != NULL)
        link_ack_now(follow->link);
    mutex_unlock(&follow->lock);
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
    follow->again_ms = now_ms + pause_ms;
    role_set_link(follow->engine, false);
    follow->restart = follow->must_reconnect = true;
    mutex_unlock(&follow->lock);
    log_write(log_of(follow), LOG_LEVEL_WARNING, "The primary's stream can't be applied: %s. A full synchronization begins in %" PRId64 " ms.", reason,
        pause_ms);
}

static bool start_applier(struct follow *follow, int64_t offset, int db)
{
    struct applier_options options = {
        .engine = follow->engine, .inbox = follow->inbox, .offset = offset, .db = db, .address = follow->address, .context = follow,
        .ack = on_ack, .failed = on_applier_failed,
    };
    struct applier *applier = applier_start(&options);

    if (applier == NULL) {
        log_write(log_of(follow), LOG_LEVEL_WARNING, "The primary's stream can't be applied: the system gives no thread");
        return false;
    }
    mutex_lock(&follow->lock);
    follow->applier = applier;
    mutex_unlock(&follow->lock);
    return true;
}

/* What the one that was asked to take over has replied; later replies are those to an ordinary PSYNC. */
static void end_hand_over(struct follow *follow, enum follow_hand end)
{
    int asked = FOLLOW_HAND_ASKED;

    atomic_compare_exchange_strong(&follow->hand, &asked, end);
}

/* --- the link's host: on the link's thread --- */

/* The ID to ask with. As long as nothing was appended under the new ID the old one is as good: a primary that was restarted and becomes a replica of
 * what was its replica continues. */
static const char *id_of(const struct follow *follow, const struct history_point *now)
{
    bool is_own = follow->inbox == NULL && now->identity.second_offset == now->offset + 1;

    return is_own ? now->identity.second_id : now->identity.id;
}

static void on_position(void *context, struct link_position *position)
{
    struct follow *follow = context;
    struct history_point now;

    while (follow->loading && !follow->stopping)
        pause_us(POLL_US);
    if (follow->inbox != NULL && follow->applier == NULL)
        end_inbox(follow);          /* of a full synchronization that broke off */
    history_point(&follow->engine->history, &now);
    *position = (struct link_position){ .offset = now.offset };
    if (follow->restart)
        return;
    position->failover = follow->hand == FOLLOW_HAND_ASKED;
    memcpy(position->id, position->failover ? now.identity.id : id_of(follow, &now), sizeof(position->id));
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
    else if (!follow->loading)
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

    if (failure == LINK_FAILED_REFUSED)
        end_hand_over(follow, FOLLOW_HAND_REFUSED);
    log_write(log_of(follow), LOG_LEVEL_WARNING, "The link to the primary %s:%d: %s", follow->host, follow->port, reason);
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
        primary_drop_all(follow->engine->primary);      /* they ask again, and learn the new ID */
    }
    history_point(&follow->engine->history, &now);
    log_write(log_of(follow), LOG_LEVEL_NOTICE, "Successful partial resynchronization with primary, at offset %" PRId64, now.offset);
    if (follow->inbox == NULL) {
        make_inbox(follow, now.offset);
        start_applier(follow, now.offset, now.db >= 0 ? now.db : 0);
    }
    end_hand_over(follow, FOLLOW_HAND_TAKEN);
}

/* The loader has ended, or never ran. */
static void join_loader(struct follow *follow)
{
    if (follow->has_loader)
        pthread_join(follow->loader, NULL);
    follow->has_loader = false;
}

static void on_full_resync(void *context, const char *id, int64_t offset)
{
    struct follow *follow = context;

    log_write(log_of(follow), LOG_LEVEL_NOTICE, "Full resync from primary: %s:%" PRId64, id, offset);
    follow->stop_load = true;       /* the one before */
    join_loader(follow);
    follow->stop_load = false;
    end_inbox(follow);
    follow->restart = follow->must_reconnect = false;
    mutex_lock(&follow->lock);
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
    if (follow->loading)
        return;
    mutex_lock(&follow->lock);
    if (follow->applier != NULL)
        progress->applied = applier_offset(follow->applier);
    mutex_unlock(&follow->lock);
    if (aof != NULL)
        progress->synced = history_offset_of(&engine->history, aof_durable(aof));
}

/* --- the load of a full synchronization --- */

static void empty_all(struct engine *engine)
{
    for (int db = 0; db < engine->partitions->db_count; db++) {
        watch_touch_database(engine, db);
        dataset_empty(engine, db);
    }
    registry_publish(engine->scripts, library_set_empty());
}

static void empty(struct engine *engine)
{
    partitions_lock_all(engine->partitions);
    empty_all(engine);
    partitions_unlock_all(engine->partitions);
}

static void note_loaded(struct engine *engine)
{
    struct tracking_list list = { 0 };

    partitions_lock_all(engine->partitions);
    for (int db = 0; db < engine->partitions->db_count; db++)
        watch_touch_database(engine, db);
    if (tracking_is_on(engine))
        tracking_note_all(engine, &list);
    partitions_unlock_all(engine->partitions);
    tracking_send(engine, NULL, &list, 0);
}

/* Until the log is on or off. */
static void switch_log(struct follow *follow, bool on)
{
    struct engine *engine = follow->engine;

    if ((engine->aof != NULL) == on || !aof_switch_start(engine->aof_switch, on))
        return;
    while ((engine->aof != NULL) != on && !follow->stopping && !(on && aof_switch_has_failed(engine->aof_switch)))
        pause_us(POLL_US);
}

/* It is switched off for a load only; one that has failed does not switch it on. */
static bool wants_log(const struct engine *engine)
{
    return config_number(engine->config, CONFIG_APPENDONLY) != 0;
}

/* Replicas of this one have another stream from now on. */
static void drop_replicas(const struct follow *follow)
{
    primary_drop_all(follow->engine->primary);
    while (primary_count(follow->engine->primary) > 0 && !follow->stopping)
        pause_us(POLL_US);
}

/* What is loaded is at `sync_offset` of the primary's stream. False: the server ends. */
static bool become(struct follow *follow)
{
    struct engine *engine = follow->engine;
    bool good = false;

    while (!good && !follow->stopping) {
        drop_replicas(follow);
        partitions_lock_all(engine->partitions);
        good = primary_become(engine, follow->sync_id, follow->sync_offset, follow->sync_db);
        partitions_unlock_all(engine->partitions);
        if (!good)
            pause_us(POLL_US);
    }
    return good;
}

static bool load(struct follow *follow, int fd)
{
    struct import_rules rules = { IMPORT_KEEPS_EXPIRED, IMPORT_REFUSES_TWINS, &follow->stop_load };
    struct engine *engine = follow->engine;
    struct import_result result = { 0 };
    struct message message = { "" };
    struct claim claim;
    bool good;

    switch_log(follow, false);
    partitions_lock_all_unowned(engine->partitions, &claim);
    partitions_unlock_all_owned(engine->partitions, &claim);
    empty(engine);
    good = import_rdb(engine, fd, &rules, NULL, NULL, &result, &message) == STATUS_OK;
    if (!good) {
        empty(engine);
        history_new_id(&engine->history, false);        /* the data is none of the old one's */
    } else {
        follow->sync_db = result.position.db >= 0 && result.position.db < engine->partitions->db_count ? (int)result.position.db : 0;
        good = become(follow);
    }
    note_loaded(engine);
    partitions_give_all(engine->partitions, &claim);
    if (good && wants_log(engine))
        switch_log(follow, true);
    if (good)
        log_write(log_of(follow), LOG_LEVEL_NOTICE, "Loaded the primary's RDB: %" PRIu64 " keys", result.keys);
    else
        log_write(log_of(follow), LOG_LEVEL_WARNING, "Failed to load the primary's RDB: %s", message.text);
    return good;
}

static void *loader_main(void *context)
{
    struct follow *follow = context;
    struct engine *engine = follow->engine;
    int fd = atomic_exchange(&follow->load_fd, -1);
    bool good;

    pthread_setname_np(pthread_self(), "kelvin-sync");
    meter_join(engine->meter);
    role_set_syncing(engine, true);
    good = load(follow, fd);
    close(fd);
    if (good && !follow->stopping)
        start_applier(follow, follow->sync_offset, follow->sync_db);
    if (!good && !follow->stop_load)
        follow->restart = follow->must_reconnect = true;
    mutex_lock(&follow->lock);
    role_set_link(engine, good && follow->state == LINK_CONNECTED);
    role_set_syncing(engine, false);
    follow->loading = false;        /* last: an ACK says that clients see the data */
    mutex_unlock(&follow->lock);
    if (good)
        on_ack(follow);             /* a primary may wait for it before it sends the stream */
    meter_leave(engine->meter);
    return NULL;
}

static void on_rdb_received(void *context, int fd, uint64_t size)
{
    struct follow *follow = context;

    log_write(log_of(follow), LOG_LEVEL_NOTICE, "Received %" PRIu64 " bytes of RDB from the primary", size);
    join_loader(follow);
    follow->loading = true;
    follow->load_fd = fd;
    if (pthread_create(&follow->loader, NULL, loader_main, follow) == 0) {
        follow->has_loader = true;
        return;
    }
    close(fd);
    follow->loading = false;
    follow->restart = follow->must_reconnect = true;
    log_write(log_of(follow), LOG_LEVEL_WARNING, "Failed to load the primary's RDB: the system gives no thread");
}

/* --- REPLICAOF --- */

static void fill_in(struct follow *follow, struct link_options *options, char *strings[4])
{
    struct config *config = follow->engine->config;
    int64_t port = config_number(config, CONFIG_REPLICA_ANNOUNCE_PORT);
    bool with_tls = config_number(config, CONFIG_TLS_REPLICATION) != 0;

    strings[0] = config_string(config, CONFIG_MASTERUSER);
    strings[1] = config_string(config, CONFIG_MASTERAUTH);
    strings[2] = config_string(config, CONFIG_REPLICA_ANNOUNCE_IP);
    strings[3] = config_string(config, CONFIG_BIND_SOURCE_ADDR);
    if (port == 0)
        port = config_number(config, with_tls ? CONFIG_TLS_PORT : CONFIG_PORT);
    *options = (struct link_options){
        .host = follow->host, .port = (uint16_t)follow->port, .source_address = strings[3], .user = strings[0], .password = strings[1],
        .tls = with_tls && follow->hold_tls != NULL ? follow->hold_tls(follow->tls_context) : NULL,
        .listening_port = (uint16_t)port, .announce_ip = strings[2],
        .timeout_ms = config_number(config, CONFIG_REPL_TIMEOUT) * 1000, .disk = disk_system(), .dir = ".",
    };
}

static void release_options(struct link_options *options, char *strings[4])
{
    tls_context_drop(options->tls);
    for (int i = 0; i < 4; i++)
        mem_free(strings[i]);
}

static bool start_link(struct follow *follow) REQUIRES(follow->turn);
static bool start_link(struct follow *follow)
{
    struct link_host host = {
        .context = follow, .connected = on_connected, .position = on_position, .state_changed = on_state, .failed = on_failed, .continued = on_continued,
        .full_resync = on_full_resync, .rdb_progress = on_rdb_progress, .rdb_received = on_rdb_received, .received = on_received,
        .progress = on_progress,
    };
    struct link_options options;
    struct link *link;
    char *strings[4];

    fill_in(follow, &options, strings);
    link = link_start(&options, &host);
    release_options(&options, strings);
    mutex_lock(&follow->lock);
    follow->link = link;
    mutex_unlock(&follow->lock);
    follow_configure(follow);       /* a directive may have been changed after it was read */
    return link != NULL;
}

/* Nothing arrives, and nothing is applied any more: the history's end is the last unit that was applied. */
static void end_link(struct follow *follow) REQUIRES(follow->turn);
static void end_link(struct follow *follow)
{
    struct link *link = follow->link;

    follow->stop_load = true;
    mutex_lock(&follow->lock);
    follow->link = NULL;
    mutex_unlock(&follow->lock);
    if (link != NULL)
        link_stop(link);
    join_loader(follow);
    follow->stop_load = false;
    end_inbox(follow);
}

/* False: nothing was changed, as the history does not end at `lsn` (FOLLOW_ANY_LSN: wherever it ends). */
static bool set_role(struct follow *follow, bool is_replica, uint64_t lsn)
{
    struct engine *engine = follow->engine;
    struct claim claim;

    partitions_lock_all_unowned(engine->partitions, &claim);
    if (lsn != FOLLOW_ANY_LSN && history_end(&engine->history) != lsn) {
        partitions_unlock_all_unowned(engine->partitions, &claim);
        return false;
    }
    if (is_replica)
        primary_need_backlog(engine);
    role_set_replica(engine, is_replica);
    history_set_foreign(&engine->history, is_replica);
    if (!is_replica)
        history_new_id(&engine->history, true);
    partitions_unlock_all_unowned(engine->partitions, &claim);
    if (is_replica)
        role_changed(engine);
    else
        primary_drop_all(engine->primary);      /* they come back, and learn the new ID */
    return true;
}

static void note_primary(struct follow *follow, const char *host, int port)
{
    mutex_lock(&follow->lock);
    snprintf(follow->host, sizeof(follow->host), "%s", host != NULL ? host : "");
    follow->port = port;
    follow->state = LINK_WAITING;
    mutex_unlock(&follow->lock);
    config_set_replicaof(follow->engine->config, bytes_of_string(follow->host), port);
}

static bool is_same(const struct follow *follow, const char *host, int port)
{
    return host != NULL && strcmp(follow->host, host) == 0 && follow->port == port;
}

enum follow_result follow_primary(struct follow *follow, const char *host, int port)
{
    bool was_replica, good = true;

    mutex_lock(&follow->turn);
    was_replica = follow->host[0] != '\0';
    if (is_same(follow, host, port) || (host == NULL && !was_replica)) {
        mutex_unlock(&follow->turn);
        return FOLLOW_ALREADY;
    }
    end_link(follow);
    follow->hand = FOLLOW_HAND_NONE;
    note_primary(follow, host, port);
    if (host == NULL || !was_replica)
        set_role(follow, host != NULL, FOLLOW_ANY_LSN);
    if (host != NULL)
        good = start_link(follow);
    else if (wants_log(follow->engine))
        (void)aof_switch_start(follow->engine->aof_switch, true);      /* a load that failed has left it off */
    mutex_unlock(&follow->turn);
    if (host == NULL)
        log_write(log_of(follow), LOG_LEVEL_NOTICE, "MASTER MODE enabled");
    else
        log_write(log_of(follow), LOG_LEVEL_NOTICE, "Before turning into a replica of %s:%d: this server's history is kept as far as it goes", host,
            port);
    return good ? FOLLOW_OK : FOLLOW_NO_THREAD;
}

/* --- FAILOVER --- */

enum follow_ask follow_hand_over(struct follow *follow, const char *host, int port, uint64_t lsn)
{
    enum follow_ask result = FOLLOW_ASK_BEGUN;

    mutex_lock(&follow->turn);
    if (follow->host[0] != '\0') {
        result = FOLLOW_ASK_NO_PRIMARY;
    } else if (!set_role(follow, true, lsn)) {
        result = FOLLOW_ASK_LONGER;
    } else {
        note_primary(follow, host, port);
        follow->hand = FOLLOW_HAND_ASKED;
        if (!start_link(follow))
            follow->hand = FOLLOW_HAND_REFUSED;
    }
    mutex_unlock(&follow->turn);
    return result;
}

enum follow_hand follow_hand(const struct follow *follow)
{
    return (enum follow_hand)follow->hand;
}

/* The reply may come until the link has ended. */
static bool may_take_back(struct follow *follow) REQUIRES(follow->turn);
static bool may_take_back(struct follow *follow)
{
    if (follow->hand == FOLLOW_HAND_TAKEN || follow->hand == FOLLOW_HAND_NONE)
        return false;
    end_link(follow);
    if (follow->hand != FOLLOW_HAND_TAKEN)
        return true;
    start_link(follow);
    return false;
}

bool follow_take_back(struct follow *follow)
{
    bool can;

    mutex_lock(&follow->turn);
    can = may_take_back(follow);
    if (can) {
        note_primary(follow, NULL, 0);
        set_role(follow, false, FOLLOW_ANY_LSN);
    }
    follow->hand = FOLLOW_HAND_NONE;
    mutex_unlock(&follow->turn);
    return can;
}

static bool has_unapplied(struct follow *follow)
{
    bool has;

    mutex_lock(&follow->lock);
    has = follow->inbox != NULL && follow->applier != NULL && (int64_t)backlog_end(follow->inbox) > applier_offset(follow->applier);
    mutex_unlock(&follow->lock);
    return has;
}

/* What the primary has sent before is not lost, unless the applier is far back. */
static void await_applier(struct follow *follow)
{
    int64_t until_us = clock_mono_us() + TAKE_OVER_WAIT_US;

    while (has_unapplied(follow) && !follow->stopping && clock_mono_us() < until_us)
        pause_us(POLL_US);
}

static bool has_history(struct follow *follow, struct bytes id)
{
    struct history_point now;

    history_point(&follow->engine->history, &now);
    return !follow->loading && bytes_is(id, now.identity.id);
}

enum follow_take_over follow_take_over(struct follow *follow, struct bytes id)
{
    enum follow_take_over result = FOLLOW_TAKEN_OVER;

    mutex_lock(&follow->turn);
    if (follow->host[0] == '\0') {
        result = FOLLOW_IS_PRIMARY;
    } else if (!has_history(follow, id)) {
        result = FOLLOW_HAS_OTHER_ID;
    } else {
        await_applier(follow);
        end_link(follow);
        follow->hand = FOLLOW_HAND_NONE;
        note_primary(follow, NULL, 0);
        set_role(follow, false, FOLLOW_ANY_LSN);
    }
    mutex_unlock(&follow->turn);
    if (result == FOLLOW_TAKEN_OVER)
        log_write(log_of(follow), LOG_LEVEL_NOTICE, "MASTER MODE enabled: the primary has handed its role over (PSYNC with FAILOVER)");
    return result;
}

void follow_begin(struct follow *follow)
{
    struct buffer host = { 0 };
    int port;

    if (config_replicaof(follow->engine->config, &host, &port)) {
        buffer_append(&host, "", 1);
        if (follow_primary(follow, host.data, port) == FOLLOW_NO_THREAD)
            log_write(log_of(follow), LOG_LEVEL_WARNING, "Can't follow %s:%d: the system gives no thread", host.data, port);
    }
    buffer_release(&host);
}

void follow_configure(struct follow *follow)
{
    struct link_options options;
    char *strings[4];

    mutex_lock(&follow->lock);      /* not `turn`: a change of the primary sets replicaof, which waits for the change of this directive */
    if (follow->link != NULL) {
        fill_in(follow, &options, strings);
        link_configure(follow->link, &options);
        release_options(&options, strings);
    }
    mutex_unlock(&follow->lock);
}

void follow_cron(struct follow *follow)
{
    if (!follow->must_reconnect)
        return;
    mutex_lock(&follow->lock);
    if (clock_mono_us() / 1000 >= follow->again_ms) {
        follow->must_reconnect = false;
        if (follow->link != NULL)
            link_reconnect(follow->link);
    }
    mutex_unlock(&follow->lock);
}

void follow_stop(struct follow *follow)
{
    follow->stopping = true;
    mutex_lock(&follow->turn);
    end_link(follow);
    mutex_unlock(&follow->turn);
}

void follow_destroy(struct follow *follow)
{
    if (follow == NULL)
        return;
    command_stats_destroy(follow->engine->streamed.commands);
    follow->engine->streamed.commands = NULL;
    mutex_release(&follow->lock);
    mutex_release(&follow->turn);
    mem_free(follow);
}

/* --- what others ask --- */

bool follow_client(struct follow *follow, struct follow_client *client)
{
    struct applier_view view;
    bool is_there;

    mutex_lock(&follow->lock);
    is_there = follow->state == LINK_CONNECTED && follow->applier != NULL && !follow->loading;
    if (is_there) {
        applier_view(follow->applier, &view);
        *client = (struct follow_client){ .id = view.id, .fd = follow->fd, .db = view.db, .created_ms = view.created_ms,
            .active_ms = clock_wall_ms() - (clock_mono_us() / 1000 - follow->io_ms), .last_command = view.last_command };
        memcpy(client->address, follow->address, sizeof(client->address));
        memcpy(client->local_address, follow->local_address, sizeof(client->local_address));
    }
    mutex_unlock(&follow->lock);
    return is_there;
}

bool follow_kill(struct follow *follow, uint64_t id)
{
    struct applier_view view;
    bool is_there = false;

    mutex_lock(&follow->lock);
    if (follow->applier != NULL && follow->link != NULL && follow->state == LINK_CONNECTED) {
        applier_view(follow->applier, &view);
        is_there = view.id == id;
        if (is_there)
            link_reconnect(follow->link);
    }
    mutex_unlock(&follow->lock);
    return is_there;
}

void follow_view(struct follow *follow, struct follow_view *view)
{
    struct history_point now;

    history_point(&follow->engine->history, &now);
    mutex_lock(&follow->lock);
    *view = (struct follow_view){
        .port = follow->port, .state = follow->state, .is_syncing = follow->state == LINK_SYNC || follow->loading,
        .io_s = follow->io_ms > 0 ? (clock_mono_us() / 1000 - follow->io_ms) / 1000 : -1,
        .applied = follow->applier != NULL ? applier_offset(follow->applier) : now.offset,
        .received = follow->inbox != NULL ? (int64_t)backlog_end(follow->inbox) : now.offset,
        .sync_received = follow->received, .sync_total = follow->total,
        .errors = follow->errors + (follow->applier != NULL ? applier_errors(follow->applier) : 0),
    };
    memcpy(view->host, follow->host, sizeof(view->host));
    mutex_unlock(&follow->lock);
}
