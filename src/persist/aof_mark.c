#include "persist/aof_mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc64.h"
#include "base/text.h"

enum { SUM_SIZE = 16 };

/* `out` has `size` bytes of text; the sum and the line's end are added. */
static size_t end_line(char *out, size_t size)
{
    uint64_t sum = crc64(0, bytes_of(out, size));

    return size + (size_t)sprintf(out + size, " %016" PRIx64 "\r\n", sum);
}

size_t aof_mark_print_point(const struct history_point *point, char *out)
{
    const struct history_identity *identity = &point->identity;

    return (size_t)sprintf(out, "%s %" PRId64 " %d %s %" PRId64, identity->id, point->offset, point->db, identity->second_id,
        identity->second_offset);
}

size_t aof_mark_print(const struct history_point *point, char *out)
{
    size_t size = (size_t)sprintf(out, "#STREAM:");

    return end_line(out, size + aof_mark_print_point(point, out + size));
}

size_t aof_mark_print_local(size_t size, char *out)
{
    return end_line(out, (size_t)sprintf(out, "#LOCAL:%zu", size));
}

/* Removes the text up to the next blank, or all of it. */
static struct bytes take_word(struct bytes *text)
{
    const char *blank = text->size > 0 ? memchr(text->data, ' ', text->size) : NULL;
    struct bytes word = bytes_of(text->data, blank != NULL ? (size_t)(blank - text->data) : text->size);
    size_t taken = word.size + (blank != NULL ? 1 : 0);

    *text = bytes_of(text->data + taken, text->size - taken);
    return word;
}

static bool take_number(struct bytes *text, int64_t lowest, int64_t highest, int64_t *number)
{
    return text_to_int(take_word(text), number) && *number >= lowest && *number <= highest;
}

static bool take_id(struct bytes *text, char *id)
{
    struct bytes word = take_word(text);

    if (word.size != HISTORY_ID_SIZE)
        return false;
    for (size_t i = 0; i < word.size; i++) {
        if (strchr("0123456789abcdefABCDEF", word.data[i]) == NULL || word.data[i] == '\0')
            return false;
    }
    memcpy(id, word.data, HISTORY_ID_SIZE);
    id[HISTORY_ID_SIZE] = '\0';
    return true;
}

bool aof_mark_parse_point(struct bytes text, struct history_point *point)
{
    struct history_identity *identity = &point->identity;
    const int64_t highest = 2 * HISTORY_OFFSET_MAX;
    int64_t offset, db, second_offset;

    *point = (struct history_point){ .db = -1 };
    if (!take_id(&text, identity->id) || !take_number(&text, 0, highest, &offset) || !take_number(&text, -1, INT32_MAX, &db) ||
        !take_id(&text, identity->second_id) || !take_number(&text, -1, highest, &second_offset) || text.size > 0)
        return false;
    point->offset = offset;
    point->db = (int)db;
    identity->second_offset = second_offset;
    return true;
}

static bool begins_with(struct bytes *line, struct bytes word)
{
    if (line->size < word.size || memcmp(line->data, word.data, word.size) != 0)
        return false;
    *line = bytes_of(line->data + word.size, line->size - word.size);
    return true;
}

/* Verifies and removes the blank, the sum and the line's end. */
static bool take_sum(struct bytes *line)
{
    char wanted[SUM_SIZE + 4];
    size_t end = SUM_SIZE + 3;

    if (line->size < end)
        return false;
    line->size -= end;
    sprintf(wanted, " %016" PRIx64 "\r\n", crc64(0, *line));
    return memcmp(line->data + line->size, wanted, end) == 0;
}

enum aof_mark_kind aof_mark_parse(struct bytes line, struct history_point *point, uint64_t *size)
{
    struct bytes text = line;
    enum aof_mark_kind kind = AOF_MARK_NONE;
    int64_t number = 0;
    bool good;

    if (begins_with(&text, BYTES("#STREAM:")))
        kind = AOF_MARK_STREAM;
    else if (begins_with(&text, BYTES("#LOCAL:")))
        kind = AOF_MARK_LOCAL;
    if (kind == AOF_MARK_NONE)
        return kind;
    if (!take_sum(&line))
        return AOF_MARK_BAD;
    text.size = line.size - (size_t)(text.data - line.data);
    if (kind == AOF_MARK_STREAM)
        good = aof_mark_parse_point(text, point);
    else
        good = text_to_int(text, &number) && number >= 0;
    *size = (uint64_t)number;
    return good ? kind : AOF_MARK_BAD;
}
