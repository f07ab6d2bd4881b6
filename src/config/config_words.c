#include "config/config_words.h"

#include "base/mem.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads what follows a backslash inside "...", and moves `at` past it. */
static char escape_read(const char **at, const char *end)
{
    static const char letters[] = "nrtba", bytes[] = "\n\r\t\b\a";
    const char *letter, *p = *at;

    if (*p == 'x' && end - p >= 3 && hex_value(p[1]) >= 0 && hex_value(p[2]) >= 0) {
        *at = p + 3;
        return (char)(hex_value(p[1]) << 4 | hex_value(p[2]));
    }
    *at = p + 1;
    letter = *p ? strchr(letters, *p) : NULL;
    return letter ? bytes[letter - letters] : *p;
}

/* Reads from the opening quote at *at to the closing one, and moves `at` past it. False if the closing quote is missing or
 * does not end the word. */
static bool quoted_read(const char **at, const char *end, char **out)
{
    const char *p = *at;
    char quote = *p++;

    for (; p < end && *p != quote;) {
        if (*p != '\\' || p + 1 == end || (quote == '\'' && p[1] != '\'')) {
            *(*out)++ = *p++;
            continue;
        }
        p++;
        *(*out)++ = escape_read(&p, end);
    }
    if (p == end || (p + 1 < end && !is_space(p[1])))
        return false;
    *at = p + 1;
    return true;
}

bool config_words_split(struct bytes line, struct config_words *words)
{
    const char *p = line.data, *end = line.data + line.size;
    char *out;

    /* Removing quotes never makes a word longer, and there is a space between two words: so these sizes suffice. */
    words->text = out = mem_alloc(line.size + 1);
    words->items = mem_alloc((line.size / 2 + 1) * sizeof(*words->items));
    words->count = 0;
    for (;;) {
        char *start = out;

        while (p < end && is_space(*p))
            p++;
        if (p == end)
            return true;
        while (p < end && !is_space(*p)) {
            if (*p != '"' && *p != '\'') {
                *out++ = *p++;
            } else if (!quoted_read(&p, end, &out)) {
                config_words_release(words);
                return false;
            }
        }
        words->items[words->count++] = bytes_of(start, (size_t)(out - start));
    }
}

void config_words_list(struct bytes text, struct config_words *words)
{
    size_t start = 0;

    words->text = NULL;
    words->items = mem_alloc((text.size + 1) * sizeof(*words->items));
    words->count = 0;
    if (text.size == 0)
        return;
    for (size_t at = 0; at <= text.size; at++) {
        if (at < text.size && text.data[at] != ' ')
            continue;
        words->items[words->count++] = bytes_of(text.data + start, at - start);
        start = at + 1;
    }
}

void config_words_release(struct config_words *words)
{
    mem_free(words->items);
    mem_free(words->text);
}

void config_words_quote(struct buffer *out, struct bytes word)
{
    bool plain = word.size > 0 && word.data[0] != '#';

    for (size_t i = 0; i < word.size && plain; i++) {
        char c = word.data[i];

        plain = c > ' ' && c < 0x7f && c != '"' && c != '\'' && c != '\\';
    }
    if (plain) {
        buffer_append_bytes(out, word);
        return;
    }
    buffer_append_u8(out, '"');
    for (size_t i = 0; i < word.size; i++) {
        unsigned char c = (unsigned char)word.data[i];

        if (c == '"' || c == '\\')
            buffer_append_format(out, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            buffer_append_format(out, "\\x%02x", c);
        else
            buffer_append_u8(out, c);       /* bytes from 0x80 on unchanged, so that UTF-8 stays readable */
    }
    buffer_append_u8(out, '"');
}

bool config_line_next(struct bytes *text, struct bytes *line)
{
    const char *end;

    if (text->size == 0)
        return false;
    end = memchr(text->data, '\n', text->size);
    *line = bytes_of(text->data, end ? (size_t)(end - text->data) : text->size);
    text->data += line->size + (end != NULL);
    text->size -= line->size + (end != NULL);
    return true;
}

struct bytes config_line_trim(struct bytes line)
{
    while (line.size > 0 && is_space(line.data[0]))
        line = bytes_of(line.data + 1, line.size - 1);
    while (line.size > 0 && is_space(line.data[line.size - 1]))
        line.size--;
    return line;
}
