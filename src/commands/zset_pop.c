/* ZPOPMIN, ZPOPMAX, ZMPOP. */
#include "commands/zset_pop.h"

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/zset.h"

size_t zset_pop(struct key *key, enum zset_end end, size_t count, enum zset_pop_reply layout)
{
    struct call *call = key->call;
    size_t all = zset_count(&key->value), left;
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    if (count > all)
        count = all;
    left = count;
    if (layout != ZSET_POP_BARE)
        reply_array(call->reply, layout == ZSET_POP_PAIRS ? count : count * 2);
    zset_iterate(&iterator, &key->value, end == ZSET_LOWEST ? 0 : all - 1, end == ZSET_LOWEST ? ZSET_UP : ZSET_DOWN);
    for (; left > 0 && zset_next(&iterator, &member, &score); left--) {
        if (layout == ZSET_POP_PAIRS)
            reply_array(call->reply, 2);
        reply_bulk(call->reply, member);
        reply_double(call->reply, score);
    }
    if (count == 0)
        return 0;
    zset_remove_ranks(&key->value, end == ZSET_LOWEST ? 0 : all - count, count);
    key_changed(key, end == ZSET_LOWEST ? "zpopmin" : "zpopmax");
    call->change_count += count - 1;
    if (count == all) {
        uint64_t changes = call->change_count;

        key_remove(key, KEY_REMOVE_NOW, "del");
        call->change_count = changes;
    }
    return count;
}

static void pop_members(struct call *call, enum zset_end end)
{
    int64_t count = 1;
    struct key key;

    if (call->arg_count > 3) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (call->arg_count == 3 &&
        !arg_integer_between(call, 2, 0, INT64_MAX, "ERR value is out of range, must be positive", &count))
        return;
    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_ZSET, &key))
        return;
    if (!key.present || count == 0) {
        reply_array(call->reply, 0);
        return;
    }
    zset_pop(&key, end, (size_t)count, call->arg_count == 3 && call->reply->protocol > 2 ? ZSET_POP_PAIRS : ZSET_POP_FLAT);
}

void zpopmin_command(struct call *call)
{
    pop_members(call, ZSET_LOWEST);
}

void zpopmax_command(struct call *call)
{
    pop_members(call, ZSET_HIGHEST);
}

bool zset_pop_options(struct call *call, int arg, enum zset_end *end, int64_t *count)
{
    bool is_max = arg < call->arg_count && arg_is(call, arg, "max"), has_count = false;

    if (arg >= call->arg_count || (!is_max && !arg_is(call, arg, "min")))
        goto syntax;
    *end = is_max ? ZSET_HIGHEST : ZSET_LOWEST;
    *count = 1;
    for (arg++; arg < call->arg_count; arg += 2) {
        if (has_count || arg + 1 == call->arg_count || !arg_is(call, arg, "count"))
            goto syntax;
        if (!arg_integer_between(call, arg + 1, 1, INT64_MAX, "ERR count should be greater than 0", count))
            return false;
        has_count = true;
    }
    return true;
syntax:
    reply_error(call, ERR_SYNTAX);
    return false;
}

/* The log gets the effect: a pop from the key that had members. */
void zset_pop_many(struct key *key, int arg, enum zset_end end, size_t count)
{
    struct call *call = key->call;
    struct bytes words[3] = { end == ZSET_LOWEST ? BYTES("ZPOPMIN") : BYTES("ZPOPMAX"), call->args[arg] };

    reply_array(call->reply, 2);
    reply_bulk(call->reply, call->args[arg]);
    words[2] = call_integer(call, (int64_t)zset_pop(key, end, count, ZSET_POP_PAIRS));
    call_propagate(call, words, 3);
}

void zmpop_command(struct call *call)
{
    int64_t key_count, count;
    enum zset_end end;

    if (!arg_integer_between(call, 1, 1, INT64_MAX, "ERR numkeys should be greater than 0", &key_count))
        return;
    if (key_count >= call->arg_count - 2) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (!zset_pop_options(call, 2 + (int)key_count, &end, &count))
        return;
    for (int arg = 2; arg < 2 + key_count; arg++) {
        struct key key;

        if (!key_open_as(call, arg, KEY_FOR_WRITING, VALUE_ZSET, &key))
            return;
        if (key.present) {
            zset_pop_many(&key, arg, end, (size_t)count);
            return;
        }
    }
    reply_null_array(call->reply);
}
