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

static void draw_field(struct draw *draw)
{
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;

    if (hash_random(draw->value, &draw->call->turn->random, &field, &value, field_digits, value_digits))
        reply_pair(draw, field, value);
    else
        draw->missed++;
}

/* One iteration that takes each pair with probability (still wanted) / (still to come). It takes all pairs if all are wanted, and
 * every choice of `count` pairs is equally likely. */
static void draw_walking(struct draw *draw)
{
    size_t wanted = draw->count, coming = hash_count(draw->value);
    struct hash_iterator iterator;
    struct bytes field, value;

    if (!hash_has_all(draw->value)) {
        draw->missed++;
        return;
    }
    hash_iterate(&iterator, draw->value);
    while (wanted > 0 && hash_next(&iterator, &field, &value)) {
        if (random_below(&draw->call->turn->random, coming--) < wanted) {
            reply_pair(draw, field, value);
            wanted--;
        }
    }
}

/* Few pairs of a table. The hash does not change meanwhile, so fields are distinguished by their addresses. */
static void draw_sparsely(struct draw *draw)
{
    struct dict *seen = dict_create(&draw->call->turn->limits.seed);
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;

    dict_reserve(seen, draw->count);
    while (dict_count(seen) + draw->missed < draw->count && draw->missed < DRAW_MISSES_MAX) {
        if (!hash_random(draw->value, &draw->call->turn->random, &field, &value, field_digits, value_digits))
            draw->missed++;
        else if (dict_put(seen, bytes_of(&field.data, sizeof(field.data)), bytes_of(NULL, 0)))
            reply_pair(draw, field, value);
    }
    dict_destroy(seen);
}

static bool is_compact(const struct value *hash)
{
    return (hash->encoding & HASH_TABLE) == 0;
}

void hrandfield_command(struct call *call)
{
    static const struct draw_source source = {
        .type = VALUE_HASH,
        .word = "withvalues",
        .count = hash_count,
        .is_compact = is_compact,
        .one = draw_field,
        .walking = draw_walking,
        .sparsely = draw_sparsely,
    };

    draw_run(call, &source);
}
