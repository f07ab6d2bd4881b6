#include "base/log.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the file's contents after the first line's time stamp; `lines` is the number of line ends. */
static void logged(const char *text, char *out, size_t size, int *lines)
{
    char path[] = "/tmp/kelvin-log-XXXXXX", *begin;
    int fd = mkstemp(path);
    struct log *log;
    FILE *file;
    size_t got;

    assert_true(fd >= 0);
    close(fd);
    log = log_create(path, LOG_LEVEL_NOTICE, NULL, 0);
    log_write(log, LOG_LEVEL_WARNING, "'%s'", text);
    log_destroy(log);
    file = fopen(path, "r");
    assert_non_null(file);
    got = fread(out, 1, size - 1, file);
    out[got] = '\0';
    fclose(file);
    unlink(path);
    *lines = 0;
    for (const char *at = out; *at != '\0'; at++)
        *lines += *at == '\n';
    begin = strstr(out, " # ");
    assert_non_null(begin);
    memmove(out, begin + 3, strlen(begin + 3) + 1);
}

static void control_characters_are_escaped(void **state)
{
    char out[8192];
    int lines;

    logged("a\n1:M 01 Jan 2026 00:00:00.000 # forged\r\t\x1b[2J\x7f\x01z", out, sizeof(out), &lines);
    assert_int_equal(lines, 1);
    assert_string_equal(out, "'a\\n1:M 01 Jan 2026 00:00:00.000 # forged\\r\\t\\x1b[2J\\x7f\\x01z'\n");
}

static void other_bytes_are_written_unchanged(void **state)
{
    char out[8192];
    int lines;

    logged("h\xc3\xa9 \\n ~", out, sizeof(out), &lines);
    assert_string_equal(out, "'h\xc3\xa9 \\n ~'\n");
}

static void a_long_message_is_cut(void **state)
{
    char text[3000], out[8192];
    int lines;

    memset(text, 1, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    logged(text, out, sizeof(out), &lines);
    assert_int_equal(lines, 1);
    assert_int_equal(strlen(out), 1 + 1022 * 4 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(other_bytes_are_written_unchanged),
        cmocka_unit_test(a_long_message_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
