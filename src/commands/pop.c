#include "commands/pop.h"

bool pop_parse(struct pop *pop, struct call *call, int arg, const char *const ends[2])
{
    int64_t key_count, count = 1;
    bool has_count = false;

    if (!arg_integer_between(call, arg, 1, INT64_MAX, "ERR numkeys should be greater than 0", &key_count))
        return false;
    if (key_count >= call->arg_count - arg - 1)
        goto syntax;
    pop->key_first = arg + 1;
    pop->key_count = (int)key_count;
    arg = pop->key_first + pop->key_count;
    pop->end = arg_is(call, arg, ends[1]);
    if (pop->end == 0 && !arg_is(call, arg, ends[0]))
        goto syntax;
    for (arg++; arg < call->arg_count; arg += 2) {
        if (has_count || arg + 1 == call->arg_count || !arg_is(call, arg, "count"))
            goto syntax;
        if (!arg_integer_between(call, arg + 1, 1, INT64_MAX, "ERR count should be greater than 0", &count))
            return false;
        has_count = true;
    }
    pop->count = (size_t)count;
    return true;
syntax:
    reply_error(call, ERR_SYNTAX);
    return false;
}

bool pop_first(const struct pop *pop, struct call *call)
{
    for (int arg = pop->key_first; arg < pop->key_first + pop->key_count; arg++) {
        struct key key;

        if (!key_open_as(call, arg, KEY_FOR_WRITING, pop->type, &key))
            return true;
        if (key.present) {
            pop->run(pop, &key, arg);
            return true;
        }
    }
    return false;
}

void pop_wait(const struct pop *pop, struct call *call, int64_t deadline_us)
{
    struct call_wait wait = {
        .type = pop->type,
        .key_first = pop->key_first,
        .key_count = pop->key_count,
        .deadline_us = deadline_us,
        .args = call->args,
        .arg_count = call->arg_count,
    };

    call_wait(call, &wait);
}
