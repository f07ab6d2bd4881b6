#include "lifecycle/save_points.h"

#include <stdlib.h>

/* The next pair; false at the end. The configuration has checked the text. */
static bool next_point(const char **text, struct save_point *point)
{
    char *end;

    point->seconds = strtoll(*text, &end, 10);
    if (end == *text)
        return false;
    *text = end;
    point->changes = strtoull(*text, &end, 10);
    if (end == *text)
        return false;
    *text = end;
    return true;
}

bool save_points_are(const char *text)
{
    struct save_point point;

    return next_point(&text, &point);
}

bool save_points_due(const char *text, uint64_t changes, int64_t idle_ms, struct save_point *due)
{
    while (next_point(&text, due)) {
        if (changes >= due->changes && idle_ms / 1000 > due->seconds)
            return true;
    }
    return false;
}
