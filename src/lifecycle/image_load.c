#include "lifecycle/image_load.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/barrier.h"
#include "engine/blocking.h"
#include "engine/dataset.h"
#include "engine/engine.h"
#include "engine/watch.h"
#include "lifecycle/opening.h"
#include "tier/image.h"
#include "tier/replace.h"

enum { LOOK_MS = 10, LOADS_LOOK_MS = 1, JOBS_MS = 1000 };

static bool fits(struct image_load *load)
{
    const struct partitions *partitions = load->engine->partitions;

    if (load->databases.partition_count == partitions->count && load->databases.count <= partitions->db_count)
        return true;
    message_set(&load->message, "the image has %u partitions and %d databases, this server %u and %d", load->databases.partition_count,
        load->databases.count, partitions->count, partitions->db_count);
    return false;
}

enum status image_load_prepare(struct image_load *load)
{
    enum status status = checkpoint_databases(load->image, &load->databases, &load->message);

    if (status == STATUS_OK && !fits(load))
        status = STATUS_INVALID;
    if (status == STATUS_OK && !checkpoint_point(load->image, &load->point)) {
        message_set(&load->message, "the image does not say where it is in the stream");
        status = STATUS_CORRUPT;
    }
    if (status == STATUS_OK)
        status = tier_seed_of(load->image, load->databases.number, &load->seed, &load->message);
    if (status == STATUS_OK && load->seed.by_slot != load->engine->partitions->seed.by_slot) {
        message_set(&load->message, "one of the image and this server has hashes by slot (cluster-enabled), the other has not");
        status = STATUS_INVALID;
    }
    return status;
}

static bool may_replace(struct image_load *load)
{
    struct engine *engine = load->engine;
    bool may;

    partitions_lock_all(engine->partitions);
    may = tier_may_replace(engine->tier);
    partitions_unlock_all(engine->partitions);
    if (!may)
        message_set(&load->message, "the store of cold keys is in error");
    return may;
}

static bool is_cancelled(void *context)
{
    const struct image_load *load = context;

    return *load->cancel || *load->stop;
}

static void do_nothing(void *context)
{
    (void)context;
}

/* Clients get LOADING: once all workers have passed a call boundary no call begins any more, and jobs come to an end. */
static bool await_jobs(struct image_load *load)
{
    bool is_quiet = barrier_run(load->engine, do_nothing, is_cancelled, load);

    while (is_quiet) {
        uint32_t version = waiting_version(&load->engine->waiting);

        if (job_pool_is_idle(load->engine->jobs))
            break;
        is_quiet = !is_cancelled(load);
        waiting_wait(&load->engine->waiting, version, LOOK_MS);     /* a cancellation does not end it */
    }
    if (!is_quiet)
        message_set(&load->message, "it was cancelled");
    return is_quiet;
}

enum status image_load_begin(struct image_load *load)
{
    struct engine *engine = load->engine;

    if (!await_jobs(load))
        return STATUS_CANCELLED;
    tier_image_begin(engine->tier);
    load->has_turn = true;
    return may_replace(load) ? STATUS_OK : STATUS_LOCKED;
}

static void empty_dataset(struct engine *engine)
{
    partitions_lock_all(engine->partitions);
    for (int db = 0; db < engine->partitions->db_count; db++)
        dataset_empty(engine, db);
    partitions_unlock_all(engine->partitions);
}

/* Loads are void, and end soon. A job that was started while clients get LOADING (DEBUG) may wait for this thread, or read the store. */
static bool await_readers(struct image_load *load)
{
    struct engine *engine = load->engine;
    int64_t until_us = 0;           /* for jobs, once the loads have ended */

    /* A load is no change that ends the wait: there are very many. */
    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);

        if (tier_loads_waiting(engine->tier) == 0) {
            if (until_us == 0)
                until_us = clock_mono_us() + JOBS_MS * 1000;
            if (job_pool_is_idle(engine->jobs) || clock_mono_us() >= until_us)
                break;
        }
        waiting_wait(&engine->waiting, version, LOADS_LOOK_MS);
    }
    if (job_pool_is_idle(engine->jobs))
        return true;
    message_set(&load->message, "a command that is allowed meanwhile reads the data");
    return false;
}

static void take_databases(struct image_load *load)
{
    struct partitions *partitions = load->engine->partitions;

    partitions_lock_all(partitions);
    checkpoint_set_databases(&load->databases, partitions);
    partitions_unlock_all(partitions);
}

static void set_seed(void *context)
{
    struct image_load *load = context;
    struct engine *engine = load->engine;

    partitions_lock_all(engine->partitions);
    watch_touch_all(engine);
    partitions_set_seed(engine->partitions, load->seed.sip);
    partitions_unlock_all(engine->partitions);
}

static bool is_stopping(void *context)
{
    const struct image_load *load = context;

    return *load->stop;
}

/* The store's seed is the partitions' one. */
static void follow_seed(struct image_load *load)
{
    struct engine *engine = load->engine;

    load->seed = tier_seed(engine->tier);
    if (memcmp(&load->seed.sip, &engine->partitions->seed.sip, sizeof(load->seed.sip)) == 0)
        return;
    blocking_unblock_all(engine);
    (void)barrier_run(engine, set_seed, is_stopping, load);
}

/* The image could not be used: an empty store, unless there is one. */
static void recover(struct image_load *load, bool *is_lost)
{
    struct engine *engine = load->engine;
    struct message message;

    empty_dataset(engine);
    if (!tier_has_no_store(engine->tier))
        (void)tier_replace(engine->tier, NULL, 0, &message);
    *is_lost = tier_has_no_store(engine->tier);
    if (!*is_lost)
        return;
    log_write(engine->log, LOG_LEVEL_WARNING, "The store of cold keys can't be made again: %s. Exiting.", load->message.text);
    engine->process.end(engine->process.end_context, 1);
}

enum status image_load_run(struct image_load *load, bool *is_lost)
{
    struct engine *engine = load->engine;
    enum status status;

    *is_lost = false;
    if (!await_readers(load))
        return STATUS_LOCKED;
    take_databases(load);
    status = tier_replace(engine->tier, load->image, load->databases.number, &load->message);
    if (status == STATUS_OK && !opening_restore_functions(engine, load->image)) {
        message_set(&load->message, "its functions can't be restored");
        status = STATUS_CORRUPT;
    }
    if (status != STATUS_OK)
        recover(load, is_lost);
    if (!*is_lost)
        follow_seed(load);
    return status;
}

void image_load_end(struct image_load *load, bool good)
{
    struct tier *tier = load->engine->tier;

    if (good) {                         /* with the turn: an image that is taken now names the keys that are still to come */
        tier_warm_up(tier, load->image);
        tier_await_warm_up_file(tier);
    }
    if (load->has_turn)
        tier_image_end(tier);
    load->has_turn = false;
    mem_free(load->databases.incarnations);
    load->databases.incarnations = NULL;
}
