#include "resp/request.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/text.h"

enum {
    ARGS_MIN = 16,
    ARGS_KEEP = 1024,                       /* an array for more arguments is freed when the next request begins */
    INLINE_KEEP = 16 * 1024,
    UNAUTHENTICATED_ARGS_MAX = 10,
    UNAUTHENTICATED_BULK_MAX = 16 * 1024,
    FAST_DIGITS_MAX = 9,
    PLAIN_SIZE_MIN = 6,                     /* of an argument with all around it: "$0", and two line ends */
};

/* The result of reading a header line. */
enum header { HEADER_OK, HEADER_MORE, HEADER_ERROR };

void request_init(struct request_parser *parser)
{
    *parser = (struct request_parser){ .args_expected = -1, .bulk_expected = -1 };
}

void request_release(struct request_parser *parser)
{
    request_drop_large(parser);
    mem_free(parser->large);
    mem_free(parser->args);
    buffer_release(&parser->inline_text);
    request_init(parser);
}

void request_trim(struct request_parser *parser)
{
    CHECK(parser->args_expected < 0);
    mem_free(parser->args);
    parser->args = NULL;
    parser->arg_count = 0;
    parser->arg_capacity = 0;
    buffer_release(&parser->inline_text);
}

/* Keeps the arguments; the next byte is the start of a request. */
static void request_end(struct request_parser *parser)
{
    parser->args_expected = -1;
    parser->bulk_expected = -1;
    parser->scanned = 0;
    parser->line_scanned = 0;
}

struct blob *request_large_find(const struct request_large *large, int count, struct bytes bytes)
{
    for (int i = 0; i < count; i++) {
        if (large[i].blob->buffer.data == bytes.data && large[i].blob->buffer.size == bytes.size)
            return large[i].blob;
    }
    return NULL;
}

void request_drop_large(struct request_parser *parser)
{
    while (parser->large_count > 0)
        blob_release(parser->large[--parser->large_count].blob);
    parser->large_size = 0;
}

void request_restart(struct request_parser *parser)
{
    CHECK(parser->large_count == 0);        /* their bytes are not in the data any more */
    request_end(parser);
    parser->arg_count = 0;
}

static enum request_result protocol_error(struct request_parser *parser, const char *text)
{
    snprintf(parser->error, sizeof(parser->error), "Protocol error: %s", text);
    request_end(parser);
    parser->arg_count = 0;
    return REQUEST_ERROR;
}

static enum request_result need_more(size_t *wanted, size_t missing)
{
    *wanted = missing;
    return REQUEST_MORE;
}

/* Memory follows the arguments that have arrived, not the announced count. */
static void args_grow(struct request_parser *parser)
{
    int64_t capacity = parser->arg_capacity == 0 ? ARGS_MIN : (int64_t)parser->arg_capacity * 2;

    if (capacity > INT32_MAX)
        capacity = INT32_MAX;
    CHECK(capacity > parser->arg_capacity);
    parser->args = mem_realloc(parser->args, (size_t)capacity * sizeof(*parser->args));
    parser->arg_capacity = (int)capacity;
}

static inline void args_push(struct request_parser *parser, const char *data, size_t size)
{
    if (parser->arg_count == parser->arg_capacity)
        args_grow(parser);
    parser->args[parser->arg_count++] = bytes_of(data, size);
}

/* Converts addresses to offsets while the data may move, and back, except for large arguments, which stay where they
 * are. An argument is converted once in each direction, however many pieces the request arrives in. */
static void args_to_offsets(struct request_parser *parser, int first, const char *data)
{
    int large = 0;

    for (int i = first; i < parser->arg_count; i++) {
        while (large < parser->large_count && parser->large[large].arg < i)
            large++;
        if (large == parser->large_count || parser->large[large].arg != i)
            parser->args[i].data = (const char *)((uintptr_t)parser->args[i].data - (uintptr_t)data);
    }
}

static void args_to_addresses(struct request_parser *parser, int count, const char *data)
{
    int large = 0;

    for (int i = 0; i < count; i++) {
        if (large < parser->large_count && parser->large[large].arg == i)
            large++;
        else
            parser->args[i].data = data + (uintptr_t)parser->args[i].data;
    }
}

/* Large arguments */

size_t request_large_wanted(const struct request_parser *parser)
{
    if (parser->args_expected < 0 || parser->bulk_expected < REQUEST_LARGE_MIN)
        return 0;
    if (parser->large_count > 0 && parser->large[parser->large_count - 1].arg == parser->arg_count)
        return 0;               /* it is being received already */
    return (size_t)parser->bulk_expected + 2;
}

