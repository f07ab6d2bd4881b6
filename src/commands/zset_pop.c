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
    if (!zset_has_removal(&key->value, end == ZSET_LOWEST ? 0 : all - count, count)) {
        key_ask(key);
        return 0;
    }
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
    key_changed(key, end == ZSET_LOWEST ? EVENT_ZPOPMIN : EVENT_ZPOPMAX);
    call->change_count += count - 1;
    if (count == all) {
        uint64_t changes = call->change_count;

        key_remove(key, KEY_REMOVE_NOW, EVENT_DEL);
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

/* The log gets the effect: a pop from the key that had members. */
static void pop_several(const struct pop *pop, struct key *key, int arg)
{
    struct call *call = key->call;
    struct bytes words[3] = { pop->end == ZSET_LOWEST ? BYTES("ZPOPMIN") : BYTES("ZPOPMAX"), call->args[arg] };
    size_t count;

    reply_array(call->reply, 2);
    reply_bulk(call->reply, call->args[arg]);
    count = zset_pop(key, (enum zset_end)pop->end, pop->count, ZSET_POP_PAIRS);
    words[2] = call_integer(call, (int64_t)count);
    if (count > 0)
        call_propagate(call, words, 3);
}

bool zset_pop_parse(struct pop *pop, struct call *call, int arg)
{
    static const char *const ends[] = { [ZSET_LOWEST] = "min", [ZSET_HIGHEST] = "max" };

    pop->type = VALUE_ZSET;
    pop->run = pop_several;
    return pop_parse(pop, call, arg, ends);
}

void zmpop_command(struct call *call)
{
    struct pop pop;

    if (zset_pop_parse(&pop, call, 1) && !pop_first(&pop, call))
        reply_null_array(call->reply);
}
