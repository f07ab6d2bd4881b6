/* The geo commands that add members, and those that return positions and distances. */
#include "commands/geo.h"

#include <math.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/zset.h"

bool geo_read_point(struct call *call, int arg, struct geo_point *point)
{
    if (!arg_double(call, arg, &point->longitude) || !arg_double(call, arg + 1, &point->latitude))
        return false;
    if (fabs(point->longitude) > GEO_LONGITUDE_MAX || fabs(point->latitude) > GEO_LATITUDE_MAX) {
        reply_errorf(call, "ERR invalid longitude,latitude pair %f,%f", point->longitude, point->latitude);
        return false;
    }
    return true;
}

double geo_read_unit(struct call *call, int arg)
{
    static const struct { const char *name; double metres; } units[] = {
        { "m", 1 }, { "km", 1000 }, { "ft", 0.3048 }, { "mi", 1609.34 }
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (arg_is(call, arg, units[i].name))
            return units[i].metres;
    }
    reply_errorf(call, "ERR unsupported unit provided. please use M, KM, FT, MI");
    return 0;
}

void geo_reply_distance(struct reply *reply, double distance)
{
    long long parts = llrint(distance * 10000);     /* half to even, as in Redis, which printf would not do for 0.00005 */

    reply_bulk_format(reply, "%lld.%04lld", parts / 10000, parts % 10000);
}

void geo_reply_point(struct reply *reply, struct geo_point point)
{
    reply_array(reply, 2);
    reply_long_double(reply, point.longitude);
    reply_long_double(reply, point.latitude);
}

/* The arguments of the ZADD that is equal to this GEOADD. `first`: the first argument after the options. */
static struct bytes *words_of_zadd(struct call *call, int first, int count)
{
    struct bytes *words = arena_alloc(call->arena, (size_t)(first + 2 * count) * sizeof(struct bytes));

    words[0] = BYTES("ZADD");
    for (int i = 1; i < first; i++)
        words[i] = call->args[i];
    for (int i = 0; i < count; i++) {
        struct geo_point point;

        if (!geo_read_point(call, first + 3 * i, &point))
            return NULL;
        words[first + 2 * i] = call_integer(call, (int64_t)geohash_encode(point, GEOHASH_STEP_MAX));
        words[first + 2 * i + 1] = call->args[first + 3 * i + 2];
    }
    return words;
}

void geoadd_command(struct call *call)
{
    const struct bytes *own_words = call->args;
    int own_count = call->arg_count, first = 2, count;
    bool nx = false, xx = false;
    struct bytes *words;

    for (; first < call->arg_count; first++) {
        if (arg_is(call, first, "nx"))
            nx = true;
        else if (arg_is(call, first, "xx"))
            xx = true;
        else if (!arg_is(call, first, "ch"))
            break;
    }
    count = (call->arg_count - first) / 3;
    if ((call->arg_count - first) % 3 != 0 || (nx && xx)) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    words = words_of_zadd(call, first, count);
    if (words == NULL)
        return;
    call->args = words;
    call->arg_count = first + 2 * count;
    zadd_command(call);
    if (call->lacks == NULL)
        call_propagate(call, words, call->arg_count);
    call->args = own_words;
    call->arg_count = own_count;
}

static bool point_of(const struct key *key, struct bytes member, struct geo_point *point)
{
    double score;

    if (!key->present || !zset_score(&key->value, member, &score))
        return false;
    *point = geohash_decode(geohash_of_score(score));
    return true;
}

void geopos_command(struct call *call)
{
    struct geo_point point;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    reply_array(call->reply, (size_t)(call->arg_count - 2));
    for (int i = 2; i < call->arg_count; i++) {
        if (point_of(&key, call->args[i], &point))
            geo_reply_point(call->reply, point);
        else
            reply_null_array(call->reply);
    }
}

void geohash_command(struct call *call)
{
    struct geo_point point;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    reply_array(call->reply, (size_t)(call->arg_count - 2));
    for (int i = 2; i < call->arg_count; i++) {
        if (point_of(&key, call->args[i], &point))
            geohash_text(point, reply_bulk_reserve(call->reply, GEOHASH_TEXT_SIZE));
        else
            reply_null(call->reply);
    }
}

void geodist_command(struct call *call)
{
    struct geo_point one, other;
    double metres = 1;
    struct key key;

    if (call->arg_count > 5) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (call->arg_count == 5)
        metres = geo_read_unit(call, 4);
    if (metres == 0 || !key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    if (point_of(&key, call->args[2], &one) && point_of(&key, call->args[3], &other))
        geo_reply_distance(call->reply, geo_distance(one, other) / metres);
    else
        reply_null(call->reply);
}
