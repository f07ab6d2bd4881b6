#include "commands/zset_bounds.h"

#include <math.h>
#include <stdlib.h>

#include "call/call.h"
#include "value/zset.h"

/* As strtod reads it, which is what clients of Redis see: an empty text is 0, leading spaces and numbers out of range are
 * accepted; the text ends at a NUL. */
static bool read_score(struct call *call, struct bytes text, struct zset_bound *bound)
{
    char *copy, *end;

    bound->exclusive = text.size > 0 && text.data[0] == '(';
    if (bound->exclusive)
        text = bytes_of(text.data + 1, text.size - 1);
    copy = arena_alloc(call->arena, text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    bound->score = strtod(copy, &end);
    return *end == 0 && !isnan(bound->score);
}

static bool read_member(struct bytes text, struct zset_bound *bound)
{
    char first = text.size > 0 ? text.data[0] : 0;

    if (text.size == 1 && (first == '-' || first == '+')) {
        bound->kind = first == '-' ? ZSET_BOUND_LOWEST : ZSET_BOUND_HIGHEST;
        return true;
    }
    bound->exclusive = first == '(';
    bound->member = bytes_of(text.data + 1, text.size - 1);
    return first == '(' || first == '[';
}

static bool read_bound(struct call *call, enum zset_measure measure, int arg, struct zset_bound *bound)
{
    *bound = (struct zset_bound){ .kind = ZSET_BOUND_AT };
    switch (measure) {
    case ZSET_BY_RANK:
        return arg_integer(call, arg, &bound->rank);
    case ZSET_BY_SCORE:
        if (read_score(call, call->args[arg], bound))
            return true;
        reply_errorf(call, "ERR min or max is not a float");
        return false;
    case ZSET_BY_LEX:
        break;
    }
    if (call->args[arg].size > 0 && read_member(call->args[arg], bound))
        return true;
    reply_errorf(call, "ERR min or max not valid string range item");
    return false;
}

bool zset_bounds_read(struct call *call, enum zset_measure measure, int low, int high, struct zset_bounds *bounds)
{
    bounds->measure = measure;
    return read_bound(call, measure, low, &bounds->low) && read_bound(call, measure, high, &bounds->high);
}

/* False: elements are missing. */
static bool find_border(const struct zset_bounds *bounds, const struct zset_bound *bound, enum btree_border border, const struct value *zset, size_t *rank)
{
    if (bound->kind != ZSET_BOUND_AT) {
        *rank = bound->kind == ZSET_BOUND_LOWEST ? 0 : zset_count(zset);
        return true;
    }
    return bounds->measure == ZSET_BY_SCORE ? zset_score_border(zset, bound->score, border, rank) : zset_member_border(zset, bound->member, border, rank);
}

static int64_t absolute_rank(int64_t rank, int64_t count)
{
    return rank < 0 ? rank + count : rank;
}

bool zset_bounds_find(const struct zset_bounds *bounds, const struct value *zset, size_t *first, size_t *count)
{
    size_t all = zset_count(zset), end = 0;
    bool has_low, has_high;

    if (bounds->measure == ZSET_BY_RANK) {
        int64_t low = absolute_rank(bounds->low.rank, (int64_t)all), high = absolute_rank(bounds->high.rank, (int64_t)all);

        if (low < 0)
            low = 0;
        if (high >= (int64_t)all)
            high = (int64_t)all - 1;
        *first = (size_t)low;
        end = high >= 0 ? (size_t)high + 1 : 0;
    } else {
        has_low = find_border(bounds, &bounds->low, bounds->low.exclusive ? BTREE_NOT_ABOVE : BTREE_BELOW, zset, first);
        has_high = find_border(bounds, &bounds->high, bounds->high.exclusive ? BTREE_BELOW : BTREE_NOT_ABOVE, zset, &end);
        if (!has_low || !has_high)
            return false;
    }
    *count = end > *first ? end - *first : 0;
    return true;
}
