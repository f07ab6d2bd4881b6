/* GEOSEARCH, GEORADIUS and related commands: the members of a sorted set within a circle or a box, replied or stored in another
 * key. */
#include <stdlib.h>

#include "base/mem.h"
#include "call/call.h"
#include "call/key.h"
#include "commands/geo.h"
#include "commands/geo_area.h"
#include "commands/handlers.h"
#include "commands/zset_store.h"
#include "value/zset.h"

enum search_kind {
    SEARCH,                 /* GEOSEARCH[STORE]: centre and shape are options */
    SEARCH_AROUND_POINT,    /* GEORADIUS: they precede the options */
    SEARCH_AROUND_MEMBER,   /* GEORADIUSBYMEMBER */
};

struct search {
    enum search_kind kind;
    int source;             /* argument: the key */
    bool may_store;         /* GEORADIUS and GEORADIUSBYMEMBER, but not with _RO */
    int target;             /* argument: the key to store the result in; 0: none */
    bool stores_distances;
    bool from_member, from_point, has_circle, has_box;
    struct geo_area area;
    double metres;          /* of the given unit */
    bool with_distance, with_hash, with_point, any;
    int64_t count;          /* 0: all */
    enum { ORDER_NONE, ORDER_UP, ORDER_DOWN } order;
    struct key key;
};

struct hit {
    struct bytes member;    /* in the call's arena */
    double score;
    struct geo_point point;
    double distance;        /* in the given unit */
    size_t index;           /* order of discovery, which decides between equal distances */
};

struct hits {
    struct hit *all;        /* mem */
    size_t count, capacity;
};

static bool centre_on_member(struct call *call, struct search *search, int arg)
{
    bool is_there;
    double score;

    if (!search->key.present)
        return true;
    if (!zset_has_score(&search->key.value, call->args[arg], &is_there, &score)) {
        key_ask(&search->key);
        return false;
    }
    if (!is_there) {
        reply_errorf(call, "ERR could not decode requested zset member");
        return false;
    }
    search->area.centre = geohash_decode(geohash_of_score(score));
    return true;
}

static bool read_length(struct call *call, int arg, const char *name, double *length)
{
    if (text_to_double(call->args[arg], length))
        return true;
    reply_errorf(call, "ERR need numeric %s", name);
    return false;
}

/* Argument `arg` and the unit after it. */
static bool read_circle(struct call *call, struct search *search, int arg)
{
    struct geo_area *area = &search->area;

    area->shape = GEO_CIRCLE;
    if (!read_length(call, arg, "radius", &area->radius))
        return false;
    if (area->radius < 0) {
        reply_errorf(call, "ERR radius cannot be negative");
        return false;
    }
    search->metres = geo_read_unit(call, arg + 1);
    area->radius *= search->metres;
    return search->metres != 0;
}

static bool read_box(struct call *call, struct search *search, int arg)
{
    struct geo_area *area = &search->area;

    area->shape = GEO_BOX;
    if (!read_length(call, arg, "width", &area->width) || !read_length(call, arg + 1, "height", &area->height))
        return false;
    if (area->width < 0 || area->height < 0) {
        reply_errorf(call, "ERR height or width cannot be negative");
        return false;
    }
    search->metres = geo_read_unit(call, arg + 2);
    area->width *= search->metres;
    area->height *= search->metres;
    return search->metres != 0;
}

static bool read_count(struct call *call, struct search *search, int arg)
{
    if (!arg_integer(call, arg, &search->count))
        return false;
    if (search->count <= 0)
        reply_errorf(call, "ERR COUNT must be > 0");
    return !call->failed;
}

/* A word without arguments. */
static bool *word_of(const struct call *call, struct search *search, int arg)
{
    static const struct { const char *name; size_t offset; } words[] = {
        { "withdist", offsetof(struct search, with_distance) }, { "withhash", offsetof(struct search, with_hash) },
        { "withcoord", offsetof(struct search, with_point) }, { "any", offsetof(struct search, any) },
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (arg_is(call, arg, words[i].name))
            return (bool *)((char *)search + words[i].offset);
    }
    if (search->kind == SEARCH && search->target != 0 && arg_is(call, arg, "storedist"))
        return &search->stores_distances;
    return NULL;
}

/* The options of GEOSEARCH about the area. Returns how many arguments the option has, 0 if it is none of them or after an error. */
static int read_where(struct call *call, struct search *search, int arg)
{
    int left = call->arg_count - arg - 1;

    if (left >= 1 && arg_is(call, arg, "frommember") && !search->from_point) {
        search->from_member = true;
        return centre_on_member(call, search, arg + 1) ? 2 : 0;
    }
    if (left >= 2 && arg_is(call, arg, "fromlonlat") && !search->from_member) {
        search->from_point = true;
        return geo_read_point(call, arg + 1, &search->area.centre) ? 3 : 0;
    }
    if (left >= 2 && arg_is(call, arg, "byradius") && !search->has_box) {
        search->has_circle = true;
        return read_circle(call, search, arg + 1) ? 3 : 0;
    }
    if (left >= 3 && arg_is(call, arg, "bybox") && !search->has_circle) {
        search->has_box = true;
        return read_box(call, search, arg + 1) ? 4 : 0;
    }
    return 0;
}

