#include "replication/primary.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/mem.h"
#include "call/call.h"
#include "engine/role.h"
#include "persist/aof_map.h"
#include "persist/archive.h"
#include "replication/primary_private.h"

struct primary *primary_create(struct engine *engine)
{
    struct primary *primary = mem_zalloc(sizeof(*primary));

    primary->engine = engine;
    mutex_init(&primary->lock);
    return primary;
}

void primary_destroy(struct primary *primary)
{
    if (primary == NULL)
        return;
    CHECK(primary->replicas == NULL);
    mutex_release(&primary->lock);
    mem_free(primary);
}

/* --- the list --- */

static struct primary *primary_of(const struct client *client)
{
    return client->worker->engine->replication.primary;
}

static struct replica *replica_of(struct client *client)
{
    struct replica *replica = client->replica;

    if (replica != NULL)
        return replica;
    replica = mem_zalloc(sizeof(*replica));
    replica->primary = primary_of(client);
    replica->client = client;
    replica->worker = client->worker->index;
    replica->acked = replica->synced = -1;
    client->replica = replica;
    return replica;
}

static void enlist(struct replica *replica, enum replica_state state)
{
    struct primary *primary = replica->primary;

    replica->state = state;
    replica->client->flags |= CLIENT_REPLICA;
    replica->client->next_replica = replica->client->worker->replicas;
    replica->client->worker->replicas = replica->client;
    replica->next = primary->replicas;
    if (primary->replicas != NULL)
        primary->replicas->prev = replica;
    primary->replicas = replica;
    primary->count++;
    primary->by_worker[replica->worker % 64]++;
    waiting_bump(&primary->engine->waiting);
}

static void unlink_from_worker(struct client *client)
{
    struct client **at = &client->worker->replicas;

    while (*at != client)
        at = &(*at)->next_replica;
    *at = client->next_replica;
}

/* Returns until when bytes are kept that a disconnected replica lacks. */
static int64_t kept_until(const struct engine *engine)
{
    int64_t ttl_s = config_number(engine->config, CONFIG_REPL_BACKLOG_TTL);

    return ttl_s == 0 ? INT64_MAX : primary_now_ms() + ttl_s * 1000;
}

/* Returns the number of replicas that are online, with an ACK not older than min-replicas-max-lag. */
static int count_good(struct primary *primary)
{
    int64_t now_ms = primary_now_ms(), lag_ms = config_number(primary->engine->config, CONFIG_MIN_REPLICAS_MAX_LAG) * 1000;
    int count = 0;

    mutex_lock(&primary->lock);
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next)
        count += replica->state == REPLICA_ONLINE && now_ms - replica->acked_ms <= lag_ms;
    mutex_unlock(&primary->lock);
    return count;
}

void primary_forget(struct client *client)
{
    struct replica *replica = client->replica;
    struct primary *primary;

    if (replica == NULL)
        return;
    primary = replica->primary;
    client->replica = NULL;
    mutex_lock(&replica->primary->lock);
    sync_leave(replica);
    if (replica->past != NULL || replica->rdb_only)
        backlog_detach(replica->reader);        /* it asks for bytes before those that the backlog could keep for it, or for none */
    else if (replica->reader != NULL)
        backlog_leave(replica->reader, kept_until(primary->engine));
    if (replica->state != REPLICA_NEW) {
        *(replica->prev != NULL ? &replica->prev->next : &primary->replicas) = replica->next;
        if (replica->next != NULL)
            replica->next->prev = replica->prev;
        primary->count--;
        primary->by_worker[replica->worker % 64]--;
        unlink_from_worker(client);
    }
    mutex_unlock(&replica->primary->lock);
    waiting_bump(&primary->engine->waiting);
    role_set_good_replicas(primary->engine, count_good(primary));     /* min-replicas-to-write: at once */
    aof_past_close(replica->past);
    archive_reader_destroy(replica->image);
    mem_free(replica);
}

