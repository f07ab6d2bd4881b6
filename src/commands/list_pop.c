/* LPOP, RPOP, LMPOP, LMOVE, RPOPLPUSH, and what the blocking commands share with them. */
#include "commands/list_pop.h"

#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/list.h"

bool arg_list_end(struct call *call, int arg, enum list_end *end)
{
    *end = arg_is(call, arg, "left") ? LIST_HEAD : LIST_TAIL;
    if (*end == LIST_HEAD || arg_is(call, arg, "right"))
        return true;
    reply_error(call, ERR_SYNTAX);
    return false;
}

static enum event pop_event(enum list_end end)
{
    return end == LIST_HEAD ? EVENT_LPOP : EVENT_RPOP;
}

void list_settle(struct key *key)
{
    const struct value_limits *limits = &key->call->turn->limits;
    struct value pack;

    if (list_becomes_pack(&key->value, limits, &pack))
        key_replace(key, pack);
    else
        list_shrink(&key->value, limits);
}

/* Whether `count` elements at an end are there to be read and removed. False: the call asks for them (key_ask). */
static bool has_popped(struct key *key, enum list_end end, size_t count)
{
    if (list_has_popped(&key->value, &key->call->turn->limits, end, count))
        return true;
    key_ask(key);
    return false;
}

/* Removes elements that have been replied. */
static void remove_popped(struct key *key, enum list_end end, size_t count)
{
    struct call *call = key->call;
    uint64_t changes = call->change_count;
    size_t all = list_count(&key->value);

    if (count == all) {
        key_event(key, pop_event(end));
        key_remove(key, KEY_REMOVE_LAZILY, EVENT_DEL);
    } else {
        list_delete(&key->value, end == LIST_HEAD ? 0 : all - count, count);
        list_settle(key);
        key_changed(key, pop_event(end));
    }
    call->change_count = changes + count;
}

static void reply_elements(struct key *key, enum list_end end, size_t count)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];

    list_iterate(&iterator, &key->value, end == LIST_HEAD ? 0 : list_count(&key->value) - 1, end == LIST_HEAD ? LIST_TAIL : LIST_HEAD);
    for (; count > 0 && list_step(&iterator); count--)
        reply_bulk(key->call->reply, list_element(&iterator, digits));
    list_iterate_end(&iterator);
}

bool list_pop_one(struct key *key, enum list_end end)
{
    char digits[TEXT_INT_SIZE];

    if (!has_popped(key, end, 1))
        return false;
    reply_bulk(key->call->reply, list_end_element(&key->value, end, digits));
    remove_popped(key, end, 1);
    return true;
}

/* Returns how many; 0: elements are missing (key_ask). */
static size_t list_pop(struct key *key, enum list_end end, size_t count)
{
    size_t all = list_count(&key->value);

    if (count > all)
        count = all;
    if (!has_popped(key, end, count))
        return 0;
    reply_array(key->call->reply, count);
    reply_elements(key, end, count);
    remove_popped(key, end, count);
    return count;
}

static void pop_elements(struct call *call, enum list_end end)
{
    bool has_count = call->arg_count == 3;
    int64_t count = 1;
    struct key key;

    if (call->arg_count > 3) {
        reply_wrong_arity(call);
        return;
    }
    if (has_count && !arg_integer_between(call, 2, 0, INT64_MAX, "ERR value is out of range, must be positive", &count))
        return;
    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &key))
        return;
    if (!key.present && has_count)
        reply_null_array(call->reply);
    else if (!key.present)
        reply_null(call->reply);
    else if (!has_count)
        list_pop_one(&key, end);
    else if (count == 0)
        reply_array(call->reply, 0);
    else
        list_pop(&key, end, (size_t)count);
}

void lpop_command(struct call *call)
{
    pop_elements(call, LIST_HEAD);
}

void rpop_command(struct call *call)
{
    pop_elements(call, LIST_TAIL);
}

