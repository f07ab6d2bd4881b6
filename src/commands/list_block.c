/* BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH: like LPOP, LMPOP, LMOVE and so on, but they wait if there is no element. They are
 * logged as those. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/list_pop.h"

/* Waits until one of the keys is a list. */
static void wait_for_lists(struct call *call, int key_first, int key_count, int64_t deadline_us)
{
    struct call_wait wait = {
        .type = VALUE_LIST,
        .key_first = key_first,
        .key_count = key_count,
        .deadline_us = deadline_us,
        .args = call->args,
        .arg_count = call->arg_count,
    };

    call_wait(call, &wait);
}

static void pop_or_wait(struct call *call, enum list_end end)
{
    int key_count = call->arg_count - 2;
    int64_t deadline_us;

    if (!arg_timeout(call, call->arg_count - 1, &deadline_us))
        return;
    for (int arg = 1; arg <= key_count; arg++) {
        const struct bytes words[] = { end == LIST_HEAD ? BYTES("LPOP") : BYTES("RPOP"), call->args[arg] };
        struct key key;

        if (!key_open_as(call, arg, KEY_FOR_WRITING, VALUE_LIST, &key))
            return;
        if (key.present) {
            reply_array(call->reply, 2);
            reply_bulk(call->reply, call->args[arg]);
            list_pop_one(&key, end);
            call_propagate(call, words, 2);
            return;
        }
    }
    wait_for_lists(call, 1, key_count, deadline_us);
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
    int64_t key_count, count, deadline_us;
    enum list_end end;

    if (!arg_integer_between(call, 2, 1, INT64_MAX, "ERR numkeys should be greater than 0", &key_count))
        return;
    if (key_count >= call->arg_count - 3) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (!list_pop_options(call, 3 + (int)key_count, &end, &count) || !arg_timeout(call, 1, &deadline_us))
        return;
    for (int arg = 3; arg < 3 + key_count; arg++) {
        struct key key;

        if (!key_open_as(call, arg, KEY_FOR_WRITING, VALUE_LIST, &key))
            return;
        if (key.present) {
            list_pop_many(&key, arg, end, (size_t)count);
            return;
        }
    }
    wait_for_lists(call, 3, (int)key_count, deadline_us);
}

/* `words` are logged. */
static void move_or_wait(struct call *call, enum list_end from, enum list_end to, int64_t deadline_us, const struct bytes *words, int word_count)
{
    struct key source;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &source))
        return;
    if (source.present) {
        if (list_move(&source, from, to))
            call_propagate(call, words, word_count);
    } else if (call->client->flags & CLIENT_NO_BLOCKING) {
        reply_null(call->reply);        /* not the array that is replied when the time is up; as in Redis */
    } else {
        wait_for_lists(call, 1, 1, deadline_us);
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
