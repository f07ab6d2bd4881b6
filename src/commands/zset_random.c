/* ZRANDMEMBER key [count [WITHSCORES]]: one random member; `count` different ones; or, if count is negative, that many draws,
 * each from all members. A draw is a random rank. */
#include "call/call.h"
#include "call/key.h"
#include "commands/draw.h"
#include "commands/handlers.h"
#include "containers/dict.h"
#include "value/zset.h"

static void reply_element(const struct draw *draw, struct bytes member, double score)
{
    struct reply *reply = draw->call->reply;

    draw_reply_pair(draw);
    reply_bulk(reply, member);
    if (draw->with_seconds)
        reply_double(reply, score);
}

static void reply_rank(const struct draw *draw, size_t rank)
{
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    zset_iterate(&iterator, draw->value, rank, ZSET_UP);
    if (zset_next(&iterator, &member, &score))
        reply_element(draw, member, score);
}

/* One iteration that takes each element with probability (still wanted) / (still to come): every choice of `count` elements is
 * equally likely. */
static void draw_walking(const struct draw *draw)
{
    size_t wanted = draw->count, coming = zset_count(draw->value);
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    zset_iterate(&iterator, draw->value, 0, ZSET_UP);
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
    size_t all = zset_count(draw->value);

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
    size_t all = zset_count(draw->value);

    if (draw->count > all)
        draw->count = all;
    draw_reply_count(draw);
    if (draw->value->encoding == ZSET_LISTPACK || draw->count > all / DRAW_SPARSE_FACTOR)
        draw_walking(draw);
    else
        draw_sparsely(draw);
}

static void draw_several(struct call *call)
{
    struct draw draw;
    struct key key;

    if (!draw_parse(&draw, call, "withscores") || !key_open_as(call, 1, KEY_FOR_READING, VALUE_ZSET, &key))
        return;
    if (!key.present || draw.count == 0) {
        reply_array(call->reply, 0);
        return;
    }
    draw.value = &key.value;
    if (!draw.repeats) {
        draw_different(&draw);
    } else if (draw.count > DRAWS_MAX) {
        reply_error(call, ERR_OUT_OF_RANGE);
    } else {
        draw_reply_count(&draw);
        for (size_t i = 0; i < draw.count; i++)
            reply_rank(&draw, random_below(&call->turn->random, zset_count(draw.value)));
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
    draw.value = &key.value;
    reply_rank(&draw, random_below(&call->turn->random, zset_count(draw.value)));
}

void zrandmember_command(struct call *call)
{
    if (call->arg_count == 2)
        draw_one(call);
    else
        draw_several(call);
}
