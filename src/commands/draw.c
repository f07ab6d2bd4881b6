#include "commands/draw.h"

bool draw_parse(struct draw *draw, struct call *call, const char *word)
{
    int64_t count;

    *draw = (struct draw){ .call = call, .with_seconds = call->arg_count == 4 && arg_is(call, 3, word) };
    if (!arg_integer(call, 2, &count))
        return false;
    if (count < -INT64_MAX) {
        reply_errorf(call, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return false;
    }
    if (call->arg_count > 4 || (call->arg_count == 4 && !draw->with_seconds)) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (draw->with_seconds && (count < -INT64_MAX / 2 || count > INT64_MAX / 2)) {
        reply_error(call, ERR_OUT_OF_RANGE);
        return false;
    }
    draw->repeats = count < 0;
    draw->count = (size_t)(count < 0 ? -count : count);
    return true;
}

void draw_reply_count(const struct draw *draw)
{
    struct reply *reply = draw->call->reply;

    reply_array(reply, draw->with_seconds && reply->protocol == 2 ? draw->count * 2 : draw->count);
}

void draw_reply_pair(const struct draw *draw)
{
    if (draw->with_seconds && draw->call->reply->protocol > 2)
        reply_array(draw->call->reply, 2);
}