size_t request_large_begin(struct request_parser *parser, const char *data, size_t size)
{
    size_t wanted = request_large_wanted(parser);
    struct blob *blob = blob_create(wanted);

    CHECK(wanted > 0 && size >= parser->scanned && size - parser->scanned < wanted);
    buffer_append(&blob->buffer, data + parser->scanned, size - parser->scanned);
    if (parser->large_count == parser->large_capacity) {
        parser->large_capacity = parser->large_capacity * 2 + 2;
        parser->large = mem_realloc(parser->large, (size_t)parser->large_capacity * sizeof(*parser->large));
    }
    parser->large[parser->large_count++] = (struct request_large){ blob, parser->arg_count };
    parser->large_size += wanted;
    return parser->scanned;
}

static struct buffer *filling_buffer(const struct request_parser *parser)
{
    const struct request_large *last = parser->large_count > 0 ? &parser->large[parser->large_count - 1] : NULL;

    return last != NULL && last->arg == parser->arg_count && parser->args_expected >= 0 ? &last->blob->buffer : NULL;
}

char *request_large_room(struct request_parser *parser, size_t *room)
{
    struct buffer *buffer = filling_buffer(parser);

    if (buffer == NULL)
        return NULL;
    *room = buffer->capacity - buffer->size;
    return buffer->data + buffer->size;
}

size_t request_large_received(const struct request_parser *parser, size_t *room)
{
    const struct buffer *buffer = filling_buffer(parser);

    *room = buffer == NULL ? 0 : buffer->capacity - buffer->size;
    return buffer == NULL ? 0 : buffer->size;
}

size_t request_memory(const struct request_parser *parser)
{
    return (size_t)parser->arg_capacity * sizeof(struct bytes) + parser->inline_text.capacity + parser->large_size;
}

bool request_large_add(struct request_parser *parser, size_t size)
{
    struct buffer *buffer = filling_buffer(parser);

    CHECK(buffer != NULL && size <= buffer->capacity - buffer->size);
    buffer->size += size;
    if (buffer->size < buffer->capacity)
        return false;
    buffer->size -= 2;          /* the two bytes after the argument are not checked, as for other arguments */
    args_push(parser, buffer->data, buffer->size);
    parser->bulk_expected = -1;
    return true;
}

void request_again(struct request_parser *parser, const char *data, size_t size)
{
    args_to_offsets(parser, 0, data);
    parser->args_expected = parser->arg_count;
    parser->bulk_expected = -1;
    parser->scanned = size;
    parser->line_scanned = 0;
}

/* Inline commands */

static inline bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns whether the character ends an argument without quotes: fewer characters than are skipped between arguments. */
static inline bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* `at` is after a backslash in double quotes, and not at the end. */
static const char *read_escape(const char *at, const char *end, struct buffer *text)
{
    char c = *at;

    if (c == 'x' && end - at >= 3 && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0) {
        buffer_append_u8(text, (uint8_t)(hex_value(at[1]) * 16 + hex_value(at[2])));
        return at + 3;
    }
    switch (c) {
    case 'n': c = '\n'; break;
    case 'r': c = '\r'; break;
    case 't': c = '\t'; break;
    case 'b': c = '\b'; break;
    case 'a': c = '\a'; break;
    }
    buffer_append_u8(text, (uint8_t)c);
    return at + 1;
}

/* `at` is after the opening quote. Returns the address after the closing one, NULL if there is none. */
static const char *read_quoted(const char *at, const char *end, char quote, struct buffer *text)
{
    while (at < end && *at != quote) {
        if (*at == '\\' && quote == '"' && end - at >= 2) {
            at = read_escape(at + 1, end, text);
            continue;
        }
        if (*at == '\\' && quote == '\'' && end - at >= 2 && at[1] == '\'')
            at++;
        buffer_append_u8(text, (uint8_t)*at++);
    }
    return at < end ? at + 1 : NULL;
}

/* Reads one argument that contains quotes and appends it to inline_text. NULL if the quotes are not balanced. */
static const char *inline_quoted(struct request_parser *parser, const char *at, const char *end)
{
    struct buffer *text = &parser->inline_text;
    size_t start = text->size;

    while (at < end && !is_separator(*at)) {
        if (*at != '"' && *at != '\'') {
            buffer_append_u8(text, (uint8_t)*at++);
            continue;
        }
        at = read_quoted(at + 1, end, *at, text);
        if (at == NULL || (at < end && !is_space(*at)))
            return NULL;
        break;
    }
    args_push(parser, text->data + start, text->size - start);
    return at;
}