void primary_end_turn(struct worker *worker)
{
    struct primary *primary = worker->engine->replication.primary;

    for (int i = 0; i < worker->engine->worker_count; i++) {
        if (i != worker->index && primary->by_worker[i % 64] > 0)
            mailbox_ring(&worker->engine->workers[i]->mailbox);
    }
}

void primary_drop_all(struct primary *primary)
{
    mutex_lock(&primary->lock);
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next)
        replica->dropped = true;
    mutex_unlock(&primary->lock);
    primary_ring(primary);
}

/* --- commands --- */

void replica_set(struct client *client, enum replica_option option, int64_t value)
{
    struct replica *replica = replica_of(client);

    mutex_lock(&replica->primary->lock);
    switch (option) {
    case REPLICA_PORT: replica->port = (int)value; break;
    case REPLICA_CAN_EOF: replica->can_eof = value != 0; break;
    case REPLICA_CAN_PSYNC2: replica->can_psync2 = value != 0; break;
    case REPLICA_CAN_IMAGE: replica->can_image = value != 0; break;
    case REPLICA_CAN_RDB12: replica->can_rdb12 = value != 0; break;
    case REPLICA_RDB_ONLY: replica->rdb_only = value != 0; break;
    case REPLICA_WITHOUT_KEYS: replica->without_keys = value != 0; break;
    case REPLICA_WITHOUT_FUNCTIONS: replica->without_functions = value != 0; break;
    }
    mutex_unlock(&replica->primary->lock);
}

void replica_set_ip(struct client *client, struct bytes ip)
{
    struct replica *replica = replica_of(client);

    mutex_lock(&replica->primary->lock);
    snprintf(replica->ip, sizeof(replica->ip), "%.*s", (int)ip.size, ip.data);
    mutex_unlock(&replica->primary->lock);
}

/* Clients may wait for it (WAIT). */
static void ring_waiting(const struct engine *engine)
{
    if (engine->clients.parked == 0)
        return;
    for (int i = 0; i < engine->worker_count; i++)
        mailbox_ring(&engine->workers[i]->mailbox);
}

void replica_acknowledge(struct client *client, int64_t offset, int64_t synced)
{
    struct replica *replica = client->replica;

    struct history_point now;

    if (replica == NULL || replica->state == REPLICA_NEW)
        return;
    history_point(&client->worker->engine->history, &now);
    if (offset > now.offset)
        offset = 0;                 /* not of this stream: it was not sent so much. It says that the replica is alive, and no more */
    if (synced > now.offset)
        synced = -1;
    if (offset > replica->acked)
        replica->acked = offset;
    if (synced > replica->synced)
        replica->synced = synced;
    replica->acked_ms = primary_now_ms();
    if (replica->reader != NULL && replica->past == NULL && offset > 0)
        backlog_acknowledge(replica->reader, history_lsn_of(&client->worker->engine->history, offset));
    if (replica->state == REPLICA_LOADS) {
        replica->state = REPLICA_ONLINE;
        log_write(client->worker->engine->log, LOG_LEVEL_NOTICE, "Synchronization with replica %s succeeded", client->address);
    }
    ring_waiting(client->worker->engine);
    waiting_bump(&client->worker->engine->waiting);
    client->worker->host.output_came(client);
}

/* No replica, and no synchronization, has a reader in the backlog, and none gets one as long as the lock is held. */
static bool may_close_backlog(const struct primary *primary) REQUIRES(primary->lock);
static bool may_close_backlog(const struct primary *primary)
{
    return primary->count == 0 && primary->sync_count == 0;
}

bool primary_become(struct engine *engine, const char *id, int64_t offset, int db)
{
    struct primary *primary = engine->replication.primary;
    bool good;

    mutex_lock(&primary->lock);
    good = may_close_backlog(primary);
    if (good && history_backlog(&engine->history) != NULL)
        history_close_backlog(&engine->history);
    if (good) {
        primary_open_backlog(engine);
        history_become(&engine->history, id, offset, db);
    }
    mutex_unlock(&primary->lock);
    return good;
}

