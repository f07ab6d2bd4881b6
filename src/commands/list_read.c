/* The list commands that only read: LINDEX, LLEN, LRANGE, LPOS. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "value/list.h"

static bool open_for_reading(struct call *call, struct key *key)
{
    return key_open_as(call, 1, KEY_FOR_READING, VALUE_LIST, key);
}

void llen_command(struct call *call)
{
    struct key key;

    if (open_for_reading(call, &key))
        reply_integer(call->reply, key.present ? (int64_t)list_count(&key.value) : 0);
}

void lindex_command(struct call *call)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    int64_t index, count;
    struct key key;

    if (!open_for_reading(call, &key))
        return;
    if (!key.present) {
        reply_null(call->reply);
        return;
    }
    if (!arg_integer(call, 2, &index))
        return;
    count = (int64_t)list_count(&key.value);
    if (index >= count || index < -count) {
        reply_null(call->reply);
        return;
    }
    index = index < 0 ? index + count : index;
    if (!list_has_ranks(&key.value, (size_t)index, 1)) {
        key_ask(&key);
        return;
    }
    list_iterate(&iterator, &key.value, (size_t)index, LIST_TAIL);
    list_step(&iterator);
    reply_bulk(call->reply, list_element(&iterator, digits));
    list_iterate_end(&iterator);
}

void lrange_command(struct call *call)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    int64_t start, end, count;
    struct key key;

    if (!arg_integer(call, 2, &start) || !arg_integer(call, 3, &end) || !open_for_reading(call, &key))
        return;
    count = key.present ? (int64_t)list_count(&key.value) : 0;
    start = start < 0 ? (start < -count ? 0 : start + count) : start;
    end = end < 0 ? (end < -count ? -1 : end + count) : end >= count ? count - 1 : end;
    if (start > end || start >= count) {
        reply_array(call->reply, 0);
        return;
    }
    if (!list_has_ranks(&key.value, (size_t)start, (size_t)(end - start + 1))) {
        key_ask(&key);
        return;
    }
    reply_array(call->reply, (size_t)(end - start + 1));
    list_iterate(&iterator, &key.value, (size_t)start, LIST_TAIL);
    for (int64_t i = start; i <= end; i++) {
        list_step(&iterator);
        reply_bulk(call->reply, list_element(&iterator, digits));
    }
    list_iterate_end(&iterator);
}

/* The arguments of LPOS. */
struct position_query {
    int64_t rank;               /* the first match to return; negative: counted from the tail */
    int64_t count;              /* number of matches; 0: all; -1: one, replied without an array */
    int64_t length_max;         /* number of elements to compare; 0: all */
};

static bool read_query(struct call *call, struct position_query *query)
{
    *query = (struct position_query){ .rank = 1, .count = -1 };
    for (int arg = 3; arg < call->arg_count; arg += 2) {
        bool has_value = arg + 1 < call->arg_count;

        if (has_value && arg_is(call, arg, "rank")) {
            if (!arg_integer(call, arg + 1, &query->rank))
                return false;
            if (query->rank == INT64_MIN) {
                reply_errorf(call, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
                return false;
            }
            if (query->rank == 0) {
                reply_errorf(call, "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative "
                    "to start from the end of the list");
                return false;
            }
        } else if (has_value && arg_is(call, arg, "count")) {
            if (!arg_integer_between(call, arg + 1, 0, INT64_MAX, "ERR COUNT can't be negative", &query->count))
                return false;
        } else if (has_value && arg_is(call, arg, "maxlen")) {
            if (!arg_integer_between(call, arg + 1, 0, INT64_MAX, "ERR MAXLEN can't be negative", &query->length_max))
                return false;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

static bool has_positions(const struct call *call, const struct value *list, const struct position_query *query)
{
    size_t skipped = (size_t)(query->rank < 0 ? -query->rank : query->rank) - 1, wanted = query->count < 0 ? 1 : (size_t)query->count;

    return list_has_search(list, call->args[2], query->rank < 0 ? LIST_TAIL : LIST_HEAD, query->count == 0 ? SIZE_MAX : skipped + wanted,
        query->length_max == 0 ? SIZE_MAX : (size_t)query->length_max);
}

/* Replies the indices of the matches and returns how many. */
static size_t reply_positions(struct call *call, const struct value *list, const struct position_query *query)
{
    enum list_end towards = query->rank < 0 ? LIST_HEAD : LIST_TAIL;
    int64_t left = query->length_max, to_skip = (query->rank < 0 ? -query->rank : query->rank) - 1, all = (int64_t)list_count(list);
    int64_t index = towards == LIST_TAIL ? 0 : all - 1;
    int64_t wanted = query->count < 0 ? 1 : query->count;
    struct list_iterator iterator;
    size_t found = 0;

    list_iterate(&iterator, list, (size_t)index, towards);
    for (; list_step(&iterator); index += towards == LIST_TAIL ? 1 : -1) {
        if (list_equals(&iterator, call->args[2]) && to_skip-- <= 0) {
            reply_integer(call->reply, index);
            found++;
            if (wanted != 0 && (int64_t)found == wanted)
                break;
        }
        if (query->length_max != 0 && --left == 0)
            break;
    }
    list_iterate_end(&iterator);
    return found;
}

void lpos_command(struct call *call)
{
    struct position_query query;
    struct reply_later later;
    struct key key;
    size_t found;

    if (!read_query(call, &query) || !open_for_reading(call, &key))
        return;
    if (key.present && !has_positions(call, &key.value, &query)) {
        key_ask(&key);
        return;
    }
    if (query.count < 0) {
        if (!key.present || reply_positions(call, &key.value, &query) == 0)
            reply_null(call->reply);
        return;
    }
    if (!key.present) {
        reply_array(call->reply, 0);
        return;
    }
    later = reply_later_begin(call->reply);
    found = reply_positions(call, &key.value, &query);
    reply_later_array(call->reply, later, found);
}
