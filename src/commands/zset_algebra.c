/* ZUNION, ZINTER, ZDIFF, their STORE forms, and ZINTERCARD. Sets are accepted, too: each member has the score 1. */
#include <math.h>
#include <stdlib.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/zset_store.h"
#include "value/set.h"
#include "value/zset.h"

/* An input. The value belongs to its key; NULL: the key is missing. */
struct source {
    const struct value *value;
    double weight;
    int order;              /* position in the arguments, which decides between equal sizes */
};

static size_t source_count(const struct source *source)
{
    if (source->value == NULL)
        return 0;
    return source->value->type == VALUE_SET ? set_count(source->value) : zset_count(source->value);
}

static bool source_find(const struct source *source, struct bytes member, double *score)
{
    if (source->value == NULL)
        return false;
    if (source->value->type == VALUE_ZSET)
        return zset_score(source->value, member, score);
    *score = 1;
    return set_has(source->value, member);
}

struct source_iterator {
    const struct source *source;
    union {
        struct zset_iterator in_zset;
        struct set_iterator in_set;
    };
};

static void source_iterate(struct source_iterator *iterator, const struct source *source)
{
    iterator->source = source;
    if (source->value == NULL)
        return;
    if (source->value->type == VALUE_SET)
        set_iterate(&iterator->in_set, source->value);
    else
        zset_iterate(&iterator->in_zset, source->value, 0, ZSET_UP);
}

static bool source_next(struct source_iterator *iterator, struct bytes *member, double *score)
{
    const struct value *value = iterator->source->value;

    if (value == NULL)
        return false;
    if (value->type == VALUE_ZSET)
        return zset_next(&iterator->in_zset, member, score);
    *score = 1;
    return set_next(&iterator->in_set, member);
}

enum operation { UNION, INTER, DIFF };
enum aggregate { AGGREGATE_SUM, AGGREGATE_MIN, AGGREGATE_MAX };

struct algebra {
    enum operation operation;
    bool counts_only;       /* ZINTERCARD */
    int count_arg;          /* argument: the number of keys; 1, or 2 after a destination */
    int source_count;
    struct source *sources;
    enum aggregate aggregate;
    bool with_scores;
    int64_t limit;          /* of ZINTERCARD; 0: no limit */
};

static bool read_sources(struct call *call, struct algebra *algebra)
{
    int first = algebra->count_arg + 1;
    struct key *keys;
    int64_t count;

    if (!arg_integer(call, algebra->count_arg, &count))
        return false;
    if (count < 1) {
        reply_errorf(call, "ERR at least 1 input key is needed for '%s' command", call->command->name);
        return false;
    }
    if (count > call->arg_count - first) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    algebra->source_count = (int)count;
    algebra->sources = arena_alloc(call->arena, (size_t)count * sizeof(struct source));
    keys = arena_alloc(call->arena, (size_t)count * sizeof(struct key));
    for (int i = 0; i < count; i++) {
        bool is_there = key_open(call, first + i, KEY_FOR_READING, &keys[i]);

        if (is_there && keys[i].value.type != VALUE_ZSET && keys[i].value.type != VALUE_SET) {
            reply_error(call, ERR_WRONG_TYPE);
            return false;
        }
        algebra->sources[i] = (struct source){ is_there ? &keys[i].value : NULL, 1, i };
    }
    return true;
}

static bool read_weights(struct call *call, int arg, struct algebra *algebra)
{
    for (int i = 0; i < algebra->source_count; i++) {
        if (!text_to_double(call->args[arg + i], &algebra->sources[i].weight)) {
            reply_errorf(call, "ERR weight value is not a float");
            return false;
        }
    }
    return true;
}

static bool read_aggregate(struct call *call, int arg, struct algebra *algebra)
{
    if (arg_is(call, arg, "sum"))
        algebra->aggregate = AGGREGATE_SUM;
    else if (arg_is(call, arg, "min"))
        algebra->aggregate = AGGREGATE_MIN;
    else if (arg_is(call, arg, "max"))
        algebra->aggregate = AGGREGATE_MAX;
    else
        reply_error(call, ERR_SYNTAX);
    return !call->failed;
}