static void need_backlog(struct engine *engine)
{
    if (history_backlog(&engine->history) != NULL)
        return;
    partitions_lock_all(engine->partitions);
    primary_need_backlog(engine);
    partitions_unlock_all(engine->partitions);
}

void primary_keep_backlog(struct engine *engine)
{
    partitions_lock_all(engine->partitions);        /* before it is closed, or after that */
    atomic_fetch_add(&engine->replication.primary->sync_count, 1);
    primary_need_backlog(engine);
    partitions_unlock_all(engine->partitions);
}

void primary_release_backlog(struct engine *engine)
{
    struct primary *primary = engine->replication.primary;

    primary->seen_ms = primary_now_ms();
    atomic_fetch_sub(&primary->sync_count, 1);
    waiting_bump(&engine->waiting);
}

static bool same_id(struct bytes id, const char *own)
{
    return id.size == HISTORY_ID_SIZE && memcmp(id.data, own, HISTORY_ID_SIZE) == 0;
}

/* The stream that the replica has is this one, as far as it has it. */
static bool is_of_this_stream(const struct history_point *now, struct bytes id, int64_t offset)
{
    if (offset < 1 || offset > now->offset + 1)
        return false;
    return same_id(id, now->identity.id) || (same_id(id, now->identity.second_id) && offset <= now->identity.second_offset);
}

/* The backlog has it all. */
static bool continue_in_backlog(struct replica *replica, const struct history_point *now, int64_t position)
{
    struct backlog *backlog = history_backlog(&replica->primary->engine->history);
    int64_t lsn = (int64_t)now->lsn - (now->offset - position);

    replica->reader = lsn >= 0 ? backlog_resume(backlog, (uint64_t)lsn) : NULL;
    if (replica->reader != NULL)
        backlog_acknowledge(replica->reader, (uint64_t)lsn);
    return replica->reader != NULL;
}

/* The log's increments have it all up to here. From here on the backlog keeps it for this replica. */
static bool continue_in_log(struct replica *replica, const struct history_point *now, int64_t position)
{
    struct engine *engine = replica->primary->engine;
    struct backlog *backlog = history_backlog(&engine->history);
    uint64_t end = backlog_end(backlog);

    if (engine->aof == NULL || aof_written(engine->aof) < end)
        return false;
    replica->reader = backlog_attach(backlog, end);
    if (replica->reader == NULL)
        return false;
    replica->past = aof_past(engine->aof, position, now->offset - ((int64_t)now->lsn - (int64_t)end));
    if (replica->past != NULL)
        return true;
    backlog_detach(replica->reader);
    replica->reader = NULL;
    return false;
}

/* After a start there is no backlog yet, but there may be a log. */
static void prepare_to_continue(struct engine *engine, struct bytes id, int64_t offset)
{
    struct history_point now;

    history_point(&engine->history, &now);
    if (engine->aof != NULL && is_of_this_stream(&now, id, offset))
        need_backlog(engine);
}

/* Continues the stream at an offset, if it is still there. The replica is to be enlisted before the lock is given back. */
static bool continue_at(struct replica *replica, struct bytes id, int64_t offset) REQUIRES(replica->primary->lock);
static bool continue_at(struct replica *replica, struct bytes id, int64_t offset)
{
    struct engine *engine = replica->primary->engine;
    struct history_point now;

    history_point(&engine->history, &now);
    if (!is_of_this_stream(&now, id, offset) || history_backlog(&engine->history) == NULL)
        return false;
    history_drain(&engine->history);
    return continue_in_backlog(replica, &now, offset - 1) || continue_in_log(replica, &now, offset - 1);
}

static void reply_continue(struct replica *replica)
{
    struct history_point now;

    history_point(&replica->primary->engine->history, &now);
    if (replica->can_psync2)
        buffer_append_format(&replica->client->reply.out, "+CONTINUE %s\r\n", now.identity.id);
    else
        buffer_append_format(&replica->client->reply.out, "+CONTINUE\r\n");
}

