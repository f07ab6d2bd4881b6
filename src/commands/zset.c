/* The sorted set commands that add and remove. */
#include <math.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/zset_bounds.h"
#include "value/zset.h"

/* ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member ... */
struct adding {
    bool nx, xx, gt, lt, changed, increments;
    int first;              /* argument: the first score */
    int count;              /* pairs */
    double *scores;
    /* Results. */
    int64_t added, updated;
    bool is_done;           /* the last pair was not skipped */
    double score;           /* ... and has this score */
};

static bool read_options(struct call *call, struct adding *adding)
{
    int arg = 2;

    for (; arg < call->arg_count; arg++) {
        if (arg_is(call, arg, "nx"))
            adding->nx = true;
        else if (arg_is(call, arg, "xx"))
            adding->xx = true;
        else if (arg_is(call, arg, "gt"))
            adding->gt = true;
        else if (arg_is(call, arg, "lt"))
            adding->lt = true;
        else if (arg_is(call, arg, "ch"))
            adding->changed = true;
        else if (arg_is(call, arg, "incr"))
            adding->increments = true;
        else
            break;
    }
    adding->first = arg;
    adding->count = (call->arg_count - arg) / 2;
    if (adding->count == 0 || (call->arg_count - arg) % 2 != 0)
        reply_error(call, ERR_SYNTAX);
    else if (adding->nx && adding->xx)
        reply_errorf(call, "ERR XX and NX options at the same time are not compatible");
    else if ((adding->gt && adding->nx) || (adding->lt && adding->nx) || (adding->gt && adding->lt))
        reply_errorf(call, "ERR GT, LT, and/or NX options at the same time are not compatible");
    else if (adding->increments && adding->count > 1)
        reply_errorf(call, "ERR INCR option supports a single increment-element pair");
    else
        return true;
    return false;
}

/* All scores are parsed before anything is changed. */
static bool read_scores(struct call *call, struct adding *adding)
{
    adding->scores = arena_alloc(call->arena, (size_t)adding->count * sizeof(double));
    for (int i = 0; i < adding->count; i++) {
        if (!arg_double(call, adding->first + 2 * i, &adding->scores[i]))
            return false;
    }
    return true;
}

/* False: the sum is not a number, and the error was replied. */
static bool add_one(struct key *key, struct adding *adding, struct bytes member, double score)
{
    bool is_there;
    double old;

    adding->is_done = false;
    is_there = zset_score(&key->value, member, &old);
    if (is_there ? adding->nx : adding->xx)
        return true;
    if (is_there && adding->increments)
        score += old;
    if (isnan(score)) {
        reply_errorf(key->call, "ERR resulting score is not a number (NaN)");
        return false;
    }
    if (is_there && ((adding->gt && score <= old) || (adding->lt && score >= old)))
        return true;
    adding->is_done = true;
    adding->score = score;
    if (is_there && score == old)
        return true;
    if (is_there)
        zset_put(&key->value, &key->call->turn->limits, member, score);
    else
        zset_insert(&key->value, &key->call->turn->limits, member, score);
    adding->added += !is_there;
    adding->updated += is_there;
    return true;
}

/* Redis converts a listpack for what might be too much, whatever the result is. */
static void make_ready(struct key *key, const struct adding *adding)
{
    const struct value_limits *limits = &key->call->turn->limits;
    uint8_t encoding = key->value.encoding;

    if (!key->present) {
        key_replace(key, zset_create_for(limits, (size_t)adding->count, key->call->args[adding->first + 1].size));
        return;
    }
    zset_expect(&key->value, limits, (size_t)adding->count);
    if (key->value.encoding != encoding)
        key_recode(key);
}

/* False: elements are missing. */
static bool has_pairs(const struct key *key, const struct adding *adding)
{
    bool has;

    if (zset_is_here(&key->value))
        return true;
    has = zset_has_room(&key->value, (size_t)adding->count);
    for (int i = 0; i < adding->count; i++)
        has = zset_has_put(&key->value, key->call->args[adding->first + 2 * i + 1], adding->scores[i], adding->increments, (size_t)adding->count) && has;
    return has;
}

