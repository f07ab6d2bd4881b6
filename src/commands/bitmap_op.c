/* BITOP: combines whole strings bit by bit. Shorter strings and absent keys are padded with zeros. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

enum { PART_SIZE = 16 * 1024 };

/* The last four are of Redis 8.2. Three of them compare the first source, X, with the union of the others. */
enum bitop { BITOP_AND, BITOP_OR, BITOP_XOR, BITOP_NOT, BITOP_DIFF, BITOP_DIFF1, BITOP_ANDOR, BITOP_ONE };

static bool read_operation(struct call *call, enum bitop *operation)
{
    static const char *const names[] = { "AND", "OR", "XOR", "NOT", "DIFF", "DIFF1", "ANDOR", "ONE" };
    int i = 0;

    while (i <= BITOP_ONE && !arg_is(call, 1, names[i]))
        i++;
    *operation = (enum bitop)i;
    if (i > BITOP_ONE)
        reply_error(call, ERR_SYNTAX);
    else if (i == BITOP_NOT && call->arg_count != 4)
        reply_errorf(call, "ERR BITOP NOT must be called with a single source key.");
    else if (i >= BITOP_DIFF && i <= BITOP_ANDOR && call->arg_count < 5)
        reply_errorf(call, "ERR BITOP %s must be called with at least two source keys.", names[i]);
    else
        return true;
    return false;
}

/* Collects the strings and the size of the longest. False: the error was replied. */
static bool open_sources(struct call *call, struct bytes *sources, size_t *size_max)
{
    *size_max = 0;
    for (int i = 3; i < call->arg_count; i++) {
        struct bytes *source = &sources[i - 3];
        char digits[TEXT_INT_SIZE];
        struct key key;

        if (!key_open_as(call, i, KEY_FOR_READING, VALUE_STRING, &key))
            return false;
        *source = string_of(&key, digits);
        if (source->data == digits)
            *source = arena_copy(call->arena, *source);
        if (source->size > *size_max)
            *size_max = source->size;
    }
    return true;
}

/* Eight bytes at a time, in one loop for each operation, so that the compiler can vectorize it. The expression is of x, the result so
 * far, and y, the source. */
#define COMBINE(expression) \
    for (; i + 8 <= size; i += 8) { \
        uint64_t x, y; \
        memcpy(&x, out + i, 8); \
        memcpy(&y, source + i, 8); \
        x = (expression); \
        memcpy(out + i, &x, 8); \
    } \
    for (; i < size; i++) { \
        unsigned x = (unsigned char)out[i], y = (unsigned char)source[i]; \
        out[i] = (char)(expression); \
    }

static void invert_part(char *restrict out, const char *restrict source, size_t size)
{
    size_t i = 0;

    for (; i + 8 <= size; i += 8) {
        uint64_t x;

        memcpy(&x, source + i, 8);
        x = ~x;
        memcpy(out + i, &x, 8);
    }
    for (; i < size; i++)
        out[i] = (char)~source[i];
}

static void combine_part(enum bitop operation, char *restrict out, const char *restrict source, size_t size)
{
    size_t i = 0;

    switch (operation) {
    case BITOP_AND: COMBINE(x & y) break;
    case BITOP_OR: COMBINE(x | y) break;
    case BITOP_XOR: COMBINE(x ^ y) break;
    case BITOP_NOT: invert_part(out, source, size); break;
    case BITOP_DIFF: COMBINE(y & ~x) break;
    case BITOP_DIFF1: COMBINE(x & ~y) break;
    case BITOP_ANDOR: COMBINE(x & y) break;
    case BITOP_ONE: break;
    }
}

/* Adds a source: `once` gets the bits seen so far, `more` those seen at least twice. */
static void count_part(char *restrict once, char *restrict more, const char *restrict source, size_t size)
{
    size_t i = 0;

    for (; i + 8 <= size; i += 8) {
        uint64_t x, y, z;

        memcpy(&x, once + i, 8);
        memcpy(&y, source + i, 8);
        memcpy(&z, more + i, 8);
        z |= x & y;
        x |= y;
        memcpy(once + i, &x, 8);
        memcpy(more + i, &z, 8);
    }
    for (; i < size; i++) {
        more[i] = (char)(more[i] | (once[i] & source[i]));
        once[i] = (char)(once[i] | source[i]);
    }
}