/* repl-disable-tcp-nodelay: fewer packets, up to 40 ms later. */
static void allow_delay(const struct replica *replica)
{
    int zero = 0;

    if (config_number(replica->primary->engine->config, CONFIG_REPL_DISABLE_TCP_NODELAY) && !(replica->client->flags & CLIENT_UNIX_SOCKET))
        (void)setsockopt(replica->client->fd, IPPROTO_TCP, TCP_NODELAY, &zero, sizeof(zero));
}

static void begin_stream(struct replica *replica, enum replica_state state) REQUIRES(replica->primary->lock);
static void begin_stream(struct replica *replica, enum replica_state state)
{
    allow_delay(replica);
    replica->acked_ms = replica->heard_ms = replica->fed_ms = primary_now_ms();
    enlist(replica, state);
    if (state == REPLICA_WAITS)
        sync_join(replica);
}

static bool begin_continued(struct replica *replica, struct bytes id, int64_t offset)
{
    bool good;

    prepare_to_continue(replica->primary->engine, id, offset);
    mutex_lock(&replica->primary->lock);
    good = continue_at(replica, id, offset);
    if (good) {
        reply_continue(replica);
        begin_stream(replica, REPLICA_ONLINE);
    }
    mutex_unlock(&replica->primary->lock);
    if (good && replica->primary->engine->upper.stream_begins != NULL)
        replica->primary->engine->upper.stream_begins(replica->primary->engine);
    if (good)
        replica->client->worker->host.output_came(replica->client);
    return good;
}

static void begin_full(struct replica *replica)
{
    need_backlog(replica->primary->engine);
    atomic_fetch_add(&replica->primary->full, 1);
    mutex_lock(&replica->primary->lock);
    begin_stream(replica, REPLICA_WAITS);
    mutex_unlock(&replica->primary->lock);
    replica->client->worker->host.output_came(replica->client);
}

void primary_psync(struct client *client, struct bytes id, int64_t offset)
{
    struct replica *replica = replica_of(client);
    struct primary *primary = replica->primary;
    struct log *log = primary->engine->log;

    if (replica->state != REPLICA_NEW)
        return;
    if (begin_continued(replica, id, offset)) {
        atomic_fetch_add(&primary->partial, 1);
        log_write(log, LOG_LEVEL_NOTICE, "Partial resynchronization request from %s accepted, from offset %" PRId64, client->address, offset);
        return;
    }
    if (id.size == HISTORY_ID_SIZE) {
        atomic_fetch_add(&primary->refused, 1);
        log_write(log, LOG_LEVEL_NOTICE, "Partial resynchronization request from %s not accepted: it has the stream %.40s up to offset %" PRId64,
            client->address, id.data, offset - 1);
    }
    log_write(log, LOG_LEVEL_NOTICE, "Full resynchronization requested by replica %s", client->address);
    begin_full(replica);
}

void primary_sync(struct client *client)
{
    struct replica *replica = replica_of(client);

    if (replica->state != REPLICA_NEW)
        return;
    replica->is_plain = true;
    log_write(replica->primary->engine->log, LOG_LEVEL_NOTICE, "Full resynchronization requested by %s (SYNC)", client->address);
    begin_full(replica);
}

/* --- from time to time --- */

/* One that loads an RDB sends newlines, or ACKs. One that does not read what it is sent would keep the image's files for ever. */
static bool is_late(const struct replica *replica, int64_t now_ms, int64_t timeout_ms)
{
    int state = replica->state;

    if (state == REPLICA_RECEIVES)
        return now_ms - replica->fed_ms > timeout_ms;
    return (state == REPLICA_ONLINE || state == REPLICA_LOADS) && !replica->is_plain && now_ms - replica->heard_ms > timeout_ms;
}

