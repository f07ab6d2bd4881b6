#include "support/unit.h"

#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "stats/slowlog.h"

struct seen {
    int count;
    struct slowlog_entry entries[8];
    char args[8][SLOWLOG_ARGS_MAX + 1][SLOWLOG_ARG_SIZE_MAX + 64];
    char client[8][64];
};

static void see(void *context, const struct slowlog_entry *entry)
{
    struct seen *seen = context;

    seen->entries[seen->count] = *entry;
    for (int i = 0; i < entry->arg_count; i++)
        snprintf(seen->args[seen->count][i], sizeof(seen->args[0][0]), "%.*s", (int)entry->args[i].size, entry->args[i].data);
    snprintf(seen->client[seen->count], sizeof(seen->client[0]), "%.*s %.*s", (int)entry->address.size, entry->address.data,
        (int)entry->name.size, entry->name.data);
    seen->count++;
}

static int open_log(void **state)
{
    *state = slowlog_create();
    return 0;
}

static int close_log(void **state)
{
    slowlog_destroy(*state);
    return 0;
}

static void note(struct slowlog *slowlog, size_t max_len, const char *word, int64_t us)
{
    struct bytes args[] = { bytes_of_string(word) };

    slowlog_note(slowlog, max_len, &(struct slow_call){ args, 1, us, 1000, "1.2.3.4:5", NULL, bytes_of(NULL, 0) });
}

static void the_newest_is_first_and_the_oldest_is_dropped(void **state)
{
    struct slowlog *slowlog = *state;
    struct seen *seen = mem_zalloc(sizeof(*seen));

    note(slowlog, 3, "a", 10);
    note(slowlog, 3, "b", 20);
    note(slowlog, 3, "c", 30);
    note(slowlog, 3, "d", 40);
    assert_int_equal(slowlog_count(slowlog), 3);
    assert_int_equal(slowlog_each(slowlog, 8, see, seen), 3);
    assert_string_equal(seen->args[0][0], "d");
    assert_string_equal(seen->args[1][0], "c");
    assert_string_equal(seen->args[2][0], "b");
    assert_int_equal(seen->entries[0].id, 3);
    assert_int_equal(seen->entries[2].id, 1);
    assert_int_equal(seen->entries[1].us, 30);
    assert_int_equal(seen->entries[1].time_s, 1000);
    assert_string_equal(seen->client[0], "1.2.3.4:5 ");
    seen->count = 0;
    assert_int_equal(slowlog_each(slowlog, 2, see, seen), 2);
    assert_string_equal(seen->args[1][0], "c");
    note(slowlog, 1, "e", 50);
    assert_int_equal(slowlog_count(slowlog), 1);
    note(slowlog, 0, "f", 60);
    assert_int_equal(slowlog_count(slowlog), 0);
    note(slowlog, 2, "g", 70);
    seen->count = 0;
    slowlog_each(slowlog, 8, see, seen);
    assert_int_equal(seen->entries[0].id, 6);
    mem_free(seen);
}

static void a_reset_does_not_reset_the_ids(void **state)
{
    struct slowlog *slowlog = *state;
    struct seen *seen = mem_zalloc(sizeof(*seen));

    note(slowlog, 10, "a", 1);
    note(slowlog, 10, "b", 1);
    slowlog_reset(slowlog);
    assert_int_equal(slowlog_count(slowlog), 0);
    assert_int_equal(slowlog_each(slowlog, 8, see, seen), 0);
    note(slowlog, 10, "c", 1);
    slowlog_each(slowlog, 8, see, seen);
    assert_int_equal(seen->entries[0].id, 2);
    mem_free(seen);
}

