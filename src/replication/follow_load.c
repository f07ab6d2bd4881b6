/* The load of a full synchronization, on a thread of its own. */
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tree.h"
#include "engine/role.h"
#include "engine/tracking.h"
#include "engine/watch.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/emptying.h"
#include "lifecycle/image_load.h"
#include "lifecycle/import.h"
#include "replication/follow_private.h"
#include "replication/primary.h"

enum { THREAD_LOOK_MS = 100 };      /* the system may have a thread again */

static void empty_dataset(struct engine *engine)
{
    partitions_lock_all(engine->partitions);
    emptying_run(engine);
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

static bool is_log_on(struct follow *follow)
{
    struct aof_switch *aof_switch = follow->engine->lifecycle.aof_switch;

    return follow->engine->aof != NULL || aof_switch_has_failed(aof_switch) || !aof_switch_wants(aof_switch, true);
}

static bool is_log_off(struct follow *follow)
{
    return follow->engine->aof == NULL || !aof_switch_wants(follow->engine->lifecycle.aof_switch, false);
}

/* Until the log is on or off, or CONFIG SET wants it otherwise meanwhile. A switch to the other state that has not come to its end is not wanted any
 * more. False: the system gives no thread. */
static bool switch_log(struct follow *follow, bool on)
{
    bool good = aof_switch_start(follow->engine->lifecycle.aof_switch, on);

    if (good)
        follow_await(follow, on ? is_log_on : is_log_off);
    return good;
}

static void switch_log_off(struct follow *follow)
{
    struct engine *engine = follow->engine;

    do {                                /* without a log as well: a switch on may be under way, or wait to be tried again */
        uint32_t version = waiting_version(&engine->waiting);

        if (!switch_log(follow, false) && engine->aof != NULL)
            waiting_wait(&engine->waiting, version, THREAD_LOOK_MS);
    } while (engine->aof != NULL && !follow->stopping);
}

static bool wants_log(const struct engine *engine)
{
    return config_number(engine->config, CONFIG_APPENDONLY) != 0;
}

void follow_restore_log(struct engine *engine)
{
    if (wants_log(engine))
        (void)aof_switch_start(engine->lifecycle.aof_switch, true);
}

static bool has_dropped_replicas(struct follow *follow)
{
    struct primary *primary = follow->engine->replication.primary;

    primary_drop_all(primary);      /* each time, for one that came when the link was up */
    return primary_count(primary) == 0 && primary_sync_count(primary) == 0;
}

/* Replicas of this one have another stream from now on. First before this thread owns anything: an image that one of their synchronizations waits to
 * take would wait for that, and this thread for its end. None begins any more, as the link is not up. */
static void drop_replicas(struct follow *follow)
{
    follow_await(follow, has_dropped_replicas);
}

/* Makes the history the primary's: the loaded data is at `sync_offset` of the primary's stream. False: the server ends. */
static bool become(struct follow *follow)
{
    struct engine *engine = follow->engine;
    bool good = false;

    while (!good && !follow->stopping) {
        drop_replicas(follow);
        partitions_lock_all(engine->partitions);
        good = primary_become(engine, follow->sync_id, follow->sync_offset, follow->sync_db);
        partitions_unlock_all(engine->partitions);
    }
    return good;
}

static void own_all(struct engine *engine, struct claim *claim)
{
    partitions_lock_all_unowned(engine->partitions, claim);
    partitions_unlock_all_owned(engine->partitions, claim);
}

/* A log may have been switched on (CONFIG SET) after it was switched off for this load: its base would be the data of before, and the load is not
 * logged. None is from here on: a log begins at a cut, which has to wait until no partition is owned. */
static void own_all_without_log(struct follow *follow, struct claim *claim)
{
    struct engine *engine = follow->engine;

    own_all(engine, claim);
    while (engine->aof != NULL && !follow->stopping) {
        partitions_give_all(engine->partitions, claim);
        switch_log_off(follow);
        own_all(engine, claim);
    }
}

/* The data set is the primary's, or empty. */
static bool end_load(struct follow *follow, bool good)
{
    struct engine *engine = follow->engine;

    if (!good) {
        empty_dataset(engine);
        history_new_id(&engine->history, false);        /* the data is none of the old one's */
    } else {
        good = become(follow);
    }
    note_loaded(engine);
    return good;
}

static int usable_db(const struct engine *engine, int64_t db)
{
    return db >= 0 && db < engine->partitions->db_count ? (int)db : 0;
}

/* From here on the load goes on to its end. False: REPLICAOF was faster, and the old data stays. */
static bool begin_to_replace(struct follow *follow)
{
    bool may;

    mutex_lock(&follow->lock);
    may = !follow->stop_load;
    if (may)
        follow_set_data(follow, FOLLOW_DATA_REPLACED);
    mutex_unlock(&follow->lock);
    return may;
}

static bool load_rdb(struct follow *follow, int fd)
{
    struct import_rules rules = { .twins = IMPORT_REFUSES_TWINS, .cancel = &follow->stop_load };
    struct engine *engine = follow->engine;
    struct import_result result = { 0 };
    struct message message = { "" };
    struct claim claim;
    bool good;

    role_set_syncing(engine, true);
    drop_replicas(follow);
    switch_log_off(follow);
    own_all_without_log(follow, &claim);
    if (!begin_to_replace(follow)) {
        partitions_give_all(engine->partitions, &claim);
        log_write(follow_log(follow), LOG_LEVEL_NOTICE, "The primary's RDB is not loaded: REPLICAOF came before");
        return false;
    }
    empty_dataset(engine);
    good = import_rdb(engine, fd, &rules, NULL, NULL, &result, &message) == STATUS_OK;
    follow->sync_db = usable_db(engine, result.position.db);
    good = end_load(follow, good);
    partitions_give_all(engine->partitions, &claim);
    if (good && wants_log(engine))
        switch_log(follow, true);
    if (good)
        log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Loaded the primary's RDB: %" PRIu64 " keys", result.keys);
    else
        log_write(follow_log(follow), LOG_LEVEL_WARNING, "Failed to load the primary's RDB: %s", message.text);
    return good;
}

/* With the image turn, and no job under way. */
static bool take_image(struct follow *follow, struct image_load *load)
{
    struct engine *engine = follow->engine;
    struct claim claim;
    bool good, is_lost;

    own_all_without_log(follow, &claim);
    if (!begin_to_replace(follow)) {
        partitions_give_all(engine->partitions, &claim);
        message_set(&load->message, "REPLICAOF came before");
        return false;
    }
    empty_dataset(engine);
    good = image_load_run(load, &is_lost) == STATUS_OK;
    follow->sync_db = usable_db(engine, load->point.db);
    if (is_lost)
        return false;
    good = end_load(follow, good);
    partitions_give_all(engine->partitions, &claim);
    return good;
}

/* Until it was verified, what is here is served: an image that can't be used costs nothing. */
static bool load_image(struct follow *follow, const char *image)
{
    struct engine *engine = follow->engine;
    struct image_load load = { .engine = engine, .image = image, .cancel = &follow->stop_load, .stop = &follow->stopping };
    bool good = image_load_prepare(&load) == STATUS_OK;

    if (good) {
        role_set_syncing(engine, true);
        drop_replicas(follow);
        switch_log_off(follow);
        good = image_load_begin(&load) == STATUS_OK && take_image(follow, &load);
    }
    image_load_end(&load, good);
    if (good && wants_log(engine))
        switch_log(follow, true);
    if (good)
        log_write(follow_log(follow), LOG_LEVEL_NOTICE, "The primary's image is the data set");
    else
        log_write(follow_log(follow), LOG_LEVEL_WARNING, "Failed to load the primary's image: %s", load.message.text);
    return good;
}

static bool load_full_sync(struct follow *follow)
{
    int fd = follow->load_fd;
    bool is_image = fd < 0, good = is_image ? load_image(follow, follow->image_dir) : load_rdb(follow, fd);

    if (is_image)
        tree_remove(follow->image_dir);
    else
        close(fd);
    if (good || (is_image && !follow->stop_load)) {
        follow->no_images = !good;
        follow_configure(follow);
    }
    return good;
}

static void note_end(struct follow *follow, bool good) REQUIRES(follow->lock);
static void note_end(struct follow *follow, bool good)
{
    bool is_cancelled = follow->data == FOLLOW_DATA_LOADS && follow->stop_load;      /* what was here before still is */

    if (follow->data == FOLLOW_DATA_BROKEN)
        return;                     /* the applier has failed already */
    follow_set_data(follow, good || is_cancelled ? FOLLOW_DATA_GOES_ON : FOLLOW_DATA_BROKEN);
    if (follow->data == FOLLOW_DATA_BROKEN)
        follow->again_ms = clock_mono_us() / 1000;
}

static void loader_main(void *context)
{
    struct follow *follow = context;
    struct engine *engine = follow->engine;
    bool good;

    good = load_full_sync(follow);
    if (good && !follow->stopping)
        follow_start_applier(follow, follow->sync_offset, follow->sync_db);
    mutex_lock(&follow->lock);
    note_end(follow, good);
    role_set_link(engine, good && follow->data == FOLLOW_DATA_GOES_ON && follow->state == LINK_CONNECTED);
    role_set_syncing(engine, false);        /* before the lock is given back: an ACK says that clients see the data */
    mutex_unlock(&follow->lock);
    if (good)
        follow_ack_now(follow);             /* a primary may wait for it before it sends the stream */
}

void follow_join_loader(struct follow *follow)
{
    thread_join(&follow->loader);
}

/* `fd`: -1, or the RDB's. */
static void start_loader(struct follow *follow, int fd)
{
    int error;

    follow_join_loader(follow);
    mutex_lock(&follow->lock);
    follow_set_data(follow, FOLLOW_DATA_LOADS);
    mutex_unlock(&follow->lock);
    follow->load_fd = fd;
    error = thread_start(&follow->loader, "kelvin-resync", follow->engine->meter, loader_main, follow);
    if (error == 0)
        return;
    if (fd >= 0)
        close(fd);
    else
        tree_remove(follow->image_dir);
    follow_break(follow, 0);
    log_write(follow_log(follow), LOG_LEVEL_WARNING, "Failed to load the primary's data: no thread: %s", strerror(error));
}

void follow_load_rdb(void *context, int fd, uint64_t size)
{
    struct follow *follow = context;

    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Received %" PRIu64 " bytes of RDB from the primary", size);
    follow->last_sync = FOLLOW_SYNC_RDB;
    start_loader(follow, fd);
}

void follow_load_image(void *context, uint64_t size)
{
    struct follow *follow = context;

    log_write(follow_log(follow), LOG_LEVEL_NOTICE, "Received %" PRIu64 " bytes of an image from the primary", size);
    follow->last_sync = FOLLOW_SYNC_IMAGE;
    start_loader(follow, -1);
}
