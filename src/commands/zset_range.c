/* ZRANGE, ZRANGEBYSCORE and related commands: a range by rank, score or member, ascending or descending, replied or stored in
 * another key. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/zset_bounds.h"
#include "commands/zset_store.h"
#include "value/zset.h"

struct range {
    enum { MEASURE_OPEN, MEASURE_GIVEN } measure_is;
    enum { DIRECTION_OPEN, DIRECTION_GIVEN } direction_is;
    enum zset_measure measure;
    enum zset_direction direction;
    int source;                     /* argument: the key; the bounds and then the options follow */
    bool stores;                    /* in argument 1 */
    bool with_scores, has_limit;
    int64_t offset, limit;          /* limit -1: no limit */
    struct zset_bounds bounds;
};

/* Parses one option; returns how many arguments it has, 0 after an error. What the command's name implies is not an option. */
static int read_option(struct call *call, struct range *range, int arg)
{
    if (!range->stores && arg_is(call, arg, "withscores")) {
        range->with_scores = true;
        return 1;
    }
    if (arg_is(call, arg, "limit") && call->arg_count - arg > 2) {
        range->has_limit = true;
        return arg_integer(call, arg + 1, &range->offset) && arg_integer(call, arg + 2, &range->limit) ? 3 : 0;
    }
    if (range->direction_is == DIRECTION_OPEN && arg_is(call, arg, "rev")) {
        range->direction_is = DIRECTION_GIVEN;
        range->direction = ZSET_DOWN;
        return 1;
    }
    if (range->measure_is == MEASURE_OPEN && (arg_is(call, arg, "bylex") || arg_is(call, arg, "byscore"))) {
        range->measure_is = MEASURE_GIVEN;
        range->measure = arg_is(call, arg, "bylex") ? ZSET_BY_LEX : ZSET_BY_SCORE;
        return 1;
    }
    reply_error(call, ERR_SYNTAX);
    return 0;
}

static bool read_range(struct call *call, struct range *range)
{
    int low = range->source + 1, high = range->source + 2;

    range->limit = -1;
    for (int arg = range->source + 3; arg < call->arg_count;) {
        int taken = read_option(call, range, arg);

        if (taken == 0)
            return false;
        arg += taken;
    }
    if (range->has_limit && range->limit != -1 && range->measure == ZSET_BY_RANK) {
        reply_errorf(call, "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
        return false;
    }
    if (range->with_scores && range->measure == ZSET_BY_LEX) {
        reply_errorf(call, "ERR syntax error, WITHSCORES not supported in combination with BYLEX");
        return false;
    }
    /* In descending order the higher end comes first; except for ranks, which are then counted from the highest. */
    if (range->direction == ZSET_DOWN && range->measure != ZSET_BY_RANK) {
        low = range->source + 2;
        high = range->source + 1;
    }
    return zset_bounds_read(call, range->measure, low, high, &range->bounds);
}

/* The rank at which to begin, and how many elements from there on in the range's direction. False: elements are missing. */
static bool find_range(const struct range *range, const struct value *zset, size_t *start, size_t *count)
{
    size_t all = zset_count(zset), first;

    if (!zset_bounds_find(&range->bounds, zset, &first, count))
        return false;
    if (range->measure == ZSET_BY_RANK) {
        *start = range->direction == ZSET_UP ? first : all - 1 - first;
    } else if (range->offset < 0 || (uint64_t)range->offset >= *count) {
        *count = 0;
    } else {
        *count -= (size_t)range->offset;
        *start = range->direction == ZSET_UP ? first + (size_t)range->offset : first + *count - 1;
        if (range->limit >= 0 && (uint64_t)range->limit < *count)
            *count = (size_t)range->limit;
    }
    return *count == 0 || zset_has_ranks(zset, range->direction == ZSET_UP ? *start : *start + 1 - *count, *count);
}

static void reply_range(struct call *call, const struct range *range, const struct key *key)
{
    const struct value *zset = &key->value;
    struct reply *reply = call->reply;
    bool pairs = range->with_scores && reply->protocol > 2;
    struct zset_iterator iterator;
    size_t start = 0, count;
    struct bytes member;
    double score;

    if (!find_range(range, zset, &start, &count)) {
        key_ask(key);
        return;
    }
    reply_array(reply, range->with_scores && !pairs ? count * 2 : count);
    zset_iterate(&iterator, zset, start, range->direction);
    for (; count > 0 && zset_next(&iterator, &member, &score); count--) {
        if (pairs)
            reply_array(reply, 2);
        reply_bulk(reply, member);
        if (range->with_scores)
            reply_double(reply, score);
    }
}

static void store_range(struct call *call, const struct range *range, const struct key *key)
{
    const struct value *zset = &key->value;
    struct zset_iterator iterator;
    size_t start = 0, count;
    struct bytes member;
    struct value stored;
    double score;

    if (!find_range(range, zset, &start, &count)) {
        key_ask(key);
        return;
    }
    /* As in Redis, the length of a range by score or member is not known before it is stored. This shows in the sign of 0, which
     * a listpack does not keep. */
    stored = range->measure == ZSET_BY_RANK ? zset_create_for(&call->turn->limits, count, 0) : zset_create();
    zset_iterate(&iterator, zset, start, range->direction);
    for (; count > 0 && zset_next(&iterator, &member, &score); count--)
        zset_insert(&stored, &call->turn->limits, member, score);
    zset_store(call, 1, stored, EVENT_ZRANGESTORE);
}

static void run_range(struct call *call, struct range range)
{
    struct key key;

    if (!read_range(call, &range) || !key_open_as(call, range.source, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    if (range.stores && key.present)
        store_range(call, &range, &key);
    else if (range.stores)
        zset_store(call, 1, zset_create(), EVENT_ZRANGESTORE);
    else if (key.present)
        reply_range(call, &range, &key);
    else
        reply_array(call->reply, 0);
}

void zrange_command(struct call *call)
{
    run_range(call, (struct range){ .source = 1 });
}

void zrangestore_command(struct call *call)
{
    run_range(call, (struct range){ .source = 2, .stores = true });
}

static void run_given(struct call *call, enum zset_measure measure, enum zset_direction direction)
{
    run_range(call, (struct range){ .source = 1, .measure_is = MEASURE_GIVEN, .measure = measure, .direction_is = DIRECTION_GIVEN,
                              .direction = direction });
}

void zrevrange_command(struct call *call)
{
    run_given(call, ZSET_BY_RANK, ZSET_DOWN);
}

void zrangebyscore_command(struct call *call)
{
    run_given(call, ZSET_BY_SCORE, ZSET_UP);
}

void zrevrangebyscore_command(struct call *call)
{
    run_given(call, ZSET_BY_SCORE, ZSET_DOWN);
}

void zrangebylex_command(struct call *call)
{
    run_given(call, ZSET_BY_LEX, ZSET_UP);
}

void zrevrangebylex_command(struct call *call)
{
    run_given(call, ZSET_BY_LEX, ZSET_DOWN);
}
