/* Pages of an atomic migration: what is sent at a time is bounded, by about a megabyte and one value, and all of it arrives. The receiver notes what comes. */
#include "cluster/slot_copy.h"

#include "support/unit.h"

#include "base/mem.h"
#include "replication/primary.h"
#include "stream/backlog.h"
#include "support/tier_box.h"

enum { PAGE_BYTES = 1 << 20, VALUE_SIZE = 100000, KEYS = 40 };

struct rig {
    struct tier_box box;
    struct box_client *client;
    struct slots slots;
    struct slot_copy *copy;
    struct message message;
    size_t most;                        /* bytes of one page */
    uint64_t commands;
};

static bool note_page(void *context, struct bytes commands, uint64_t count)
{
    struct rig *rig = context;

    rig->most = commands.size > rig->most ? commands.size : rig->most;
    rig->commands += count;
    return true;
}

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct engine *engine = &rig->box.engine;
    struct tier_box_options options = { .seed = seed_new(), .by_slot = true, .partition_count = 16, .db_count = 1 };
    struct backlog_options backlog = { .memory_size = 64 << 20 };

    tier_box_create(&rig->box, &options);
    engine->replication.primary = primary_create(engine);
    history_init(&engine->history);
    history_open_backlog(&engine->history, &backlog);
    rig->client = tier_box_open_client(&rig->box, 0);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;
    struct engine *engine = &rig->box.engine;

    slot_copy_destroy(rig->copy);
    tier_box_close_client(rig->client);
    tier_box_turn(&rig->box.workers[0], BOX_NO_WAIT);
    tier_box_settle(&rig->box);
    primary_destroy(engine->replication.primary);
    history_release(&engine->history);
    tier_box_destroy(&rig->box);
    mem_free(rig);
    return 0;
}

/* Bytes that no codec compresses. */
static struct bytes noise(struct rig *rig, char *text, size_t size)
{
    struct random random;

    random_init(&random, rig->box.seed);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)random_next(&random);
    return bytes_of(text, size);
}

static struct bytes name_of(char *text, const char *tag, int number)
{
    return bytes_of(text, (size_t)snprintf(text, 32, "{%s}%d", tag, number));
}

/* Large values, every third one cold; their slot is to be copied. */
static void fill(struct rig *rig, const char *tag)
{
    char *value = mem_alloc(VALUE_SIZE), name[32], line[64];

    for (int i = 0; i < KEYS; i++) {
        struct bytes words[] = { BYTES("SET"), name_of(name, tag, i), noise(rig, value, VALUE_SIZE) };

        assert_true(tier_box_ask(rig->client, words, 3));
        snprintf(line, sizeof(line), "TIER DEMOTE {%s}%d", tag, i);
        if (i % 3 == 0)
            assert_string_equal(tier_box_say(rig->client, line), ":1\n");
    }
    slots_add(&rig->slots, slot_of_key(bytes_of_string(tag)));
    mem_free(value);
}

static struct slot_copy *begin(struct rig *rig)
{
    rig->copy = slot_copy_create(&rig->box.engine, &rig->slots, note_page, rig, &rig->message);
    assert_non_null(rig->copy);
    return rig->copy;
}

static void copy_all(struct rig *rig, struct slot_copy *copy)
{
    bool good = true;

    while (good && slot_copy_has_keys_left(copy))
        good = slot_copy_step(copy, &rig->message);
    good = good && slot_copy_finish(copy, history_end(&rig->box.engine.history), &rig->message);
    assert_string_equal(rig->message.text, "");
    assert_true(good);
}

static void a_page_is_bounded(void **state)
{
    struct rig *rig = *state;
    struct slot_copy *copy;

    fill(rig, "a");
    copy = begin(rig);
    copy_all(rig, copy);
    assert_int_equal(slot_copy_key_count(copy), KEYS);
    assert_int_equal(rig->commands, KEYS);
    assert_in_range(rig->most, VALUE_SIZE, PAGE_BYTES + VALUE_SIZE + 1000);
}

/* One command has changed all keys that were sent, together with one that was not: it can't be run there, and all are read again. */
static void keys_that_are_sent_again_are_bounded_too(void **state)
{
    struct rig *rig = *state;
    struct slot_copy *copy;
    struct bytes words[2 * KEYS + 3] = { BYTES("MSET") };
    char names[KEYS][32], *value = mem_alloc(VALUE_SIZE);
    const char *first = "a", *last = "b";
    int count = 1;

    if (slot_of_key(BYTES("a")) > slot_of_key(BYTES("b"))) {
        first = "b";
        last = "a";
    }
    fill(rig, first);
    fill(rig, last);
    copy = begin(rig);
    while (slot_copy_key_count(copy) < KEYS)
        assert_true(slot_copy_step(copy, &rig->message));
    for (int i = 0; i < KEYS; i++) {
        words[count++] = name_of(names[i], first, i);
        words[count++] = noise(rig, value, VALUE_SIZE);
    }
    words[count++] = bytes_of_string(last);             /* of the slot that was not begun */
    words[count++] = BYTES("x");
    assert_true(tier_box_ask(rig->client, words, count));
    copy_all(rig, copy);
    assert_int_equal(slot_copy_key_count(copy), 2 * KEYS + 1);
    assert_int_equal(rig->commands, 3 * KEYS + 1);
    assert_in_range(rig->most, VALUE_SIZE, PAGE_BYTES + VALUE_SIZE + 1000);
    mem_free(value);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(a_page_is_bounded),
        WITH_RIG(keys_that_are_sent_again_are_bounded_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
