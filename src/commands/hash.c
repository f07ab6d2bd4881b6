/* The hash commands that change something. */
#include <math.h>

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/hash_fields.h"
#include "value/hash.h"

static bool open_for_writing(struct call *call, struct key *key)
{
    return key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, key);
}

/* Sets a field, creating the hash if needed; the caller calls key_changed. True if the field is new. */
static bool set_field(struct key *key, struct bytes field, struct bytes value)
{
    if (!key->present && key->value.object == NULL)
        key_replace(key, hash_create());
    return hash_set(&key->value, &key->call->turn->limits, field, value);
}

/* The same for a field that is changed, not replaced: it keeps its expiry. */
static void change_field(struct key *key, struct bytes field, struct bytes value)
{
    if (!key->present && key->value.object == NULL)
        key_replace(key, hash_create());
    hash_set_keeping(&key->value, &key->call->turn->limits, field, value);
}

/* HSET and HMSET count one change for each pair, as Redis does; key_changed has counted one. */
static void set_pairs(struct call *call, struct key *key, int64_t *new_count)
{
    *new_count = 0;
    for (int i = 2; i < call->arg_count; i += 2)
        *new_count += set_field(key, call->args[i], call->args[i + 1]);
    key_changed(key, EVENT_HSET);
    call->change_count += (uint64_t)(call->arg_count - 2) / 2 - 1;
}

void hset_command(struct call *call)
{
    struct key key;
    int64_t new_count;

    if (call->arg_count % 2 != 0) {
        reply_wrong_arity(call);
        return;
    }
    if (!open_for_writing(call, &key) || !hash_fields_ready(&key, call->args + 2, call->arg_count - 2, 2, HASH_NO_TIME))
        return;
    set_pairs(call, &key, &new_count);
    reply_integer(call->reply, new_count);
}

void hmset_command(struct call *call)
{
    struct key key;
    int64_t new_count;

    if (call->arg_count % 2 != 0) {
        reply_wrong_arity(call);
        return;
    }
    if (!open_for_writing(call, &key) || !hash_fields_ready(&key, call->args + 2, call->arg_count - 2, 2, HASH_NO_TIME))
        return;
    set_pairs(call, &key, &new_count);
    reply_ok(call->reply);
}

void hsetnx_command(struct call *call)
{
    struct key key;

    if (!open_for_writing(call, &key))
        return;
    if (key.present && hash_has(&key.value, call->args[2])) {
        reply_integer(call->reply, 0);
        return;
    }
    set_field(&key, call->args[2], call->args[3]);
    key_changed(&key, EVENT_HSET);
    reply_integer(call->reply, 1);
}

/* After the last field was removed the hash is empty and the key is removed at once. Even so the value has to be stored first,
 * because deleting may have moved the object. */
void hdel_command(struct call *call)
{
    uint64_t changes = call->change_count;
    struct key key;
    int64_t deleted = 0;
    bool is_empty = false;

    if (!open_for_writing(call, &key) || !hash_fields_ready(&key, call->args + 2, call->arg_count - 2, 1, HASH_NO_TIME))
        return;
    for (int i = 2; key.present && !is_empty && i < call->arg_count; i++) {
        deleted += hash_delete(&key.value, call->args[i]);
        is_empty = hash_count(&key.value) == 0;
    }
    if (deleted > 0) {
        key_changed(&key, EVENT_HDEL);
        if (is_empty)
            key_remove(&key, KEY_REMOVE_NOW, EVENT_DEL);
        call->change_count = changes + (uint64_t)deleted;
    }
    reply_integer(call->reply, deleted);
}

void hincrby_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct bytes text;
    int64_t increment, number = 0;
    struct key key;

    if (!arg_integer(call, 3, &increment) || !open_for_writing(call, &key))
        return;
    if (key.present && hash_get(&key.value, call->args[2], &text, digits) && !text_to_int(text, &number)) {
        reply_errorf(call, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(number, increment, &number)) {
        reply_error(call, ERR_OVERFLOW);
        return;
    }
    change_field(&key, call->args[2], bytes_of(digits, text_of_int(number, digits)));
    key_changed(&key, EVENT_HINCRBY);
    reply_integer(call->reply, number);
}

static bool increment_argument(struct call *call, long double *increment)
{
    if (!text_to_long_double(call->args[3], increment)) {
        reply_error(call, ERR_NOT_FLOAT);
        return false;
    }
    if (!isfinite(*increment)) {
        reply_errorf(call, "ERR value is NaN or Infinity");
        return false;
    }
    return true;
}

/* The log gets the sum, not the increment: another machine or C library might round differently. */
static void log_sum(struct call *call, const struct key *key, struct bytes sum)
{
    const struct bytes words[] = { BYTES("HSET"), call->args[1], call->args[2], sum };
    const struct bytes keeping[] = { BYTES("HSETEX"), call->args[1], BYTES("KEEPTTL"), BYTES("FIELDS"), BYTES("1"), call->args[2], sum };

    if (hash_has_times(&key->value))
        call_propagate(call, keeping, 7);
    else
        call_propagate(call, words, 4);
}

void hincrbyfloat_command(struct call *call)
{
    char digits[TEXT_INT_SIZE], sum_digits[TEXT_LONG_DOUBLE_SIZE];
    struct bytes text, sum;
    long double increment, number = 0;
    struct key key;

    if (!increment_argument(call, &increment) || !open_for_writing(call, &key))
        return;
    if (key.present && hash_get(&key.value, call->args[2], &text, digits) && !text_to_long_double(text, &number)) {
        reply_errorf(call, "ERR hash value is not a float");
        return;
    }
    number += increment;
    if (!isfinite(number)) {
        reply_errorf(call, "ERR increment would produce NaN or Infinity");
        return;
    }
    sum = bytes_of(sum_digits, text_of_long_double(number, sum_digits));
    change_field(&key, call->args[2], sum);
    key_changed(&key, EVENT_HINCRBYFLOAT);
    log_sum(call, &key, sum);
    reply_bulk(call->reply, sum);
}
