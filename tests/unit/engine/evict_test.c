/* Eviction where hashes are by slot: most of a table may be empty. */
#include "engine/evict.h"

#include "support/unit.h"

#include <stdio.h>

#include "base/mem.h"
#include "commands/rows.h"
#include "support/engine_box.h"
#include "value/string.h"

enum { KEYS = 20 };

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

static void keys_of_one_slot_are_found_and_evicted(void **state)
{
    static const struct command *const families[] = { string_commands, NULL };
    struct engine_box *box = mem_zalloc(sizeof(*box));
    struct engine *engine = &box->engine;
    struct bytes directives[] = { BYTES("maxmemory"), BYTES("maxmemory-policy") }, values[] = { BYTES("1"), BYTES("allkeys-random") };
    struct message message;
    int tag;

    (void)state;
    engine_box_open(box, families, 1);
    engine->partitions->seed.by_slot = true;
    tag = find_tag(engine);
    for (int i = 0; i < KEYS; i++) {
        char text[32];
        struct bytes name = bytes_of(text, (size_t)sprintf(text, "{%d}%d", tag, i));
        uint64_t hash = key_hash(&engine->partitions->seed, name);
        struct partition *partition = &engine->partitions->partitions[partition_index(engine->partitions, hash)];
        struct value value = string_value_of_int(i);

        partition_lock(partition);
        assert_int_not_equal(keyspace_insert(partition_keyspace(partition, 0), hash, name, &value, -1, RECORD_NONE, 0), 0);
        partition_unlock(partition);
    }
    assert_true(config_set(engine->config, directives, values, 2, &message));
    engine->memory.stacks = 1000;               /* counts as used memory, and stays */
    assert_false(evict_keys(engine, &box->workers[0]));
    assert_int_equal(engine_stat(engine, STAT_EVICTED_KEYS), KEYS);
    assert_int_equal(partitions_entry_count(engine->partitions, 0), 0);
    engine_box_close(box);
    mem_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_slot_are_found_and_evicted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
