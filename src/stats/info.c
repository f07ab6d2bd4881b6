#include "stats/info.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_chosen(const struct info_section *section, const struct bytes *names, int count)
{
    if (count == 0)
        return section->presence == INFO_BY_DEFAULT;
    for (int i = 0; i < count; i++) {
        if (bytes_is(names[i], section->name) || bytes_is(names[i], "all") || bytes_is(names[i], "everything"))
            return true;
        if (bytes_is(names[i], "default") && section->presence == INFO_BY_DEFAULT)
            return true;
    }
    return false;
}

void info_write(const struct info_section *sections, const struct bytes *names, int count, void *context,
    struct buffer *out)
{
    bool is_first = true;

    for (const struct info_section *section = sections; section->name != NULL; section++) {
        if (!is_chosen(section, names, count))
            continue;
        if (!is_first)
            buffer_append(out, "\r\n", 2);
        is_first = false;
        buffer_append_format(out, "# %s\r\n", section->name);
        section->write(out, context);
    }
}

void info_number(struct buffer *out, const char *name, int64_t number)
{
    buffer_append_format(out, "%s:%" PRId64 "\r\n", name, number);
}

void info_text(struct buffer *out, const char *name, const char *text)
{
    buffer_append_format(out, "%s:%s\r\n", name, text);
}

void info_float(struct buffer *out, const char *name, double number)
{
    buffer_append_format(out, "%s:%.2f\r\n", name, number);
}

void info_size(struct buffer *out, const char *name, uint64_t bytes)
{
    char human[32];

    info_human(bytes, human);
    buffer_append_format(out, "%s:%" PRIu64 "\r\n%s_human:%s\r\n", name, bytes, name, human);
}

void info_human(uint64_t bytes, char *out)
{
    static const char units[] = "BKMGTP";
    double size = (double)bytes;
    int unit = 0;

    while (size >= 1024 && unit < 5) {
        size /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(out, 32, "%" PRIu64 "B", bytes);
    else
        snprintf(out, 32, "%.2f%c", size, units[unit]);
}
