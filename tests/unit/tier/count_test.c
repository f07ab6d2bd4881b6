/* Counting the keys of both tiers does not keep clients waiting for the writer. */
#include "support/unit.h"

#include <pthread.h>
#include <sched.h>

#include "base/mem.h"
#include "keyspace/owners.h"
#include "support/tier_box.h"

enum { KEYS = 20 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    uint64_t count;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
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

static void *count(void *context)
{
    struct rig *rig = context;

    assert_int_equal(tier_count(rig->box.tier, 0, false, &rig->count), STATUS_OK);
    return NULL;
}

static bool is_claim_waiting(struct rig *rig)
{
    struct owners *owners = &rig->box.partitions->owners;
    bool is_waiting;

    mutex_lock(&owners->lock);
    is_waiting = owners->first != NULL;
    mutex_unlock(&owners->lock);
    return is_waiting;
}

static bool is_any_owned(struct rig *rig)
{
    struct owners *owners = &rig->box.partitions->owners;
    bool is_owned = false;

    mutex_lock(&owners->lock);
    for (uint32_t i = 0; i < rig->box.partitions->count; i++)
        is_owned = is_owned || owners->holders[i] != NULL;
    mutex_unlock(&owners->lock);
    return is_owned;
}

static void a_count_that_waits_for_the_writer_owns_nothing(void **state)
{
    struct rig *rig = *state;
    struct claim unit;
    pthread_t thread;
    char line[40];

    for (int i = 0; i < KEYS; i++) {
        snprintf(line, sizeof(line), "SET k%d value", i);
        assert_string_equal(tier_box_say(rig->client, line), "+OK\n");
    }
    owners_claim_all(rig->box.partitions, &unit);       /* a script runs */
    assert_int_equal(pthread_create(&thread, NULL, count, rig), 0);
    while (!is_claim_waiting(rig))
        sched_yield();
    tier_box_hold_writer(&rig->box);                    /* a round begins, and the script ends */
    owners_give(&rig->box.partitions->owners, &unit);
    while (rig->box.tier->counting.waiting == 0)
        sched_yield();
    assert_false(is_any_owned(rig));
    tier_box_release_writer(&rig->box);
    pthread_join(thread, NULL);
    assert_int_equal(rig->count, KEYS);
    assert_false(is_any_owned(rig));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_count_that_waits_for_the_writer_owns_nothing, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
