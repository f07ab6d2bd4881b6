/* From the file into the maps of a server. The sections are of different maps, so several threads load them. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mapped.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tier/keyspaces.h"
#include "tier/tags_private.h"
#include "tier/tier_private.h"

enum {
    THREADS_MAX = 4,                /* with the caller's */
    FORGET_MIN = 16 << 10,          /* bytes of a section that are worth a system call */
};

struct loading {
    struct partitions *partitions;
    struct tags_section *sections;
    size_t count;
    atomic_size_t next;             /* the first section that no thread has taken */
    atomic_bool is_damaged;
};

static const char *load_section(struct partitions *partitions, const struct tags_section *section)
{
    struct partition *partition = &partitions->partitions[section->partition];
    int space = partitions_space_of(partitions, section->incarnation);
    struct keyspace *keyspace;
    const char *problem;

    if (space < 0)
        return tags_check_section(section);
    partition_lock(partition);
    keyspace = partition_keyspace(partition, space);
    problem = tags_load_map(section, keyspace->tier->map, true);
    for (size_t i = 0; i < section->slots.size / 4; i++)
        memcpy(&keyspace->slots[i].records, section->slots.data + 4 * i, 4);
    partition_unlock(partition);
    return problem;
}

static void load_sections(void *context)
{
    struct loading *loading = context;
    size_t i;

    while (!loading->is_damaged && (i = atomic_fetch_add(&loading->next, 1)) < loading->count) {
        struct tags_section *section = &loading->sections[i];

        if (load_section(loading->partitions, section) != NULL)
            loading->is_damaged = true;
        if (section->body.size >= FORGET_MIN)       /* the file must not be in memory beside the maps */
            mapped_forget(section->body);
    }
}

static void load_all(struct loading *loading, struct meter *meter)
{
    struct thread threads[THREADS_MAX - 1] = { 0 };
    size_t wanted = (size_t)thread_cpus() < loading->count ? (size_t)thread_cpus() : loading->count;

    for (size_t i = 0; i + 1 < wanted && i < THREADS_MAX - 1; i++) {
        if (thread_start(&threads[i], "kelvin-maps", meter, load_sections, loading) != 0)
            break;                  /* the others do it */
    }
    load_sections(loading);
    for (size_t i = 0; i < THREADS_MAX - 1; i++)
        thread_join(&threads[i]);
}

static void note_section(void *context, const struct tags_section *section, const char **problem)
{
    struct loading *loading = context;

    *problem = NULL;
    if (loading->count % 64 == 0)
        loading->sections = mem_realloc(loading->sections, (loading->count + 64) * sizeof(*section));
    loading->sections[loading->count++] = *section;
}

/* Empties the maps again, after something turned out to be wrong. */
static void unload(struct partitions *partitions)
{
    size_t slot_count = tags_slots_size(partitions->seed.by_slot, partitions->count) / sizeof(uint32_t);

    for (uint32_t i = 0; i < partitions->count; i++) {
        struct partition *partition = &partitions->partitions[i];

        partition_lock(partition);
        for (int space = 0; space < partitions->space_count; space++) {
            struct keyspace *keyspace = partition_keyspace_if(partition, space);

            if (keyspace == NULL)
                continue;
            keyspace_assert_locked(keyspace);
            keyspaces_empty_map(keyspace);
            for (size_t slot = 0; slot < slot_count; slot++)
                keyspace->slots[slot].records = 0;
        }
        partition_unlock(partition);
    }
}

enum status tags_load(struct partitions *partitions, const char *dir, struct meter *meter, struct tags_weights *weights)
{
    struct loading loading = { .partitions = partitions };
    struct message message;
    struct mapped mapped;
    char path[4096];
    enum status status = STATUS_CORRUPT;

    *weights = (struct tags_weights){ 0 };
    snprintf(path, sizeof(path), "%s/tags", dir);
    if (!mapped_open(path, &mapped, &message))
        return STATUS_NOT_FOUND;
    if (tags_is_of(partitions, mapped.bytes))
        status = tags_read(&(struct tags_file){ mapped.bytes, dir, mapped_forget }, note_section, &loading);
    if (status == STATUS_OK)
        load_all(&loading, meter);
    if (loading.is_damaged)
        status = STATUS_CORRUPT;
    if (status == STATUS_OK)
        tags_weights_of(mapped.bytes, weights);
    else
        unload(partitions);
    mapped_close(&mapped);
    mem_free(loading.sections);
    return status;
}
