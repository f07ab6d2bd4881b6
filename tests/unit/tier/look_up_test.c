/* Look up: which keys of a list have records, and that records that are neighbours on the disk are read together, whatever the list's order. */
#include "support/unit.h"

#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/look_up.h"
#include "tier/reader.h"

enum { KEYS = 2000, STEP = 777, ABSENT = 100, NAME_SIZE = 20 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct key_list list;
    struct tier_reader *reader;
};

static struct bytes name_of(int number, char name[NAME_SIZE])
{
    return bytes_of(name, (size_t)snprintf(name, NAME_SIZE, "k%d", number));
}

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };
    enum tier_move results[KEYS];
    char names[KEYS][NAME_SIZE];
    struct bytes keys[KEYS];

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    for (int i = 0; i < KEYS; i++) {
        struct bytes words[] = { BYTES("SET"), name_of(i, names[i]), BYTES("value") };

        assert_true(tier_box_ask(rig->client, words, 3));
        keys[i] = words[1];
    }
    tier_demote_many(rig->box.tier, 0, keys, KEYS, results);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    reader_close(rig->reader);
    key_list_release(&rig->list);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static void add(struct rig *rig, int number)
{
    char name[NAME_SIZE];
    struct bytes key = name_of(number, name);
    uint64_t hash;
    struct keyspace *keyspace = tier_box_keyspace(&rig->box, 0, key, &hash);

    partition_lock(keyspace->partition);
    key_list_add(&rig->list, keyspace, hash, key);
    partition_unlock(keyspace->partition);
}

static void a_list_in_any_order_takes_few_reads(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < KEYS; i++)
        add(rig, i * STEP % KEYS);
    look_up(rig->box.tier, &rig->reader, &rig->list);
    for (size_t i = 0; i < rig->list.count; i++)
        BOX_DEMAND(&rig->box, rig->list.keys[i].status == STATUS_OK, "key %zu", i);
    assert_true(reader_reads(rig->reader) <= 4);            /* some 150 KB in one segment */
}

static void keys_without_a_record_are_not_found(void **state)
{
    struct rig *rig = *state;
    bool has_record;

    look_up(rig->box.tier, &rig->reader, &rig->list);
    assert_null(rig->reader);
    for (int i = 0; i < 2 * ABSENT; i++)
        add(rig, i % 2 == 0 ? i : KEYS + i);
    look_up(rig->box.tier, &rig->reader, &rig->list);
    for (int i = 0; i < 2 * ABSENT; i++) {
        assert_true(look_up_tells(&rig->list.keys[i], &has_record));
        BOX_DEMAND(&rig->box, has_record == (i % 2 == 0), "key %d", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_list_in_any_order_takes_few_reads, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(keys_without_a_record_are_not_found, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
