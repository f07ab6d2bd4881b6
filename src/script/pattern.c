#include "script/pattern.h"

#include <ctype.h>

/* All functions that are given `items` (a position in the pattern) may read the byte at pattern->end, which is NUL. */

static const char *match_here(struct pattern *pattern, const char *at, const char *items);

static const char *subject_end(const struct pattern *pattern)
{
    return pattern->subject.data + pattern->subject.size;
}

/* The end of a set [...], whose first character is after the '[' and the '^' that may follow it. */
static const char *set_end(struct pattern *pattern, const char *items)
{
    if (*items == '^')
        items++;
    do {
        if (items == pattern->end)
            luaL_error(pattern->lua, "malformed pattern (missing ']')");
        if (*items++ == '%' && items < pattern->end)
            items++;
    } while (*items != ']');
    return items + 1;
}

/* The end of the single-character item that begins at `items`, without its quantifier. */
static const char *item_end(struct pattern *pattern, const char *items)
{
    switch (*items++) {
    case '%':
        if (items == pattern->end)
            luaL_error(pattern->lua, "malformed pattern (ends with '%%')");
        return items + 1;
    case '[':
        return set_end(pattern, items);
    default:
        return items;
    }
}

/* %a and the like; upper case is the complement. Any other letter is itself. */
static bool class_has(int class, int byte)
{
    bool has;

    switch (tolower(class)) {
    case 'a': has = isalpha(byte); break;
    case 'c': has = iscntrl(byte); break;
    case 'd': has = isdigit(byte); break;
    case 'l': has = islower(byte); break;
    case 'p': has = ispunct(byte); break;
    case 's': has = isspace(byte); break;
    case 'u': has = isupper(byte); break;
    case 'w': has = isalnum(byte); break;
    case 'x': has = isxdigit(byte); break;
    case 'z': has = byte == 0; break;
    default: return class == byte;
    }
    return has != (isupper(class) != 0);
}

/* `last` is the ']' that ends the set. */
static bool set_has(const char *items, const char *last, int byte)
{
    bool wanted = true;

    if (*++items == '^') {
        wanted = false;
        items++;
    }
    while (items < last) {
        if (*items == '%') {
            if (class_has((unsigned char)items[1], byte))
                return wanted;
            items += 2;
        } else if (items[1] == '-' && items + 2 < last) {
            if ((unsigned char)items[0] <= byte && byte <= (unsigned char)items[2])
                return wanted;
            items += 3;
        } else if ((unsigned char)*items++ == byte) {
            return wanted;
        }
    }
    return !wanted;
}

static bool item_has(const char *items, const char *end, int byte)
{
    switch (*items) {
    case '.': return true;
    case '%': return class_has((unsigned char)items[1], byte);
    case '[': return set_has(items, end - 1, byte);
    default: return (unsigned char)*items == byte;
    }
}

static bool item_matches(struct pattern *pattern, const char *at, const char *items, const char *end)
{
    run_step(pattern->lua, pattern->steps);
    return at < subject_end(pattern) && item_has(items, end, (unsigned char)*at);
}

/* %bxy: from an x to the y that balances it. */
static const char *match_balance(struct pattern *pattern, const char *at, const char *items)
{
    int open = 1;

    if (pattern->end - items < 2)
        luaL_error(pattern->lua, "unbalanced pattern");
    if (at == subject_end(pattern) || *at != items[0])
        return NULL;
    for (at++; at < subject_end(pattern); at++) {
        run_step(pattern->lua, pattern->steps);
        if (*at == items[1]) {
            if (--open == 0)
                return at + 1;
        } else if (*at == items[0]) {
            open++;
        }
    }
    return NULL;
}

static const char *match_most(struct pattern *pattern, const char *at, const char *items, const char *end)
{
    ptrdiff_t count = 0;

    while (item_matches(pattern, at + count, items, end))
        count++;
    for (; count >= 0; count--) {
        const char *found = match_here(pattern, at + count, end + 1);

        if (found != NULL)
            return found;
    }
    return NULL;
}

static const char *match_fewest(struct pattern *pattern, const char *at, const char *items, const char *end)
{
    for (;; at++) {
        const char *found = match_here(pattern, at, end + 1);

        if (found != NULL)
            return found;
        if (!item_matches(pattern, at, items, end))
            return NULL;
    }
}

static const char *open_capture(struct pattern *pattern, const char *at, const char *items, ptrdiff_t what)
{
    const char *found;

    if (pattern->capture_count == PATTERN_CAPTURES_MAX)
        luaL_error(pattern->lua, "too many captures");
    pattern->captures[pattern->capture_count++] = (struct pattern_capture){ at, what };
    found = match_here(pattern, at, items);
    if (found == NULL)
        pattern->capture_count--;
    return found;
}

static const char *close_capture(struct pattern *pattern, const char *at, const char *items)
{
    int index = pattern->capture_count - 1;
    const char *found;

    while (index >= 0 && pattern->captures[index].size != PATTERN_UNFINISHED)
        index--;
    if (index < 0)
        luaL_error(pattern->lua, "invalid pattern capture");
    pattern->captures[index].size = at - pattern->captures[index].start;
    found = match_here(pattern, at, items);
    if (found == NULL)
        pattern->captures[index].size = PATTERN_UNFINISHED;
    return found;
}