static int read_option(struct call *call, struct search *search, int arg)
{
    int left = call->arg_count - arg - 1;
    bool *word = word_of(call, search, arg);
    int taken;

    if (word != NULL) {
        *word = true;
        return 1;
    }
    if (arg_is(call, arg, "asc") || arg_is(call, arg, "desc")) {
        search->order = arg_is(call, arg, "asc") ? ORDER_UP : ORDER_DOWN;
        return 1;
    }
    if (left >= 1 && arg_is(call, arg, "count"))
        return read_count(call, search, arg + 1) ? 2 : 0;
    if (left >= 1 && search->may_store && (arg_is(call, arg, "store") || arg_is(call, arg, "storedist"))) {
        search->target = arg + 1;
        search->stores_distances = arg_is(call, arg, "storedist");
        return 2;
    }
    taken = search->kind == SEARCH ? read_where(call, search, arg) : 0;
    if (taken == 0 && !call->failed && call->lacks == NULL)
        reply_error(call, ERR_SYNTAX);
    return taken;
}

/* Parses what precedes the options of GEORADIUS and related commands. Returns the first argument after it; 0: the error was
 * replied. */
static int read_place(struct call *call, struct search *search)
{
    switch (search->kind) {
    case SEARCH_AROUND_POINT:
        return geo_read_point(call, 2, &search->area.centre) && read_circle(call, search, 4) ? 6 : 0;
    case SEARCH_AROUND_MEMBER:
        /* If the key is missing, the rest is not checked. */
        if (!search->key.present)
            return 5;
        return centre_on_member(call, search, 2) && read_circle(call, search, 3) ? 5 : 0;
    case SEARCH:
        break;
    }
    return search->source + 1;
}

