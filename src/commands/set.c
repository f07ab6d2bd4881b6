/* The set commands that change something. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/set.h"

/* Redis counts one change for each member; key_changed counts one. */
void sadd_command(struct call *call)
{
    const struct value_limits *limits = &call->turn->limits;
    uint64_t changes = call->change_count;
    size_t given = (size_t)call->arg_count - 2;
    struct key key;
    uint8_t encoding;
    int64_t added = 0;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_SET, &key))
        return;
    encoding = key.value.encoding;
    if (key.present)
        set_expect(&key.value, limits, given);
    else
        key_replace(&key, set_create(limits, call->args[2], given));
    for (int i = 2; i < call->arg_count; i++)
        added += set_add(&key.value, limits, call->args[i]);
    if (added > 0) {
        key_changed(&key, EVENT_SADD);
        call->change_count = changes + (uint64_t)added;
    } else if (key.value.encoding != encoding) {
        key_recode(&key);
    }
    reply_integer(call->reply, added);
}

/* After the last member was removed the set is empty and the key is removed at once. Even so the value has to be stored first,
 * because removing members may have moved the object. */
void srem_command(struct call *call)
{
    uint64_t changes = call->change_count;
    struct key key;
    int64_t removed = 0;
    bool is_empty = false;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_SET, &key))
        return;
    for (int i = 2; key.present && !is_empty && i < call->arg_count; i++) {
        removed += set_remove(&key.value, call->args[i]);
        is_empty = set_count(&key.value) == 0;
    }
    if (removed > 0) {
        key_changed(&key, EVENT_SREM);
        if (is_empty)
            key_remove(&key, KEY_REMOVE_NOW, EVENT_DEL);
        call->change_count = changes + (uint64_t)removed;
    }
    reply_integer(call->reply, removed);
}

static void move_member(struct call *call, struct key *source, struct key *target)
{
    const struct value_limits *limits = &call->turn->limits;
    uint64_t changes = call->change_count;
    struct bytes member = call->args[3];
    bool is_new;

    key_changed(source, EVENT_SREM);
    if (set_count(&source->value) == 0)
        key_remove(source, KEY_REMOVE_NOW, EVENT_DEL);
    if (!target->present)
        key_replace(target, set_create(limits, member, 1));
    is_new = set_add(&target->value, limits, member);
    if (is_new)
        key_changed(target, EVENT_SADD);
    call->change_count = changes + 1 + is_new;
}

void smove_command(struct call *call)
{
    struct key source, target;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_SET, &source))
        return;
    if (!source.present) {
        reply_integer(call->reply, 0);
        return;
    }
    if (!key_open_as(call, 2, KEY_FOR_WRITING, VALUE_SET, &target))
        return;
    if (bytes_equal(call->args[1], call->args[2])) {
        reply_integer(call->reply, set_has(&source.value, call->args[3]));
    } else if (!set_remove(&source.value, call->args[3])) {
        reply_integer(call->reply, 0);
    } else {
        move_member(call, &source, &target);
        reply_integer(call->reply, 1);
    }
}
