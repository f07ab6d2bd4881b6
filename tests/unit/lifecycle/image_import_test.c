/* An image with hashes of one kind becomes the data of a server that has the other kind: cluster-enabled was changed between two starts. */
#include "lifecycle/image_import.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/tree.h"
#include "keyspace/owners.h"
#include "persist/checkpoint.h"
#include "script/registry.h"
#include "support/tier_box.h"

enum { KEYS = 800, PATH = 300 };

struct side {
    struct tier_box box;
    struct box_client *client;
};

struct rig {
    struct side plain, by_slot;
    char image[PATH];
};

static void open_side(struct side *side, bool by_slot)
{
    struct tier_box_options options = { .seed = seed_new(), .by_slot = by_slot };

    tier_box_create(&side->box, &options);
    side->box.engine.log = log_create("/dev/null", LOG_LEVEL_NOTHING, NULL, 0);
    side->box.engine.scripts = registry_create();
    side->client = tier_box_open_client(&side->box, 0);
}

static void close_side(struct side *side)
{
    tier_box_close_client(side->client);
    tier_box_turn(&side->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&side->box);
    tier_box_verify(&side->box);
    log_destroy(side->box.engine.log);
    registry_destroy(side->box.engine.scripts);
    tier_box_destroy(&side->box);
}

static int set_up(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));

    open_side(&rig->plain, false);
    open_side(&rig->by_slot, true);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;

    close_side(&rig->plain);
    close_side(&rig->by_slot);
    mem_free(rig);
    return 0;
}

static void say(struct side *side, const char *format, int number)
{
    char line[100];

    snprintf(line, sizeof(line), format, number, number);
    BOX_DEMAND(&side->box, tier_box_say(side->client, line)[0] != '-', "%s: %s", line, tier_box_reply(side->client));
}

/* Strings hot and cold, some of which expire, and some of each other type. */
static void fill(struct side *side)
{
    for (int i = 0; i < KEYS; i++) {
        say(side, "SET {%1$d}key value%2$d", i);
        if (i % 5 == 0)
            say(side, "PEXPIREAT {%1$d}key 9000000000000", i);
        if (i % 3 != 0)
            say(side, "TIER DEMOTE {%1$d}key", i);
        if (i % 40 == 0) {
            say(side, "RPUSH list%d a %d b", i);
            say(side, "HSET hash%d field%d value", i);
            say(side, "ZADD zset%d 1.5 a %d b", i);
            say(side, "XADD stream%d %d-1 f v", i + 1);
        }
    }
    tier_box_say(side->client, "SELECT 1");
    say(side, "SADD set%d a%d", 1);
    say(side, "TIER DEMOTE set%d", 1);
    tier_box_say(side->client, "SELECT 0");
    tier_box_say(side->client, "DEL {7}key {8}key");
    tier_box_say(side->client, "SET {10}key other");
}

/* The same request has the same reply on both sides. */
static void compare(struct rig *rig, const char *format, int number)
{
    char line[100], kept[400];

    snprintf(line, sizeof(line), format, number);
    snprintf(kept, sizeof(kept), "%s", tier_box_say(rig->plain.client, line));
    if (strcmp(kept, tier_box_say(rig->by_slot.client, line)) != 0)
        fail_msg("%s: %s instead of %s", line, tier_box_reply(rig->by_slot.client), kept);
}

static void compare_all(struct rig *rig)
{
    compare(rig, "DBSIZE", 0);
    for (int i = 0; i < KEYS; i++) {
        compare(rig, "GET {%d}key", i);
        compare(rig, "PEXPIRETIME {%d}key", i);
        if (i % 40 == 0) {
            compare(rig, "LRANGE list%d 0 -1", i);
            compare(rig, "HGETALL hash%d", i);
            compare(rig, "ZRANGE zset%d 0 -1 WITHSCORES", i);
            compare(rig, "XRANGE stream%d - +", i + 1);
        }
    }
    compare(rig, "SELECT 1", 0);
    compare(rig, "DBSIZE", 0);
    compare(rig, "SMEMBERS set%d", 1);
    compare(rig, "SELECT 0", 0);
}

static enum status convert(struct rig *rig, struct side *from, struct side *to)
{
    static const struct import_rules rules = { .twins = IMPORT_REFUSES_TWINS };
    struct checkpoint_data data = { .tier = from->box.tier, .partitions = from->box.partitions };
    struct message message = { "" };
    enum status status;

    snprintf(rig->image, sizeof(rig->image), "%s/taken", from->box.root);
    assert_int_equal(checkpoint_image(&data, rig->image, &message), STATUS_OK);
    assert_int_equal(checkpoint_is_by_slot(rig->image), from == &rig->by_slot);
    status = image_import(&to->box.engine, rig->image, &rules, &message);
    assert_int_equal(checkpoint_is_by_slot(rig->image), from == &rig->by_slot);
    return status;
}

static void every_key_is_found_by_its_slot(void **state)
{
    struct rig *rig = *state;
    uint64_t count;

    fill(&rig->plain);
    assert_int_equal(convert(rig, &rig->plain, &rig->by_slot), STATUS_OK);
    compare_all(rig);
    assert_true(tier_slot_count_now(rig->by_slot.box.partitions, &(struct reader){ 0 }, 0, slot_of_key(BYTES("{10}")), &count));
    assert_true(count >= 1);
    assert_int_equal(rig->by_slot.box.engine.imported_keys, KEYS - 2 + KEYS / 40 * 4 + 1);
}

static void a_plain_server_takes_the_image_of_a_node(void **state)
{
    struct rig *rig = *state;

    fill(&rig->by_slot);
    assert_int_equal(convert(rig, &rig->by_slot, &rig->plain), STATUS_OK);
    compare_all(rig);
}

/* Ended while the image is read: nothing is there yet, and it is done again. */
static void the_end_of_the_server_ends_it(void **state)
{
    struct rig *rig = *state;

    fill(&rig->plain);
    rig->by_slot.box.engine.state = ENGINE_STOPPING;
    assert_int_equal(convert(rig, &rig->plain, &rig->by_slot), STATUS_CLOSED);
    rig->by_slot.box.engine.state = ENGINE_READY;
    assert_int_equal(partitions_entry_count(rig->by_slot.box.partitions, 0), 0);
    tree_remove(rig->image);
    assert_int_equal(convert(rig, &rig->plain, &rig->by_slot), STATUS_OK);
    compare_all(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_key_is_found_by_its_slot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_plain_server_takes_the_image_of_a_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_the_server_ends_it, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