static enum request_result inline_split(struct request_parser *parser, const char *at, const char *end)
{
    /* Reserves the maximum, so that inline_text does not move while arguments point into it. */
    if (memchr(at, '"', (size_t)(end - at)) != NULL || memchr(at, '\'', (size_t)(end - at)) != NULL)
        buffer_reserve(&parser->inline_text, (size_t)(end - at));
    for (;;) {
        const char *start;

        while (at < end && is_space(*at))
            at++;
        if (at == end)
            return REQUEST_COMPLETE;
        start = at;
        while (at < end && !is_separator(*at) && *at != '"' && *at != '\'')
            at++;
        if (at == end || is_separator(*at)) {
            args_push(parser, start, (size_t)(at - start));
        } else {
            at = inline_quoted(parser, start, end);
            if (at == NULL)
                return protocol_error(parser, "unbalanced quotes in request");
        }
    }
}

static enum request_result inline_parse(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size, size_t *consumed, size_t *wanted)
{
    enum request_result result;
    const char *end;
    size_t line_size;

    CHECK(size >= parser->line_scanned);
    end = memchr(data + parser->line_scanned, '\n', size - parser->line_scanned);
    line_size = end != NULL ? (size_t)(end - data) : size;
    if (line_size > (size_t)limits->inline_size_max)
        return protocol_error(parser, "too big inline request");
    if (end == NULL) {
        parser->line_scanned = size;
        return need_more(wanted, 1);
    }
    parser->inline_text.size = 0;
    result = inline_split(parser, data, end);
    if (result == REQUEST_COMPLETE) {
        *consumed = line_size + 1;
        request_end(parser);
    }
    return result;
}

/* Arrays of bulk strings */

/* number_fast for numbers of any length up to FAST_DIGITS_MAX that do not begin with 0. */
static const char *number_longer(const char *at, const char *end, int64_t *number)
{
    const char *limit = end - at > FAST_DIGITS_MAX + 2 ? at + FAST_DIGITS_MAX + 1 : end - 1;
    int64_t value = 0;

    for (; at < limit; at++) {
        unsigned digit = (unsigned char)*at - '0';

        if (digit > 9) {
            if (*at != '\r')
                return NULL;
            *number = value;
            return at + 2;
        }
        value = value * 10 + digit;
    }
    return NULL;
}

/* Reads the number at `at` if it is plain and short and both bytes of its line end are there, which is nearly always
 * the case; mostly it has one digit or two. Returns the address after the line; NULL means that header_slow has to read it
 * and find out why. */
static inline const char *number_fast(const char *at, const char *end, int64_t *number)
{
    unsigned first, second;

    if (end - at < 4)           /* not even an empty argument follows */
        return NULL;
    first = (unsigned char)at[0] - '0';
    second = (unsigned char)at[1] - '0';
    if (first > 9)
        return NULL;
    if (at[1] == '\r') {
        *number = first;
        return at + 3;
    }
    if (first == 0 || second > 9)
        return NULL;
    if (at[2] != '\r')
        return number_longer(at, end, number);
    *number = first * 10 + second;
    return at + 4;
}

static enum header unexpected_type(struct request_parser *parser, char got)
{
    char text[32];

    if (got == '\r' || got == '\n' || got == '\0')
        got = ' ';
    snprintf(text, sizeof(text), "expected '$', got '%c'", got);
    protocol_error(parser, text);
    return HEADER_ERROR;
}

/* Reads the line of type `type` at `scanned`: checks everything, reads the number, moves `scanned` after the line. A
 * line ends with CR and any one byte. Its size is checked first, so that the result does not depend on the pieces in
 * which the line arrives. */
static enum header header_slow(struct request_parser *parser, const struct request_limits *limits, const char *data,
    size_t size, char type, int64_t *number)
{
    size_t start = parser->scanned;
    size_t from = parser->line_scanned > start ? parser->line_scanned : start;
    const char *end;
    size_t line_size;

    CHECK(size >= from);        /* the same bytes as in the last call, possibly more */
    end = memchr(data + from, '\r', size - from);
    line_size = end != NULL ? (size_t)(end - data) - start : size - start;
    if (line_size > (size_t)limits->inline_size_max) {
        protocol_error(parser, type == '*' ? "too big mbulk count string" : "too big bulk count string");
        return HEADER_ERROR;
    }
    if (end == NULL || end == data + size - 1) {
        parser->line_scanned = start + line_size;
        return HEADER_MORE;
    }
    if (data[start] != type)
        return unexpected_type(parser, data[start]);
    if (!text_to_int(bytes_of(data + start + 1, line_size - 1), number))
        *number = INT64_MAX;        /* above every limit */
    parser->scanned = start + line_size + 2;
    return HEADER_OK;
}