/* The part of a source that is within [from, from + size). */
static struct bytes part_of(struct bytes source, size_t from, size_t size)
{
    if (source.size <= from)
        return bytes_of("", 0);
    return bytes_of(source.data + from, source.size - from < size ? source.size - from : size);
}

/* AND, OR, XOR of all. */
static void fold_part(enum bitop operation, const struct bytes *sources, int count, char *out, size_t from, size_t size)
{
    struct bytes part = part_of(sources[0], from, size);

    memcpy(out, part.data, part.size);
    memset(out + part.size, 0, size - part.size);
    for (int i = 1; i < count; i++) {
        part = part_of(sources[i], from, size);
        combine_part(operation, out, part.data, part.size);
        if (operation == BITOP_AND)
            memset(out + part.size, 0, size - part.size);
    }
}

/* DIFF, DIFF1, ANDOR: the union of all but the first, then the first. Where that has ended, only DIFF1 has bits. */
static void compare_part(enum bitop operation, const struct bytes *sources, int count, char *out, size_t from, size_t size)
{
    struct bytes part = part_of(sources[0], from, size);

    fold_part(BITOP_OR, sources + 1, count - 1, out, from, size);
    combine_part(operation, out, part.data, part.size);
    if (operation != BITOP_DIFF1)
        memset(out + part.size, 0, size - part.size);
}

static void single_part(const struct bytes *sources, int count, char *out, size_t from, size_t size)
{
    char more[PART_SIZE];

    memset(out, 0, size);
    memset(more, 0, size);
    for (int i = 0; i < count; i++) {
        struct bytes part = part_of(sources[i], from, size);

        count_part(out, more, part.data, part.size);
    }
    combine_part(BITOP_DIFF1, out, more, size);
}

static void compute_part(enum bitop operation, const struct bytes *sources, int count, char *out, size_t from, size_t size)
{
    if (operation == BITOP_NOT)
        combine_part(BITOP_NOT, out, sources[0].data + from, size);
    else if (operation == BITOP_ONE)
        single_part(sources, count, out, from, size);
    else if (operation >= BITOP_DIFF)
        compare_part(operation, sources, count, out, from, size);
    else
        fold_part(operation, sources, count, out, from, size);
}

/* Combines all sources part by part; a part fits into the CPU's cache. */
static void compute_result(enum bitop operation, const struct bytes *sources, int count, char *out, size_t size)
{
    for (size_t from = 0; from < size; from += PART_SIZE) {
        size_t part_size = size - from < PART_SIZE ? size - from : PART_SIZE;

        compute_part(operation, sources, count, out + from, from, part_size);
    }
}

/* Redis 7 does not know the later operations: their result is logged. */
static void log_result(struct call *call, enum bitop operation, struct bytes result)
{
    if (operation < BITOP_DIFF)
        return;
    if (result.size > 0)
        call_propagate(call, (struct bytes[]){ BYTES("SET"), call->args[2], result }, 3);
    else
        call_propagate(call, (struct bytes[]){ BYTES("DEL"), call->args[2] }, 2);
}

void bitop_command(struct call *call)
{
    struct bytes *sources;
    enum bitop operation;
    struct value value;
    struct key key;
    size_t size;
    char *out;

    if (!read_operation(call, &operation))
        return;
    sources = arena_alloc(call->arena, (size_t)(call->arg_count - 3) * sizeof(*sources));
    if (!open_sources(call, sources, &size))
        return;
    key_open(call, 2, KEY_FOR_WRITING, &key);
    if (size > 0) {
        /* All of it before the change: the destination may be one of the sources. */
        out = string_make(call, size, &value);
        compute_result(operation, sources, call->arg_count - 3, out, size);
        log_result(call, operation, bytes_of(out, size));
        key_replace(&key, value);
        key.expire_ms = -1;
        key_changed(&key, EVENT_SET);
    } else if (key.present) {
        log_result(call, operation, bytes_of("", 0));
        key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
    }
    reply_integer(call->reply, (int64_t)size);
}
