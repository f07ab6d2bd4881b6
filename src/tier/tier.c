#include "tier/tier.h"

#include <errno.h>
#include <string.h>

#include "base/disk.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "store/store_env.h"
#include "tier/advise.h"
#include "tier/advising.h"
#include "tier/collect.h"
#include "tier/demotion.h"
#include "tier/grave.h"
#include "tier/keyspaces.h"
#include "tier/purge.h"
#include "tier/read_pool.h"
#include "tier/reader.h"
#include "tier/tier_private.h"
#include "tier/warm.h"
#include "tier/working_dir.h"
#include "tier/writer.h"
#include "tier/writing.h"

enum {
    SPACE_TARGET = 60,                  /* percent; until the settings say otherwise */
    MAP_FILE_MIN = 64 << 10,            /* a file costs a sync and a link */
};

struct tier *tier_open(const struct tier_options *options, struct message *message)
{
    struct tier *tier = mem_zalloc(sizeof(*tier));
    struct store_options store = {
        .dir = options->dir,
        .env = options->env,
        .write_buffer_size = options->write_buffer_size,
        .block_cache_size = options->block_cache_size,
        .by_slot = options->by_slot,
        .segment_size = options->segment_size,
        .descriptors_max = options->descriptors_max,
        .holds_merges = options->holds_merges,
    };
    int error;

    tier->env = options->env == NULL ? store_env_create(disk_system()) : NULL;
    if (tier->env != NULL)
        store.env = tier->env;
    tier->store_options = store;
    error = store_env_start(store.env, options->hooks.meter);
    if (error != 0)
        message_set(message, "no thread: %s", strerror(error));
    if (error != 0 || working_dir_open(&store, options->image, &tier->store, message) != STATUS_OK) {
        if (tier->env != NULL)
            store_env_destroy(tier->env);
        mem_free(tier);
        return NULL;
    }
    tier->hooks = options->hooks;
    tier->dir = mem_string(bytes_of_string(options->dir));
    tier->store_options.dir = tier->dir;
    tier->images = options->images != NULL ? mem_string(bytes_of_string(options->images)) : NULL;
    tier->settings.load_threads = options->loader_count;
    tier->settings.write_buffer_size = (int64_t)options->write_buffer_size;
    tier->settings.compression = options->compression;
    tier->settings.space_target = SPACE_TARGET;
    tier->settings.dictionary_after = TRAINING_AFTER;
    tier->settings.dictionary_interval_s = TRAINING_INTERVAL_S;
    tier->settings.enabled = true;
    tier->settings.warmup = true;
    tier->state = TIER_OK;
    tier->purge = purge_create();
    tier->collect = collect_create(store_segments(tier->store));
    tier->read_pool = read_pool_create(reader_run);
    tier->writing = writing_create(options, tier->dir);
    tier->demotion = demotion_create(&tier->writing->batch);
    tier->advise = advise_create(tier_seed(tier).sip.k0);
    rulebook_init(&tier->rules);
    statistics_init(&tier->statistics);
    damage_init(&tier->damage);
    counting_init(&tier->counting);
    requests_init(&tier->requests);
    handover_init(&tier->handover);
    mutex_init(&tier->image_turn);
    mutex_init(&tier->store_lock);
    return tier;
}

struct key_seed tier_seed(const struct tier *tier)
{
    return (struct key_seed){ store_seed(tier->store), store_is_by_slot(tier->store) };
}

struct tier_settings *tier_settings(struct tier *tier)
{
    return &tier->settings;
}

struct rulebook *tier_rules(struct tier *tier)
{
    return &tier->rules;
}

void tier_set_expiry(struct tier *tier, bool on)
{
    tier->expire_cold = on;
}

static bool bring_page(void *context, struct keyspace *space, uint64_t hash, struct bytes name)
{
    ASSERT_LOCKED(space->partition);
    return tier_load_in_place(context, space, hash, name) == STATUS_OK;
}

static void drop_pages(void *context, struct keyspace *space, uint64_t id, uint32_t first, uint32_t end, int64_t now_ms)
{
    ASSERT_LOCKED(space->partition);
    tier_drop_pages(context, space, id, first, end, now_ms);
}

int tier_start(struct tier *tier, struct partitions *partitions)
{
    tier->partitions = partitions;
    tier->machine_memory = machine_memory();
    tier->map_file_min = MAP_FILE_MIN;
    tier->drops_at_once = DROPS_AT_ONCE;
    partitions->watch = (struct keyspace_watch){
        .context = tier,
        .record_of_new = grave_record_of_new,
        .uses_of_new = grave_uses_of_new,
        .used = advising_used,
        .removed = grave_removed,
        .dropped_unread = grave_dropped_unread,
        .bring_page = bring_page,
        .drop_pages = drop_pages,
        .unlatch = latch_unlatch,
        .keyspace_created = keyspaces_created,
        .changing = handover_changing,
        .incarnation_is_taken = keyspaces_incarnation_is_taken,
    };
    packed_start(tier);
    return read_pool_adjust(tier) ? writer_start(tier) : EAGAIN;
}

void tier_stop(struct tier *tier)
{
    warm_stop(tier->warm);
    tier->stopping = true;
    writer_stop(tier);
    training_stop(tier);
    read_pool_stop(tier);
}

void tier_close(struct tier *tier)
{
    if (tier == NULL)
        return;
    tier_stop(tier);
    warm_destroy(tier->warm);
    keyspaces_release_all(tier);
    collect_destroy(tier);
    store_close(tier->store);
    if (tier->env != NULL)
        store_env_destroy(tier->env);
    read_pool_destroy(tier->read_pool);
    writing_destroy(tier->writing);
    demotion_destroy(tier->demotion);
    advise_destroy(tier->advise);
    rulebook_destroy(&tier->rules);
    shed_release(&tier->shed);
    statistics_release(&tier->statistics);
    damage_release(&tier->damage);
    counting_release(&tier->counting);
    requests_release(&tier->requests);
    handover_release(&tier->handover);
    mutex_release(&tier->image_turn);
    mutex_release(&tier->store_lock);
    purge_destroy(tier->purge);
    demoted_release(&tier->demoted);
    packing_release(&tier->packing);
    packed_release(tier);
    buffer_release(&tier->expiry.from);
    buffer_release(&tier->outdated.from);
    mem_free(tier->dir);
    mem_free(tier->images);
    mem_free(tier);
}

void tier_release_merges(struct tier *tier)
{
    store_release_merges(tier->store);
}

bool tier_is_blocked(struct tier *tier)
{
    return tier == NULL || tier->state != TIER_OK || !tier->settings.enabled;
}
