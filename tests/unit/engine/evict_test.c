/* Eviction where hashes are by slot, so that most of a table may be empty; and how long it takes. */
#include "engine/evict.h"

#include "support/unit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "commands/rows.h"
#include "support/engine_box.h"
#include "value/string.h"

enum { KEYS = 40, SECOND_US = 1000000 };

/* Returns a tag whose slot is the last one of its partition, in hash order: a walk from the partition's beginning meets all other slots first. */
static int find_tag(const struct engine *engine)
{
    char text[32];

    for (int tag = 0;; tag++) {
        uint64_t hash = key_hash(&engine->partitions->seed, bytes_of(text, (size_t)sprintf(text, "{%d}", tag)));

        if (partition_index(engine->partitions, slot_last_hash(slot_of_hash(hash)) + 1) != partition_index(engine->partitions, hash))
            return tag;
    }
}

static void set(struct engine *engine, const char *directive, const char *value)
{
    struct bytes directives[] = { bytes_of_string(directive) }, values[] = { bytes_of_string(value) };
    struct message message;

    assert_true(config_set(engine->config, directives, values, 1, &message));
}

/* Memory is short, and stays so. */
static struct engine_box *open_box(void)
{
    static const struct command *const families[] = { string_commands, NULL };
    struct engine_box *box = mem_zalloc(sizeof(*box));

    engine_box_open(box, families, 1);
    set(&box->engine, "maxmemory", "1");
    set(&box->engine, "maxmemory-policy", "allkeys-random");
    box->engine.memory.stacks = 1000;           /* counts as used memory */
    return box;
}

static struct entry *insert(struct engine *engine, int tag, int number)
{
    char text[32];
    struct bytes name = bytes_of(text, (size_t)sprintf(text, "{%d}%d", tag, number));
    uint64_t hash = key_hash(&engine->partitions->seed, name);
    struct partition *partition = &engine->partitions->partitions[partition_index(engine->partitions, hash)];
    struct value value = string_value_of_int(number);
    struct keyspace *keyspace;
    struct entry *entry;
    uint32_t handle;

    partition_lock(partition);
    keyspace = partition_keyspace(partition, 0);
    handle = keyspace_insert(keyspace, hash, name, &value, -1, RECORD_NONE, 0);
    assert_int_not_equal(handle, 0);
    entry = keyspace_entry(keyspace, handle);
    partition_unlock(partition);
    return entry;
}

static void keys_of_one_slot_are_found_and_evicted(void **state)
{
    struct engine_box *box = open_box();
    struct engine *engine = &box->engine;
    int tag;

    (void)state;
    engine->partitions->seed.by_slot = true;
    tag = find_tag(engine);
    for (int i = 0; i < KEYS; i++)
        insert(engine, tag, i);
    set(engine, "maxmemory-eviction-tenacity", "100");
    assert_int_equal(evict_keys(engine, &box->workers[0]), EVICTION_NOTHING);
    assert_int_equal(engine_stat(engine, STAT_EVICTED_KEYS), KEYS);
    assert_int_equal(partitions_entry_count(engine->partitions, 0), 0);
    engine_box_close(box);
    mem_free(box);
}

/* Keys that calls have pinned are left alone, and are no reason to refuse a write: their calls will end. */
static void pinned_keys_are_evicted_later(void **state)
{
    struct engine_box *box = open_box();
    struct engine *engine = &box->engine;
    struct worker *worker = &box->workers[0];
    struct entry *entry = insert(engine, 0, 0);

    (void)state;
    entry->flags |= ENTRY_PINNED;
    assert_int_equal(evict_keys(engine, worker), EVICTION_LATER);
    set(engine, "maxmemory-policy", "volatile-random");
    assert_int_equal(evict_keys(engine, worker), EVICTION_NOTHING);
    set(engine, "maxmemory-policy", "allkeys-random");
    entry->flags &= (uint8_t)~ENTRY_PINNED;
    assert_int_equal(evict_keys(engine, worker), EVICTION_NOTHING);
    assert_int_equal(engine_stat(engine, STAT_EVICTED_KEYS), 1);
    engine_box_close(box);
    mem_free(box);
}

/* The unit that owns a partition keeps its keys for a while. */
static void keys_of_a_unit_are_evicted_later(void **state)
{
    struct engine_box *box = open_box();
    struct engine *engine = &box->engine;
    struct claim claim = { 0 };

    (void)state;
    insert(engine, 0, 0);
    for (uint32_t i = 0; i < engine->partitions->count; i++)
        engine->partitions->partitions[i].owner = &claim;
    assert_int_equal(evict_keys(engine, &box->workers[0]), EVICTION_LATER);
    set(engine, "maxmemory-policy", "volatile-random");         /* it is no candidate */
    assert_int_equal(evict_keys(engine, &box->workers[0]), EVICTION_NOTHING);
    set(engine, "maxmemory-policy", "allkeys-random");
    for (uint32_t i = 0; i < engine->partitions->count; i++)
        engine->partitions->partitions[i].owner = NULL;
    assert_int_equal(evict_keys(engine, &box->workers[0]), EVICTION_NOTHING);
    assert_int_equal(engine_stat(engine, STAT_EVICTED_KEYS), 1);
    engine_box_close(box);
    mem_free(box);
}

/* A turn that has lasted longer than eviction may take: each request evicts some keys, and the next ones go on. */
static void a_long_turn_evicts_a_few_keys_a_request(void **state)
{
    struct engine_box *box = open_box();
    struct engine *engine = &box->engine;
    struct worker *worker = &box->workers[0];
    uint64_t evicted;

    (void)state;
    for (int i = 0; i < KEYS; i++)
        insert(engine, i, i);
    worker->turn.now_us = clock_mono_us() - SECOND_US;
    assert_int_equal(evict_keys(engine, worker), EVICTION_DONE);
    evicted = engine_stat(engine, STAT_EVICTED_KEYS);
    assert_in_range(evicted, 1, KEYS / 2);
    assert_int_equal(evict_keys(engine, worker), EVICTION_DONE);
    assert_int_equal(engine_stat(engine, STAT_EVICTED_KEYS), 2 * evicted);
    set(engine, "maxmemory-eviction-tenacity", "100");
    assert_int_equal(evict_keys(engine, worker), EVICTION_NOTHING);
    assert_int_equal(partitions_entry_count(engine->partitions, 0), 0);
    engine_box_close(box);
    mem_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_slot_are_found_and_evicted),
        cmocka_unit_test(pinned_keys_are_evicted_later),
        cmocka_unit_test(keys_of_a_unit_are_evicted_later),
        cmocka_unit_test(a_long_turn_evicts_a_few_keys_a_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
