/* SCAN, KEYS, RANDOMKEY and DBSIZE over keys of both tiers, while they move (tier rule 11). */
#include "support/unit.h"

#include <sched.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "engine/job.h"
#include "support/tier_box.h"
#include "tier/batch.h"
#include "tier/grave.h"

enum { KEYS = 1500, WORD_SIZE = 24 };

struct rig {
    struct tier_box box;
    struct box_client *client, *other;
    struct random random;
    bool seen[KEYS];
};

static int open_rig_of(void **state, int partition_count)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct tier_box_options options = { .seed = seed_new(), .partition_count = partition_count };

    tier_box_create(&rig->box, &options);
    rig->client = tier_box_open_client(&rig->box, 0);
    rig->other = tier_box_open_client(&rig->box, 0);
    random_init(&rig->random, rig->box.seed);
    *state = rig;
    return 0;
}

static int open_small(void **state) { return open_rig_of(state, 1); }
static int open_rig(void **state) { return open_rig_of(state, 4); }
static int open_wide(void **state) { return open_rig_of(state, 256); }

static int close_rig(void **state)
{
    struct rig *rig = *state;

    tier_box_close_client(rig->client);
    tier_box_end(&rig->box, rig->other);
    mem_free(rig);
    return 0;
}

static int pick(struct rig *rig, int limit)
{
    return (int)random_below(&rig->random, (uint64_t)limit);
}

/* One request with one key or several, and its reply. */
static void do_with(struct rig *rig, const char *command, const int *keys, int count, const char *value)
{
    char names[TIER_BOX_WORDS][WORD_SIZE];
    struct bytes words[TIER_BOX_WORDS];
    int word_count = 0;

    for (const char *at = command; at != NULL; word_count++) {
        const char *end = strchr(at, ' ');

        words[word_count] = end == NULL ? bytes_of_string(at) : bytes_of(at, (size_t)(end - at));
        at = end == NULL ? NULL : end + 1;
    }
    for (int i = 0; i < count; i++) {
        snprintf(names[i], WORD_SIZE, "key:%d", keys[i]);
        words[word_count++] = bytes_of_string(names[i]);
    }
    if (value != NULL)
        words[word_count++] = bytes_of_string(value);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_ask(rig->other, words, word_count);
    while (rig->other->busy)
        tier_box_turn(&rig->box.workers[0], BOX_WAIT);
    BOX_DEMAND(&rig->box, rig->other->client.reply.out.data[0] != '-', "%s: %s", command, tier_box_reply(rig->other));
}

static void fill(struct rig *rig, int count)
{
    for (int i = 0; i < count; i++)
        do_with(rig, "SET", &i, 1, "value");
}

static void demote(struct rig *rig, int from, int until)
{
    while (from < until) {
        int keys[32], count = 0;

        while (count < 32 && from < until)
            keys[count++] = from++;
        do_with(rig, "TIER DEMOTE", keys, count, NULL);
    }
}

/* Notes the keys of a reply that is cursor and keys; returns how many there were, and the cursor. */
static int note_page(struct rig *rig, const char *reply, uint64_t *cursor)
{
    const char *at = strchr(reply, '\n');       /* after *2 */
    int count;

    BOX_DEMAND(&rig->box, strncmp(reply, "*2\n$", 4) == 0, "%.60s", reply);
    at = strchr(at + 1, '\n') + 1;
    *cursor = strtoull(at, NULL, 10);
    at = strchr(at, '\n') + 1;
    count = atoi(at + 1);
    for (int i = 0; i < count; i++) {
        at = strchr(at, '\n') + 1;              /* the size */
        at = strchr(at, '\n') + 1;
        BOX_DEMAND(&rig->box, strncmp(at, "key:", 4) == 0 && atoi(at + 4) < KEYS, "%.20s", at);
        rig->seen[atoi(at + 4)] = true;
    }
    return count;
}

static int scan(struct rig *rig, uint64_t *cursor, int count)
{
    char line[80];

    snprintf(line, sizeof(line), "SCAN %llu COUNT %d", (unsigned long long)*cursor, count);
    return note_page(rig, tier_box_say(rig->client, line), cursor);
}

static void expect_seen(struct rig *rig, int from, int until, bool seen)
{
    for (int i = from; i < until; i++)
        BOX_DEMAND(&rig->box, rig->seen[i] == seen, "key:%d", i);
}

static void every_key_is_shown_once_when_nothing_moves(void **state)
{
    struct rig *rig = *state;

    fill(rig, KEYS);
    demote(rig, 0, KEYS / 2);
    for (int count = 1; count <= 1000; count *= 10) {
        uint64_t cursor = 0;
        int shown = 0, pages = 0;

        memset(rig->seen, 0, sizeof(rig->seen));
        do {
            int page = scan(rig, &cursor, count);

            shown += page;
            pages++;
            BOX_DEMAND(&rig->box, page <= 5 * count + 64, "a page of %d for COUNT %d", page, count);
        } while (cursor != 0);
        expect_seen(rig, 0, KEYS, true);
        assert_int_equal(shown, KEYS);
        assert_true(pages <= KEYS / count + 260);
    }
}

