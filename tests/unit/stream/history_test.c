#include "stream/history.h"

#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "stream/backlog.h"

enum { MEMORY = 1 << 20, LARGE = 100 << 10 };

struct box {
    struct history history;
    struct backlog_reader *reader;
    char got[2 * LARGE];
};

static int make(void **state)
{
    struct box *box = mem_zalloc(sizeof(*box));
    struct backlog_options options = { .memory_size = MEMORY };

    history_init(&box->history);
    history_open_backlog(&box->history, &options);
    box->reader = backlog_attach(history_backlog(&box->history), 0);
    *state = box;
    return 0;
}

static int drop(void **state)
{
    struct box *box = *state;

    backlog_detach(box->reader);
    history_release(&box->history);
    mem_free(box);
    return 0;
}

/* What was handed over since the last look. */
static struct bytes read_all(struct box *box)
{
    size_t got = 0;

    assert_int_equal(backlog_read(box->reader, box->got, sizeof(box->got), UINT64_MAX, &got), BACKLOG_OK);
    return bytes_of(box->got, got);
}

static void append_group(struct history *history, size_t size)
{
    char *large = mem_zalloc(size);
    struct bytes args[3] = { BYTES("SET"), BYTES("k"), bytes_of(large, size) };
    struct history_group group;

    history_group_init(&group);
    history_group_add(&group, 0, args, 3);
    history_group_add(&group, 1, args, 3);
    assert_int_equal(history_append_group(history, &group), 0);
    history_group_release(&group);
    assert_int_equal(history_append(history, 0, args, 3), 0);
    mem_free(large);
}

static void a_foreign_history_refuses_all_but_what_the_applier_appends(void **state)
{
    struct box *box = *state;
    struct history *history = &box->history;
    struct bytes ping = BYTES("*1\r\n$4\r\nPING\r\n"), args[1] = { BYTES("PING") };

    assert_int_equal(history_append(history, 0, args, 1), 23 + ping.size);          /* with a SELECT */
    history_set_foreign(history, true);
    append_group(history, 10);
    append_group(history, LARGE);       /* in a chunk of its own */
    assert_int_equal(history_append_large(history, 0, args, 1, NULL, 0), 0);
    assert_int_equal(history_append_signs(history, ping), 0);
    assert_int_equal(history_end(history), 23 + ping.size);
    assert_int_equal(history_append_raw(history, ping, 0), 23 + 2 * ping.size);
    history_set_foreign(history, false);
    assert_int_equal(history_append_signs(history, ping), 23 + 3 * ping.size);
    history_drain(history);
    assert_int_equal(read_all(box).size, 23 + 3 * ping.size);
}

static void what_the_log_cannot_write_is_handed_over_byte_by_byte_and_then_the_rest(void **state)
{
    struct box *box = *state;
    struct history *history = &box->history;
    struct bytes ping = BYTES("*1\r\n$4\r\nPING\r\n");
    struct history_chunk *chunks;
    struct bytes got;

    (void)history_attach_log(history);
    history_append_signs(history, ping);
    history_cut(history);               /* a chunk more */
    history_append_signs(history, ping);
    chunks = history_take(history);
    assert_int_equal(read_all(box).size, 0);
    for (size_t i = 1; i <= ping.size + 3; i++) {
        history_trickle(history, chunks);
        got = read_all(box);
        assert_int_equal(got.size, 1);
        assert_int_equal(got.data[0], ping.data[(i - 1) % ping.size]);
        assert_int_equal(history_handed(history), i);
    }
    history_hand_over(history, chunks);
    got = read_all(box);
    assert_int_equal(got.size, ping.size - 3);
    assert_memory_equal(got.data, ping.data + 3, got.size);
    history_append_signs(history, ping);
    history_hand_over(history, history_take(history));
    assert_int_equal(read_all(box).size, ping.size);
    history_detach_log(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_foreign_history_refuses_all_but_what_the_applier_appends, make, drop),
        cmocka_unit_test_setup_teardown(what_the_log_cannot_write_is_handed_over_byte_by_byte_and_then_the_rest, make, drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
