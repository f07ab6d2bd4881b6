#include "persist/aof_tear.h"

#include <stdint.h>
#include <string.h>

enum { DIGITS_MAX = 12, ARGS_MAX = 1 << 20, COMMANDS_TO_BELIEVE = 2 };

enum part { PART_WHOLE, PART_TORN, PART_BAD };

/* Reads `<kind><number>\r\n` at *position, which moves past it. PART_TORN: the text ends within it. */
static enum part take_number(const char *text, size_t size, size_t *position, char kind, uint64_t *number)
{
    size_t here = *position, digits = 0;

    *number = 0;
    if (here == size)
        return PART_TORN;
    if (text[here++] != kind)
        return PART_BAD;
    for (; here < size && text[here] >= '0' && text[here] <= '9'; here++) {
        if (++digits > DIGITS_MAX)
            return PART_BAD;
        *number = *number * 10 + (uint64_t)(text[here] - '0');
    }
    if (here == size)
        return PART_TORN;
    if (digits == 0 || text[here++] != '\r')
        return PART_BAD;
    if (here == size)
        return PART_TORN;
    if (text[here++] != '\n')
        return PART_BAD;
    *position = here;
    return PART_WHOLE;
}

/* Reads the command at *position, which moves past it. PART_TORN: the text ends within it, and *header is where the last length that was
 * read begins (0: none). */
static enum part take_command(const char *text, size_t size, size_t *position, size_t *header)
{
    uint64_t count, length;
    size_t here = *position;
    enum part part = take_number(text, size, &here, '*', &count);

    *header = 0;
    if (part != PART_WHOLE)
        return part;
    if (count == 0 || count > ARGS_MAX)
        return PART_BAD;
    for (; count > 0; count--) {
        size_t begin = here;

        part = take_number(text, size, &here, '$', &length);
        if (part != PART_WHOLE)
            return part;
        *header = begin;
        if (length > size - here || size - here - length < 2)
            return PART_TORN;
        here += length;
        if (memcmp(text + here, "\r\n", 2) != 0)
            return PART_BAD;
        here += 2;
    }
    *position = here;
    return PART_WHOLE;
}

static bool commands_begin_at(const char *text, size_t size, size_t position)
{
    size_t header;
    int found = 0;

    for (; found < COMMANDS_TO_BELIEVE && position < size; found++) {
        enum part part = take_command(text, size, &position, &header);

        if (part != PART_WHOLE)
            return found > 0 && part == PART_TORN;
    }
    return found > 0;
}

/* Whether the command ends where the text ends once one bit of the length at `header` is changed. */
static bool is_whole_with_a_bit_changed(char *text, size_t size, size_t header)
{
    bool whole = false;

    for (size_t digit = header + 1; text[digit] != '\r' && !whole; digit++) {
        for (int bit = 0; bit < 8 && !whole; bit++) {
            size_t position = 0, ignored;

            text[digit] = (char)(text[digit] ^ 1 << bit);
            if (text[digit] >= '0' && text[digit] <= '9')
                whole = take_command(text, size, &position, &ignored) == PART_WHOLE && position == size;
            text[digit] = (char)(text[digit] ^ 1 << bit);
        }
    }
    return whole;
}

bool aof_tear_is_damage(char *tail, size_t size, size_t *again)
{
    size_t position = 0, header;

    if (size == 0)
        return false;
    for (const char *star = tail + 1; (star = memchr(star, '*', (size_t)(tail + size - star))) != NULL; star++) {
        if (star[-1] == '\n' && commands_begin_at(tail, size, (size_t)(star - tail))) {
            *again = (size_t)(star - tail);
            return true;
        }
        if (star + 1 == tail + size)
            break;
    }
    *again = size;
    return size < AOF_TEAR_SIZE_MAX && take_command(tail, size, &position, &header) == PART_TORN && header > 0 &&
           is_whole_with_a_bit_changed(tail, size, header);
}
