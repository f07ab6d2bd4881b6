/* XRANGE, XREVRANGE, and entries in replies. */
#include "commands/stream_range.h"

#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "value/stream.h"

static void reply_id_and_pairs(struct call *call, struct stream_iterator *iterator, struct stream_id id, size_t pair_count)
{
    struct bytes field, value;

    reply_stream_id(call->reply, id);
    reply_array(call->reply, pair_count * 2);
    for (; pair_count > 0; pair_count--) {
        stream_pair(iterator, &field, &value);
        reply_bulk(call->reply, field);
        reply_bulk(call->reply, value);
    }
}

void reply_stream_entry(struct call *call, struct stream_iterator *iterator, struct stream_id id, size_t pair_count)
{
    reply_array(call->reply, 2);
    reply_id_and_pairs(call, iterator, id, pair_count);
}

void reply_stream_delivery(struct call *call, struct stream_iterator *iterator, struct stream_id id, size_t pair_count, int64_t idle_ms,
    uint64_t deliveries)
{
    reply_array(call->reply, 4);
    reply_id_and_pairs(call, iterator, id, pair_count);
    reply_integer(call->reply, idle_ms);
    reply_integer(call->reply, (int64_t)deliveries);
}

void reply_stream_range(struct call *call, const struct stream *stream, struct stream_id start, struct stream_id end, uint64_t count_max,
    enum stream_direction direction)
{
    struct reply_later later = reply_later_begin(call->reply);
    struct stream_iterator iterator;
    struct stream_id id;
    size_t pair_count, count = 0;

    stream_iterate(&iterator, stream, start, end, direction);
    while ((count_max == 0 || count < count_max) && stream_next(&iterator, &id, &pair_count)) {
        reply_stream_entry(call, &iterator, id, pair_count);
        count++;
    }
    reply_later_array(call->reply, later, count);
}

bool reply_stream_entry_of(struct call *call, const struct stream *stream, struct stream_id id)
{
    struct stream_iterator iterator;
    size_t pair_count;

    stream_iterate(&iterator, stream, id, id, STREAM_UP);
    if (!stream_next(&iterator, &id, &pair_count))
        return false;
    reply_stream_entry(call, &iterator, id, pair_count);
    return true;
}

static void reply_range(struct call *call, enum stream_direction direction)
{
    bool up = direction == STREAM_UP, has_count = false;
    struct stream_id start, end;
    int64_t count = 0;
    struct key key;

    if (!arg_stream_range(call, up ? 2 : 3, up ? 3 : 2, &start, &end))
        return;
    for (int arg = 4; arg < call->arg_count; arg += 2) {
        if (arg + 1 == call->arg_count || !arg_is(call, arg, "count")) {
            reply_error(call, ERR_SYNTAX);
            return;
        }
        if (!arg_integer(call, arg + 1, &count))
            return;
        has_count = true;
    }
    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STREAM, &key))
        return;
    if (!key.present)
        reply_array(call->reply, 0);
    else if (has_count && count <= 0)
        reply_null_array(call->reply);
    else if (!stream_has_range(stream_of(&key.value), start, end, (uint64_t)count, direction))
        key_ask(&key);
    else
        reply_stream_range(call, stream_of(&key.value), start, end, (uint64_t)count, direction);
}

void xrange_command(struct call *call)
{
    reply_range(call, STREAM_UP);
}

void xrevrange_command(struct call *call)
{
    reply_range(call, STREAM_DOWN);
}
