/* Prefetch of memory that will be read soon, line by line. */
#ifndef KELVIN_BASE_FETCH_LINES_H
#define KELVIN_BASE_FETCH_LINES_H

enum { FETCH_LINE = 64 };

/* Asks the CPU for the lines from `from` on, before `to`. Any addresses will do: none of them is read here. */
static inline void fetch_lines(const char *from, const char *to)
{
    for (; from < to; from += FETCH_LINE)
        __builtin_prefetch(from);
}

#endif
