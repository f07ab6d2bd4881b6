/* ZRANDMEMBER key [count [WITHSCORES]]: a member drawn at random; `count` different ones; or, if count is negative, that many
 * draws, each from all members. A draw is a rank. */
#include "command/call.h"
#include "command/key.h"
#include "commands/zset.h"
#include "containers/dict.h"
#include "value/zset.h"

/* Redis takes any number of draws and fills its memory with the reply; we draw this often and no more. */
enum { DRAWS_MAX = 1 << 24 };

/* Drawing until enough different ones were seen is quick as long as few are wanted: 1/3 of all at most. */
enum { SPARSE_FACTOR = 3 };

struct draw {
    struct call *call;
    const struct value *zset;
    size_t count;           /* elements to be replied */
    bool with_scores;
};

static void reply_element(const struct draw *draw, struct bytes member, double score)
{
    struct reply *reply = draw->call->reply;

    if (draw->with_scores && reply->protocol > 2)
        reply_array(reply, 2);
    reply_bulk(reply, member);
    if (draw->with_scores)
        reply_double(reply, score);
}

static void reply_rank(const struct draw *draw, size_t rank)
{
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    zset_iterate(&iterator, draw->zset, rank, ZSET_UP);
    if (zset_next(&iterator, &member, &score))
        reply_element(draw, member, score);
}

static void reply_element_count(const struct draw *draw)
{
    struct reply *reply = draw->call->reply;

    reply_array(reply, draw->with_scores && reply->protocol == 2 ? draw->count * 2 : draw->count);
}

/* One walk that takes each element with the chance (still wanted) / (still to come): every choice of `count` of them is as likely as
 * any other. */
static void draw_walking(const struct draw *draw)
{
    size_t wanted = draw->count, coming = zset_count(draw->zset);
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    zset_iterate(&iterator, draw->zset, 0, ZSET_UP);
    while (wanted > 0 && zset_next(&iterator, &member, &score)) {
        if (random_below(&draw->call->turn->random, coming--) < wanted) {
            reply_element(draw, member, score);
            wanted--;
        }
    }
}

static void draw_sparsely(const struct draw *draw)
{
    struct dict *seen = dict_create(&draw->call->turn->limits.seed);
    size_t all = zset_count(draw->zset);

    dict_reserve(seen, draw->count);
    while (dict_count(seen) < draw->count) {
        size_t rank = random_below(&draw->call->turn->random, all);

        if (dict_put(seen, bytes_of(&rank, sizeof(rank)), bytes_of(NULL, 0)))
            reply_rank(draw, rank);
    }
    dict_destroy(seen);
}

static void draw_different(struct draw *draw)
{
    size_t all = zset_count(draw->zset);

    if (draw->count > all)
        draw->count = all;
    reply_element_count(draw);
    if (draw->zset->encoding == ZSET_LISTPACK || draw->count > all / SPARSE_FACTOR)
        draw_walking(draw);
    else
        draw_sparsely(draw);
}

/* False: the error was replied. */
static bool parse_count(struct call *call, int64_t *count, bool *with_scores)
{
    *with_scores = call->arg_count == 4 && arg_is(call, 3, "withscores");
    if (!arg_integer(call, 2, count))
        return false;
    if (*count < -INT64_MAX) {
        reply_errorf(call, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return false;
    }
    if (call->arg_count > 4 || (call->arg_count == 4 && !*with_scores)) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (*with_scores && (*count < -INT64_MAX / 2 || *count > INT64_MAX / 2)) {
        reply_error(call, ERR_OUT_OF_RANGE);
        return false;
    }
    return true;
}

static void draw_several(struct call *call)
{
    struct draw draw = { .call = call };
    struct key key;
    int64_t count;

    if (!parse_count(call, &count, &draw.with_scores) || !key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    if (!key.present || count == 0) {
        reply_array(call->reply, 0);
        return;
    }
    draw.zset = &key.value;
    draw.count = (size_t)(count < 0 ? -count : count);
    if (count > 0) {
        draw_different(&draw);
    } else if (draw.count > DRAWS_MAX) {
        reply_error(call, ERR_OUT_OF_RANGE);
    } else {
        reply_element_count(&draw);
        for (size_t i = 0; i < draw.count; i++)
            reply_rank(&draw, random_below(&call->turn->random, zset_count(draw.zset)));
    }
}

static void draw_one(struct call *call)
{
    struct draw draw = { .call = call };
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    if (!key.present) {
        reply_null(call->reply);
        return;
    }
    draw.zset = &key.value;
    reply_rank(&draw, random_below(&call->turn->random, zset_count(draw.zset)));
}

void zrandmember_command(struct call *call)
{
    if (call->arg_count == 2)
        draw_one(call);
    else
        draw_several(call);
}