/* The log gets the effect: a pop from the key that had elements. */
static void pop_several(const struct pop *pop, struct key *key, int arg)
{
    struct call *call = key->call;
    struct bytes words[3] = { pop->end == LIST_HEAD ? BYTES("LPOP") : BYTES("RPOP"), call->args[arg] };
    size_t count;

    reply_array(call->reply, 2);
    reply_bulk(call->reply, call->args[arg]);
    count = list_pop(key, (enum list_end)pop->end, pop->count);
    words[2] = call_integer(call, (int64_t)count);
    if (count > 0)
        call_propagate(call, words, 3);
}

bool list_pop_parse(struct pop *pop, struct call *call, int arg)
{
    static const char *const ends[] = { [LIST_HEAD] = "left", [LIST_TAIL] = "right" };

    pop->type = VALUE_LIST;
    pop->run = pop_several;
    return pop_parse(pop, call, arg, ends);
}

void lmpop_command(struct call *call)
{
    struct pop pop;

    if (list_pop_parse(&pop, call, 1) && !pop_first(&pop, call))
        reply_null_array(call->reply);
}

/* A copy of the element at an end, because it is about to be moved. */
static struct bytes take_copy(struct key *key, enum list_end end)
{
    char digits[TEXT_INT_SIZE];

    return arena_copy(key->call->arena, list_end_element(&key->value, end, digits));
}

/* Moves an element within one list. */
static void rotate_list(struct key *key, enum list_end from, enum list_end to, struct bytes element)
{
    const struct value_limits *limits = &key->call->turn->limits;

    if (from != to && list_count(&key->value) > 1) {
        list_delete(&key->value, from == LIST_HEAD ? 0 : list_count(&key->value) - 1, 1);
        list_grow(&key->value, limits, 1, element.size);
        list_push(&key->value, to, element);
        list_settle(key);
    }
    key_changed(key, to == LIST_HEAD ? EVENT_LPUSH : EVENT_RPUSH);
    key_event(key, pop_event(from));
}

/* Whether the element at an end of `source`, which is there, can be added. */
static bool has_pushed(struct key *key, enum list_end end, const struct key *source, enum list_end from)
{
    char digits[TEXT_INT_SIZE];

    if (list_is_here(&key->value) || list_has_push(&key->value, end, 1, list_end_element(&source->value, from, digits).size))
        return true;
    key_ask(key);
    return false;
}

static void push_to(struct key *target, enum list_end to, struct bytes element)
{
    if (!target->present)
        key_replace(target, list_create());
    list_grow(&target->value, &target->call->turn->limits, 1, element.size);
    list_push(&target->value, to, element);
    key_changed(target, to == LIST_HEAD ? EVENT_LPUSH : EVENT_RPUSH);
}

bool list_move(struct key *source, enum list_end from, enum list_end to)
{
    struct call *call = source->call;
    uint64_t changes = call->change_count;
    struct bytes element;
    struct key target;

    if (bytes_equal(call->args[1], call->args[2])) {
        if (!has_popped(source, from, 1) || !has_pushed(source, to, source, from))
            return false;
        element = take_copy(source, from);
        rotate_list(source, from, to, element);
    } else {
        if (!key_open_as(call, 2, KEY_FOR_WRITING, VALUE_LIST, &target) || !has_popped(source, from, 1) || (target.present && !has_pushed(&target, to, source, from)))
            return false;
        element = take_copy(source, from);
        push_to(&target, to, element);
        remove_popped(source, from, 1);
    }
    call->change_count = changes + 1;
    reply_bulk(call->reply, element);
    return true;
}

static void move_element(struct call *call, enum list_end from, enum list_end to)
{
    struct key source;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &source))
        return;
    if (!source.present)
        reply_null(call->reply);
    else
        list_move(&source, from, to);
}

void lmove_command(struct call *call)
{
    enum list_end from, to;

    if (arg_list_end(call, 3, &from) && arg_list_end(call, 4, &to))
        move_element(call, from, to);
}

void rpoplpush_command(struct call *call)
{
    move_element(call, LIST_TAIL, LIST_HEAD);
}