static enum header count_read(struct request_parser *parser, const struct request_limits *limits, const char *data,
    size_t size)
{
    const char *after = number_fast(data + 1, data + size, &parser->args_expected);
    int64_t count;

    if (after != NULL) {
        parser->scanned = (size_t)(after - data);
        count = parser->args_expected;
    } else {
        enum header header = header_slow(parser, limits, data, size, '*', &count);

        if (header != HEADER_OK)
            return header;
    }
    if (count > limits->arg_count_max || count > INT32_MAX) {
        protocol_error(parser, "invalid multibulk length");
        return HEADER_ERROR;
    }
    if (count > UNAUTHENTICATED_ARGS_MAX && !limits->authenticated) {
        protocol_error(parser, "unauthenticated multibulk length");
        return HEADER_ERROR;
    }
    parser->args_expected = count > 0 ? count : 0;
    return HEADER_OK;
}

/* Reads the $ line of the next argument into bulk_expected. */
static enum header bulk_read(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size)
{
    const char *at = data + parser->scanned;
    const char *after = NULL;
    int64_t length;

    if (at < data + size && *at == '$')
        after = number_fast(at + 1, data + size, &length);
    if (after != NULL) {
        parser->scanned = (size_t)(after - data);
    } else {
        enum header header = header_slow(parser, limits, data, size, '$', &length);

        if (header != HEADER_OK)
            return header;
    }
    if (length < 0 || length > limits->bulk_size_max) {
        protocol_error(parser, "invalid bulk length");
        return HEADER_ERROR;
    }
    if (length > UNAUTHENTICATED_BULK_MAX && !limits->authenticated) {
        protocol_error(parser, "unauthenticated bulk length");
        return HEADER_ERROR;
    }
    parser->bulk_expected = length;
    return HEADER_OK;
}

/* Reads arguments that are complete and plain, up to the first one that needs a closer look. */
static inline void args_read_plain(struct request_parser *parser, const struct request_limits *limits, const char *data, size_t size)
{
    const char *at = data + parser->scanned, *end = data + size;
    int64_t size_max = limits->authenticated || limits->bulk_size_max < UNAUTHENTICATED_BULK_MAX ? limits->bulk_size_max : UNAUTHENTICATED_BULK_MAX;
    int count = parser->arg_count;
    int count_max = parser->args_expected < parser->arg_capacity ? (int)parser->args_expected : parser->arg_capacity;

    while (count < count_max && end - at >= PLAIN_SIZE_MIN && *at == '$') {
        int64_t length;
        const char *after = number_fast(at + 1, end, &length);

        if (after == NULL || length > size_max || end - after < length + 2)
            break;
        parser->args[count++] = bytes_of(after, (size_t)length);
        at = after + length + 2;        /* the two bytes after the argument are not checked */
    }
    parser->arg_count = count;
    parser->scanned = (size_t)(at - data);
}

/* Reads arguments until all have been read, data is missing or there is an error. */
static enum request_result args_read(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size, size_t *wanted)
{
    for (;;) {
        size_t needed;

        if (parser->bulk_expected < 0)
            args_read_plain(parser, limits, data, size);
        if (parser->arg_count >= parser->args_expected)
            return REQUEST_COMPLETE;
        if (parser->bulk_expected < 0) {
            enum header header = bulk_read(parser, limits, data, size);

            if (header == HEADER_ERROR)
                return REQUEST_ERROR;
            if (header == HEADER_MORE)
                return need_more(wanted, 1);
        }
        needed = (size_t)parser->bulk_expected + 2;
        if (size - parser->scanned < needed)
            return need_more(wanted, needed - (size - parser->scanned));
        args_push(parser, data + parser->scanned, (size_t)parser->bulk_expected);
        parser->scanned += needed;
        parser->bulk_expected = -1;
    }
}

static inline void request_begin(struct request_parser *parser)
{
    parser->arg_count = 0;
    request_drop_large(parser);
    if (parser->arg_capacity > ARGS_KEEP || parser->inline_text.capacity > INLINE_KEEP)
        request_trim(parser);
}

enum request_result request_parse(struct request_parser *parser, const struct request_limits *limits,
    const char *data, size_t size, size_t *consumed, size_t *wanted)
{
    int kept = parser->arg_count;
    enum request_result result;

    if (parser->args_expected < 0) {
        enum header header;

        request_begin(parser);
        kept = 0;
        if (size == 0)
            return need_more(wanted, 1);
        if (data[0] != '*')
            return inline_parse(parser, limits, data, size, consumed, wanted);
        header = count_read(parser, limits, data, size);
        if (header == HEADER_ERROR)
            return REQUEST_ERROR;
        if (header == HEADER_MORE)
            return need_more(wanted, 1);
    }
    result = args_read(parser, limits, data, size, wanted);
    if (result == REQUEST_COMPLETE) {
        args_to_addresses(parser, kept, data);
        *consumed = parser->scanned;
        request_end(parser);
    } else if (result == REQUEST_MORE) {
        args_to_offsets(parser, kept, data);
    }
    return result;
}