static void move_some(struct rig *rig)
{
    int keys[8];

    for (int i = 0; i < 8; i++)
        keys[i] = pick(rig, KEYS - 100);
    switch (pick(rig, 5)) {
    case 0: do_with(rig, "TIER DEMOTE", keys, 8, NULL); break;
    case 1: do_with(rig, "MGET", keys, 8, NULL); break;
    case 2: do_with(rig, "SET", keys, 1, "overwritten"); break;
    case 3: do_with(rig, "APPEND", keys, 1, "+"); break;
    default: do_with(rig, "TIER DEMOTE", keys, 1, NULL);
    }
}

static void a_key_that_moves_while_it_is_looked_for_is_found(void **state)
{
    struct rig *rig = *state;

    fill(rig, KEYS);
    demote(rig, 0, KEYS / 3);
    for (int round = 0; round < 3; round++) {
        uint64_t cursor = 0;

        memset(rig->seen, 0, sizeof(rig->seen));
        do {
            scan(rig, &cursor, 1 + pick(rig, 60));
            for (int i = pick(rig, 4); i > 0; i--)
                move_some(rig);
        } while (cursor != 0);
        expect_seen(rig, 0, KEYS, true);
    }
}

static void a_deleted_key_is_not_shown_though_its_record_is_there(void **state)
{
    struct rig *rig = *state;
    uint64_t cursor = 0;

    fill(rig, 200);
    demote(rig, 0, 200);
    tier_box_hold_writer(&rig->box);
    for (int i = 0; i < 100; i++)
        do_with(rig, "DEL", &i, 1, NULL);
    for (int i = 50; i < 60; i++)
        do_with(rig, "SET", &i, 1, "again");
    do
        scan(rig, &cursor, 7);
    while (cursor != 0);
    expect_seen(rig, 0, 50, false);
    expect_seen(rig, 50, 60, true);
    expect_seen(rig, 60, 100, false);
    expect_seen(rig, 100, 200, true);
    tier_box_release_writer(&rig->box);
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":110\n");
}

static void an_empty_database_and_a_cursor_from_nowhere_end_at_once(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(tier_box_say(rig->client, "SCAN 0"), "*2\n$1\n0\n*0\n");
    assert_string_equal(tier_box_say(rig->client, "RANDOMKEY"), "$-1\n");
    assert_string_equal(tier_box_say(rig->client, "DBSIZE"), ":0\n");
    fill(rig, 10);
    demote(rig, 0, 10);
    assert_string_equal(tier_box_say(rig->client, "SCAN 281474976710656"), "*2\n$1\n0\n*0\n");
    assert_string_equal(tier_box_say(rig->client, "SCAN 18446744073709551615"), "*2\n$1\n0\n*0\n");
    for (int i = 0; i < 10; i++)
        do_with(rig, "DEL", &i, 1, NULL);
    assert_string_equal(tier_box_say(rig->client, "SCAN 0"), "*2\n$1\n0\n*0\n");
    assert_string_equal(tier_box_say(rig->client, "RANDOMKEY"), "$-1\n");
}

static void keys_and_randomkey_know_both_tiers(void **state)
{
    struct rig *rig = *state;
    const char *reply;

    fill(rig, 40);
    demote(rig, 0, 20);
    reply = tier_box_say(rig->client, "KEYS key:*");
    assert_true(strncmp(reply, "*40\n", 4) == 0);
    for (int hot = 0, cold = 0; hot == 0 || cold == 0;) {
        int key;

        reply = tier_box_say(rig->client, "RANDOMKEY");
        key = atoi(strchr(reply, ':') + 1);
        assert_in_range(key, 0, 39);
        if (key < 20)
            cold++;
        else
            hot++;
    }
    assert_string_equal(tier_box_say(rig->client, "TIER WHERE key:0"), "$4\ncold\n");     /* a look moves nothing */
}

static void types_and_expiries_are_known_of_cold_keys(void **state)
{
    struct rig *rig = *state;

    assert_string_equal(tier_box_say(rig->client, "SET s 1"), "+OK\n");
    assert_string_equal(tier_box_say(rig->client, "HSET h f 1"), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "TIER DEMOTE s h"), ":2\n");
    assert_string_equal(tier_box_say(rig->client, "SCAN 0 TYPE hash COUNT 100"), "*2\n$1\n0\n*1\n$1\nh\n");
    assert_string_equal(tier_box_say(rig->client, "SCAN 0 TYPE string COUNT 100"), "*2\n$1\n0\n*1\n$1\ns\n");
    assert_string_equal(tier_box_say(rig->client, "PEXPIREAT s 9999999999999"), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "TIER DEMOTE s"), ":1\n");
    assert_string_equal(tier_box_say(rig->client, "SCAN 0 TYPE string COUNT 100"), "*2\n$1\n0\n*1\n$1\ns\n");
}

