/* BZPOPMIN, BZPOPMAX, BZMPOP: like ZPOPMIN, ZPOPMAX and ZMPOP, but they wait if there is no member. They are logged as those. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/zset_pop.h"

static void pop_one(const struct pop *pop, struct key *key, int arg)
{
    struct call *call = key->call;
    const struct bytes words[] = { pop->end == ZSET_LOWEST ? BYTES("ZPOPMIN") : BYTES("ZPOPMAX"), call->args[arg] };

    reply_array(call->reply, 3);
    reply_bulk(call->reply, call->args[arg]);
    if (zset_pop(key, (enum zset_end)pop->end, 1, ZSET_POP_BARE) > 0)
        call_propagate(call, words, 2);
}

static void pop_or_wait(struct call *call, enum zset_end end)
{
    const struct pop pop = { .type = VALUE_ZSET, .key_first = 1, .key_count = call->arg_count - 2, .end = end, .run = pop_one };
    int64_t deadline_us;

    if (arg_timeout(call, call->arg_count - 1, &deadline_us) && !pop_first(&pop, call))
        pop_wait(&pop, call, deadline_us);
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
    int64_t deadline_us;
    struct pop pop;

    if (zset_pop_parse(&pop, call, 2) && arg_timeout(call, 1, &deadline_us) && !pop_first(&pop, call))
        pop_wait(&pop, call, deadline_us);
}
