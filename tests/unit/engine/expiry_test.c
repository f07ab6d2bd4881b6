/* The active expiry goes on between the ticks of the cron while many keys expire, and only then. */
#include "support/unit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/expiry.h"
#include "engine/worker.h"
#include "support/tier_box.h"

enum { HOUR_MS = 3600 * 1000, MANY_KEYS = 40000, FEW_KEYS = 30 };

struct rig {
    struct tier_box box;
    struct worker *worker;
    struct box_client *client;
    int soon_count;                 /* slices that were asked for */
    int64_t pause_ms;               /* before the last of them */
};

static void expire_soon(void *loop, int64_t pause_ms)
{
    struct rig *self = loop;

    self->soon_count++;
    self->pause_ms = pause_ms;
}

static int open_rig(void **state)
{
    struct tier_box_options options = { .seed = 1 };
    struct rig *rig = mem_zalloc(sizeof(*rig));

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    rig->worker = &rig->box.workers[0].worker;
    rig->worker->host.loop = rig;
    rig->worker->host.expire_soon = expire_soon;
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_close_client(rig->client);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

static void set_keys(struct rig *rig, int count, int64_t expire_ms)
{
    char line[100];

    for (int i = 0; i < count; i++) {
        snprintf(line, sizeof(line), "SET key:%d value PXAT %lld", i, (long long)expire_ms);
        assert_string_equal(tier_box_say(rig->client, line), "+OK\n");
    }
}

static uint64_t keys_left(struct rig *rig)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < rig->box.partitions->count; i++) {
        struct partition *partition = &rig->box.partitions->partitions[i];
        struct keyspace *keyspace;

        partition_lock(partition);
        keyspace = partition_keyspace_if(partition, 0);
        count += keyspace != NULL ? keyspace->table.count : 0;
        partition_unlock(partition);
    }
    return count;
}

static uint64_t expired(struct rig *rig) { return engine_stat(&rig->box.engine, STAT_EXPIRED_KEYS); }

static void many_keys_are_expired_in_slices_that_follow_each_other(void **state)
{
    struct rig *rig = *state;
    int64_t now_ms = clock_wall_ms();

    set_keys(rig, MANY_KEYS, now_ms + HOUR_MS);
    rig->worker->turn.now_ms = now_ms + 2 * HOUR_MS;
    expiry_tick(rig->worker);
    while (keys_left(rig) > 0) {
        uint64_t before = expired(rig);
        int soon_before = rig->soon_count;

        expiry_continue(rig->worker);
        if (expired(rig) >= before + EXPIRY_MANY) {
            assert_int_equal(rig->soon_count, soon_before + 1);
            assert_true(rig->pause_ms >= 3);        /* a quarter of the time */
        }
    }
    assert_true(expired(rig) == MANY_KEYS);
}

static void few_keys_wait_for_the_next_tick(void **state)
{
    struct rig *rig = *state;
    int64_t now_ms = clock_wall_ms();

    set_keys(rig, FEW_KEYS, now_ms + HOUR_MS);
    rig->worker->turn.now_ms = now_ms + 2 * HOUR_MS;
    for (int i = 0; i < 10 && keys_left(rig) > 0; i++)
        expiry_tick(rig->worker);
    assert_true(keys_left(rig) == 0 && rig->soon_count == 0);
}

static void nothing_expires_in_a_slice_once_expiry_is_off(void **state)
{
    struct rig *rig = *state;
    int64_t now_ms = clock_wall_ms();

    set_keys(rig, FEW_KEYS, now_ms + HOUR_MS);
    rig->worker->turn.now_ms = now_ms + 2 * HOUR_MS;
    engine_set_active_expire(&rig->box.engine, false);
    expiry_continue(rig->worker);
    assert_true(keys_left(rig) == FEW_KEYS && rig->soon_count == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_keys_are_expired_in_slices_that_follow_each_other),
        TEST(few_keys_wait_for_the_next_tick),
        TEST(nothing_expires_in_a_slice_once_expiry_is_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
