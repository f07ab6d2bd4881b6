/* The sorted set commands that return numbers: counts, scores, ranks. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/zset_bounds.h"
#include "value/zset.h"

static bool open_for_reading(struct call *call, struct key *key)
{
    return key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, key);
}

void zcard_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_integer(call->reply, key.present ? (int64_t)zset_count(&key.value) : 0);
}

static void reply_score(struct call *call, const struct key *key, struct bytes member)
{
    double score;

    if (key->present && zset_score(&key->value, member, &score))
        reply_double(call->reply, score);
    else
        reply_null(call->reply);
}

void zscore_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_score(call, &key, call->args[2]);
}

void zmscore_command(struct call *call)
{
    struct key key;

    if (!open_for_reading(call, &key))
        return;
    reply_array(call->reply, (size_t)call->arg_count - 2);
    for (int i = 2; i < call->arg_count; i++)
        reply_score(call, &key, call->args[i]);
}

static void reply_rank(struct call *call, enum zset_direction direction)
{
    bool with_score = call->arg_count == 4, is_there = false;
    struct key key;
    size_t rank;
    double score;

    if (call->arg_count > 4) {
        reply_wrong_arity(call);
        return;
    }
    if (with_score && !arg_is(call, 3, "withscore")) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (!open_for_reading(call, &key))
        return;
    if (key.present && !zset_rank(&key.value, call->args[2], &is_there, &rank, &score)) {
        key_ask(&key);
        return;
    }
    if (!is_there) {
        if (with_score)
            reply_null_array(call->reply);
        else
            reply_null(call->reply);
        return;
    }
    if (direction == ZSET_DOWN)
        rank = zset_count(&key.value) - 1 - rank;
    if (with_score)
        reply_array(call->reply, 2);
    reply_integer(call->reply, (int64_t)rank);
    if (with_score)
        reply_double(call->reply, score);
}

void zrank_command(struct call *call)
{
    reply_rank(call, ZSET_UP);
}

void zrevrank_command(struct call *call)
{
    reply_rank(call, ZSET_DOWN);
}

static void count_range(struct call *call, enum zset_measure measure)
{
    struct zset_bounds bounds;
    size_t first, count = 0;
    struct key key;

    if (!zset_bounds_read(call, measure, 2, 3, &bounds) || !open_for_reading(call, &key))
        return;
    if (key.present && !zset_bounds_find(&bounds, &key.value, &first, &count)) {
        key_ask(&key);
        return;
    }
    reply_integer(call->reply, (int64_t)count);
}

void zcount_command(struct call *call)
{
    count_range(call, ZSET_BY_SCORE);
}

void zlexcount_command(struct call *call)
{
    count_range(call, ZSET_BY_LEX);
}