/* A page is read while the key has a time; the time is removed, and it passes, before the reply is made: the key was there all the
 * time. */
static void shown_without_its_time(struct rig *rig, const char *request, const char *reply)
{
    struct worker *worker = &rig->box.workers[0].worker;
    int64_t expire_ms = worker->turn.now_ms + 3600 * 1000;
    const struct job *job;
    char line[60];

    snprintf(line, sizeof(line), "PEXPIREAT key:0 %lld", (long long)expire_ms);
    assert_string_equal(tier_box_say(rig->other, line), ":1\n");
    assert_false(tier_box_begin(rig->client, request));
    job = rig->client->client.job;
    while (!job->done)
        sched_yield();
    assert_true(tier_box_begin(rig->other, "PERSIST key:0"));
    assert_string_equal(tier_box_reply(rig->other), ":1\n");
    worker->clock.wall_offset_ns += 2 * 3600 * 1000000000ll;         /* until the next turn */
    while (rig->client->busy)
        worker_read_mail(worker);
    assert_string_equal(tier_box_reply(rig->client), reply);
}

static void a_key_that_loses_its_time_while_a_page_is_made_is_shown(void **state)
{
    struct rig *rig = *state;

    fill(rig, 1);
    assert_string_equal(tier_box_say(rig->other, "SET cold 1"), "+OK\n");
    assert_string_equal(tier_box_say(rig->other, "TIER DEMOTE cold"), ":1\n");        /* so that a job reads the page */
    shown_without_its_time(rig, "SCAN 0 COUNT 100 MATCH key:*", "*2\n$1\n0\n*1\n$5\nkey:0\n");
    shown_without_its_time(rig, "KEYS key:*", "*1\n$5\nkey:0\n");
}

/* As the cold expirer does: the cold key is gone, and the delete of its record is in a batch. */
static void bury_cold(struct rig *rig, struct batch *batch, const char *name)
{
    struct bytes key = bytes_of_string(name);
    uint64_t hash;
    struct keyspace *keyspace = tier_box_keyspace(&rig->box, 0, key, &hash);

    partition_lock(keyspace->partition);
    assert_int_equal(keyspace_find(keyspace, hash, key), 0);
    grave_removed(rig->box.tier, keyspace, hash, key, RECORD_CLEAN);
    batch_bury(batch, keyspace, grave_find(keyspace, hash, key));
    partition_unlock(keyspace->partition);
}

/* After the hot part of a page was read, and before the index is, a cold key becomes a hot one without a record. */
static void a_key_that_loses_its_record_in_the_middle_of_a_page_is_shown(void **state)
{
    struct rig *rig = *state;
    struct batch batch;
    uint64_t cursor = 0, reads;
    int key = 1;

    fill(rig, 3);
    demote(rig, 0, 2);
    tier_box_hold_writer(&rig->box);
    assert_int_equal(store_flush(rig->box.tier->store), STATUS_OK);
    batch_init(&batch);
    reads = faulty_disk_reads(rig->box.disk);
    faulty_disk_set(rig->box.disk, &(struct disk_faults){ .only = ".run", .reads_together = 2 });     /* the first one waits */
    assert_false(tier_box_begin(rig->client, "SCAN 0 COUNT 100"));
    while (faulty_disk_reads(rig->box.disk) == reads)
        sched_yield();                          /* it has read the hot part */
    bury_cold(rig, &batch, "key:1");
    do_with(rig, "SET", &key, 1, "overwritten");
    assert_int_equal(batch_commit(rig->box.tier, &batch), STATUS_OK);
    assert_int_equal(store_has(rig->box.tier->store, 1, 0, BYTES("none")), STATUS_NOT_FOUND);      /* the second read */
    faulty_disk_set(rig->box.disk, NULL);
    (void)tier_box_await(rig->client);
    batch_release(&batch);
    tier_box_release_writer(&rig->box);
    assert_int_equal(note_page(rig, tier_box_reply(rig->client), &cursor), 3);
    expect_seen(rig, 0, 3, true);
    assert_int_equal(cursor, 0);
}

#define TEST(test, open) cmocka_unit_test_setup_teardown(test, open, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_key_is_shown_once_when_nothing_moves, open_small),
        TEST(every_key_is_shown_once_when_nothing_moves, open_rig),
        TEST(every_key_is_shown_once_when_nothing_moves, open_wide),
        TEST(a_key_that_moves_while_it_is_looked_for_is_found, open_small),
        TEST(a_key_that_moves_while_it_is_looked_for_is_found, open_wide),
        TEST(a_deleted_key_is_not_shown_though_its_record_is_there, open_rig),
        TEST(an_empty_database_and_a_cursor_from_nowhere_end_at_once, open_rig),
        TEST(keys_and_randomkey_know_both_tiers, open_rig),
        TEST(types_and_expiries_are_known_of_cold_keys, open_rig),
        TEST(a_key_that_loses_its_time_while_a_page_is_made_is_shown, open_small),
        TEST(a_key_that_loses_its_record_in_the_middle_of_a_page_is_shown, open_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
