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
        !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STRING, &key) || !string_edit_begin(&key, offset / 8, 1, &edit))
        return;
    before = string_edit_bits(&edit, offset, 1);
    if (before != (uint64_t)bit)
        string_edit_set_bits(&edit, offset, 1, (uint64_t)bit);
    string_edit_end(&edit, before != (uint64_t)bit, EVENT_SETBIT);
    reply_integer(call->reply, (int64_t)before);
}

void getbit_command(struct call *call)
{
    uint64_t offset;
    struct key key;

    if (bit_offset_arg(call, 2, 0, &offset) && string_open_part(call, KEY_FOR_READING, &key) && string_ask(&key, offset / 8, 1))
        reply_integer(call->reply, (int64_t)string_bits(&key, offset, 1));
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

/* The bits of the span from `first` on that are in one run. Returns the last of them. */
static uint64_t span_run(const struct value *string, const struct span *span, uint64_t first, char digits[TEXT_INT_SIZE], struct string_run *run)
{
    uint64_t last;

    *run = string_run(string, first / 8, digits);
    last = first - first % 8 + run->size * 8 - 1;
    return last < span->last ? last : span->last;
}

static uint64_t count_span(const struct value *string, const struct span *span)
{
    uint64_t count = 0, first = span->first;
    char digits[TEXT_INT_SIZE];

    while (first <= span->last) {
        struct string_run run;
        uint64_t last = span_run(string, span, first, digits, &run);

        if (run.data != NULL)
            count += bits_count(run.data, first % 8, first % 8 + (last - first));
        first = last + 1;
    }
    return count;
}

void bitcount_command(struct call *call)
{
    struct span span = { .start = 0, .end = -1 };
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
    if (call->arg_count > 3)
        key_use_in_parts(&key, 0);
    if (!span_resolve(&span, string_size(&key.value)))
        reply_integer(call->reply, 0);
    else if (string_ask(&key, span.first / 8, span.last / 8 - span.first / 8 + 1))
        reply_integer(call->reply, (int64_t)count_span(&key.value, &span));
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

/* False: parts were asked for, as many again as were looked at. */
static bool find_in_span(const struct key *key, const struct span *span, bool set, int64_t *found)
{
    uint64_t first = span->first;
    char digits[TEXT_INT_SIZE];

    for (*found = -1; first <= span->last && *found < 0; ) {
        struct string_run run;
        uint64_t last;

        if (!string_has(&key->value, first / 8, 1)) {
            uint64_t more = first / 8 - span->first / 8 + 1, left = span->last / 8 - first / 8 + 1;

            return string_ask(key, first / 8, more < left ? more : left);
        }
        last = span_run(&key->value, span, first, digits, &run);
        if (run.data != NULL)
            *found = bits_find(run.data, first % 8, first % 8 + (last - first), set);
        else if (!set)
            *found = (int64_t)(first % 8);
        if (*found >= 0)
            *found += (int64_t)(first - first % 8);
        first = last + 1;
    }
    return true;
}

void bitpos_command(struct call *call)
{
    struct span span = { .start = 0, .end = -1 };
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
    if (call->arg_count > 3)
        key_use_in_parts(&key, 0);
    if (!span_resolve(&span, string_size(&key.value))) {
        reply_integer(call->reply, -1);
        return;
    }
    if (!find_in_span(&key, &span, bit == 1, &found))
        return;
    /* Without an end, a string of ones is followed by zeros. */
    if (found < 0 && bit == 0 && call->arg_count <= 4)
        found = (int64_t)span.last + 1;
    reply_integer(call->reply, found);
}
