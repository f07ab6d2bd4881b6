/* BZPOPMIN, BZPOPMAX, BZMPOP: like ZPOPMIN, ZPOPMAX and ZMPOP, but they wait if there is no member. They are logged as those. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/zset_pop.h"

/* Waits until one of the keys is a sorted set. */
static void wait_for_zsets(struct call *call, int key_first, int key_count, int64_t deadline_us)
{
    struct call_wait wait = {
        .type = VALUE_ZSET,
        .key_first = key_first,
        .key_count = key_count,
        .deadline_us = deadline_us,
        .args = call->args,
        .arg_count = call->arg_count,
    };

    call_wait(call, &wait);
}

static void pop_or_wait(struct call *call, enum zset_end end)
{
    int key_count = call->arg_count - 2;
    int64_t deadline_us;

    if (!arg_timeout(call, call->arg_count - 1, &deadline_us))
        return;
    for (int arg = 1; arg <= key_count; arg++) {
        const struct bytes words[] = { end == ZSET_LOWEST ? BYTES("ZPOPMIN") : BYTES("ZPOPMAX"), call->args[arg] };
        struct key key;

        if (!key_open_as(call, arg, KEY_FOR_WRITING, VALUE_ZSET, &key))
            return;
        if (key.present) {
            reply_array(call->reply, 3);
            reply_bulk(call->reply, call->args[arg]);
            zset_pop(&key, end, 1, ZSET_POP_BARE);
            call_propagate(call, words, 2);
            return;
        }
    }
    wait_for_zsets(call, 1, key_count, deadline_us);
}

void bzpopmin_command(struct call *call)
{
    pop_or_wait(call, ZSET_LOWEST);
}

void bzpopmax_command(struct call *call)
{
    pop_or_wait(call, ZSET_HIGHEST);
}

void bzmpop_command(struct call *call)
{
    int64_t key_count, count, deadline_us;
    enum zset_end end;

    if (!arg_integer_between(call, 2, 1, INT64_MAX, "ERR numkeys should be greater than 0", &key_count))
        return;
    if (key_count >= call->arg_count - 3) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (!zset_pop_options(call, 3 + (int)key_count, &end, &count) || !arg_timeout(call, 1, &deadline_us))
        return;
    for (int arg = 3; arg < 3 + key_count; arg++) {
        struct key key;

        if (!key_open_as(call, arg, KEY_FOR_WRITING, VALUE_ZSET, &key))
            return;
        if (key.present) {
            zset_pop_many(&key, arg, end, (size_t)count);
            return;
        }
    }
    wait_for_zsets(call, 3, (int)key_count, deadline_us);
}
