/* tier-full-policy deletes nothing any more once it was switched off. tests/spec/tier_full_test.py has the rest. */
#include "support/unit.h"

#include <sched.h>
#include <stdio.h>

#include "base/mem.h"
#include "support/tier_box.h"

enum { KEYS = 400, DELETED = 3 };

struct rig {
    struct tier_box box;                /* first: the context of its hooks */
    struct box_client *client;
    void (*expired)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event);      /* the box's hook */
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

/* As CONFIG SET by another thread while the writer is between two keys. */
static void switch_off(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event)
{
    struct rig *rig = context;

    assert_int_equal(event, EVENT_EVICTED);
    rig->expired(context, keyspace, hash, key, event);
    if (++rig->deleted == DELETED)
        tier_settings(rig->box.tier)->full_policy = TIER_FULL_NOEVICTION;
}

static void nothing_is_deleted_after_the_policy_was_switched_off(void **state)
{
    struct rig *rig = *state;
    struct tier_settings *settings = tier_settings(rig->box.tier);
    char line[200];

    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "SET key:%d %0100d EX %d", i, i, 100000 + i);
        assert_string_equal(tier_box_say(rig->client, line), "+OK\n");
        snprintf(line, sizeof(line), "TIER DEMOTE key:%d", i);
        assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    tier_box_settle(&rig->box);
    tier_box_hold_writer(&rig->box);
    tier_set_expiry(rig->box.tier, true);
    rig->expired = rig->box.tier->hooks.expired;
    rig->box.tier->hooks.expired = switch_off;
    settings->full_policy = TIER_FULL_VOLATILE_TTL;
    settings->store_size_max = (int64_t)tier_box_stats(&rig->box).store_bytes / 2;
    tier_box_release_writer(&rig->box);
    while (rig->deleted < DELETED)
        sched_yield();
    settings->store_size_max = 0;
    tier_box_settle(&rig->box);
    assert_int_equal(rig->deleted, DELETED);
    assert_int_equal(tier_box_stats(&rig->box).evicted_cold, DELETED);
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":397\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_deleted_after_the_policy_was_switched_off, open_rig, close_rig),
    };

    return cmocka_run_group_tests_name("tier/shed", tests, NULL, NULL);
}