static void long_arguments_are_truncated_with_a_note(void **state)
{
    struct slowlog *slowlog = *state;
    struct seen *seen = mem_zalloc(sizeof(*seen));
    char full[128], more[130], expected[200];
    struct bytes args[] = { BYTES("SET"), bytes_of(full, 128), bytes_of(more, 130), BYTES("") };

    memset(full, 'x', sizeof(full));
    memset(more, 'y', sizeof(more));
    slowlog_note(slowlog, 8, &(struct slow_call){ args, 4, 5, 6, "a", "the name", bytes_of(NULL, 0) });
    slowlog_each(slowlog, 8, see, seen);
    assert_int_equal(seen->entries[0].arg_count, 4);
    snprintf(expected, sizeof(expected), "%.128s", full);
    assert_string_equal(seen->args[0][1], expected);
    snprintf(expected, sizeof(expected), "%.128s... (2 more bytes)", more);
    assert_string_equal(seen->args[0][2], expected);
    assert_string_equal(seen->args[0][3], "");
    assert_string_equal(seen->client[0], "a the name");
    mem_free(seen);
}

static void many_arguments_are_truncated_with_their_number(void **state)
{
    struct slowlog *slowlog = *state;
    struct seen *seen = mem_zalloc(sizeof(*seen));
    struct bytes args[33];

    for (int i = 0; i < 33; i++)
        args[i] = BYTES("w");
    slowlog_note(slowlog, 8, &(struct slow_call){ args, 33, 5, 6, NULL, NULL, bytes_of(NULL, 0) });
    slowlog_note(slowlog, 8, &(struct slow_call){ args, 32, 5, 6, NULL, NULL, bytes_of(NULL, 0) });
    slowlog_each(slowlog, 8, see, seen);
    assert_int_equal(seen->entries[0].arg_count, 32);
    assert_string_equal(seen->args[0][31], "w");
    assert_int_equal(seen->entries[1].arg_count, 32);
    assert_string_equal(seen->args[1][30], "w");
    assert_string_equal(seen->args[1][31], "... (2 more arguments)");
    mem_free(seen);
}

static void *note_many(void *context)
{
    for (int i = 0; i < 2000; i++) {
        note(context, 16, "thread", i);
        if (i % 500 == 0)
            slowlog_reset(context);
    }
    return NULL;
}

static void threads_add_entries_concurrently(void **state)
{
    struct slowlog *slowlog = *state;
    struct seen *seen = mem_zalloc(sizeof(*seen));
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, note_many, slowlog);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(slowlog_count(slowlog), 16);
    slowlog_each(slowlog, 8, see, seen);
    assert_int_equal(seen->entries[0].id, 7999);
    assert_int_equal(seen->entries[7].id, 7992);
    mem_free(seen);
}

static void a_note_follows_the_arguments(void **state)
{
    struct slowlog *slowlog = *state;
    struct seen *seen = mem_zalloc(sizeof(*seen));
    struct bytes args[33];

    for (int i = 0; i < 33; i++)
        args[i] = BYTES("w");
    slowlog_note(slowlog, 8, &(struct slow_call){ args, 33, 5, 6, NULL, NULL, BYTES("(a note)") });
    slowlog_note(slowlog, 8, &(struct slow_call){ args, 2, 5, 6, "a", "n", BYTES("(a note)") });
    slowlog_each(slowlog, 8, see, seen);
    assert_int_equal(seen->entries[0].arg_count, 3);
    assert_string_equal(seen->args[0][1], "w");
    assert_string_equal(seen->args[0][2], "(a note)");
    assert_string_equal(seen->client[0], "a n");
    assert_int_equal(seen->entries[1].arg_count, 33);
    assert_string_equal(seen->args[1][32], "(a note)");
    mem_free(seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_is_first_and_the_oldest_is_dropped, open_log, close_log),
        cmocka_unit_test_setup_teardown(a_reset_does_not_reset_the_ids, open_log, close_log),
        cmocka_unit_test_setup_teardown(long_arguments_are_truncated_with_a_note, open_log, close_log),
        cmocka_unit_test_setup_teardown(many_arguments_are_truncated_with_their_number, open_log, close_log),
        cmocka_unit_test_setup_teardown(a_note_follows_the_arguments, open_log, close_log),
        cmocka_unit_test_setup_teardown(threads_add_entries_concurrently, open_log, close_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
