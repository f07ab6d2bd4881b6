#include "support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/progress_report.h"

struct said {
    int count;
    char last[200];
};

static void keep_line(void *context, const char *line)
{
    struct said *said = context;

    said->count++;
    snprintf(said->last, sizeof(said->last), "%s", line);
}

/* As if this much time had passed since something was shown. */
static void pass(struct progress_report *report, int64_t us)
{
    report->shown_us -= us;
    report->progress.begun_us -= us;
    report->progress.noted_us -= us;
}

static void a_line_is_said_every_ten_seconds(void **state)
{
    struct said said = { 0 };
    struct progress_report report = { .output = PROGRESS_AS_LINES, .say = keep_line, .context = &said };

    progress_report_begin(&report, "restoring", PROGRESS_BYTES, 4 << 20);
    progress_report_note(&report, 1 << 20);
    assert_int_equal(said.count, 0);
    pass(&report, 10000000);
    progress_report_note(&report, 1 << 20);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.last, "restoring  25 %  0:"));
    progress_report_note(&report, 2 << 20);
    assert_int_equal(said.count, 1);
    pass(&report, 10000000);
    progress_report_note(&report, 4 << 20);
    assert_int_equal(said.count, 2);
    assert_non_null(strstr(said.last, "restoring 100 %  0:00 left"));
    progress_report_hide(&report);
    assert_int_equal(said.count, 2);
}

static void a_silent_report_says_nothing(void **state)
{
    struct said said = { 0 };
    struct progress_report report = { .output = PROGRESS_SILENT, .say = keep_line, .context = &said };

    progress_report_begin(&report, "x", PROGRESS_COUNT, 10);
    pass(&report, 100000000);
    progress_report_note(&report, 5);
    progress_report_hide(&report);
    assert_int_equal(said.count, 0);
    assert_false(report.is_drawn);
}

/* Returns what the report writes to stderr between these two calls. */
static int redirect(int pipe_fds[2])
{
    int saved = dup(STDERR_FILENO);

    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    return saved;
}

static void read_back(int pipe_fds[2], int saved, char *text, size_t size)
{
    ssize_t got;

    dup2(saved, STDERR_FILENO);
    close(saved);
    close(pipe_fds[1]);
    got = read(pipe_fds[0], text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    close(pipe_fds[0]);
}

static void a_bar_is_drawn_over_itself_and_removed(void **state)
{
    struct progress_report report = { .output = PROGRESS_ON_TERMINAL };
    char text[1000];
    int fds[2], saved = redirect(fds);

    progress_report_begin(&report, "get", PROGRESS_COUNT, 100);
    progress_report_note(&report, 10);              /* too early */
    pass(&report, 1000000);
    progress_report_note(&report, 50);
    progress_report_hide(&report);
    progress_report_hide(&report);
    read_back(fds, saved, text, sizeof(text));
    assert_ptr_equal(strstr(text, "\r\033[Kget [###################...................]  50 %"), text);
    assert_string_equal(text + strlen(text) - 4, "\r\033[K");
    assert_string_equal(strstr(text, "/s"), "/s\r\033[K");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_said_every_ten_seconds),
        cmocka_unit_test(a_silent_report_says_nothing),
        cmocka_unit_test(a_bar_is_drawn_over_itself_and_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