static bool options_agree(struct call *call, const struct search *search)
{
    if (search->target != 0 && (search->with_distance || search->with_hash || search->with_point))
        reply_errorf(call, "ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            search->kind == SEARCH ? "GEOSEARCHSTORE" : "STORE option in GEORADIUS");
    else if (search->kind == SEARCH && !search->from_member && !search->from_point)
        reply_errorf(call, "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %.*s", (int)call->args[0].size,
            call->args[0].data);
    else if (search->kind == SEARCH && !search->has_circle && !search->has_box)
        reply_errorf(call, "ERR exactly one of BYRADIUS and BYBOX can be specified for %.*s", (int)call->args[0].size,
            call->args[0].data);
    else if (search->any && search->count == 0)
        reply_errorf(call, "ERR the ANY argument requires COUNT argument");
    return !call->failed;
}

static bool read_search(struct call *call, struct search *search)
{
    int arg;

    if (!key_open_as(call, search->source, KEY_FOR_READING, VALUE_ZSET, &search->key))
        return false;
    arg = read_place(call, search);
    if (arg == 0)
        return false;
    while (arg < call->arg_count) {
        int taken = read_option(call, search, arg);

        if (taken == 0)
            return false;
        arg += taken;
    }
    if (!options_agree(call, search))
        return false;
    /* With COUNT but without an order the nearest are returned, so that the result is well defined. */
    if (search->count > 0 && search->order == ORDER_NONE && !search->any)
        search->order = ORDER_UP;
    return true;
}

static struct hit *hits_add(struct hits *hits)
{
    if (hits->count == hits->capacity) {
        hits->capacity = hits->capacity == 0 ? 64 : hits->capacity * 2;
        hits->all = mem_realloc(hits->all, hits->capacity * sizeof(struct hit));
    }
    return &hits->all[hits->count++];
}

/* Collects up to `limit` hits in all; 0: no limit. */
static void search_cell(struct call *call, const struct search *search, struct geo_scores cell, size_t limit, struct hits *hits)
{
    const struct value *zset = &search->key.value;
    struct zset_iterator iterator;
    struct bytes member;
    double score, distance;
    size_t rank;

    (void)zset_score_border(zset, cell.min, BTREE_BELOW, &rank);            /* it is there: has_cell */
    zset_iterate(&iterator, zset, rank, ZSET_UP);
    while ((limit == 0 || hits->count < limit) && zset_next(&iterator, &member, &score) && score < cell.max) {
        struct geo_point point = geohash_decode(geohash_of_score(score));

        if (geo_area_has(&search->area, point, &distance)) {
            size_t index = hits->count;

            *hits_add(hits) = (struct hit){ arena_copy(call->arena, member), score, point, distance / search->metres, index };
        }
    }
}

/* False: elements are missing. */
static bool has_cell(const struct value *zset, struct geo_scores cell)
{
    size_t first, end;
    bool has_min = zset_score_border(zset, cell.min, BTREE_BELOW, &first), has_max = zset_score_border(zset, cell.max, BTREE_BELOW, &end);

    return has_min && has_max && zset_has_ranks(zset, first, end - first + 1);         /* a search ends at the first one after the cell */
}

static bool has_cells(const struct value *zset, const struct geo_scores *cells, int count)
{
    bool has = true;

    for (int i = 0; i < count && !zset_is_here(zset); i++)
        has = has_cell(zset, cells[i]) && has;
    return has;
}

static int nearest_first(const void *a, const void *b)
{
    const struct hit *one = a, *other = b;

    if (one->distance != other->distance)
        return one->distance < other->distance ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

static int farthest_first(const void *a, const void *b)
{
    const struct hit *one = a, *other = b;

    if (one->distance != other->distance)
        return one->distance > other->distance ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

/* False: elements are missing. */
static bool find_hits(struct call *call, const struct search *search, struct hits *hits)
{
    size_t limit = search->any ? (size_t)search->count : 0;
    struct geo_scores cells[GEO_CELLS_MAX];
    int cell_count = geo_area_cells(&search->area, cells);

    if (!has_cells(&search->key.value, cells, cell_count))
        return false;
    for (int i = 0; i < cell_count; i++)
        search_cell(call, search, cells[i], limit, hits);
    if (search->order != ORDER_NONE && hits->count > 1)
        qsort(hits->all, hits->count, sizeof(struct hit), search->order == ORDER_UP ? nearest_first : farthest_first);
    if (search->count > 0 && (uint64_t)search->count < hits->count)
        hits->count = (size_t)search->count;
    return true;
}

static void reply_hits(struct call *call, const struct search *search, const struct hits *hits)
{
    size_t extras = (size_t)search->with_distance + search->with_hash + search->with_point;
    struct reply *reply = call->reply;

    reply_array(reply, hits->count);
    for (size_t i = 0; i < hits->count; i++) {
        const struct hit *hit = &hits->all[i];

        if (extras > 0)
            reply_array(reply, 1 + extras);
        reply_bulk(reply, hit->member);
        if (search->with_distance)
            geo_reply_distance(reply, hit->distance);
        if (search->with_hash)
            reply_integer(reply, (int64_t)hit->score);      /* fits, as it is within a cell */
        if (search->with_point)
            geo_reply_point(reply, hit->point);
    }
}

static void store_hits(struct call *call, const struct search *search, const struct hits *hits)
{
    struct value stored = zset_build(&call->turn->limits);
    uint64_t changes = call->change_count;

    /* All members are different, so each is added. */
    for (size_t i = 0; i < hits->count; i++)
        zset_build_add(&stored, hits->all[i].member, search->stores_distances ? hits->all[i].distance : hits->all[i].score);
    zset_compact(&stored, &call->turn->limits);
    zset_store(call, search->target, stored, search->kind == SEARCH ? EVENT_GEOSEARCHSTORE : EVENT_GEORADIUSSTORE);
    if (hits->count > 0 && !call->failed)
        call->change_count = changes + hits->count;
}

static void run_search(struct call *call, struct search search)
{
    struct hits hits = { 0 };

    if (!read_search(call, &search))
        return;
    if (search.key.present && !find_hits(call, &search, &hits)) {
        key_ask(&search.key);
        return;
    }
    if (search.target != 0)
        store_hits(call, &search, &hits);
    else
        reply_hits(call, &search, &hits);
    mem_free(hits.all);
}

void geosearch_command(struct call *call)
{
    run_search(call, (struct search){ .kind = SEARCH, .source = 1 });
}

void geosearchstore_command(struct call *call)
{
    run_search(call, (struct search){ .kind = SEARCH, .source = 2, .target = 1 });
}

void georadius_command(struct call *call)
{
    run_search(call, (struct search){ .kind = SEARCH_AROUND_POINT, .source = 1, .may_store = true });
}

void georadius_ro_command(struct call *call)
{
    run_search(call, (struct search){ .kind = SEARCH_AROUND_POINT, .source = 1 });
}

void georadiusbymember_command(struct call *call)
{
    run_search(call, (struct search){ .kind = SEARCH_AROUND_MEMBER, .source = 1, .may_store = true });
}

void georadiusbymember_ro_command(struct call *call)
{
    run_search(call, (struct search){ .kind = SEARCH_AROUND_MEMBER, .source = 1 });
}
