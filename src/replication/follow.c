#include "replication/follow.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/disk.h"
#include "base/mem.h"
#include "engine/blocking.h"
#include "engine/role.h"
#include "replication/applier.h"
#include "replication/follow_private.h"
#include "replication/image_offer.h"
#include "replication/link.h"
#include "replication/primary.h"
#include "stream/backlog.h"
#include "tls/tls_context.h"

enum { START_AGAIN_MS = 1000 };     /* after the system had no thread for the link */

void follow_await(struct follow *follow, bool (*is_so)(struct follow *follow))
{
    struct waiting *waiting = &follow->engine->waiting;

    for (;;) {
        uint32_t version = waiting_version(waiting);

        if (is_so(follow) || follow->stopping)
            return;
        waiting_wait(waiting, version, -1);
    }
}

void follow_set_data(struct follow *follow, enum follow_data data)
{
    follow->data = data;
    waiting_bump(&follow->engine->waiting);
}

void follow_set_hand(struct follow *follow, enum follow_hand hand)
{
    follow->hand = hand;
    waiting_bump(&follow->engine->waiting);
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

static bool is_loading(const struct follow *follow) REQUIRES(follow->lock);
static bool is_loading(const struct follow *follow)
{
    return follow->data == FOLLOW_DATA_LOADS || follow->data == FOLLOW_DATA_REPLACED;
}

bool follow_is_loading(struct follow *follow)
{
    bool loads;

    mutex_lock(&follow->lock);
    loads = is_loading(follow);
    mutex_unlock(&follow->lock);
    return loads;
}

/* --- REPLICAOF --- */

struct tls_context *follow_hold_tls(const struct follow *follow)
{
    return follow->hold_tls != NULL ? follow->hold_tls(follow->tls_context) : NULL;
}

bool follow_has_tls(struct follow *follow)
{
    struct tls_context *tls = follow_hold_tls(follow);

    tls_context_drop(tls);
    return tls != NULL;
}

/* `offer` is kept as long as the options are used. */
static void fill_in(struct follow *follow, struct link_options *options, char *strings[4], char offer[IMAGE_OFFER_SIZE])
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
    image_offer_write(follow->engine, offer);
    if (follow->no_images)
        offer[0] = '\0';
    *options = (struct link_options){
        .host = follow->host, .port = (uint16_t)follow->port, .source_address = strings[3], .user = strings[0], .password = strings[1],
        .with_tls = with_tls, .tls = with_tls ? follow_hold_tls(follow) : NULL,
        .listening_port = (uint16_t)port, .announce_ip = strings[2],
        .timeout_ms = config_number(config, CONFIG_REPL_TIMEOUT) * 1000, .disk = disk_system(), .dir = ".",
        .image_offer = offer, .image_dir = follow->image_dir,
    };
}

static void release_options(struct link_options *options, char *strings[4])
{
    tls_context_drop(options->tls);
    for (int i = 0; i < 4; i++)
        mem_free(strings[i]);
}

bool follow_start_link(struct follow *follow)
{
    struct link_host host = follow_link_host(follow);
    struct link_options options;
    struct link *link;
    char *strings[4], offer[IMAGE_OFFER_SIZE];

    if (follow->image_dir[0] == '\0')
        dump_image_path(follow->engine, (uint64_t)getpid(), ".link", follow->image_dir);
    fill_in(follow, &options, strings, offer);
    link = link_start(&options, &host);
    release_options(&options, strings);
    mutex_lock(&follow->lock);
    follow->link = link;
    follow->again_ms = link == NULL ? clock_mono_us() / 1000 + START_AGAIN_MS : 0;
    mutex_unlock(&follow->lock);
    follow_configure(follow);       /* a directive may have been changed after it was read */
    return link != NULL;
}

/* No load begins to replace the data from here on. False: one does. */
static bool stop_load(struct follow *follow)
{
    bool can;

    mutex_lock(&follow->lock);
    can = follow->data != FOLLOW_DATA_REPLACED || follow->stopping;
    if (can)
        follow->stop_load = true;
    mutex_unlock(&follow->lock);
    return can;
}

static void stop_link(struct follow *follow) REQUIRES(follow->turn);
static void stop_link(struct follow *follow)
{
    struct link *link = follow->link;

    mutex_lock(&follow->lock);
    follow->link = NULL;
    mutex_unlock(&follow->lock);
    if (link != NULL)
        link_stop(link);
    mutex_lock(&follow->lock);
    follow->state = LINK_WAITING;
    role_set_link(follow->engine, false);
    mutex_unlock(&follow->lock);
}

bool follow_end_link(struct follow *follow, enum follow_end end)
{
    if (!stop_load(follow))
        return false;
    stop_link(follow);
    if (end == FOLLOW_END_APPLIED)
        follow_await_applier(follow);
    follow_join_loader(follow);
    follow->stop_load = false;
    follow_end_inbox(follow);
    return true;
}

bool follow_set_role(struct follow *follow, bool is_replica, uint64_t lsn)
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
    if (!is_replica)
        history_new_id(&engine->history, true);         /* while it is foreign: PUBLISH and PING lock no partition, and must not be of the old ID */
    history_set_foreign(&engine->history, is_replica);
    partitions_unlock_all_unowned(engine->partitions, &claim);
    if (is_replica)
        blocking_unblock_all(engine);
    else
        primary_drop_all(engine->replication.primary);      /* they come back, and learn the new ID */
    return true;
}

void follow_note_primary(struct follow *follow, const char *host, int port)
{
    mutex_lock(&follow->lock);
    snprintf(follow->host, sizeof(follow->host), "%s", host != NULL ? host : "");
    follow->port = port;
    follow->state = LINK_WAITING;
    follow->again_ms = 0;
    mutex_unlock(&follow->lock);
    config_set_replicaof(follow->engine->config, bytes_of_string(follow->host), port);
}

