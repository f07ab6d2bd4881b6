/* Sweep: entries whose record is unknown are listed from where the last list ended, each once, until all have been. */
#include "support/unit.h"

#include <stdlib.h>

#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/sweep.h"

enum { KEYS = 3000, COUNT = 1200, BUCKET = TABLE_BUCKET_SLOTS, NAME_SIZE = 20 };

struct rig {
    struct tier_box box;
    struct box_client *client;
};

static void set_all(struct rig *rig, struct bytes *keys, char names[KEYS][NAME_SIZE])
{
    for (int i = 0; i < KEYS; i++) {
        struct bytes words[] = { BYTES("SET"), bytes_of(names[i], (size_t)snprintf(names[i], NAME_SIZE, "k%d", i)), BYTES("value") };

        assert_true(tier_box_ask(rig->client, words, 3));
        keys[i] = words[1];
    }
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
    set_all(rig, keys, names);
    tier_demote_many(rig->box.tier, 0, keys, KEYS, results);
    tier_box_hold_writer(&rig->box);
    set_all(rig, keys, names);                  /* blindly: their records are unknown now */
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_release_writer(&rig->box);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static void each_unknown_key_is_listed_once(void **state)
{
    struct rig *rig = *state;
    struct key_list list = { 0 };
    bool seen[KEYS] = { false };
    uint32_t next_partition = 3;
    size_t listed = 0;

    while (listed < KEYS) {
        size_t left = KEYS - listed, count = sweep_unknown(rig->box.tier, left < COUNT ? left : COUNT, &list, &next_partition);

        assert_int_equal(count, list.count);
        BOX_DEMAND(&rig->box, count >= (left < COUNT ? left : COUNT) && count < COUNT + BUCKET, "%zu keys", count);
        for (size_t i = 0; i < list.count; i++) {
            struct bytes key = key_list_key(&list, i);
            char text[NAME_SIZE] = "";
            int number;

            memcpy(text, key.data, key.size);
            number = atoi(text + 1);
            BOX_DEMAND(&rig->box, !seen[number], "key %d twice", number);
            seen[number] = true;
        }
        listed += count;
        key_list_clear(&list);
    }
    key_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_unknown_key_is_listed_once, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