/* Parses one option; returns how many arguments it has, 0 after an error. */
static int read_option(struct call *call, int arg, struct algebra *algebra)
{
    bool weighs = algebra->operation != DIFF && !algebra->counts_only;
    int left = call->arg_count - arg;

    if (weighs && left >= algebra->source_count + 1 && arg_is(call, arg, "weights"))
        return read_weights(call, arg + 1, algebra) ? algebra->source_count + 1 : 0;
    if (weighs && left >= 2 && arg_is(call, arg, "aggregate"))
        return read_aggregate(call, arg + 1, algebra) ? 2 : 0;
    if (algebra->count_arg == 1 && !algebra->counts_only && arg_is(call, arg, "withscores")) {
        algebra->with_scores = true;
        return 1;
    }
    if (algebra->counts_only && left >= 2 && arg_is(call, arg, "limit"))
        return arg_integer_between(call, arg + 1, 0, INT64_MAX, "ERR LIMIT can't be negative", &algebra->limit) ? 2 : 0;
    reply_error(call, ERR_SYNTAX);
    return 0;
}

static int by_count(const void *a, const void *b)
{
    const struct source *one = a, *other = b;
    size_t count = source_count(one), other_count = source_count(other);

    if (count != other_count)
        return count < other_count ? -1 : 1;
    return one->order - other->order;
}

/* The smallest input first. This also decides the order in which scores are added: floating point sums depend on it. */
static bool read_call(struct call *call, struct algebra *algebra)
{
    if (!read_sources(call, algebra))
        return false;
    for (int arg = algebra->count_arg + 1 + algebra->source_count; arg < call->arg_count;) {
        int taken = read_option(call, arg, algebra);

        if (taken == 0)
            return false;
        arg += taken;
    }
    if (algebra->operation != DIFF)
        qsort(algebra->sources, (size_t)algebra->source_count, sizeof(struct source), by_count);
    return true;
}

static double weighted_score(const struct source *source, double score)
{
    double product = source->weight * score;

    return isnan(product) ? 0 : product;        /* infinity times 0 */
}

static double aggregated_score(enum aggregate aggregate, double score, double other)
{
    switch (aggregate) {
    case AGGREGATE_MIN: return other < score ? other : score;
    case AGGREGATE_MAX: return other > score ? other : score;
    case AGGREGATE_SUM: break;
    }
    score += other;
    return isnan(score) ? 0 : score;            /* infinity minus infinity */
}

static void unite_sets(const struct algebra *algebra, struct btree *result)
{
    struct source_iterator iterator;
    struct bytes member;
    double score;

    for (int i = 0; i < algebra->source_count; i++) {
        const struct source *source = &algebra->sources[i];

        source_iterate(&iterator, source);
        while (source_next(&iterator, &member, &score)) {
            struct btree_place place;

            score = weighted_score(source, score);
            if (i > 0 && btree_find(result, member, &place))
                btree_put(result, member, aggregated_score(algebra->aggregate, btree_get(result, place, NULL), score));
            else
                btree_insert(result, member, score);
        }
    }
}

/* `result` NULL: only counts, up to the limit. */
static size_t intersect_sets(const struct algebra *algebra, struct btree *result)
{
    struct source_iterator iterator;
    struct bytes member;
    size_t count = 0;
    double score;

    source_iterate(&iterator, &algebra->sources[0]);
    while (source_next(&iterator, &member, &score)) {
        int i;

        score = weighted_score(&algebra->sources[0], score);
        for (i = 1; i < algebra->source_count; i++) {
            const struct source *source = &algebra->sources[i];
            double other;

            if (!source_find(source, member, &other))
                break;
            score = aggregated_score(algebra->aggregate, score, source->weight * other);
        }
        if (i < algebra->source_count)
            continue;
        count++;
        if (result != NULL)
            btree_insert(result, member, score);
        else if (algebra->limit > 0 && count >= (uint64_t)algebra->limit)
            break;
    }
    return count;
}

