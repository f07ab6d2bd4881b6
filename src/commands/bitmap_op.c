/* BITOP: combines whole strings bit by bit. Shorter strings and absent keys are padded with zeros. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/string_access.h"

enum { PART_SIZE = 16 * 1024 };

enum bitop { BITOP_AND, BITOP_OR, BITOP_XOR, BITOP_NOT };

static bool read_operation(struct call *call, enum bitop *operation)
{
    static const char *const names[] = { "AND", "OR", "XOR", "NOT" };

    for (int i = 0; i < 4; i++) {
        if (!arg_is(call, 1, names[i]))
            continue;
        *operation = (enum bitop)i;
        if (i != BITOP_NOT || call->arg_count == 4)
            return true;
        reply_errorf(call, "ERR BITOP NOT must be called with a single source key.");
        return false;
    }
    reply_error(call, ERR_SYNTAX);
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

/* Eight bytes at a time, in one loop for each operation, so that the compiler can vectorize it. */
#define COMBINE(operator) \
    for (; i + 8 <= size; i += 8) { \
        uint64_t x, y; \
        memcpy(&x, out + i, 8); \
        memcpy(&y, source + i, 8); \
        x = x operator y; \
        memcpy(out + i, &x, 8); \
    } \
    for (; i < size; i++) \
        out[i] = (char)(out[i] operator source[i]);

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
    case BITOP_AND: COMBINE(&) break;
    case BITOP_OR: COMBINE(|) break;
    case BITOP_XOR: COMBINE(^) break;
    case BITOP_NOT: invert_part(out, source, size); break;
    }
}

/* The part of a source that is within [from, from + size). */
static struct bytes part_of(struct bytes source, size_t from, size_t size)
{
    if (source.size <= from)
        return bytes_of("", 0);
    return bytes_of(source.data + from, source.size - from < size ? source.size - from : size);
}

static void compute_part(enum bitop operation, const struct bytes *sources, int count, char *out, size_t from, size_t size)
{
    struct bytes part = part_of(sources[0], from, size);

    if (operation == BITOP_NOT) {
        combine_part(BITOP_NOT, out, part.data, size);
        return;
    }
    memcpy(out, part.data, part.size);
    memset(out + part.size, 0, size - part.size);
    for (int i = 1; i < count; i++) {
        part = part_of(sources[i], from, size);
        combine_part(operation, out, part.data, part.size);
        if (operation == BITOP_AND)
            memset(out + part.size, 0, size - part.size);
    }
}

/* Combines all sources part by part; a part fits into the CPU's cache. */
static void compute_result(enum bitop operation, const struct bytes *sources, int count, char *out, size_t size)
{
    for (size_t from = 0; from < size; from += PART_SIZE) {
        size_t part_size = size - from < PART_SIZE ? size - from : PART_SIZE;

        compute_part(operation, sources, count, out + from, from, part_size);
    }
}

void bitop_command(struct call *call)
{
    struct bytes *sources;
    enum bitop operation;
    struct value value;
    struct key key;
    size_t size;

    if (!read_operation(call, &operation))
        return;
    sources = arena_alloc(call->arena, (size_t)(call->arg_count - 3) * sizeof(*sources));
    if (!open_sources(call, sources, &size))
        return;
    key_open(call, 2, KEY_FOR_WRITING, &key);
    if (size > 0) {
        /* All of it before the change: the destination may be one of the sources. */
        compute_result(operation, sources, call->arg_count - 3, string_make(call, size, &value), size);
        key_replace(&key, value);
        key.expire_ms = -1;
        key_changed(&key, EVENT_SET);
    } else if (key.present) {
        key_remove(&key, KEY_REMOVE_LAZILY, EVENT_DEL);
    }
    reply_integer(call->reply, (int64_t)size);
}