static void add_members(struct call *call, struct adding *adding)
{
    uint64_t changes = call->change_count;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_ZSET, &key))
        return;
    if (key.present && !has_pairs(&key, adding)) {
        key_ask(&key);
        return;
    }
    if (key.present || !adding->xx)
        make_ready(&key, adding);
    for (int i = 0; i < adding->count && key.value.object != NULL; i++) {
        if (!add_one(&key, adding, call->args[adding->first + 2 * i + 1], adding->scores[i]))
            return;         /* there was only one pair, and its member existed, so nothing is half done */
    }
    if (adding->added + adding->updated > 0) {
        key_changed(&key, adding->increments ? EVENT_ZINCR : EVENT_ZADD);
        call->change_count = changes + (uint64_t)(adding->added + adding->updated);
    }
    if (!adding->increments)
        reply_integer(call->reply, adding->changed ? adding->added + adding->updated : adding->added);
    else if (adding->is_done)
        reply_double(call->reply, adding->score);
    else
        reply_null(call->reply);
}

void zadd_command(struct call *call)
{
    struct adding adding = { 0 };

    if (read_options(call, &adding) && read_scores(call, &adding))
        add_members(call, &adding);
}

void zincrby_command(struct call *call)
{
    struct adding adding = { .increments = true };

    /* Redis parses ZADD's options here, too, and then replies that an argument is missing. */
    if (read_options(call, &adding) && read_scores(call, &adding))
        add_members(call, &adding);
}

/* The set may be empty now, and then the key is removed at once. Even so the value has to be stored first, because removing
 * members may have moved the object. */
static void store_removal(struct key *key, size_t count, enum event event)
{
    struct call *call = key->call;
    uint64_t changes = call->change_count;

    if (count > 0) {
        bool is_empty = zset_count(&key->value) == 0;

        key_changed(key, event);
        if (is_empty)
            key_remove(key, KEY_REMOVE_NOW, EVENT_DEL);
        call->change_count = changes + count;
    }
    reply_integer(call->reply, (int64_t)count);
}

static bool has_elements(const struct key *key)
{
    bool has = true;

    for (int i = 2; i < key->call->arg_count && !zset_is_here(&key->value); i++)
        has = zset_has_element(&key->value, key->call->args[i]) && has;
    return has;
}

void zrem_command(struct call *call)
{
    struct key key;
    size_t count = 0;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_ZSET, &key))
        return;
    if (key.present && !has_elements(&key)) {
        key_ask(&key);
        return;
    }
    for (int i = 2; key.present && i < call->arg_count && zset_count(&key.value) > 0; i++)
        count += zset_remove(&key.value, call->args[i]);
    store_removal(&key, count, EVENT_ZREM);
}

static void remove_range(struct call *call, enum zset_measure measure, enum event event)
{
    struct zset_bounds bounds;
    size_t first, count = 0;
    struct key key;

    if (!zset_bounds_read(call, measure, 2, 3, &bounds) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_ZSET, &key))
        return;
    if (key.present) {
        if (!zset_bounds_find(&bounds, &key.value, &first, &count) || !zset_has_removal(&key.value, first, count)) {
            key_ask(&key);
            return;
        }
        if (count > 0)
            zset_remove_ranks(&key.value, first, count);
    }
    store_removal(&key, count, event);
}

void zremrangebyrank_command(struct call *call)
{
    remove_range(call, ZSET_BY_RANK, EVENT_ZREMRANGEBYRANK);
}

void zremrangebyscore_command(struct call *call)
{
    remove_range(call, ZSET_BY_SCORE, EVENT_ZREMRANGEBYSCORE);
}

void zremrangebylex_command(struct call *call)
{
    remove_range(call, ZSET_BY_LEX, EVENT_ZREMRANGEBYLEX);
}
