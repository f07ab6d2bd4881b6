/* ZRANDMEMBER key [count [WITHSCORES]]: one random member; `count` different ones; or, if count is negative, that many draws,
 * each from all members. */
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

static void draw_member(struct draw *draw)
{
    struct bytes member;
    double score;

    if (zset_random(draw->value, &draw->call->turn->random, &member, &score))
        reply_element(draw, member, score);
    else
        draw->missed++;
}

/* One iteration that takes each element with probability (still wanted) / (still to come): every choice of `count` elements is
 * equally likely. */
static void draw_walking(struct draw *draw)
{
    size_t wanted = draw->count, coming = zset_count(draw->value);
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    if (!zset_has_ranks(draw->value, 0, SIZE_MAX)) {
        draw->missed++;
        return;
    }
    zset_iterate(&iterator, draw->value, 0, ZSET_UP);
    while (wanted > 0 && zset_next(&iterator, &member, &score)) {
        if (random_below(&draw->call->turn->random, coming--) < wanted) {
            reply_element(draw, member, score);
            wanted--;
        }
    }
}

/* Few members of a tree. */
static void draw_sparsely(struct draw *draw)
{
    struct dict *seen = dict_create(&draw->call->turn->limits.seed);
    struct bytes member;
    double score;

    dict_reserve(seen, draw->count);
    while (dict_count(seen) + draw->missed < draw->count && draw->missed < DRAW_MISSES_MAX) {
        if (!zset_random(draw->value, &draw->call->turn->random, &member, &score))
            draw->missed++;
        else if (dict_put(seen, member, bytes_of(NULL, 0)))
            reply_element(draw, member, score);
    }
    dict_destroy(seen);
}

static bool is_compact(const struct value *zset)
{
    return zset->encoding == ZSET_LISTPACK;
}

void zrandmember_command(struct call *call)
{
    static const struct draw_source source = {
        .type = VALUE_ZSET,
        .word = "withscores",
        .count = zset_count,
        .is_compact = is_compact,
        .one = draw_member,
        .walking = draw_walking,
        .sparsely = draw_sparsely,
    };

    draw_run(call, &source);
}
