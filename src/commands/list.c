/* The list commands that change something, except pops. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/list_pop.h"
#include "value/list.h"

/* Chunks could hold elements that do not fit into a listpack; this is the limit of Redis. */
enum { ELEMENT_SLACK = 1024 };
static const size_t element_size_max = (1ull << 32) - ELEMENT_SLACK;

static bool element_fits(struct call *call, int arg)
{
    if (call->args[arg].size <= element_size_max)
        return true;
    reply_errorf(call, "ERR Element too large");
    return false;
}

/* Whether a missing list is created. */
enum push_mode { PUSH_ALWAYS, PUSH_IF_PRESENT };

static void push_elements(struct call *call, enum list_end end, enum push_mode mode)
{
    size_t bytes = 0;
    struct key key;

    for (int i = 2; i < call->arg_count; i++) {
        if (!element_fits(call, i))
            return;
        bytes += call->args[i].size;
    }
    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &key))
        return;
    if (!key.present && mode == PUSH_IF_PRESENT) {
        reply_integer(call->reply, 0);
        return;
    }
    if (!key.present)
        key_replace(&key, list_create());
    if (!list_has_push(&key.value, end, (size_t)call->arg_count - 2, bytes)) {
        key_ask(&key);
        return;
    }
    list_grow(&key.value, &call->turn->limits, (size_t)call->arg_count - 2, bytes);
    for (int i = 2; i < call->arg_count; i++)
        list_push(&key.value, end, call->args[i]);
    key_changed(&key, end == LIST_HEAD ? EVENT_LPUSH : EVENT_RPUSH);
    call->change_count += (uint64_t)call->arg_count - 3;
    reply_integer(call->reply, (int64_t)list_count(&key.value));
}

void lpush_command(struct call *call)
{
    push_elements(call, LIST_HEAD, PUSH_ALWAYS);
}

void rpush_command(struct call *call)
{
    push_elements(call, LIST_TAIL, PUSH_ALWAYS);
}

void lpushx_command(struct call *call)
{
    push_elements(call, LIST_HEAD, PUSH_IF_PRESENT);
}

void rpushx_command(struct call *call)
{
    push_elements(call, LIST_TAIL, PUSH_IF_PRESENT);
}

/* Index of the first element that equals `pivot`; false if there is none. */
static bool find_pivot(const struct value *list, struct bytes pivot, size_t *index)
{
    struct list_iterator iterator;
    bool found = false;

    list_iterate(&iterator, list, 0, LIST_TAIL);
    for (*index = 0; list_step(&iterator); (*index)++) {
        if (list_equals(&iterator, pivot)) {
            found = true;
            break;
        }
    }
    list_iterate_end(&iterator);
    return found;
}

/* Redis changes the encoding of the list before it knows whether the pivot exists, and so does Kelvin. */
void linsert_command(struct call *call)
{
    bool before = arg_is(call, 2, "before");
    struct key key;
    size_t index;
    uint8_t encoding;

    if (!before && !arg_is(call, 2, "after")) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (!element_fits(call, 4) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &key))
        return;
    if (!key.present) {
        reply_integer(call->reply, 0);
        return;
    }
    if (!list_has_search(&key.value, call->args[3], LIST_HEAD, 1, SIZE_MAX)) {
        key_ask(&key);
        return;
    }
    encoding = key.value.encoding;
    list_grow(&key.value, &call->turn->limits, 1, call->args[4].size);
    if (!find_pivot(&key.value, call->args[3], &index)) {
        if (key.value.encoding != encoding)
            key_recode(&key);
        reply_integer(call->reply, -1);
        return;
    }
    list_insert(&key.value, before ? index : index + 1, call->args[4]);
    key_changed(&key, EVENT_LINSERT);
    reply_integer(call->reply, (int64_t)list_count(&key.value));
}

/* Likewise for an index that does not exist. */
void lset_command(struct call *call)
{
    struct key key;
    int64_t index, count;
    uint8_t encoding;

    if (!element_fits(call, 3) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &key))
        return;
    if (!key.present) {
        reply_error(call, ERR_NO_SUCH_KEY);
        return;
    }
    if (!arg_integer(call, 2, &index))
        return;
    encoding = key.value.encoding;
    list_grow(&key.value, &call->turn->limits, 1, call->args[3].size);
    count = (int64_t)list_count(&key.value);
    if (index >= count || index < -count) {
        if (key.value.encoding != encoding)
            key_recode(&key);
        reply_errorf(call, "ERR index out of range");
        return;
    }
    index = index < 0 ? index + count : index;
    if (!list_has_set(&key.value, (size_t)index, call->args[3].size)) {
        key_ask(&key);
        return;
    }
    list_set(&key.value, (size_t)index, call->args[3]);
    list_settle(&key);
    key_changed(&key, EVENT_LSET);
    reply_ok(call->reply);
}

/* Stores a list from which elements were removed, or removes the key with the last one. Counts `removed` changes. */
static void store_shortened(struct key *key, enum event event, size_t removed)
{
    struct call *call = key->call;
    uint64_t changes = call->change_count;

    list_settle(key);
    key_changed(key, event);
    if (list_count(&key->value) == 0)
        key_remove(key, KEY_REMOVE_NOW, EVENT_DEL);
    call->change_count = changes + removed;
}

void lrem_command(struct call *call)
{
    enum list_end from;
    int64_t count;
    size_t removed = 0, count_max;
    struct key key;

    if (!arg_integer(call, 2, &count) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &key))
        return;
    count_max = count == 0 ? SIZE_MAX : count > 0 ? (size_t)count : (size_t)0 - (size_t)count;
    from = count < 0 ? LIST_TAIL : LIST_HEAD;
    if (key.present && !list_has_search(&key.value, call->args[3], from, count_max, SIZE_MAX)) {
        key_ask(&key);
        return;
    }
    if (key.present)
        removed = list_remove(&key.value, call->args[3], count_max, from);
    if (removed > 0)
        store_shortened(&key, EVENT_LREM, removed);
    reply_integer(call->reply, (int64_t)removed);
}

/* Redis counts the removed elements, and at least one change. */
void ltrim_command(struct call *call)
{
    int64_t start, end, count;
    uint64_t changes = call->change_count;
    struct key key;

    if (!arg_integer(call, 2, &start) || !arg_integer(call, 3, &end) ||
        !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_LIST, &key))
        return;
    if (!key.present) {
        reply_ok(call->reply);
        return;
    }
    count = (int64_t)list_count(&key.value);
    start = start < 0 ? (start < -count ? 0 : start + count) : start;
    end = end < 0 ? (end < -count ? -1 : end + count) : end >= count ? count - 1 : end;
    if (start > end || start >= count) {
        key_event(&key, EVENT_LTRIM);
        key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
        call->change_count = changes + (uint64_t)count;
    } else if (!list_has_trim(&key.value, &call->turn->limits, (size_t)start, (size_t)end + 1)) {
        key_ask(&key);
        return;
    } else {
        list_delete(&key.value, (size_t)end + 1, (size_t)(count - 1 - end));
        list_delete(&key.value, 0, (size_t)start);
        store_shortened(&key, EVENT_LTRIM, (size_t)(count - (end - start + 1)));
        if (call->change_count == changes)
            call->change_count++;
    }
    reply_ok(call->reply);
}
