#include "replies.h"

#include "base/check.h"

/* A larger length is treated as corrupt: no server sends a string of more than 4 GB, or as many elements. */
static const uint64_t length_max = (uint64_t)1 << 32;

/* The first line of an element: `size` includes the line end. `length` is the number in it for types that have one, -1 for
 * nil.
 */
struct line {
    size_t size;
    int64_t length;
};

static bool has_length(char type)
{
    switch (type) {
    case '$': case '!': case '=': case '*': case '~': case '>': case '%': case '|': return true;
    default: return false;
    }
}

static bool is_string(char type)
{
    return type == '$' || type == '!' || type == '=';
}

static enum status length_parse(const char *digits, size_t size, int64_t *length)
{
    if (size == 2 && digits[0] == '-' && digits[1] == '1') {
        *length = -1;
        return STATUS_OK;
    }
    *length = 0;
    for (size_t i = 0; i < size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || (uint64_t)*length > length_max)
            return STATUS_CORRUPT;
        *length = *length * 10 + (digits[i] - '0');
    }
    return size == 0 || (uint64_t)*length > length_max ? STATUS_CORRUPT : STATUS_OK;
}

static enum status line_parse(const char *data, size_t size, struct line *line)
{
    const char *end = memchr(data, '\n', size);

    if (end == NULL)
        return STATUS_TRUNCATED;
    line->size = (size_t)(end - data) + 1;
    line->length = 0;
    if (line->size < 3 || end[-1] != '\r')
        return STATUS_CORRUPT;
    switch (data[0]) {
    case '+': case '-': case ':': case '_': case ',': case '#': case '(': return STATUS_OK;
    default: break;
    }
    if (!has_length(data[0]))
        return STATUS_CORRUPT;
    return length_parse(data + 1, line->size - 3, &line->length);
}

/* Returns the number of elements that follow before this one is complete. */
static uint64_t children(char type, int64_t length)
{
    if (!has_length(type) || is_string(type) || length < 0)
        return 0;
    return type == '%' || type == '|' ? 2 * (uint64_t)length : (uint64_t)length;
}

enum status reply_scan(struct reply_scan *scan, const char *data, size_t size)
{
    if (scan->size == 0)
        scan->missing = 1;
    while (scan->missing > 0) {
        const char *element = data + scan->size;
        size_t rest = size - scan->size;
        struct line line;
        enum status status;

        if (rest == 0)
            return STATUS_TRUNCATED;
        status = line_parse(element, rest, &line);
        if (status != STATUS_OK)
            return status;
        if (is_string(*element) && line.length >= 0) {
            size_t body = (size_t)line.length + 2;

            if (rest - line.size < body)
                return STATUS_TRUNCATED;
            if (memcmp(element + line.size + line.length, "\r\n", 2) != 0)
                return STATUS_CORRUPT;
            line.size += body;
        }
        scan->size += line.size;
        scan->missing += children(*element, line.length);
        if (*element != '|')        /* an attribute precedes an element and is not counted as one */
            scan->missing--;
    }
    return STATUS_OK;
}

struct reply_element reply_next(struct bytes *rest)
{
    struct reply_element element = { .type = rest->data[0] };
    struct line line;
    enum status status = line_parse(rest->data, rest->size, &line);

    CHECK(status == STATUS_OK);
    element.is_nil = element.type == '_' || line.length < 0;
    element.text = bytes_of(rest->data + 1, line.size - 3);
    if (!element.is_nil && is_string(element.type)) {
        element.text = bytes_of(rest->data + line.size, (size_t)line.length);
        line.size += (size_t)line.length + 2;
    } else if (!element.is_nil && has_length(element.type)) {
        element.count = (uint64_t)line.length;
    }
    *rest = bytes_of(rest->data + line.size, rest->size - line.size);
    return element;
}
