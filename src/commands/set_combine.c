/* SINTER, SUNION, SDIFF, their STORE forms, and SINTERCARD. */
#include <stdlib.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/set.h"

/* The sets of a call, in the order of its arguments; NULL for a key that is missing. */
struct sources {
    const struct value **sets;
    size_t count;
    bool any_missing;
    struct value *tables;       /* copies of listpacks as tables, made by make_tables */
    size_t table_count;
};

/* A lookup in a listpack takes linear time: from this many lookups and members on, it is first copied into a table. */
enum { LOOKUPS_MIN = 16, MEMBERS_MIN = 8 };

/* Opens arguments [first, first + count). All are opened, so that a wrong type is found even if another key is missing. False:
 * the error was replied. */
static bool open_sources(struct call *call, int first, size_t count, struct sources *sources)
{
    struct key *keys = arena_alloc(call->arena, count * sizeof(*keys));

    sources->sets = arena_alloc(call->arena, count * sizeof(sources->sets[0]));
    sources->count = count;
    sources->any_missing = false;
    sources->table_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!key_open_as(call, first + (int)i, KEY_FOR_READING, VALUE_SET, &keys[i]))
            return false;
        sources->sets[i] = keys[i].present ? &keys[i].value : NULL;
        sources->any_missing |= !keys[i].present;
    }
    return true;
}

static size_t count_of(const struct value *set)
{
    return set != NULL ? set_count(set) : 0;
}

/* Prepares the sets from the second on for that many lookups each. */
static void make_tables(struct call *call, struct sources *sources, size_t lookups)
{
    const struct value_limits limits = { .seed = call->turn->limits.seed };

    if (lookups < LOOKUPS_MIN)
        return;
    sources->tables = arena_alloc(call->arena, sources->count * sizeof(sources->tables[0]));
    for (size_t i = 1; i < sources->count; i++) {
        const struct value *set = sources->sets[i];
        struct value *table = &sources->tables[sources->table_count];
        struct set_iterator iterator;
        struct bytes member;

        if (set == NULL || set->encoding != SET_LISTPACK || set_count(set) < MEMBERS_MIN)
            continue;
        *table = set_build(&limits, set_count(set));
        set_iterate(&iterator, set);
        while (set_next(&iterator, &member))
            set_add_new(table, &limits, member);
        sources->sets[i] = table;
        sources->table_count++;
    }
}

static void end_asking(struct sources *sources)
{
    for (size_t i = 0; i < sources->table_count; i++)
        value_free(&sources->tables[i]);
}

/* Receives the members of a result, which are all different: it replies them, adds them to a set, or only counts them. */
struct sink {
    struct reply *reply;                /* or NULL */
    struct value *set;                  /* or NULL */
    const struct value_limits *limits;
    size_t count, count_max;
};

static void sink_add(struct sink *sink, struct bytes member)
{
    if (sink->reply != NULL)
        reply_bulk(sink->reply, member);
    if (sink->set != NULL)
        set_add_new(sink->set, sink->limits, member);
    sink->count++;
}

static int by_count(const void *a, const void *b)
{
    size_t x = count_of(*(const struct value *const *)a), y = count_of(*(const struct value *const *)b);

    return (x > y) - (x < y);
}

static int by_count_down(const void *a, const void *b)
{
    return by_count(b, a);
}

static bool all_have(const struct value **sets, size_t count, struct bytes member)
{
    for (size_t i = 0; i < count; i++) {
        if (sets[i] != NULL && !set_has(sets[i], member))
            return false;
    }
    return true;
}

static bool none_has(const struct value **sets, size_t count, struct bytes member)
{
    for (size_t i = 0; i < count; i++) {
        if (sets[i] != NULL && set_has(sets[i], member))
            return false;
    }
    return true;
}