/* Either looks up each member of the first set in the others, or removes the members of the others from a copy of the first;
 * whichever is less work. */
static void subtract_by_lookup(const struct algebra *algebra, struct btree *result)
{
    struct source_iterator iterator;
    struct bytes member;
    double score, other;

    source_iterate(&iterator, &algebra->sources[0]);
    while (source_next(&iterator, &member, &score)) {
        int i = 1;

        while (i < algebra->source_count && !source_find(&algebra->sources[i], member, &other))
            i++;
        if (i == algebra->source_count)
            btree_insert(result, member, score);
    }
}

static void subtract_by_removal(const struct algebra *algebra, struct btree *result)
{
    struct source_iterator iterator;
    struct bytes member;
    double score;

    source_iterate(&iterator, &algebra->sources[0]);
    while (source_next(&iterator, &member, &score))
        btree_insert(result, member, score);
    for (int i = 1; i < algebra->source_count; i++) {
        source_iterate(&iterator, &algebra->sources[i]);
        while (source_next(&iterator, &member, &score))
            btree_remove(result, member);
    }
}

static void subtract_sets(const struct algebra *algebra, struct btree *result)
{
    size_t first = source_count(&algebra->sources[0]), others = 0;

    for (int i = 1; i < algebra->source_count; i++)
        others += source_count(&algebra->sources[i]);
    if (first * (size_t)(algebra->source_count - 1) <= first + others)
        subtract_by_lookup(algebra, result);
    else
        subtract_by_removal(algebra, result);
}

static struct value compute_result(struct call *call, const struct algebra *algebra)
{
    struct value result = zset_build(&call->turn->limits);

    switch (algebra->operation) {
    case UNION: unite_sets(algebra, result.object); break;
    case INTER: intersect_sets(algebra, result.object); break;
    case DIFF: subtract_sets(algebra, result.object); break;
    }
    return result;
}

static void reply_all(struct call *call, const struct algebra *algebra, const struct value *result)
{
    struct reply *reply = call->reply;
    bool pairs = algebra->with_scores && reply->protocol > 2;
    size_t count = zset_count(result);
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    reply_array(reply, algebra->with_scores && !pairs ? count * 2 : count);
    zset_iterate(&iterator, result, 0, ZSET_UP);
    while (zset_next(&iterator, &member, &score)) {
        if (pairs)
            reply_array(reply, 2);
        reply_bulk(reply, member);
        if (algebra->with_scores)
            reply_double(reply, score);
    }
}

static void run_reading(struct call *call, enum operation operation)
{
    struct algebra algebra = { .operation = operation, .count_arg = 1 };
    struct value result;

    if (!read_call(call, &algebra))
        return;
    result = compute_result(call, &algebra);
    reply_all(call, &algebra, &result);
    value_free(&result);
}

static void run_storing(struct call *call, enum operation operation, enum event event)
{
    struct algebra algebra = { .operation = operation, .count_arg = 2 };
    struct value result;

    if (!read_call(call, &algebra))
        return;
    result = compute_result(call, &algebra);
    zset_compact(&result, &call->turn->limits);
    zset_store(call, 1, result, event);
}

void zunion_command(struct call *call)
{
    run_reading(call, UNION);
}

void zinter_command(struct call *call)
{
    run_reading(call, INTER);
}

void zdiff_command(struct call *call)
{
    run_reading(call, DIFF);
}

void zunionstore_command(struct call *call)
{
    run_storing(call, UNION, EVENT_ZUNIONSTORE);
}

void zinterstore_command(struct call *call)
{
    run_storing(call, INTER, EVENT_ZINTERSTORE);
}

void zdiffstore_command(struct call *call)
{
    run_storing(call, DIFF, EVENT_ZDIFFSTORE);
}

void zintercard_command(struct call *call)
{
    struct algebra algebra = { .operation = INTER, .counts_only = true, .count_arg = 1 };

    if (read_call(call, &algebra))
        reply_integer(call->reply, (int64_t)intersect_sets(&algebra, NULL));
}
