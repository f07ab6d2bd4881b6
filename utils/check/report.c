#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { SHOWN_MAX = 20 };

void check_damage(struct check *check, const char *where, const char *format, ...)
{
    va_list arguments;

    check->damages++;
    progress_report_hide(&check->report);
    if (check->shown++ >= SHOWN_MAX) {
        if (check->shown == SHOWN_MAX + 1)
            printf("  ! ... more problems are counted, but not shown\n");
        return;
    }
    printf("  ! %s: ", where);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

void check_newer(struct check *check, const char *where)
{
    check_damage(check, where, "it was written by a newer Kelvin: use the kelvin-check of that version");
    check->newer = true;
    check->repair = false;
}

void check_note(struct check *check, const char *format, ...)
{
    va_list arguments;

    progress_report_hide(&check->report);
    printf("  - ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

void check_repaired(struct check *check, const char *format, ...)
{
    va_list arguments;

    check->repairs++;
    progress_report_hide(&check->report);
    printf("  + repaired: ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

void check_unrepaired(struct check *check, const char *format, ...)
{
    va_list arguments;

    check->unrepaired++;
    progress_report_hide(&check->report);
    printf("  x %s: ", check->repair ? "can't be repaired" : "--repair can't repair this");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

void check_part(struct check *check, const char *part, uint64_t before, const char *format, ...)
{
    va_list arguments;

    progress_report_hide(&check->report);
    printf("%-10s %s", part, check->damages == before ? "ok" : "DAMAGED");
    if (check->damages != before)
        printf(" (%llu)", (unsigned long long)(check->damages - before));
    printf(": ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
    check->shown = 0;
}

void check_progress_begin(struct check *check, const char *part, enum progress_unit unit, uint64_t total)
{
    check->progressed = 0;
    progress_report_begin(&check->report, part, unit, total);
}

/* The clock is read once for many calls. */
void check_progress(struct check *check, uint64_t done)
{
    const uint64_t step = check->report.progress.unit == PROGRESS_BYTES ? 1 << 20 : 1000;

    if (done - check->progressed >= step) {
        check->progressed = done;
        progress_report_note(&check->report, done);
    }
}

const char *check_key(struct bytes key, char *text)
{
    size_t at = 1;

    text[0] = '"';
    for (size_t i = 0; i < key.size && at < CHECK_KEY_SIZE - 10; i++) {
        unsigned char byte = (unsigned char)key.data[i];

        if (byte >= ' ' && byte < 127 && byte != '"' && byte != '\\')
            text[at++] = (char)byte;
        else
            at += (size_t)snprintf(text + at, 8, "\\x%02x", byte);
    }
    snprintf(text + at, CHECK_KEY_SIZE - at, at >= CHECK_KEY_SIZE - 10 ? "...\"" : "\"");
    return text;
}
