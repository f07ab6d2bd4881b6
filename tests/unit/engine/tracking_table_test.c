#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/tracking_private.h"
#include "support/seed.h"

enum { TRACKERS = 40, KEYS = 300 };

/* A table, and next to it what should be in it. */
struct box {
    struct tracking_table table;
    struct tracker *trackers[TRACKERS];
    bool model[KEYS][TRACKERS];
    int64_t keys, items, bytes;     /* the sums of what the table has reported */
    struct random random;
};

static void setup(struct box *box)
{
    *box = (struct box){ .keys = 0 };
    random_init(&box->random, 1);
    for (int i = 0; i < TRACKERS; i++) {
        box->trackers[i] = mem_zalloc(sizeof(struct tracker));
        box->trackers[i]->holders = 1;
    }
}

static void count(struct box *box, struct tracking_change change)
{
    box->keys += change.keys;
    box->items += change.items;
    box->bytes += change.bytes;
}

/* The key was taken out of the table. */
static void count_taken(struct box *box, const struct tracked_key *tracked)
{
    count(box, (struct tracking_change){ -1, -(int64_t)tracked->count, -tracked_bytes(tracked) });
}

/* No tracker is held by anything but the box. */
static void teardown(struct box *box)
{
    count(box, tracking_table_clear(&box->table));
    assert_int_equal(box->keys, 0);
    assert_int_equal(box->items, 0);
    assert_int_equal(box->bytes, 0);
    for (int i = 0; i < TRACKERS; i++) {
        assert_int_equal(box->trackers[i]->holders, 1);
        tracker_release(box->trackers[i]);
    }
}

static struct bytes name_of(int key, char text[32])
{
    return bytes_of(text, (size_t)snprintf(text, 32, "key:%d", key));
}

/* Few different hashes, so that there are long chains. */
static uint64_t hash_of(int key)
{
    return (uint64_t)key * 7 % 101;
}

static void add(struct box *box, int key, int tracker)
{
    char text[32];
    struct bytes name = name_of(key, text);

    count(box, tracking_table_add(&box->table, hash_of(key), name, box->trackers[tracker]));
}

static struct tracked_key *take(struct box *box, int key)
{
    char text[32];
    struct bytes name = name_of(key, text);
    struct tracked_key *tracked = tracking_table_take(&box->table, hash_of(key), name);

    if (tracked != NULL) {
        assert_true(bytes_equal(tracked_name(tracked), name));
        count_taken(box, tracked);
    }
    return tracked;
}

static bool has_tracker(const struct tracked_key *tracked, const struct tracker *tracker)
{
    for (uint32_t i = 0; i < tracked->count; i++) {
        if (tracked_tracker(tracked, i) == tracker)
            return true;
    }
    return false;
}

static void a_key_that_was_added_is_taken_once(void **state)
{
    struct box box;
    struct tracked_key *tracked;

    setup(&box);
    assert_null(take(&box, 1));
    add(&box, 1, 0);
    add(&box, 1, 0);
    add(&box, 1, 1);
    assert_int_equal(box.keys, 1);
    assert_int_equal(box.items, 2);
    assert_null(take(&box, 2));
    tracked = take(&box, 1);
    assert_non_null(tracked);
    assert_int_equal(tracked->count, 2);
    assert_true(has_tracker(tracked, box.trackers[0]) && has_tracker(tracked, box.trackers[1]));
    assert_int_equal(box.trackers[0]->holders, 2);
    tracked_free(tracked);
    assert_null(take(&box, 1));
    teardown(&box);
}

static void keys_of_any_bytes_differ(void **state)
{
    struct box box;
    struct tracked_key *tracked;

    setup(&box);
    count(&box, tracking_table_add(&box.table, 5, bytes_of("a\0b", 3), box.trackers[0]));
    count(&box, tracking_table_add(&box.table, 5, bytes_of("a\0c", 3), box.trackers[1]));
    count(&box, tracking_table_add(&box.table, 5, bytes_of("", 0), box.trackers[2]));
    assert_int_equal(box.keys, 3);
    tracked = tracking_table_take(&box.table, 5, bytes_of("", 0));
    assert_true(tracked->count == 1 && tracked_tracker(tracked, 0) == box.trackers[2]);
    count_taken(&box, tracked);
    tracked_free(tracked);
    tracked = tracking_table_take(&box.table, 5, bytes_of("a\0c", 3));
    assert_true(tracked->count == 1 && tracked_tracker(tracked, 0) == box.trackers[1]);
    count_taken(&box, tracked);
    tracked_free(tracked);
    teardown(&box);
}

static void trackers_that_are_gone_make_room(void **state)
{
    struct box box;
    struct tracked_key *tracked;

    setup(&box);
    for (int i = 0; i < TRACKERS; i++) {
        add(&box, 1, i);
        if (i < TRACKERS - 1)
            box.trackers[i]->state |= TRACKING_GONE;
    }
    assert_int_equal(box.keys, 1);
    tracked = take(&box, 1);
    assert_int_equal(box.items, 0);
    assert_true(tracked->room <= 8);            /* it did not grow with each that came and went */
    assert_true(has_tracker(tracked, box.trackers[TRACKERS - 1]));
    tracked_free(tracked);
    teardown(&box);
}

