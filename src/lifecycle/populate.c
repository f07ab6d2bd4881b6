#include "lifecycle/populate.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "engine/event.h"
#include "engine/memory.h"
#include "value/string.h"

enum { LOOK_KEYS = 64, LOOK_BYTES = 1 << 20, WAIT_US_MAX = 5000000 };

static enum status wait_for_room(struct engine *engine)
{
    int64_t out_us = 0;             /* since when there is no room and none comes; 0: some came */

    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);
        enum memory_state state = memory_state(engine);

        if (state == MEMORY_ENOUGH)
            return STATUS_OK;
        if (state == MEMORY_COMES)
            out_us = 0;
        else if (out_us == 0)
            out_us = clock_mono_us();
        if (engine->state == ENGINE_STOPPING || (out_us != 0 && clock_mono_us() - out_us >= WAIT_US_MAX))
            return STATUS_NO_SPACE;
        memory_await_change(engine, version);
    }
}

static void log_key(struct engine *engine, struct partition *partition, int db, struct bytes name, struct bytes value)
{
    struct bytes words[3] = { BYTES("SET"), name, value };

    if (history_is_on(&engine->history))
        partition_note_change(partition, history_append(&engine->history, db, words, 3));
    atomic_fetch_add_explicit(&engine->dirty, 1, memory_order_relaxed);
}

/* The partition is locked. */
static enum status add_to(struct engine *engine, struct keyspace *keyspace, uint64_t hash, struct bytes name, struct bytes bytes)
    REQUIRES(keyspace->partition->lock);
static enum status add_to(struct engine *engine, struct keyspace *keyspace, uint64_t hash, struct bytes name, struct bytes bytes)
{
    struct keyspace_watch *watch = &engine->partitions->watch;
    enum record_state record = RECORD_NONE;
    struct value value = string_value(bytes);
    enum status status = STATUS_OK;

    if (keyspace_find(keyspace, hash, name) == 0 && engine->tier != NULL)
        status = tier_load_in_place(engine->tier, keyspace, hash, name);
    if (status != STATUS_OK || keyspace_find(keyspace, hash, name) != 0)
        return status;
    if (watch->record_of_new != NULL)
        record = watch->record_of_new(watch->context, keyspace, hash, name);
    CHECK(keyspace_insert(keyspace, hash, name, &value, -1, record, clock_wall_ms()) != 0);
    log_key(engine, keyspace->partition, keyspace->db, name, bytes);
    event_note(engine, NULL, keyspace, hash, name, EVENT_NEW);
    event_note(engine, NULL, keyspace, hash, name, EVENT_SET);
    return STATUS_OK;
}

static enum status add_key(const struct populate *populate, struct engine *engine, struct bytes name, struct bytes bytes)
{
    static const struct reader reader = { .as = NULL, .may_block = true };
    struct partitions *all = engine->partitions;
    uint64_t hash = key_hash(&all->seed, name);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    struct keyspace *keyspace;
    enum status status;

    CHECK(partition_lock_for(partition, &reader));
    keyspace = partition_keyspace(partition, populate->db);
    keyspace_assert_locked(keyspace);
    status = add_to(engine, keyspace, hash, name, bytes);
    partition_unlock(partition);
    return status;
}

static void print_value(const struct populate *populate, uint64_t number, struct buffer *value)
{
    value->size = 0;
    buffer_append_format(value, "value:%" PRIu64, number);
    if (populate->size > value->size) {
        size_t missing = populate->size - value->size;

        memset(buffer_reserve(value, missing), 0, missing);
    }
    if (populate->size > 0)
        value->size = populate->size;
}

void populate_run(struct populate *populate, struct engine *engine)
{
    struct buffer name = { 0 }, value = { 0 };
    size_t unlooked = 0;

    for (uint64_t i = 0; i < populate->count && populate->status == STATUS_OK && !job_must_end(engine); i++) {
        name.size = 0;
        buffer_append_bytes(&name, buffer_bytes(&populate->prefix));
        buffer_append_format(&name, ":%" PRIu64, i);
        print_value(populate, i, &value);
        populate->status = add_key(populate, engine, buffer_bytes(&name), buffer_bytes(&value));
        unlooked += value.size + LOOK_BYTES / LOOK_KEYS;
        if (unlooked < LOOK_BYTES)
            continue;
        unlooked = 0;
        if (populate->status == STATUS_OK)
            populate->status = wait_for_room(engine);
    }
    buffer_release(&name);
    buffer_release(&value);
}