/* The members of the smallest set that are in all others. */
static void intersect_sets(struct call *call, struct sources *sources, struct sink *sink)
{
    struct set_iterator iterator;
    struct bytes member;

    if (sources->any_missing)
        return;
    qsort(sources->sets, sources->count, sizeof(sources->sets[0]), by_count);
    make_tables(call, sources, set_count(sources->sets[0]));
    set_iterate(&iterator, sources->sets[0]);
    while (sink->count < sink->count_max && set_next(&iterator, &member)) {
        if (all_have(sources->sets + 1, sources->count - 1, member))
            sink_add(sink, member);
    }
    end_asking(sources);
}

static void add_all(struct value *to, const struct value_limits *limits, const struct value *from)
{
    struct set_iterator iterator;
    struct bytes member;

    set_iterate(&iterator, from);
    while (set_next(&iterator, &member))
        set_add(to, limits, member);
}

static void remove_all(struct value *from, const struct value *members)
{
    struct set_iterator iterator;
    struct bytes member;

    set_iterate(&iterator, members);
    while (set_count(from) > 0 && set_next(&iterator, &member))
        set_remove(from, member);
}

static void unite_sets(const struct sources *sources, const struct value_limits *limits, struct value *result)
{
    for (size_t i = 0; i < sources->count; i++) {
        if (sources->sets[i] != NULL)
            add_all(result, limits, sources->sets[i]);
    }
}

/* There are two ways: to look up each member of the first set in all others, or to copy the first set and remove the members of
 * all others. A lookup costs half as much as copying or removing a member, and often ends early. */
static bool lookup_is_cheaper(const struct sources *sources)
{
    size_t present = 0, removing = 0;

    for (size_t i = 0; i < sources->count; i++) {
        present += sources->sets[i] != NULL;
        removing += count_of(sources->sets[i]);
    }
    return count_of(sources->sets[0]) * present / 2 <= removing;
}

static void subtract_asking(struct call *call, struct sources *sources, struct sink *sink)
{
    struct set_iterator iterator;
    struct bytes member;

    /* The largest sets are the most likely to have a member. */
    qsort(sources->sets + 1, sources->count - 1, sizeof(sources->sets[0]), by_count_down);
    make_tables(call, sources, set_count(sources->sets[0]));
    set_iterate(&iterator, sources->sets[0]);
    while (set_next(&iterator, &member)) {
        if (none_has(sources->sets + 1, sources->count - 1, member))
            sink_add(sink, member);
    }
    end_asking(sources);
}

static void subtract_removing(const struct sources *sources, const struct value_limits *limits, struct value *result)
{
    add_all(result, limits, sources->sets[0]);
    for (size_t i = 1; i < sources->count; i++) {
        if (sources->sets[i] != NULL)
            remove_all(result, sources->sets[i]);
    }
}

/* Limits by which a set that is only iterated is a table from the start. */
static struct value_limits table_limits(const struct call *call)
{
    return (struct value_limits){ .seed = call->turn->limits.seed };
}

static void reply_members(struct call *call, const struct value *set)
{
    struct set_iterator iterator;
    struct bytes member;

    reply_set(call->reply, set_count(set));
    set_iterate(&iterator, set);
    while (set_next(&iterator, &member))
        reply_bulk(call->reply, member);
}

/* Stores the result, which it takes, at argument 1. */
static void store_result(struct call *call, struct value *result, enum event event)
{
    size_t count = set_count(result);
    struct key key;

    if (count > 0) {
        key_open(call, 1, KEY_FOR_OVERWRITING, &key);
        key_replace(&key, *result);
        key.expire_ms = -1;
        key_changed(&key, event);
    } else {
        value_free(result);
        /* A change is made only if the key exists: now it matters whether it is cold. */
        if (key_open_in(call, call->db, 1, KEY_FOR_LOOKING, &key))
            key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
        else if (call->failed)
            return;
    }
    reply_integer(call->reply, (int64_t)count);
}

static struct value result_create(const struct value_limits *limits)
{
    return set_create(limits, BYTES("0"), 1);       /* an intset, while all members are integers */
}

