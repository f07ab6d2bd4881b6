#include "tier/advising.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "tier/advise.h"
#include "tier/demotion.h"
#include "tier/tier_private.h"

enum { FILE_SIZE_MAX = 4 << 20 };

static uint32_t fit(uint64_t size)
{
    return size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

void advising_used(void *context, struct keyspace *keyspace, uint64_t hash, const struct entry *entry, enum key_use use)
{
    static const enum advise_kind kinds[] = { [KEY_USED] = ADVISE_USE, [KEY_OVERWRITTEN] = ADVISE_OVERWRITE, [KEY_CREATED] = ADVISE_CREATE };
    struct tier *tier = context;
    uint64_t outside, size = demotion_entry_size(entry, &outside);
    struct advise_use noted = {
        .kind = kinds[use], .hash = hash, .incarnation = keyspace->incarnation, .size = fit(size), .outside = fit(outside),
        .uses = entry->uses, .on_probation = entry->flags & ENTRY_PROBATION,
        .is_cold = use == KEY_CREATED ? entry_record(entry) == RECORD_UNKNOWN : (entry->flags & ENTRY_PINNED) != 0,
    };

    advise_use(tier->advise, &noted, &keyspace->partition->all->sample_limit);
}

bool tier_advise_is_due(struct tier *tier, int64_t now_us)
{
    return advise_is_due(tier->advise, now_us);
}

static int compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static void sweep_if_due(struct tier *tier)
{
    struct partitions *all = tier->partitions;
    uint32_t *living;

    if (!advise_sweep_is_due(tier->advise))
        return;
    living = mem_alloc((size_t)all->space_count * sizeof(*living));
    for (int space = 0; space < all->space_count; space++)
        living[space] = partitions_incarnation(all, space);
    qsort(living, (size_t)all->space_count, sizeof(*living), compare_numbers);
    advise_sweep(tier->advise, living, (size_t)all->space_count);
    mem_free(living);
}

void tier_advise_tick(struct tier *tier, struct advise_measures *measures)
{
    struct partitions *all = tier->partitions;
    _Atomic uint32_t *limit = &all->sample_limit;
    uint64_t records = 0, record_bytes = 0;

    if (!tier->settings.advise) {
        advise_clear(tier->advise, limit);
        return;
    }
    sweep_if_due(tier);
    measures->memory_max = tier->settings.memory_max > 0 ? (uint64_t)tier->settings.memory_max : 0;
    measures->memory_used = tier->hooks.memory_used(tier->hooks.context);
    measures->high_percent = (uint32_t)tier->settings.high_percent;
    measures->low_percent = (uint32_t)tier->settings.low_percent;
    measures->write_buffer = (uint64_t)tier->settings.write_buffer_size;
    measures->hot_keys = measures->hot_bytes = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        struct partition *partition = &all->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < all->space_count; space++) {
            const struct keyspace *keyspace = partition->keyspaces[space];

            if (keyspace == NULL)
                continue;
            measures->hot_keys += keyspace->table.count;
            measures->hot_bytes += keyspace_live_size(keyspace);
            records += recordmap_count(keyspace->tier->map);
            record_bytes += recordmap_size(keyspace->tier->map);
        }
        partition_unlock(partition);
    }
    measures->record_size = records > 0 ? (double)record_bytes / (double)records : 0;
    advise_tick(tier->advise, measures, limit);
}

void tier_advise_look(struct tier *tier, struct advise_estimate *estimate)
{
    advise_look(tier->advise, estimate);
}

void advising_forget(struct tier *tier)
{
    const uint32_t none = 0;

    advise_sweep(tier->advise, &none, 0);
}

/* --- the file --- */

enum status advising_save(struct tier *tier, const char *dir)
{
    struct buffer text = { 0 };
    enum status status;
    char path[4096];

    snprintf(path, sizeof(path), "%s/advise", dir);
    advise_encode(tier->advise, &text);
    status = file_create(disk_system(), AT_FDCWD, path, buffer_bytes(&text));
    buffer_release(&text);
    if (status != STATUS_OK)
        unlink(path);
    return status;
}

void advising_load(struct tier *tier, const char *dir)
{
    struct buffer text = { 0 };
    struct message message;
    enum status status;
    char path[4096];

    snprintf(path, sizeof(path), "%s/advise", dir);
    status = file_read_all(disk_system(), AT_FDCWD, path, FILE_SIZE_MAX, &text);
    if (status == STATUS_OK)
        status = advise_decode(tier->advise, buffer_bytes(&text), &tier->partitions->sample_limit);
    buffer_release(&text);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        return;
    message_set(&message, "TIER ADVISE begins without samples: '%.200s/advise' can't be used (%s)", dir, status_name(status));
    tier->hooks.log(tier->hooks.context, message.text);
}
