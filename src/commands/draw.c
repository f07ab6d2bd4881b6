#include "commands/draw.h"

/* Drawing until enough different elements were found is fast if at most 1/3 of all are wanted. */
enum { SPARSE_FACTOR = 3 };

/* key count [word]. False: the error was replied. */
static bool parse_draw(struct draw *draw, struct call *call, const char *word)
{
    int64_t count;

    *draw = (struct draw){ .call = call, .with_seconds = call->arg_count == 4 && arg_is(call, 3, word) };
    if (!arg_integer(call, 2, &count))
        return false;
    if (count < -INT64_MAX) {
        reply_errorf(call, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return false;
    }
    if (call->arg_count > 4 || (call->arg_count == 4 && !draw->with_seconds)) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (draw->with_seconds && (count < -INT64_MAX / 2 || count > INT64_MAX / 2)) {
        reply_error(call, ERR_OUT_OF_RANGE);
        return false;
    }
    draw->repeats = count < 0;
    draw->count = (size_t)(count < 0 ? -count : count);
    return true;
}

static void reply_count(const struct draw *draw)
{
    struct reply *reply = draw->call->reply;

    reply_array(reply, draw->with_seconds && reply->protocol == 2 ? draw->count * 2 : draw->count);
}

void draw_reply_pair(const struct draw *draw)
{
    if (draw->with_seconds && draw->call->reply->protocol > 2)
        reply_array(draw->call->reply, 2);
}

static void draw_different(struct draw *draw, const struct draw_source *source)
{
    size_t all = source->count(draw->value);

    if (draw->count > all)
        draw->count = all;
    reply_count(draw);
    if (source->is_compact(draw->value) || draw->count > all / SPARSE_FACTOR)
        source->walking(draw);
    else
        source->sparsely(draw);
}

static void draw_several(struct call *call, const struct draw_source *source)
{
    struct draw draw;
    struct key key;

    if (!parse_draw(&draw, call, source->word) || !key_open_as(call, 1, KEY_FOR_READING, source->type, &key))
        return;
    if (!key.present || draw.count == 0) {
        reply_array(call->reply, 0);
        return;
    }
    draw.value = &key.value;
    if (!draw.repeats) {
        draw_different(&draw, source);
    } else if (draw.count > DRAWS_MAX) {
        reply_error(call, ERR_OUT_OF_RANGE);
    } else {
        reply_count(&draw);
        for (size_t i = 0; i < draw.count && draw.missed < DRAW_MISSES_MAX; i++)
            source->one(&draw);
    }
    if (draw.missed > 0)
        key_ask(&key);
}

static void draw_one(struct call *call, const struct draw_source *source)
{
    struct draw draw = { .call = call };
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, source->type, &key))
        return;
    if (!key.present) {
        reply_null(call->reply);
        return;
    }
    draw.value = &key.value;
    source->one(&draw);
    if (draw.missed > 0)
        key_ask(&key);
}

void draw_run(struct call *call, const struct draw_source *source)
{
    if (call->arg_count == 2)
        draw_one(call, source);
    else
        draw_several(call, source);
}
