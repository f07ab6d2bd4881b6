/* BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH: like LPOP, LMPOP, LMOVE and so on, but they wait if there is no element. They are
 * logged as those. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/list_pop.h"

static void pop_one(const struct pop *pop, struct key *key, int arg)
{
    struct call *call = key->call;
    const struct bytes words[] = { pop->end == LIST_HEAD ? BYTES("LPOP") : BYTES("RPOP"), call->args[arg] };

    reply_array(call->reply, 2);
    reply_bulk(call->reply, call->args[arg]);
    if (list_pop_one(key, (enum list_end)pop->end))
        call_propagate(call, words, 2);
}

static void pop_or_wait(struct call *call, enum list_end end)
{
    const struct pop pop = { .type = VALUE_LIST, .key_first = 1, .key_count = call->arg_count - 2, .end = end, .run = pop_one };
    int64_t deadline_us;

    if (arg_timeout(call, call->arg_count - 1, &deadline_us) && !pop_first(&pop, call))
        pop_wait(&pop, call, deadline_us);
}

void blpop_command(struct call *call)
{
    pop_or_wait(call, LIST_HEAD);
}

void brpop_command(struct call *call)
{
    pop_or_wait(call, LIST_TAIL);
}

void blmpop_command(struct call *call)
{
    int64_t deadline_us;
    struct pop pop;

    if (list_pop_parse(&pop, call, 2) && arg_timeout(call, 1, &deadline_us) && !pop_first(&pop, call))
        pop_wait(&pop, call, deadline_us);
}

/* `words` are logged. */
static void move_or_wait(struct call *call, enum list_end from, enum list_end to, int64_t deadline_us, const struct bytes *words, int word_count)
{
    const struct pop source_only = { .type = VALUE_LIST, .key_first = 1, .key_count = 1 };
    struct key source;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &source))
        return;
    if (source.present) {
        if (list_move(&source, from, to))
            call_propagate(call, words, word_count);
    } else if (!call_may_wait(call)) {
        reply_null(call->reply);        /* not the array that is replied when the time is up; as in Redis */
    } else {
        pop_wait(&source_only, call, deadline_us);
    }
}

void blmove_command(struct call *call)
{
    enum list_end from, to;
    int64_t deadline_us;

    if (arg_list_end(call, 3, &from) && arg_list_end(call, 4, &to) && arg_timeout(call, 5, &deadline_us)) {
        const struct bytes words[] = { BYTES("LMOVE"), call->args[1], call->args[2], call->args[3], call->args[4] };

        move_or_wait(call, from, to, deadline_us, words, 5);
    }
}

void brpoplpush_command(struct call *call)
{
    int64_t deadline_us;

    if (arg_timeout(call, 3, &deadline_us)) {
        const struct bytes words[] = { BYTES("RPOPLPUSH"), call->args[1], call->args[2] };

        move_or_wait(call, LIST_TAIL, LIST_HEAD, deadline_us, words, 3);
    }
}
