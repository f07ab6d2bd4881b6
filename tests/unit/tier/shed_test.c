/* tier-full-policy deletes nothing any more once it was switched off. tests/spec/tier_full_test.py has the rest. */
#include "support/unit.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/tier_box.h"

enum { KEYS = 400, DELETED = 3, STEPS = 20 };

struct rig {
    struct tier_box box;                /* first: the context of its hooks */
    struct box_client *client;
    void (*expired)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event);      /* the box's hook */
    void (*switch_off)(struct tier_settings *settings);
    _Atomic int deleted;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));

    tier_box_create(&rig->box, &(struct tier_box_options){ .seed = seed_new() });
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_end(&rig->box, rig->client);
    mem_free(rig);
    return 0;
}

static void set_noeviction(struct tier_settings *settings)
{
    settings->full_policy = TIER_FULL_NOEVICTION;
}

static void set_no_limit(struct tier_settings *settings)
{
    settings->store_size_max = 0;
}

static void set_larger_limit(struct tier_settings *settings)
{
    settings->store_size_max = INT64_C(1) << 40;
}

/* As CONFIG SET by another thread while the writer is between two keys. */
static void note_deleted(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event)
{
    struct rig *rig = context;

    assert_int_equal(event, EVENT_EVICTED);
    rig->expired(context, keyspace, hash, key, event);
    if (++rig->deleted == DELETED)
        rig->switch_off(tier_settings(rig->box.tier));
}

static void switch_off_amid(struct rig *rig, enum tier_full_policy policy, void (*switch_off)(struct tier_settings *settings))
{
    struct tier_settings *settings = tier_settings(rig->box.tier);
    char line[200];

    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "SET key:%d %0100d EX %d", i, i, 100000 + i);
        assert_string_equal(tier_box_say(rig->client, line), "+OK\n");
        snprintf(line, sizeof(line), "TIER DEMOTE key:%d", i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    tier_box_settle(&rig->box);
    while (tier_box_stats(&rig->box).store_bytes < KEYS * 100) {        /* it is measured now and then */
        tier_nudge(rig->box.tier);
        usleep(1000);
    }
    tier_box_hold_writer(&rig->box);
    segments_seal(store_segments(rig->box.tier->store));        /* the segment that is written is not the oldest one */
    assert_int_equal(segments_write(store_segments(rig->box.tier->store)), STATUS_OK);
    tier_set_expiry(rig->box.tier, true);
    rig->expired = rig->box.tier->hooks.expired;
    rig->box.tier->hooks.expired = note_deleted;
    rig->switch_off = switch_off;
    settings->full_policy = policy;
    settings->store_size_max = (int64_t)tier_box_stats(&rig->box).store_bytes / 2;
    tier_box_release_writer(&rig->box);
    while (rig->deleted < DELETED)
        sched_yield();
    for (int i = 0; i < STEPS; i++) {
        tier_nudge(rig->box.tier);
        usleep(1000);
    }
    settings->store_size_max = 0;               /* it is full otherwise */
    tier_box_settle(&rig->box);
    assert_int_equal(rig->deleted, DELETED);
    assert_int_equal(tier_box_stats(&rig->box).evicted_cold, DELETED);
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":397\n");
}

static void no_key_that_expires_is_deleted_after_the_policy_was_switched_off(void **state)
{
    switch_off_amid(*state, TIER_FULL_VOLATILE_TTL, set_noeviction);
}

static void no_key_that_expires_is_deleted_after_the_limit_was_raised(void **state)
{
    switch_off_amid(*state, TIER_FULL_VOLATILE_TTL, set_larger_limit);
}

static void no_key_of_a_segment_is_deleted_after_the_policy_was_switched_off(void **state)
{
    switch_off_amid(*state, TIER_FULL_ALLKEYS_COLDEST, set_noeviction);
}

static void no_key_of_a_segment_is_deleted_after_the_limit_was_raised(void **state)
{
    switch_off_amid(*state, TIER_FULL_ALLKEYS_COLDEST, set_larger_limit);
}

static void no_key_of_a_segment_is_deleted_after_the_limit_was_removed(void **state)
{
    switch_off_amid(*state, TIER_FULL_ALLKEYS_COLDEST, set_no_limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_key_that_expires_is_deleted_after_the_policy_was_switched_off, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(no_key_that_expires_is_deleted_after_the_limit_was_raised, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(no_key_of_a_segment_is_deleted_after_the_policy_was_switched_off, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(no_key_of_a_segment_is_deleted_after_the_limit_was_raised, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(no_key_of_a_segment_is_deleted_after_the_limit_was_removed, open_rig, close_rig),
    };

    return cmocka_run_group_tests_name("tier/shed", tests, NULL, NULL);
}
