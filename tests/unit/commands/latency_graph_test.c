#include "support/unit.h"

#include <string.h>

#include "commands/latency_graph.h"

static void assert_graph(const struct latency_event *event, int64_t now_s, const char *expected)
{
    struct buffer out = { 0 };

    latency_graph_draw(&out, event, now_s);
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, expected);
    buffer_release(&out);
}

/* The expected pictures are those of redis-server 7.2.6 for these samples. */

static void samples_are_columns_above_their_ages(void **state)
{
    struct latency_event event = { .name = "command", .worst_ms = 83, .count = 6,
        .samples = { { 1000, 21 }, { 1021, 83 }, { 1022, 30 }, { 1023, 43 }, { 1024, 60 }, { 1025, 10 } } };

    assert_graph(&event, 1026,
        "command - high 83 ms, low 10 ms (all time high 83 ms)\n"
        "--------------------------------------------------------------------------------\n"
        " #    \n"
        " |  # \n"
        " |_#| \n"
        "o||||_\n"
        "      \n"
        "254321\n"
        "6sssss\n"
        "s     \n");
}

static void one_sample_is_at_the_bottom(void **state)
{
    struct latency_event event = { .name = "fork", .worst_ms = 30, .count = 1, .samples = { { 1000, 21 } } };

    assert_graph(&event, 1000 + 3 * 86400,
        "fork - high 21 ms, low 21 ms (all time high 30 ms)\n"
        "--------------------------------------------------------------------------------\n"
        " \n"
        " \n"
        " \n"
        "_\n"
        " \n"
        "3\n"
        "d\n");
}

static void more_than_a_line_are_two_pictures(void **state)
{
    static const int ms[] = {
        18, 39, 36, 10, 25, 60, 40, 32, 42, 39, 6, 40, 2, 60, 55, 32, 18, 38, 17, 14, 47, 32, 36, 55, 37, 32, 27, 42, 58, 11, 16, 42,
        11, 57, 37, 26, 49, 3, 53, 54, 6, 12, 52, 41, 12, 48, 51, 3, 54, 57, 19, 32, 40, 52, 61, 58, 26, 47, 57, 60, 39, 27, 48, 54,
        39, 30, 10, 58, 25, 10, 4, 10, 70, 19, 18, 45, 31, 51, 63, 56, 21, 28, 34, 55, 26, 38, 34, 36, 39, 28, 39, 21, 60 };
    struct latency_event event = { .name = "command", .worst_ms = 70, .count = sizeof(ms) / sizeof(ms[0]) };

    for (size_t i = 0; i < event.count; i++)
        event.samples[i] = (struct latency_sample){ 1000 + (int64_t)i, ms[i] };
    assert_graph(&event, 1000 + 93,
        "command - high 70 ms, low 2 ms (all time high 70 ms)\n"
        "--------------------------------------------------------------------------------\n"
        "     o       o_        _    _    _    __        __    o_  _o   _   _    #     o_\n"
        " __  |_ o_ _ ||  _  o _|_  o|  o |_ # ||  #_ ## ||  _#|| o||_ #|_  |    |  o #||\n"
        " || o||#|| | ||# |  |#|||#o||  | ||o| ||  || || ||_#||||o||||o|||o |o   |_ |#|||\n"
        "#||o||||||_|_|||#|##|||||||||o#|o||||_||_o||o||_||||||||||||||||||o||o_o||#|||||\n"
        "                                                                                \n"
        "11111111111111111111111111111111115555555555444444444433333333332222222222111111\n"
        "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm9876543210987654321098765432109876543210987654\n"
        "                                  ssssssssssssssssssssssssssssssssssssssssssssss\n"
        "\n"
        "   _        o\n"
        "   | _ __ _ |\n"
        "_o#|o|#||o|_|\n"
        "|||||||||||||\n"
        "             \n"
        "1111987654321\n"
        "3210sssssssss\n"
        "ssss         \n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_columns_above_their_ages),
        cmocka_unit_test(one_sample_is_at_the_bottom),
        cmocka_unit_test(more_than_a_line_are_two_pictures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
