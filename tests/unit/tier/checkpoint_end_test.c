/* The end of a checkpoint, while a call holds a partition: the call sees one phase from its beginning to its end. Otherwise it hands a
 * value over after the queue was drained, or takes a late grave for one from before the cut. */
#include "support/unit.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "support/tier_box.h"
#include "tier/batch.h"
#include "tier/grave.h"
#include "tier/image.h"
#include "tier/seal.h"

struct rig;

/* A thread that holds the last partition while another one ends the checkpoint, as a worker does during a call. */
struct holder {
    struct rig *rig;
    const char *key;                    /* in the last partition */
    struct keyspace *keyspace;
    uint64_t hash;
    void (*act)(struct holder *holder);
    pthread_t thread;
    bool started;
    _Atomic bool holds;
    int phase_before, phase_after;
    enum record_state record;           /* what a new entry would have got */
    bool was_late, is_late;
};

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct holder holder;
    struct batch batch;
    char key[20];
};

static const char *say(struct rig *rig, const char *command, const char *key, const char *value)
{
    char line[100];

    snprintf(line, sizeof(line), "%s %s%s%s", command, key, *value == '\0' ? "" : " ", value);
    return tier_box_say(rig->client, line);
}

/* A key of the last partition. */
static void choose_key(struct rig *rig)
{
    const struct partitions *all = rig->box.partitions;

    for (int i = 0;; i++) {
        snprintf(rig->key, sizeof(rig->key), "k%d", i);
        if (partition_index(all, key_hash(&all->seed, bytes_of_string(rig->key))) == all->count - 1)
            return;
    }
}

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new() };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    batch_init(&rig->batch);
    choose_key(rig);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    if (rig->box.writer_held)
        tier_box_release_writer(&rig->box);
    tier_box_close_client(rig->client);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&rig->box);
    tier_box_verify(&rig->box);
    batch_release(&rig->batch);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

/* Until the other thread has ended the checkpoint, or waits for this one's partition: then it has locked those before it. */
static void await_end(struct rig *rig, int phase)
{
    struct partition *first = &rig->box.partitions->partitions[0];

    while (rig->box.tier->epoch.phase == phase && partition_try_lock(first)) {
        partition_unlock(first);
        sched_yield();
    }
}

static void *hold(void *context)
{
    struct holder *holder = context;
    struct tier *tier = holder->rig->box.tier;

    partition_lock(holder->keyspace->partition);
    holder->phase_before = tier->epoch.phase;
    holder->act(holder);
    holder->phase_after = tier->epoch.phase;
    partition_unlock(holder->keyspace->partition);
    return NULL;
}

/* Called in the middle of seal_end, when what was handed over so far is written. */
static void start_holder(void *context)
{
    struct rig *rig = context;
    struct holder *holder = &rig->holder;

    if (holder->started)
        return;
    holder->started = true;
    assert_int_equal(pthread_create(&holder->thread, NULL, hold, holder), 0);
    while (!holder->holds)
        sched_yield();
}

static void cut(struct rig *rig)
{
    partitions_lock_all(rig->box.partitions);
    assert_true(tier_may_cut(rig->box.tier));
    tier_cut(rig->box.tier);
    partitions_unlock_all(rig->box.partitions);
}

/* Ends a checkpoint that was given up. Before its last step the holder takes the last partition. The writer is held, and something was
 * handed over. */
static void end_beside_holder(struct rig *rig, void (*act)(struct holder *holder))
{
    struct tier *tier = rig->box.tier;
    struct holder *holder = &rig->holder;

    holder->rig = rig;
    holder->key = rig->key;
    holder->keyspace = tier_box_keyspace(&rig->box, 0, bytes_of_string(rig->key), &holder->hash);
    holder->act = act;
    assert_non_null(tier->handover.first);
    rig->box.memory_freed_context = rig;
    rig->box.memory_freed = start_holder;
    seal_stop(tier);
    seal_end(tier, &rig->batch);
    rig->box.memory_freed = NULL;
    assert_true(holder->started);
    pthread_join(holder->thread, NULL);
    assert_int_equal(tier->epoch.phase, CHECKPOINT_NONE);
}

static void change_after_end(struct holder *holder)
{
    holder->holds = true;
    await_end(holder->rig, holder->phase_before);
    partition_changing(holder->keyspace, holder->hash,
        keyspace_find(holder->keyspace, holder->hash, bytes_of_string(holder->key)));
}

static void a_value_changed_while_a_checkpoint_ends_is_not_handed_over_any_more(void **state)
{
    struct rig *rig = *state;
    struct tier *tier = rig->box.tier;

    tier_box_hold_writer(&rig->box);
    say(rig, "SET", rig->key, "cut");
    say(rig, "SET", "other", "cut");
    cut(rig);
    say(rig, "SET", "other", "younger");            /* handed over */
    end_beside_holder(rig, change_after_end);
    assert_null(tier->handover.first);
    assert_int_equal(tier->handover.bytes, 0);
    assert_int_equal(rig->holder.phase_before, CHECKPOINT_ENDING);
    assert_int_equal(rig->holder.phase_after, CHECKPOINT_ENDING);
    tier_box_release_writer(&rig->box);
    assert_string_equal(say(rig, "GET", "other", ""), "$7\nyounger\n");
    assert_string_equal(say(rig, "GET", rig->key, ""), "$3\ncut\n");
}

static void look_at_grave_after_end(struct holder *holder)
{
    struct tier *tier = holder->rig->box.tier;
    struct bytes key = bytes_of_string(holder->key);
    struct grave *grave = grave_find(holder->keyspace, holder->hash, key);

    holder->was_late = epoch_bars_delete(tier, grave);
    holder->holds = true;
    await_end(holder->rig, holder->phase_before);
    holder->is_late = epoch_bars_delete(tier, grave);
    holder->record = grave_record_of_new(tier, holder->keyspace, holder->hash, key);
    if (grave_find(holder->keyspace, holder->hash, key) == NULL)
        grave_removed(tier, holder->keyspace, holder->hash, key, holder->record);      /* as it was */
    else
        holder->record = RECORD_NONE;
}

static void a_late_grave_stays_late_for_a_thread_that_looks_while_a_checkpoint_ends(void **state)
{
    struct rig *rig = *state;

    say(rig, "SET", rig->key, "old");
    assert_string_equal(say(rig, "TIER DEMOTE", rig->key, ""), ":1\n");
    tier_box_hold_writer(&rig->box);
    say(rig, "SET", "other", "cut");
    cut(rig);
    assert_string_equal(say(rig, "DEL", rig->key, ""), ":1\n");
    say(rig, "SET", "other", "younger");            /* handed over */
    end_beside_holder(rig, look_at_grave_after_end);
    assert_true(rig->holder.was_late);
    assert_true(rig->holder.is_late);
    assert_int_equal(rig->holder.record, RECORD_STALE);
    tier_box_release_writer(&rig->box);
    tier_box_settle(&rig->box);
    assert_string_equal(say(rig, "GET", rig->key, ""), "$-1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_value_changed_while_a_checkpoint_ends_is_not_handed_over_any_more, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_late_grave_stays_late_for_a_thread_that_looks_while_a_checkpoint_ends, open_rig, close_rig),
    };

    cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