static void check_replicas(struct primary *primary, int64_t now_ms)
{
    int64_t timeout_ms = config_number(primary->engine->config, CONFIG_REPL_TIMEOUT) * 1000;

    mutex_lock(&primary->lock);
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next) {
        if (!is_late(replica, now_ms, timeout_ms) || replica->dropped)
            continue;
        log_write(primary->engine->log, LOG_LEVEL_WARNING, "Disconnecting timedout replica (silent for %" PRId64 " s): %s:%d",
            timeout_ms / 1000, replica->ip, replica->port);
        replica->dropped = true;
    }
    mutex_unlock(&primary->lock);
}

/* Part of the stream: replicas of replicas get it, too. */
static void ping(struct primary *primary, int64_t now_ms)
{
    struct engine *engine = primary->engine;
    int64_t period_ms = config_number(engine->config, CONFIG_REPL_PING_REPLICA_PERIOD) * 1000;

    if (engine->holds_writes || now_ms - primary->pinged_ms < period_ms)
        return;
    primary->pinged_ms = now_ms;
    history_append_signs(&engine->history, BYTES("*1\r\n$4\r\nPING\r\n"));
    history_drain(&engine->history);
}

uint64_t primary_ask(struct engine *engine)
{
    if (engine->holds_writes || engine->replication.primary->count == 0)
        return 0;
    return history_append_signs(&engine->history, BYTES(PRIMARY_GETACK));
}

/* Without replicas for long, and without a log, changes need not be kept. */
static void end_backlog_if_due(struct primary *primary, int64_t now_ms)
{
    struct engine *engine = primary->engine;
    int64_t ttl_ms = config_number(engine->config, CONFIG_REPL_BACKLOG_TTL) * 1000;

    if (ttl_ms == 0 || now_ms - primary->seen_ms < ttl_ms || history_backlog(&engine->history) == NULL || role_is_replica(engine))
        return;
    partitions_lock_all(engine->partitions);
    mutex_lock(&primary->lock);
    if (may_close_backlog(primary))
        history_close_backlog(&engine->history);
    mutex_unlock(&primary->lock);
    partitions_unlock_all(engine->partitions);
    log_write(engine->log, LOG_LEVEL_NOTICE, "Replication backlog freed after %" PRId64 " seconds without connected replicas.", ttl_ms / 1000);
}

void primary_configure(struct engine *engine)
{
    struct backlog *backlog;

    mutex_lock(&engine->history.hand_over_lock);
    backlog = history_backlog(&engine->history);
    if (backlog != NULL) {
        backlog_resize(backlog, (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_SIZE));
        backlog_limit_disk(backlog, (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_DISK_SIZE));
    }
    mutex_unlock(&engine->history.hand_over_lock);
}

/* Expires the backlog. It is not closed meanwhile: the end of a full synchronization opens another one. */
static void expire_backlog(struct engine *engine, int64_t now_ms)
{
    struct backlog *backlog;

    mutex_lock(&engine->history.hand_over_lock);
    backlog = history_backlog(&engine->history);
    if (backlog != NULL)
        backlog_expire(backlog, now_ms);
    mutex_unlock(&engine->history.hand_over_lock);
}

void primary_cron(struct engine *engine)
{
    struct primary *primary = engine->replication.primary;
    int64_t now_ms = primary_now_ms();

    role_set_good_replicas(engine, primary->count > 0 ? count_good(primary) : 0);
    expire_backlog(engine, now_ms);
    if (role_is_replica(engine))
        primary->seen_ms = now_ms;
    if (primary->count == 0) {
        end_backlog_if_due(primary, now_ms);
        return;
    }
    primary->seen_ms = now_ms;
    check_replicas(primary, now_ms);
    ping(primary, now_ms);
    sync_cron(primary, now_ms);
    primary_ring(primary);
}

/* --- what others ask --- */

int primary_sync_count(const struct primary *primary)
{
    return primary->sync_count;
}

int primary_count(const struct primary *primary)
{
    return primary->count;
}

