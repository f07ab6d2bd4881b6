/* The bitmap commands for single bits, counting and searching. */
#include "commands/bitmap.h"

#include "call/call.h"
#include "call/key.h"
#include "commands/bits.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

bool bit_offset_arg(struct call *call, int arg, int width, uint64_t *offset)
{
    struct bytes text = call->args[arg];
    bool counted = width > 0 && text.size > 0 && text.data[0] == '#';
    int64_t number;

    if (counted)
        text = bytes_of(text.data + 1, text.size - 1);
    if (!text_to_int(text, &number) || (counted && __builtin_mul_overflow(number, width, &number)) || number < 0 ||
        (uint64_t)number / 8 >= string_size_max(call)) {
        reply_errorf(call, "ERR bit offset is not an integer or out of range");
        return false;
    }
    *offset = (uint64_t)number;
    return true;
}

void setbit_command(struct call *call)
{
    struct string_edit edit;
    uint64_t offset, before;
    int64_t bit;
    struct key key;

    if (!bit_offset_arg(call, 2, 0, &offset) ||
        !arg_integer_between(call, 3, 0, 1, "ERR bit is not an integer or out of range", &bit) ||
        !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key))
        return;
    edit = string_edit_begin(&key, (size_t)(offset / 8 + 1));
    before = bits_read(edit.data, edit.size, offset, 1);
    bits_write(edit.data, offset, 1, (uint64_t)bit);
    string_edit_end(&key, &edit, before != (uint64_t)bit, EVENT_SETBIT);
    reply_integer(call->reply, (int64_t)before);
}

void getbit_command(struct call *call)
{
    char digits[TEXT_INT_SIZE];
    struct bytes string;
    uint64_t offset;
    struct key key;

    if (!bit_offset_arg(call, 2, 0, &offset) || !key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    string = string_of(&key, digits);
    reply_integer(call->reply, (int64_t)bits_read(string.data, string.size, offset, 1));
}

/* BYTE, which is the default, or BIT. False: the error was replied. */
static bool unit_arg(struct call *call, int arg, bool *in_bits)
{
    *in_bits = false;
    if (arg >= call->arg_count || arg_is(call, arg, "BYTE"))
        return true;
    *in_bits = arg_is(call, arg, "BIT");
    if (!*in_bits)
        reply_error(call, ERR_SYNTAX);
    return *in_bits;
}

/* The range of a command: bits `first` to `last` of a string, both included. */
struct span {
    int64_t start, end;         /* as given: in bytes or bits, negative ones counted from the end */
    bool in_bits;
    uint64_t first, last;
};

/* False if it is empty. */
static bool span_resolve(struct span *span, size_t string_size)
{
    int64_t size = span->in_bits ? (int64_t)string_size * 8 : (int64_t)string_size;
    int64_t start = span->start < 0 ? span->start + size : span->start;
    int64_t end = span->end < 0 ? span->end + size : span->end;

    if (start < 0)
        start = 0;
    if (end < 0)
        end = 0;
    if (end >= size)
        end = size - 1;
    if (start > end)
        return false;
    span->first = span->in_bits ? (uint64_t)start : (uint64_t)start * 8;
    span->last = span->in_bits ? (uint64_t)end : (uint64_t)end * 8 + 7;
    return true;
}

void bitcount_command(struct call *call)
{
    struct span span = { .start = 0, .end = -1 };
    char digits[TEXT_INT_SIZE];
    struct bytes string;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    if (!key.present) {         /* Redis then ignores the other arguments */
        reply_integer(call->reply, 0);
        return;
    }
    if (call->arg_count == 3 || call->arg_count > 5) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    if (call->arg_count > 3 && (!arg_integer(call, 2, &span.start) || !arg_integer(call, 3, &span.end)))
        return;
    if (span.start < 0 && span.end < 0 && span.start > span.end) {      /* Redis then ignores the unit */
        reply_integer(call->reply, 0);
        return;
    }
    if (!unit_arg(call, 4, &span.in_bits))
        return;
    string = string_of(&key, digits);
    if (!span_resolve(&span, string.size))
        reply_integer(call->reply, 0);
    else
        reply_integer(call->reply, (int64_t)bits_count(string.data, span.first, span.last));
}

static bool read_bitpos_span(struct call *call, struct span *span)
{
    if (call->arg_count > 6) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    return (call->arg_count <= 3 || arg_integer(call, 3, &span->start)) && unit_arg(call, 5, &span->in_bits) &&
        (call->arg_count <= 4 || arg_integer(call, 4, &span->end));
}

void bitpos_command(struct call *call)
{
    struct span span = { .start = 0, .end = -1 };
    char digits[TEXT_INT_SIZE];
    struct bytes string;
    int64_t bit, found;
    struct key key;

    if (!arg_integer(call, 2, &bit))
        return;
    if (bit != 0 && bit != 1) {
        reply_errorf(call, "ERR The bit argument must be 1 or 0.");
        return;
    }
    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STRING, &key))
        return;
    if (!key.present) {         /* Redis then ignores the other arguments */
        reply_integer(call->reply, bit ? -1 : 0);
        return;
    }
    if (!read_bitpos_span(call, &span))
        return;
    string = string_of(&key, digits);
    if (!span_resolve(&span, string.size)) {
        reply_integer(call->reply, -1);
        return;
    }
    found = bits_find(string.data, span.first, span.last, bit == 1);
    /* Without an end, a string of ones is followed by zeros. */
    if (found < 0 && bit == 0 && call->arg_count <= 4)
        found = (int64_t)span.last + 1;
    reply_integer(call->reply, found);
}