void sinter_command(struct call *call)
{
    struct sink sink = { .reply = call->reply, .count_max = SIZE_MAX };
    struct sources sources;
    struct reply_later later;

    if (!open_sources(call, 1, (size_t)call->arg_count - 1, &sources))
        return;
    later = reply_later_begin(call->reply);
    intersect_sets(call, &sources, &sink);
    reply_later_set(call->reply, later, sink.count);
}

void sinterstore_command(struct call *call)
{
    struct value result;
    struct sink sink = { .set = &result, .limits = &call->turn->limits, .count_max = SIZE_MAX };
    struct sources sources;

    if (!open_sources(call, 2, (size_t)call->arg_count - 2, &sources))
        return;
    result = result_create(&call->turn->limits);
    intersect_sets(call, &sources, &sink);
    store_result(call, &result, EVENT_SINTERSTORE);
}

/* LIMIT 0 means no limit. */
static bool parse_card_options(struct call *call, int arg, size_t *limit)
{
    int64_t number = 0;

    for (; arg < call->arg_count; arg += 2) {
        if (!arg_is(call, arg, "limit") || arg + 1 == call->arg_count) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
        if (!arg_integer_between(call, arg + 1, 0, INT64_MAX, "ERR LIMIT can't be negative", &number))
            return false;
    }
    *limit = number == 0 ? SIZE_MAX : (size_t)number;
    return true;
}

void sintercard_command(struct call *call)
{
    struct sink sink = { .count = 0 };
    struct sources sources;
    int64_t count;

    if (!arg_integer_between(call, 1, 1, INT64_MAX, "ERR numkeys should be greater than 0", &count))
        return;
    if (count > call->arg_count - 2) {
        reply_errorf(call, "ERR Number of keys can't be greater than number of args");
        return;
    }
    if (!parse_card_options(call, 2 + (int)count, &sink.count_max) || !open_sources(call, 2, (size_t)count, &sources))
        return;
    intersect_sets(call, &sources, &sink);
    reply_integer(call->reply, (int64_t)sink.count);
}

void sunion_command(struct call *call)
{
    struct value_limits limits = table_limits(call);
    struct sources sources;
    struct value result;

    if (!open_sources(call, 1, (size_t)call->arg_count - 1, &sources))
        return;
    result = result_create(&limits);
    unite_sets(&sources, &limits, &result);
    reply_members(call, &result);
    value_free(&result);
}

void sunionstore_command(struct call *call)
{
    const struct value_limits *limits = &call->turn->limits;
    struct sources sources;
    struct value result;

    if (!open_sources(call, 2, (size_t)call->arg_count - 2, &sources))
        return;
    result = result_create(limits);
    unite_sets(&sources, limits, &result);
    store_result(call, &result, EVENT_SUNIONSTORE);
}

void sdiff_command(struct call *call)
{
    struct sink sink = { .reply = call->reply };
    struct value_limits limits = table_limits(call);
    struct sources sources;
    struct value result;

    if (!open_sources(call, 1, (size_t)call->arg_count - 1, &sources))
        return;
    if (sources.sets[0] == NULL) {
        reply_set(call->reply, 0);
    } else if (lookup_is_cheaper(&sources)) {
        struct reply_later later = reply_later_begin(call->reply);

        subtract_asking(call, &sources, &sink);
        reply_later_set(call->reply, later, sink.count);
    } else {
        result = result_create(&limits);
        subtract_removing(&sources, &limits, &result);
        reply_members(call, &result);
        value_free(&result);
    }
}

void sdiffstore_command(struct call *call)
{
    const struct value_limits *limits = &call->turn->limits;
    struct value result;
    struct sink sink = { .set = &result, .limits = limits };
    struct sources sources;

    if (!open_sources(call, 2, (size_t)call->arg_count - 2, &sources))
        return;
    result = result_create(limits);
    if (sources.sets[0] != NULL && lookup_is_cheaper(&sources))
        subtract_asking(call, &sources, &sink);
    else if (sources.sets[0] != NULL)
        subtract_removing(&sources, limits, &result);
    store_result(call, &result, EVENT_SDIFFSTORE);
}
