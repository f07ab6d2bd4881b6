/* HRANDFIELD key [count [WITHVALUES]]: one random field; `count` different ones; or, if count is negative, that many draws, each
 * from all fields. */
#include "call/call.h"
#include "call/key.h"
#include "commands/draw.h"
#include "commands/handlers.h"
#include "containers/dict.h"
#include "value/hash.h"

static void reply_pair(const struct draw *draw, struct bytes field, struct bytes value)
{
    struct reply *reply = draw->call->reply;

    draw_reply_pair(draw);
    reply_bulk(reply, field);
    if (draw->with_seconds)
        reply_bulk(reply, value);
}

/* Each draw from all pairs. */
static void draw_with_repeats(const struct draw *draw)
{
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;

    for (size_t i = 0; i < draw->count; i++) {
        hash_random(draw->value, &draw->call->turn->random, &field, &value, field_digits, value_digits);
        reply_pair(draw, field, value);
    }
}

/* One iteration that takes each pair with probability (still wanted) / (still to come). It takes all pairs if all are wanted, and
 * every choice of `count` pairs is equally likely. */
static void draw_walking(const struct draw *draw)
{
    size_t wanted = draw->count, coming = hash_count(draw->value);
    struct hash_iterator iterator;
    struct bytes field, value;

    hash_iterate(&iterator, draw->value);
    while (wanted > 0 && hash_next(&iterator, &field, &value)) {
        if (random_below(&draw->call->turn->random, coming--) < wanted) {
            reply_pair(draw, field, value);
            wanted--;
        }
    }
}

/* Few pairs of a table. The hash does not change meanwhile, so fields are distinguished by their addresses. */
static void draw_sparsely(const struct draw *draw)
{
    struct dict *seen = dict_create(&draw->call->turn->limits.seed);
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;

    dict_reserve(seen, draw->count);
    while (dict_count(seen) < draw->count) {
        hash_random(draw->value, &draw->call->turn->random, &field, &value, field_digits, value_digits);
        if (dict_put(seen, bytes_of(&field.data, sizeof(field.data)), bytes_of(NULL, 0)))
            reply_pair(draw, field, value);
    }
    dict_destroy(seen);
}

static void draw_different(struct draw *draw)
{
    size_t all = hash_count(draw->value);

    if (draw->count > all)
        draw->count = all;
    draw_reply_count(draw);
    if (draw->count == 0)
        return;
    if ((draw->value->encoding & HASH_TABLE) == 0 || draw->count > all / DRAW_SPARSE_FACTOR)
        draw_walking(draw);
    else
        draw_sparsely(draw);
}

static void draw_several(struct call *call)
{
    struct draw draw;
    struct key key;

    if (!draw_parse(&draw, call, "withvalues") || !key_open_as(call, 1, KEY_FOR_READING, VALUE_HASH, &key))
        return;
    if (!key.present) {
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
        draw_with_repeats(&draw);
    }
}

static void draw_one(struct call *call)
{
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_HASH, &key))
        return;
    if (!key.present) {
        reply_null(call->reply);
        return;
    }
    hash_random(&key.value, &call->turn->random, &field, &value, field_digits, value_digits);
    reply_bulk(call->reply, field);
}

void hrandfield_command(struct call *call)
{
    if (call->arg_count == 2)
        draw_one(call);
    else
        draw_several(call);
}
