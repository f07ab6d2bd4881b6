/* HRANDFIELD key [count [WITHVALUES]]: a field drawn at random; `count` different ones; or, if count is negative, that many
 * draws, each from all fields. */
#include "command/call.h"
#include "command/key.h"
#include "commands/hash.h"
#include "containers/dict.h"
#include "value/hash.h"

/* Redis takes any number of draws and fills its memory with the reply; we draw this often and no more. */
enum { DRAWS_MAX = 1 << 24 };

/* Drawing until enough different ones were seen is quick as long as few are wanted: 1/3 of all at most. */
enum { SPARSE_FACTOR = 3 };

struct draw {
    struct call *call;
    const struct value *hash;
    size_t count;           /* pairs to be replied */
    bool with_values;
};

static void reply_pair(const struct draw *draw, struct bytes field, struct bytes value)
{
    struct reply *reply = draw->call->reply;

    if (draw->with_values && reply->protocol > 2)
        reply_array(reply, 2);
    reply_bulk(reply, field);
    if (draw->with_values)
        reply_bulk(reply, value);
}

static void reply_pair_count(const struct draw *draw)
{
    struct reply *reply = draw->call->reply;

    reply_array(reply, draw->with_values && reply->protocol == 2 ? draw->count * 2 : draw->count);
}

/* Each draw from all pairs. */
static void draw_with_repeats(const struct draw *draw)
{
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;

    for (size_t i = 0; i < draw->count; i++) {
        hash_random(draw->hash, &draw->call->turn->random, &field, &value, field_digits, value_digits);
        reply_pair(draw, field, value);
    }
}

/* One walk over the hash that takes each pair with the chance (still wanted) / (still to come). It takes all of them when
 * all are wanted, and every choice of `count` pairs is as likely as any other. */
static void draw_walking(const struct draw *draw)
{
    size_t wanted = draw->count, coming = hash_count(draw->hash);
    struct hash_iterator iterator;
    struct bytes field, value;

    hash_iterate(&iterator, draw->hash);
    while (wanted > 0 && hash_next(&iterator, &field, &value)) {
        if (random_below(&draw->call->turn->random, coming--) < wanted) {
            reply_pair(draw, field, value);
            wanted--;
        }
    }
}

/* Few pairs of a table. The hash does not change meanwhile, so a field's address tells it from the others. */
static void draw_sparsely(const struct draw *draw)
{
    struct dict *seen = dict_create(&draw->call->turn->limits.seed);
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
    struct bytes field, value;

    dict_reserve(seen, draw->count);
    while (dict_count(seen) < draw->count) {
        hash_random(draw->hash, &draw->call->turn->random, &field, &value, field_digits, value_digits);
        if (dict_put(seen, bytes_of(&field.data, sizeof(field.data)), bytes_of(NULL, 0)))
            reply_pair(draw, field, value);
    }
    dict_destroy(seen);
}

static void draw_different(struct draw *draw)
{
    size_t all = hash_count(draw->hash);

    if (draw->count > all)
        draw->count = all;
    reply_pair_count(draw);
    if (draw->count == 0)
        return;
    if ((draw->hash->encoding & HASH_TABLE) == 0 || draw->count > all / SPARSE_FACTOR)
        draw_walking(draw);
    else
        draw_sparsely(draw);
}

/* False: the error was replied. */
static bool parse_count(struct call *call, int64_t *count, bool *with_values)
{
    *with_values = call->arg_count == 4 && arg_is(call, 3, "withvalues");
    if (!arg_integer(call, 2, count))
        return false;
    if (*count < -INT64_MAX) {
        reply_errorf(call, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return false;
    }
    if (call->arg_count > 4 || (call->arg_count == 4 && !*with_values)) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (*with_values && (*count < -INT64_MAX / 2 || *count > INT64_MAX / 2)) {
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

    if (!parse_count(call, &count, &draw.with_values) || !key_open_as(call, 1, KEY_FOR_READING, VALUE_HASH, &key))
        return;
    if (!key.present) {
        reply_array(call->reply, 0);
        return;
    }
    draw.hash = &key.value;
    draw.count = (size_t)(count < 0 ? -count : count);
    if (count >= 0) {
        draw_different(&draw);
    } else if (draw.count > DRAWS_MAX) {
        reply_error(call, ERR_OUT_OF_RANGE);
    } else {
        reply_pair_count(&draw);
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