static void any_key_is_taken_until_there_is_none(void **state)
{
    struct box box;
    struct tracked_key *tracked;
    bool seen[KEYS] = { false };

    setup(&box);
    assert_null(tracking_table_take_any(&box.table, &box.random));
    for (int key = 0; key < KEYS; key++)
        add(&box, key, key % TRACKERS);
    for (int i = 0; i < KEYS; i++) {
        int key;

        tracked = tracking_table_take_any(&box.table, &box.random);
        assert_non_null(tracked);
        key = (int)strtol(tracked->key + 4, NULL, 10);
        assert_false(seen[key]);
        seen[key] = true;
        count_taken(&box, tracked);
        tracked_free(tracked);
    }
    assert_null(tracking_table_take_any(&box.table, &box.random));
    assert_true(box.table.capacity <= 32);      /* the array shrinks with the number of keys */
    teardown(&box);
}

static void check_taken(struct box *box, int key)
{
    struct tracked_key *tracked = take(box, key);
    uint32_t wanted = 0;

    for (int i = 0; i < TRACKERS; i++)
        wanted += box->model[key][i];
    assert_int_equal(tracked == NULL ? 0 : tracked->count, wanted);
    for (int i = 0; i < TRACKERS; i++)
        assert_true(!box->model[key][i] || has_tracker(tracked, box->trackers[i]));
    memset(box->model[key], 0, sizeof(box->model[key]));
    if (tracked != NULL)
        tracked_free(tracked);
}

static void a_random_table_agrees_with_its_model(void **state)
{
    uint64_t seed = seed_new();
    struct box box;

    setup(&box);
    random_init(&box.random, seed);
    for (int i = 0; i < 200000; i++) {
        int key = (int)random_below(&box.random, KEYS), tracker = (int)random_below(&box.random, TRACKERS);

        if (random_below(&box.random, 100) < 95) {
            add(&box, key, tracker);
            box.model[key][tracker] = true;
        } else {
            check_taken(&box, key);
        }
    }
    for (int key = 0; key < KEYS; key++)
        check_taken(&box, key);
    assert_int_equal(box.keys, 0);
    assert_int_equal(box.items, 0);
    teardown(&box);
}

struct found {
    char text[256];
};

static void note_found(void *context, const struct tracking_prefix *prefix, struct tracked_key *const *keys, size_t key_count)
{
    struct found *found = context;
    size_t at = strlen(found->text);

    snprintf(found->text + at, sizeof(found->text) - at, "[%.*s %zu:", (int)prefix->name.size, prefix->name.data, prefix->count);
    for (size_t i = 0; i < key_count; i++) {
        at = strlen(found->text);
        snprintf(found->text + at, sizeof(found->text) - at, " %.*s", (int)keys[i]->size, keys[i]->key);
    }
    strcat(found->text, "]");
}

static void prefixes_find_the_keys_that_begin_with_them(void **state)
{
    static const char *const names[] = { "", "a", "aa", "ab", "abc", "b", "c" };
    struct tracking_prefixes prefixes;
    struct tracked_key *keys[7];
    struct found found = { "" };
    struct box box;

    setup(&box);
    tracking_prefixes_init(&prefixes);
    for (size_t i = 0; i < 7; i++)
        keys[i] = tracked_create(bytes_of_string(names[i]));
    tracking_prefixes_add(&prefixes, box.trackers[0], BYTES("ab"));
    tracking_prefixes_add(&prefixes, box.trackers[1], BYTES("ab"));
    tracking_prefixes_add(&prefixes, box.trackers[1], BYTES("ab"));
    tracking_prefixes_add(&prefixes, box.trackers[0], BYTES("c"));
    tracking_prefixes_add(&prefixes, box.trackers[0], BYTES("d"));
    tracking_prefixes_add(&prefixes, box.trackers[2], BYTES(""));
    tracking_prefixes_add(&prefixes, box.trackers[2], BYTES("abcd"));
    tracking_prefixes_match(&prefixes, keys, 7, note_found, &found);
    assert_string_equal(found.text, "[ 1:  a aa ab abc b c][ab 2: ab abc][c 1: c]");

    box.trackers[1]->prefix_count = 1;
    box.trackers[1]->prefixes = &(struct bytes){ "ab", 2 };
    tracking_prefixes_remove(&prefixes, box.trackers[1]);
    box.trackers[0]->prefix_count = 1;
    box.trackers[0]->prefixes = &(struct bytes){ "c", 1 };
    tracking_prefixes_remove(&prefixes, box.trackers[0]);
    found.text[0] = '\0';
    tracking_prefixes_match(&prefixes, keys + 1, 6, note_found, &found);
    assert_string_equal(found.text, "[ 1: a aa ab abc b c][ab 1: ab abc]");
    tracking_prefixes_release(&prefixes);
    for (size_t i = 0; i < 7; i++)
        tracked_free(keys[i]);
    teardown(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_was_added_is_taken_once),
        cmocka_unit_test(keys_of_any_bytes_differ),
        cmocka_unit_test(trackers_that_are_gone_make_room),
        cmocka_unit_test(any_key_is_taken_until_there_is_none),
        cmocka_unit_test(a_random_table_agrees_with_its_model),
        cmocka_unit_test(prefixes_find_the_keys_that_begin_with_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
