/* tier-packed-share: records that stay in memory are those of the store, whatever happens to their keys. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/packed.h"
#include "tier/packing.h"

enum { KEYS = 300, LIMIT = 64 << 20 };

struct rig {
    struct tier_box box;
    struct box_client *client;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = 2 };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    tier_settings(rig->box.tier)->compression = PACKING_LZ4;
    tier_settings(rig->box.tier)->memory_max = LIMIT;
    tier_settings(rig->box.tier)->packed_share = 50;
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static void value_of(int number, const char *word, struct buffer *text)
{
    text->size = 0;
    for (int i = 0; i < 6; i++)
        buffer_append_format(text, "{\"number\":%d,\"state\":\"%s\",\"currency\":\"EUR\"}", number, word);
}

static void set_all(struct rig *rig, const char *word)
{
    struct buffer text = { 0 };

    for (int i = 0; i < KEYS; i++) {
        char key[20];
        struct bytes words[3] = { BYTES("SET") };

        snprintf(key, sizeof(key), "key:%d", i);
        value_of(i, word, &text);
        words[1] = bytes_of_string(key);
        words[2] = buffer_bytes(&text);
        assert_true(tier_box_ask(rig->client, words, 3));
        assert_string_equal(tier_box_reply(rig->client), "+OK\n");
    }
    buffer_release(&text);
}

static void check_all(struct rig *rig, const char *word)
{
    struct buffer text = { 0 };
    char line[30];

    for (int i = 0; i < KEYS; i++) {
        const char *reply;

        snprintf(line, sizeof(line), "GET key:%d", i);
        reply = tier_box_say(rig->client, line);
        value_of(i, word, &text);
        assert_non_null(strchr(reply, '\n'));
        assert_int_equal(strlen(strchr(reply, '\n') + 1), text.size + 1);     /* a line */
        assert_memory_equal(strchr(reply, '\n') + 1, text.data, text.size);
    }
    buffer_release(&text);
}

static void demote_all(struct rig *rig)
{
    for (int i = 0; i < KEYS; i++) {
        char key[20];

        snprintf(key, sizeof(key), "key:%d", i);
        assert_int_equal(tier_demote(rig->box.tier, 0, bytes_of_string(key)), TIER_MOVED);
    }
}

static uint64_t hits(struct rig *rig)
{
    return tier_box_stats(&rig->box).packed_hits;
}

static uint64_t packed_count(struct rig *rig)
{
    return tier_box_stats(&rig->box).packed_keys;
}

static void a_cold_key_is_loaded_without_a_read(void **state)
{
    struct rig *rig = *state;

    set_all(rig, "new");
    demote_all(rig);
    assert_int_equal(packed_count(rig), KEYS);
    tier_box_verify(&rig->box);
    check_all(rig, "new");
    assert_int_equal(hits(rig), KEYS);
    assert_int_equal(tier_box_stats(&rig->box).loads_waiting, 0);
    /* Unchanged, they are demoted with the records that are still there; then these are read again. */
    demote_all(rig);
    assert_int_equal(packed_count(rig), KEYS);
    check_all(rig, "new");
    assert_int_equal(hits(rig), 2 * KEYS);
    tier_box_verify(&rig->box);
}

static void an_old_record_is_not_used(void **state)
{
    struct rig *rig = *state;

    set_all(rig, "old");
    demote_all(rig);
    set_all(rig, "newer");
    check_all(rig, "newer");
    assert_int_equal(hits(rig), 0);
    tier_settings(rig->box.tier)->compression = PACKING_NO;       /* so that the old ones are not replaced */
    demote_all(rig);
    tier_settings(rig->box.tier)->compression = PACKING_LZ4;
    check_all(rig, "newer");
    assert_int_equal(hits(rig), 0);
    tier_box_verify(&rig->box);
}

static void deleted_keys_stay_deleted(void **state)
{
    struct rig *rig = *state;

    set_all(rig, "new");
    demote_all(rig);
    for (int i = 0; i < KEYS; i++) {
        char line[30];

        snprintf(line, sizeof(line), "DEL key:%d", i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
        snprintf(line, sizeof(line), "EXISTS key:%d", i);
        assert_string_equal(tier_box_say(rig->client, line), ":0\n");
    }
    tier_box_settle(&rig->box);
    set_all(rig, "second");
    demote_all(rig);
    check_all(rig, "second");
    tier_box_verify(&rig->box);
}

static void a_look_leaves_the_key_cold(void **state)
{
    struct rig *rig = *state;

    set_all(rig, "new");
    demote_all(rig);
    assert_string_equal(tier_box_say(rig->client, "TTL key:7"), ":-1\n");
    assert_int_equal(hits(rig), 1);
    assert_null(tier_box_entry(&rig->box, 0, "key:7"));
    assert_string_equal(tier_box_say(rig->client, "PEXPIREAT key:7 99999999999999"), ":1\n");
    assert_int_equal(tier_demote(rig->box.tier, 0, BYTES("key:7")), TIER_MOVED);
    assert_string_equal(tier_box_say(rig->client, "PEXPIRETIME key:7"), ":99999999999999\n");
}

static void the_share_is_kept(void **state)
{
    struct rig *rig = *state;
    uint64_t all;

    set_all(rig, "new");
    demote_all(rig);
    all = packed_bytes(rig->box.tier);
    /* 1 percent of 26 MB are 272 KB, so 136 KB in each of the two partitions: more than they have. */
    tier_settings(rig->box.tier)->memory_max = 26 << 20;
    tier_settings(rig->box.tier)->packed_share = 1;
    tier_box_hold_writer(&rig->box);
    packed_trim(rig->box.tier);
    assert_int_equal(packed_bytes(rig->box.tier), all);
    /* Something has to go, and the hand takes what has no uses. */
    assert_in_range(packed_give(rig->box.tier, all / 2), all / 3, all);
    tier_settings(rig->box.tier)->packed_share = 0;
    packed_trim(rig->box.tier);
    assert_int_equal(packed_bytes(rig->box.tier), 0);
    assert_int_equal(packed_count(rig), 0);
    tier_box_release_writer(&rig->box);
    check_all(rig, "new");
}

static void a_flush_forgets_them(void **state)
{
    struct rig *rig = *state;

    set_all(rig, "new");
    demote_all(rig);
    assert_string_equal(tier_box_say(rig->client, "FLUSHALL"), "+OK\n");
    assert_int_equal(packed_bytes(rig->box.tier), 0);
    assert_string_equal(tier_box_say(rig->client, "EXISTS key:1"), ":0\n");
    set_all(rig, "second");
    demote_all(rig);
    check_all(rig, "second");
    tier_box_verify(&rig->box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cold_key_is_loaded_without_a_read, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(an_old_record_is_not_used, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(deleted_keys_stay_deleted, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_look_leaves_the_key_cold, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_share_is_kept, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_flush_forgets_them, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