/* As it has announced it, else where its connection comes from. */
static void copy_ip(const struct replica *replica, char ip[REPLICA_IP_SIZE])
{
    const char *address = replica->client->address, *port = address != NULL ? strrchr(address, ':') : NULL;
    int size = port != NULL ? (int)(port - address) : 0;
    bool bracketed = size > 2 && address[0] == '[';

    if (replica->ip[0] != '\0' || size == 0)
        memcpy(ip, replica->ip, REPLICA_IP_SIZE);
    else
        snprintf(ip, REPLICA_IP_SIZE, "%.*s", bracketed ? size - 2 : size, bracketed ? address + 1 : address);
}

int primary_view(struct primary *primary, struct replica_view *views, int max)
{
    int count = 0;
    int64_t now_ms = primary_now_ms();

    mutex_lock(&primary->lock);
    for (struct replica *replica = primary->replicas; replica != NULL && count < max; replica = replica->next) {
        views[count] = (struct replica_view){
            .client_id = replica->client->id, .port = replica->port, .state = (enum replica_state)replica->state,
            .offset = replica->acked, .synced = replica->synced, .lag_s = (now_ms - replica->acked_ms) / 1000,
        };
        copy_ip(replica, views[count++].ip);
    }
    mutex_unlock(&primary->lock);
    return count;
}

int primary_acknowledged(struct engine *engine, uint64_t lsn, bool on_disk)
{
    struct primary *primary = engine->replication.primary;
    int64_t offset = history_offset_of(&engine->history, lsn);
    int count = 0;

    if (primary->count == 0)
        return 0;
    mutex_lock(&primary->lock);
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next)
        count += replica->state == REPLICA_ONLINE && (on_disk ? replica->synced : replica->acked) >= offset;
    mutex_unlock(&primary->lock);
    return count;
}

const char *replica_state_name(enum replica_state state)
{
    if (state == REPLICA_ONLINE)
        return "online";
    return state == REPLICA_RECEIVES || state == REPLICA_LOADS ? "send_bulk" : "wait_bgsave";
}

static void log_lagging(const struct replica *replica, int64_t offset)
{
    char ip[REPLICA_IP_SIZE];

    copy_ip(replica, ip);
    log_write(replica->primary->engine->log, LOG_LEVEL_NOTICE,
        "Lagging replica %s:%d reported offset %" PRId64 " behind master, lag=%" PRId64 ", state=%s.", ip, replica->port,
        offset - (replica->acked > 0 ? replica->acked : 0), (primary_now_ms() - replica->acked_ms) / 1000,
        replica_state_name((enum replica_state)replica->state));
}

int primary_lagging(struct engine *engine, uint64_t lsn, bool logs, int *count)
{
    struct primary *primary = engine->replication.primary;
    int64_t offset = history_offset_of(&engine->history, lsn);
    int lagging = 0;

    *count = 0;
    if (primary->count == 0)
        return 0;
    history_drain(&engine->history);
    mutex_lock(&primary->lock);
    for (struct replica *replica = primary->replicas; replica != NULL; replica = replica->next) {
        if (replica->state != REPLICA_ONLINE || replica->acked < offset) {
            lagging++;
            if (logs)
                log_lagging(replica, offset);
        }
        (*count)++;
    }
    mutex_unlock(&primary->lock);
    primary_ring(primary);
    return lagging;
}

void primary_stats(struct engine *engine, struct primary_stats *stats)
{
    struct primary *primary = engine->replication.primary;
    struct backlog *backlog;
    struct backlog_stats measured;

    *stats = (struct primary_stats){ .full = primary->full, .full_image = primary->full_image, .partial = primary->partial, .refused = primary->refused,
        .backlog_size = (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_SIZE) };
    mutex_lock(&engine->history.hand_over_lock);     /* it is not closed meanwhile */
    backlog = history_backlog(&engine->history);
    if (backlog != NULL) {
        backlog_stats(backlog, &measured);
        stats->has_backlog = true;
        stats->backlog_first = history_offset_of(&engine->history, backlog_begin(backlog)) + 1;
        stats->backlog_length = backlog_end(backlog) - backlog_begin(backlog);
        stats->backlog_memory = measured.memory_used;
        stats->backlog_disk = measured.disk_used;
    }
    mutex_unlock(&engine->history.hand_over_lock);
}
