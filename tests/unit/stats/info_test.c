#include "support/unit.h"

#include "stats/info.h"

static void write_a(struct buffer *out, void *context)
{
    info_number(out, "a", *(int *)context);
}

static void write_b(struct buffer *out, void *context)
{
    (void)context;
    info_text(out, "b", "text");
    info_float(out, "half", 0.5);
}

static void write_nothing(struct buffer *out, void *context)
{
    (void)out;
    (void)context;
}

static const struct info_section sections[] = {
    { "First", INFO_BY_DEFAULT, write_a },
    { "Second", INFO_WHEN_ASKED, write_b },
    { "Third", INFO_BY_DEFAULT, write_nothing },
    { NULL, INFO_WHEN_ASKED, NULL },
};

static void assert_info(const char *first, const char *second, const char *expected)
{
    struct bytes names[] = { bytes_of_string(first != NULL ? first : ""), bytes_of_string(second != NULL ? second : "") };
    struct buffer out = { 0 };
    int number = 7;

    info_write(sections, names, (first != NULL) + (second != NULL), &number, &out);
    buffer_append_u8(&out, 0);
    assert_string_equal(out.data, expected);
    buffer_release(&out);
}

#define FIRST "# First\r\na:7\r\n"
#define SECOND "# Second\r\nb:text\r\nhalf:0.50\r\n"
#define THIRD "# Third\r\n"

static void without_names_the_default_sections_are_shown(void **state)
{
    assert_info(NULL, NULL, FIRST "\r\n" THIRD);
    assert_info("default", NULL, FIRST "\r\n" THIRD);
}

static void section_names_are_not_case_sensitive_and_sections_are_shown_once_in_order(void **state)
{
    assert_info("SECOND", NULL, SECOND);
    assert_info("second", "first", FIRST "\r\n" SECOND);
    assert_info("first", "First", FIRST);
    assert_info("second", "default", FIRST "\r\n" SECOND "\r\n" THIRD);
}

static void all_and_everything_select_all(void **state)
{
    assert_info("all", NULL, FIRST "\r\n" SECOND "\r\n" THIRD);
    assert_info("everything", "nosuch", FIRST "\r\n" SECOND "\r\n" THIRD);
}

static void unknown_names_are_ignored(void **state)
{
    assert_info("nosuch", NULL, "");
    assert_info("nosuch", "third", THIRD);
}

static void sizes_are_also_shown_in_units(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *human;
    } rows[] = {
        { 0, "0B" }, { 1023, "1023B" }, { 1024, "1.00K" }, { 1536, "1.50K" }, { 1742264, "1.66M" }, { UINT64_C(25276510208), "23.54G" },
        { UINT64_C(5) << 40, "5.00T" }, { UINT64_MAX, "16384.00P" },
    };
    struct buffer out = { 0 };
    char human[32];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        info_human(rows[i].bytes, human);
        assert_string_equal(human, rows[i].human);
    }
    info_size(&out, "used", 1536);
    assert_int_equal(out.size, strlen("used:1536\r\nused_human:1.50K\r\n"));
    assert_memory_equal(out.data, "used:1536\r\nused_human:1.50K\r\n", out.size);
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_names_the_default_sections_are_shown),
        cmocka_unit_test(section_names_are_not_case_sensitive_and_sections_are_shown_once_in_order),
        cmocka_unit_test(all_and_everything_select_all),
        cmocka_unit_test(unknown_names_are_ignored),
        cmocka_unit_test(sizes_are_also_shown_in_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