/* %1 to %9: what was captured, again. */
static const char *match_again(struct pattern *pattern, const char *at, int digit)
{
    int index = digit - '1';
    struct pattern_capture *capture = &pattern->captures[index < 0 ? 0 : index];

    if (index < 0 || index >= pattern->capture_count || capture->size == PATTERN_UNFINISHED)
        luaL_error(pattern->lua, "invalid capture index");
    run_step(pattern->lua, pattern->steps);
    if (capture->size < 0 || subject_end(pattern) - at < capture->size || memcmp(capture->start, at, (size_t)capture->size) != 0)
        return NULL;
    return at + capture->size;
}

/* %f[set]: between a byte that is not in the set and one that is. */
static bool is_frontier(struct pattern *pattern, const char *at, const char *items, const char *end)
{
    int before = at == pattern->subject.data ? 0 : (unsigned char)at[-1];

    return !set_has(items, end - 1, before) && set_has(items, end - 1, (unsigned char)*at);
}

/* Matches one of %b, %f, %1. Returns false if the item is none of them; otherwise `*at` is where the match goes on, or NULL, and `*items`
 * the next item. */
static bool match_escape(struct pattern *pattern, const char **at, const char **items)
{
    const char *next = *items + 2, *end;

    switch ((*items)[1]) {
    case 'b':
        *at = match_balance(pattern, *at, next);
        *items = next + 2;
        return true;
    case 'f':
        if (*next != '[')
            luaL_error(pattern->lua, "missing '[' after '%%f' in pattern");
        end = item_end(pattern, next);
        if (!is_frontier(pattern, *at, next, end))
            *at = NULL;
        *items = end;
        return true;
    default:
        if (!isdigit((unsigned char)(*items)[1]))
            return false;
        *at = match_again(pattern, *at, (unsigned char)(*items)[1]);
        *items = next;
        return true;
    }
}

/* An item of one character and its quantifier. Returns true if `*at` is the result of the whole match (or NULL), false if the
 * match goes on from there with the next item. */
static bool match_item(struct pattern *pattern, const char **at, const char **items)
{
    const char *end = item_end(pattern, *items), *found;
    bool matches;

    switch (*end) {
    case '*':
        *at = match_most(pattern, *at, *items, end);
        return true;
    case '-':
        *at = match_fewest(pattern, *at, *items, end);
        return true;
    case '+':
        *at = item_matches(pattern, *at, *items, end) ? match_most(pattern, *at + 1, *items, end) : NULL;
        return true;
    }
    matches = item_matches(pattern, *at, *items, end);
    if (*end == '?') {
        found = matches ? match_here(pattern, *at + 1, end + 1) : NULL;
        *items = end + 1;
        if (found == NULL)
            return false;
        *at = found;
        return true;
    }
    *at = matches ? *at + 1 : NULL;
    *items = end;
    return *at == NULL;
}

static const char *match_items(struct pattern *pattern, const char *at, const char *items)
{
    while (items < pattern->end) {
        if (*items == '(' && items[1] == ')')
            return open_capture(pattern, at, items + 2, PATTERN_POSITION);
        if (*items == '(')
            return open_capture(pattern, at, items + 1, PATTERN_UNFINISHED);
        if (*items == ')')
            return close_capture(pattern, at, items + 1);
        if (*items == '$' && items + 1 == pattern->end)
            return at == subject_end(pattern) ? at : NULL;
        if (*items == '%' && match_escape(pattern, &at, &items)) {
            if (at == NULL)
                return NULL;
        } else if (match_item(pattern, &at, &items)) {
            return at;
        }
    }
    return at;
}

static const char *match_here(struct pattern *pattern, const char *at, const char *items)
{
    const char *found;

    if (++pattern->depth > PATTERN_DEPTH_MAX)
        luaL_error(pattern->lua, "pattern too complex");
    run_step(pattern->lua, pattern->steps);
    found = match_items(pattern, at, items);
    pattern->depth--;
    return found;
}

const char *pattern_match(struct pattern *pattern, const char *at, const char *items)
{
    pattern->depth = 0;
    pattern->capture_count = 0;
    return match_here(pattern, at, items);
}

void pattern_push_capture(struct pattern *pattern, int index, const char *at, const char *end)
{
    const struct pattern_capture *capture = &pattern->captures[index];

    if (index >= pattern->capture_count) {
        if (index != 0)
            luaL_error(pattern->lua, "invalid capture index");
        lua_pushlstring(pattern->lua, at, (size_t)(end - at));
        return;
    }
    if (capture->size == PATTERN_UNFINISHED)
        luaL_error(pattern->lua, "unfinished capture");
    if (capture->size == PATTERN_POSITION)
        lua_pushinteger(pattern->lua, capture->start - pattern->subject.data + 1);
    else
        lua_pushlstring(pattern->lua, capture->start, (size_t)capture->size);
}

int pattern_push_captures(struct pattern *pattern, const char *at, const char *end)
{
    int count = pattern->capture_count == 0 && at != NULL ? 1 : pattern->capture_count;

    luaL_checkstack(pattern->lua, count, "too many captures");
    for (int i = 0; i < count; i++)
        pattern_push_capture(pattern, i, at, end);
    return count;
}
