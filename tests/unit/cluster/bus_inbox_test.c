/* Tests of cluster/bus_inbox.h. */
#include "cluster/bus_inbox.h"

#include <string.h>

#include "base/mem.h"
#include "support/unit.h"

static void messages_come_out_in_their_order(void **state)
{
    struct bus_inbox inbox;
    struct bus_inbox_list list;
    struct bytes channel, text;
    size_t at = 0;
    bool is_shard;

    (void)state;
    bus_inbox_init(&inbox);
    assert_false(bus_inbox_has_any(&inbox));
    bus_inbox_publish(&inbox, BYTES("news"), BYTES(""), false);
    bus_inbox_publish(&inbox, BYTES(""), BYTES("text\0with a NUL"), true);
    assert_true(bus_inbox_has_any(&inbox));
    assert_true(bus_inbox_take(&inbox, &list));
    assert_false(bus_inbox_has_any(&inbox));
    assert_true(bus_inbox_next(&list, &at, &channel, &text, &is_shard));
    assert_true(bytes_equal(channel, BYTES("news")) && text.size == 0 && !is_shard);
    assert_true(bus_inbox_next(&list, &at, &channel, &text, &is_shard));
    assert_true(channel.size == 0 && bytes_equal(text, BYTES("text\0with a NUL")) && is_shard);
    assert_false(bus_inbox_next(&list, &at, &channel, &text, &is_shard));
    bus_inbox_clear(&list);
    assert_false(bus_inbox_take(&inbox, &list));
    bus_inbox_clear(&list);
    bus_inbox_release(&inbox);
}

static void what_waits_is_bounded_and_the_rest_is_counted(void **state)
{
    enum { SIZE = 1 << 20 };
    char *large = mem_zalloc(SIZE);
    struct bus_inbox inbox;
    struct bus_inbox_list list;
    struct bytes channel, text;
    size_t at = 0, count = 0;
    bool is_shard;

    (void)state;
    bus_inbox_init(&inbox);
    for (int i = 0; i < 100; i++)
        bus_inbox_publish(&inbox, BYTES("c"), bytes_of(large, SIZE), false);
    assert_true(bus_inbox_take(&inbox, &list));
    assert_true(list.messages.size <= BUS_INBOX_SIZE_MAX);
    while (bus_inbox_next(&list, &at, &channel, &text, &is_shard)) {
        assert_int_equal(text.size, SIZE);
        count++;
    }
    assert_int_equal(count, BUS_INBOX_SIZE_MAX / SIZE - 1);
    assert_int_equal(count + inbox.dropped, 100);
    bus_inbox_publish(&inbox, BYTES("c"), BYTES("x"), false);       /* there is room again */
    assert_true(bus_inbox_has_any(&inbox));
    bus_inbox_clear(&list);
    bus_inbox_release(&inbox);
    mem_free(large);
}

static void the_last_options_count_and_own_their_texts(void **state)
{
    char name[] = "first";
    struct bus_options options = { .timeout_ms = 1, .host_name = bytes_of(name, 5) };
    struct bus_inbox inbox;
    struct bus_inbox_list list;

    (void)state;
    bus_inbox_init(&inbox);
    bus_inbox_set_options(&inbox, &options);
    options.timeout_ms = 2;
    options.name = BYTES("node");
    bus_inbox_set_options(&inbox, &options);
    bus_inbox_set_queue_max(&inbox, 7);
    memset(name, 'x', sizeof(name));
    assert_true(bus_inbox_take(&inbox, &list));
    assert_true(list.has_options && list.has_queue_max);
    assert_int_equal(list.options.timeout_ms, 2);
    assert_true(bytes_equal(list.options.host_name, BYTES("first")) && bytes_equal(list.options.name, BYTES("node")));
    assert_int_equal(list.queue_max, 7);
    bus_inbox_clear(&list);
    bus_inbox_set_options(&inbox, &options);
    bus_inbox_release(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_out_in_their_order),
        cmocka_unit_test(what_waits_is_bounded_and_the_rest_is_counted),
        cmocka_unit_test(the_last_options_count_and_own_their_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
