/* Keys of slots that were lost are removed, in RAM and on disk, as deletions in the log; those of other slots stay, and so do those of a slot that is served
 * again. */
#include "support/unit.h"

#include "base/mem.h"
#include "cluster/lost_slots.h"
#include "engine/redirect.h"
#include "support/tier_box.h"

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct slot_states states;
    struct lost_slots *lost;
};

static bool append_address(void *context, unsigned slot, bool is_move, bool is_tls, struct buffer *out)
{
    (void)context;
    buffer_append_format(out, "%u %d %d", slot, is_move, is_tls);
    return true;
}

static const char *say(struct rig *rig, const char *line) { return tier_box_say(rig->client, line); }

static void set(struct rig *rig, const char *key, enum slot_state state)
{
    rig->states.states[slot_of_key(bytes_of_string(key))] = (uint8_t)state;
    redirect_set(&rig->box.engine, &rig->states);
}

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .by_slot = true, .partition_count = 16 };

    tier_box_create(&rig->box, &options);
    rig->box.engine.redirect = redirect_create(append_address, NULL);
    memset(rig->states.states, SLOT_OWNED, sizeof(rig->states.states));
    redirect_set(&rig->box.engine, &rig->states);
    assert_int_equal(lost_slots_start(&rig->box.engine, &rig->lost), 0);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    struct redirect *redirect = rig->box.engine.redirect;

    lost_slots_stop(rig->lost);
    lost_slots_destroy(rig->lost);
    tier_box_end(&rig->box, rig->client);
    redirect_destroy(redirect);
    mem_free(rig);
    return 0;
}

static void fill(struct rig *rig, const char *tag, int count)
{
    char line[64];

    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "SET {%s}%d value-%d", tag, i, i);
        assert_string_equal(say(rig, line), "+OK\n");
        snprintf(line, sizeof(line), "TIER DEMOTE {%s}%d", tag, i);
        if (i % 2 == 0)
            assert_string_equal(say(rig, line), ":1\n");
    }
}

static void lose(struct rig *rig, const char *key)
{
    struct slots slots = { { 0 } };

    slots_add(&slots, slot_of_key(bytes_of_string(key)));
    lost_slots_add(rig->lost, &slots);
    lost_slots_await(rig->lost);
}

static void all_keys_of_a_slot_go_and_no_others(void **state)
{
    struct rig *rig = *state;
    uint64_t reads;

    fill(rig, "a", 300);
    fill(rig, "b", 10);
    set(rig, "a", SLOT_FOREIGN);
    reads = tier_box_stats(&rig->box).unplanned_reads;
    lose(rig, "a");
    assert_int_equal(tier_box_stats(&rig->box).unplanned_reads, reads);        /* values were not read to be deleted */
    assert_string_equal(say(rig, "DBSIZE"), ":10\n");
    set(rig, "a", SLOT_OWNED);
    assert_string_equal(say(rig, "EXISTS {a}0 {a}1 {a}298 {a}299"), ":0\n");
    assert_string_equal(say(rig, "GET {b}4"), "$7\nvalue-4\n");
}

static void keys_of_a_slot_that_is_served_stay(void **state)
{
    struct rig *rig = *state;

    fill(rig, "a", 10);
    lose(rig, "a");
    assert_string_equal(say(rig, "DBSIZE"), ":10\n");
    lose(rig, "empty");
    assert_string_equal(say(rig, "GET {a}4"), "$7\nvalue-4\n");
}

/* A slot may be received again before the thread has looked at it: it had no keys when that began. */
static void keys_that_are_received_stay(void **state)
{
    struct rig *rig = *state;

    rig->states.receipt = 7;
    set(rig, "a", SLOT_RECEIVED);
    rig->client->client.receipt = 7;
    fill(rig, "a", 10);
    lose(rig, "a");
    assert_string_equal(say(rig, "EXISTS {a}0 {a}9"), ":2\n");
    rig->states.receipt = 0;
    set(rig, "a", SLOT_FOREIGN);
    lose(rig, "a");
    assert_string_equal(say(rig, "DBSIZE"), ":0\n");
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(all_keys_of_a_slot_go_and_no_others),
        WITH_RIG(keys_of_a_slot_that_is_served_stay),
        WITH_RIG(keys_that_are_received_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