static bool is_same(const struct follow *follow, const char *host, int port)
{
    return host != NULL && strcmp(follow->host, host) == 0 && follow->port == port;
}

void follow_promote(struct follow *follow)
{
    follow_set_hand(follow, FOLLOW_HAND_NONE);
    follow_note_primary(follow, NULL, 0);
    mutex_lock(&follow->lock);
    follow_set_data(follow, FOLLOW_DATA_GOES_ON);       /* whatever it is, it is this server's own now */
    mutex_unlock(&follow->lock);
    follow_set_role(follow, false, FOLLOW_ANY_LSN);
    follow_restore_log(follow->engine);
}

static enum follow_result follow_none(struct follow *follow) REQUIRES(follow->turn);
static enum follow_result follow_none(struct follow *follow)
{
    if (follow->host[0] == '\0')
        return FOLLOW_ALREADY;
    if (!follow_end_link(follow, FOLLOW_END_APPLIED))
        return FOLLOW_LOADING;
    follow_promote(follow);
    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "MASTER MODE enabled");
    return FOLLOW_OK;
}

static enum follow_result follow_host(struct follow *follow, const char *host, int port) REQUIRES(follow->turn);
static enum follow_result follow_host(struct follow *follow, const char *host, int port)
{
    bool was_replica = follow->host[0] != '\0';

    if (is_same(follow, host, port) && follow->link != NULL)
        return FOLLOW_ALREADY;
    if (!follow_end_link(follow, FOLLOW_END_NOW))
        return FOLLOW_LOADING;
    follow_set_hand(follow, FOLLOW_HAND_NONE);
    follow->no_images = false;
    follow_note_primary(follow, host, port);
    if (!was_replica)
        follow_set_role(follow, true, FOLLOW_ANY_LSN);
    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Before turning into a replica of %s:%d: this server's history is kept as far as it goes", host, port);
    return follow_start_link(follow) ? FOLLOW_OK : FOLLOW_NO_THREAD;
}

enum follow_result follow_primary(struct follow *follow, const char *host, int port)
{
    enum follow_result result;

    mutex_lock(&follow->turn);
    result = host != NULL ? follow_host(follow, host, port) : follow_none(follow);
    mutex_unlock(&follow->turn);
    return result;
}

void follow_begin(struct follow *follow)
{
    struct buffer host = { 0 };
    int port;

    if (config_replicaof(follow->engine->config, &host, &port)) {
        buffer_append(&host, "", 1);
        if (follow_primary(follow, host.data, port) == FOLLOW_NO_THREAD)
            log_write(follow_log(follow), LOG_LEVEL_WARNING, "Can't follow %s:%d: the system gives no thread", host.data, port);
    }
    buffer_release(&host);
}

void follow_configure(struct follow *follow)
{
    struct link_options options;
    char *strings[4], offer[IMAGE_OFFER_SIZE];

    mutex_lock(&follow->lock);      /* not `turn`: a change of the primary sets replicaof, which waits for the change of this directive */
    if (follow->link != NULL) {
        fill_in(follow, &options, strings, offer);
        link_configure(follow->link, &options);
        release_options(&options, strings);
    }
    mutex_unlock(&follow->lock);
}

/* There is a primary to follow, and no link: the system had no thread for it. */
static bool lacks_link(struct follow *follow) REQUIRES(follow->turn);
static bool lacks_link(struct follow *follow)
{
    bool is_asked = follow->hand == FOLLOW_HAND_ASKED || follow->hand == FOLLOW_HAND_REFUSED;     /* follow_take_back comes */

    return follow->host[0] != '\0' && follow->link == NULL && !is_asked && !follow->stopping;
}

void follow_cron(struct follow *follow)
{
    bool is_due;

    mutex_lock(&follow->lock);
    is_due = follow->again_ms != 0 && clock_mono_us() / 1000 >= follow->again_ms;
    if (is_due && follow->link != NULL) {
        follow->again_ms = 0;
        link_reconnect(follow->link);
    }
    mutex_unlock(&follow->lock);
    if (!is_due || !mutex_try_lock(&follow->turn))          /* the primary is just being changed */
        return;
    if (lacks_link(follow))
        (void)follow_start_link(follow);
    mutex_unlock(&follow->turn);
}

void follow_stop(struct follow *follow)
{
    follow->stopping = true;
    waiting_bump(&follow->engine->waiting);
    mutex_lock(&follow->turn);
    (void)follow_end_link(follow, FOLLOW_END_NOW);
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
    is_there = follow->state == LINK_CONNECTED && follow->applier != NULL && !is_loading(follow);
    if (is_there) {
        applier_view(follow->applier, &view);
        *client = (struct follow_client){ .id = view.id, .fd = follow->fd, .db = view.db, .created_us = view.created_us,
            .active_us = follow->io_ms * 1000, .last_command = view.last_command };
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
        .port = follow->port, .state = follow->state, .is_syncing = follow->state == LINK_SYNC || is_loading(follow),
        .io_s = follow->io_ms > 0 ? (clock_mono_us() / 1000 - follow->io_ms) / 1000 : -1,
        .applied = follow->applier != NULL ? applier_offset(follow->applier) : now.offset,
        .received = follow->inbox != NULL ? (int64_t)backlog_end(follow->inbox) : now.offset,
        .sync_received = follow->received, .sync_total = follow->total,
        .last_sync = (enum follow_sync)follow->last_sync, .errors = follow->errors + (follow->applier != NULL ? applier_errors(follow->applier) : 0),
    };
    memcpy(view->host, follow->host, sizeof(view->host));
    mutex_unlock(&follow->lock);
}
