#include "commands/stream_id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { ID_SIZE_MAX = 127 };

static size_t number_text(uint64_t number, char *out)
{
    size_t size;

    if (number <= INT64_MAX)
        return text_of_int((int64_t)number, out);
    size = text_of_int((int64_t)(number / 10), out);
    out[size++] = (char)('0' + number % 10);
    return size;
}

/* Writes no NUL; returns the size. */
static size_t stream_id_text(struct stream_id id, char out[STREAM_ID_TEXT_SIZE])
{
    size_t size = number_text(id.ms, out);

    out[size++] = '-';
    return size + number_text(id.seq, out + size);
}

void reply_stream_id(struct reply *reply, struct stream_id id)
{
    char text[STREAM_ID_TEXT_SIZE];

    reply_bulk(reply, bytes_of(text, stream_id_text(id, text)));
}

struct bytes call_stream_id(struct call *call, struct stream_id id)
{
    char *text = arena_alloc(call->arena, STREAM_ID_TEXT_SIZE);

    return bytes_of(text, stream_id_text(id, text));
}

/* As Redis parses it: strictly, or else as strtoull does, so that " 5" and "05" are numbers, too. */
static bool number_parse(const char *text, uint64_t *number)
{
    int64_t signed_number;
    char *end;

    if (text_to_int(bytes_of_string(text), &signed_number)) {
        *number = (uint64_t)signed_number;
        return signed_number >= 0;
    }
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && *text != '\0' && *end == '\0';
}

/* `has_seq` NULL: "5-*" is invalid. */
static bool parse_id(struct bytes text, uint64_t missing_seq, bool *has_seq, struct stream_id *id)
{
    char copy[ID_SIZE_MAX + 1], *dash;

    if (text.size > ID_SIZE_MAX)
        return false;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    id->seq = missing_seq;
    if (has_seq != NULL)
        *has_seq = true;
    dash = strchr(copy, '-');
    if (dash != NULL)
        *dash = '\0';
    if (!number_parse(copy, &id->ms))
        return false;
    if (dash == NULL)
        return true;
    if (has_seq != NULL && strcmp(dash + 1, "*") == 0) {
        *has_seq = false;
        id->seq = 0;
        return true;
    }
    return number_parse(dash + 1, &id->seq);
}

static bool reply_invalid_id(struct call *call)
{
    reply_errorf(call, "ERR Invalid stream ID specified as stream command argument");
    return false;
}

bool stream_id_parse(struct bytes text, struct stream_id *id)
{
    return parse_id(text, 0, NULL, id);
}

bool arg_stream_id(struct call *call, int arg, struct stream_id *id)
{
    return parse_id(call->args[arg], 0, NULL, id) || reply_invalid_id(call);
}

bool arg_stream_id_to_add(struct call *call, int arg, struct stream_id *id, bool *has_seq)
{
    return parse_id(call->args[arg], 0, has_seq, id) || reply_invalid_id(call);
}

static bool parse_or_extreme(struct bytes text, uint64_t missing_seq, struct stream_id *id)
{
    if (bytes_equal(text, BYTES("-")))
        *id = (struct stream_id){ 0, 0 };
    else if (bytes_equal(text, BYTES("+")))
        *id = STREAM_ID_MAX;
    else
        return parse_id(text, missing_seq, NULL, id);
    return true;
}

bool arg_stream_id_or_extreme(struct call *call, int arg, struct stream_id *id)
{
    return parse_or_extreme(call->args[arg], 0, id) || reply_invalid_id(call);
}

static bool border_parse(struct call *call, int arg, uint64_t missing_seq, struct stream_id *id, bool *exclusive)
{
    struct bytes text = call->args[arg];

    *exclusive = text.size > 1 && text.data[0] == '(';
    if (*exclusive)
        return parse_id(bytes_of(text.data + 1, text.size - 1), missing_seq, NULL, id) || reply_invalid_id(call);
    return parse_or_extreme(text, missing_seq, id) || reply_invalid_id(call);
}

bool arg_stream_start(struct call *call, int arg, struct stream_id *start)
{
    bool exclusive;

    if (!border_parse(call, arg, 0, start, &exclusive))
        return false;
    if (!exclusive || stream_id_increment(start))
        return true;
    reply_errorf(call, "ERR invalid start ID for the interval");
    return false;
}

bool arg_stream_range(struct call *call, int start_arg, int end_arg, struct stream_id *start, struct stream_id *end)
{
    bool exclusive;

    if (!arg_stream_start(call, start_arg, start) || !border_parse(call, end_arg, UINT64_MAX, end, &exclusive))
        return false;
    if (!exclusive || stream_id_decrement(end))
        return true;
    reply_errorf(call, "ERR invalid end ID for the interval");
    return false;
}

struct stream_id *arg_stream_ids(struct call *call, int first, int count)
{
    struct stream_id *ids = arena_alloc(call->arena, (size_t)count * sizeof(*ids));

    for (int i = 0; i < count; i++) {
        if (!arg_stream_id(call, first + i, &ids[i]))
            return NULL;
    }
    return ids;
}
