#include "config/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/text.h"
#include "config/config_words.h"

static bool number_read(const struct config_row *row, struct bytes word, int64_t *number, struct message *message);
static bool text_read(const struct config_row *row, struct bytes word, const char *home, char **text, struct message *message);

static bool is_list(enum config_kind kind)
{
    switch (kind) {
    case CONFIG_FLAGS_KIND:
    case CONFIG_BIND_KIND:
    case CONFIG_SAVE_KIND:
    case CONFIG_OUTPUT_LIMITS_KIND:
    case CONFIG_OOM_VALUES_KIND:
    case CONFIG_PERCENTILES_KIND:
    case CONFIG_REPLICAOF_KIND:
        return true;
    default:
        return false;
    }
}

static bool is_number(enum config_kind kind)
{
    return kind <= CONFIG_EVENTS_KIND;
}

bool config_value_read(const struct config_row *row, const struct bytes *words, int count,
    const struct config_reading *reading, struct config_value *value, struct message *message)
{
    struct config_words split;
    bool done;

    *value = (struct config_value){ 0 };
    if (row->kind == CONFIG_LINES_KIND || row->kind == CONFIG_OBSOLETE_KIND ||
        (is_list(row->kind) && count != 1))
        return config_list_read(row, words, count, reading, value, message);
    if (is_list(row->kind)) {
        config_words_list(words[0], &split);
        done = config_list_read(row, split.items, split.count, reading, value, message);
        config_words_release(&split);
        return done;
    }
    if (count != 1)
        return config_refuse(message, "wrong number of arguments");
    if (is_number(row->kind))
        return number_read(row, words[0], &value->number, message);
    return text_read(row, words[0], reading->home, &value->text, message);
}

/* -- numbers -- */

static bool within(const struct config_row *row, int64_t number, struct message *message)
{
    if (number >= row->low && number <= row->high)
        return true;
    if (row->kind == CONFIG_OCTAL_KIND)
        return config_refuse(message, "argument must be between %llo and %llo inclusive", (long long)row->low,
            (long long)row->high);
    return config_refuse(message, "argument must be between %lld and %lld inclusive", (long long)row->low,
        (long long)row->high);
}

static bool integer_read(const struct config_row *row, struct bytes word, int64_t *number, struct message *message)
{
    if (!text_to_int(word, number))
        return config_refuse(message, "argument couldn't be parsed into an integer");
    if (!within(row, *number, message))
        return false;
    if (row->flags & CONFIG_FLAG_POWER_OF_TWO && (*number & (*number - 1)) != 0)
        return config_refuse(message, "argument must be a power of two");
    if (row->id == CONFIG_HZ)       /* Redis accepts any number and limits it to this range */
        *number = *number < 1 ? 1 : *number > 500 ? 500 : *number;
    return true;
}

static bool memory_read(const struct config_row *row, struct bytes word, int64_t *number, struct message *message)
{
    bool or_percent = row->kind == CONFIG_PERCENT_MEMORY_KIND;
    uint64_t size = 0;

    if (or_percent && word.size > 0 && word.data[word.size - 1] == '%') {
        if (!text_to_int(bytes_of(word.data, word.size - 1), number) || *number < 0)
            return config_refuse(message, "argument must be a memory or percent value");
        if (*number > 100)
            return config_refuse(message, "percentage argument must be less or equal to 100");
        *number = -*number;
        return true;
    }
    if (word.size > 0 && !text_to_memory(word, &size))      /* the empty string is 0 */
        return config_refuse(message, "argument must be a memory%s value", or_percent ? " or percent" : "");
    *number = size > INT64_MAX ? -1 : (int64_t)size;
    return within(row, *number, message);
}

static bool octal_read(const struct config_row *row, struct bytes word, int64_t *number, struct message *message)
{
    bool good = word.size > 0;

    *number = 0;
    for (size_t i = 0; i < word.size && good; i++) {
        good = word.data[i] >= '0' && word.data[i] <= '7';
        if (*number <= row->high)
            *number = *number * 8 + (word.data[i] - '0');
    }
    if (!good)
        return config_refuse(message, "argument couldn't be parsed as an octal number");
    return within(row, *number, message);
}

static bool enum_read(const struct config_row *row, struct bytes word, int64_t *number, struct message *message)
{
    *number = config_row_word(row, word);
    if (*number < 0)
        return config_refuse(message, "argument(s) must be one of the following: %s", row->words);
    if (row->id == CONFIG_OOM_SCORE_ADJ && *number == 2)
        *number = 1;        /* `relative` is an alias of `yes`, and is shown as `yes` */
    if (row->id == CONFIG_TIER_COMPRESSION && *number == 3)
        *number = 1;        /* `yes` is what older versions called it */
    return true;
}

static bool events_read(struct bytes word, int64_t *number, struct message *message)
{
    *number = 0;
    for (size_t i = 0; i < word.size; i++) {
        const char *letter = word.data[i] ? strchr(CONFIG_EVENT_LETTERS, word.data[i]) : NULL;

        if (word.data[i] == 'A')
            *number |= CONFIG_EVENTS_ALL;
        else if (letter)
            *number |= INT64_C(1) << (letter - CONFIG_EVENT_LETTERS);
        else
            return config_refuse(message, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    }
    return true;
}

static bool number_read(const struct config_row *row, struct bytes word, int64_t *number, struct message *message)
{
    switch (row->kind) {
    case CONFIG_BOOL_KIND:
        *number = bytes_is(word, "yes");
        if (*number || bytes_is(word, "no"))
            return true;
        return config_refuse(message, "argument must be 'yes' or 'no'");
    case CONFIG_INTEGER_KIND: return integer_read(row, word, number, message);
    case CONFIG_MEMORY_KIND:
    case CONFIG_PERCENT_MEMORY_KIND: return memory_read(row, word, number, message);
    case CONFIG_OCTAL_KIND: return octal_read(row, word, number, message);
    case CONFIG_ENUM_KIND: return enum_read(row, word, number, message);
    case CONFIG_EVENTS_KIND: return events_read(word, number, message);
    default: CHECK(!"a number"); return false;
    }
}

/* -- words -- */

static bool file_name_read(const struct config_row *row, struct bytes word, struct message *message)
{
    if (word.size < (size_t)row->low)
        return config_refuse(message, "%s can't be empty", row->name);
    if (memchr(word.data, '/', word.size))
        return config_refuse(message, "%s can't be a path, just a %s", row->name, row->words);
    return true;
}

static bool host_name_read(struct bytes word, struct message *message)
{
    if (word.size >= 256)
        return config_refuse(message, "Hostnames must be less than 256 characters");
    for (size_t i = 0; i < word.size; i++)
        if (!isalnum((unsigned char)word.data[i]) && word.data[i] != '-' && word.data[i] != '.')
            return config_refuse(message, "Hostnames may only contain alphanumeric characters, hyphens or dots");
    return true;
}

/* In nodes.conf a node's name is between commas and equal signs, so it must not contain characters that break that format. */
static bool node_name_read(struct bytes word, struct message *message)
{
    for (size_t i = 0; i < word.size; i++)
        if ((unsigned char)word.data[i] < ' ' || strchr("!#$%&()*+:;<>?@[]^{|}~", word.data[i]))
            return config_refuse(message, "Announced human node name contained invalid character");
    return true;
}

static bool title_read(struct bytes word, struct message *message)
{
    static const char *const variables[] = { "title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket",
        "config-file" };
    struct bytes rest = word;
    const char *open;
    bool good = config_line_trim(word).size > 0;

    while (good && (open = memchr(rest.data, '{', rest.size)) != NULL) {
        const char *close;
        bool known = false;

        rest.size -= (size_t)(open + 1 - rest.data);
        rest.data = open + 1;
        if (rest.size > 0 && rest.data[0] == '{') {     /* {{ is an escaped { */
            rest = bytes_of(rest.data + 1, rest.size - 1);
            continue;
        }
        close = memchr(rest.data, '}', rest.size);
        for (size_t i = 0; close && i < sizeof(variables) / sizeof(*variables); i++)
            known |= bytes_equal(bytes_of(rest.data, (size_t)(close - rest.data)), bytes_of_string(variables[i]));
        good = known;
    }
    return good || config_refuse(message, "template format is invalid or contains unknown variables");
}

static bool dir_read(struct bytes word, const char *home, char **text, struct message *message)
{
    char *path = config_path(home, word);
    char *real = word.size > 0 ? realpath(path, NULL) : (errno = ENOENT, NULL);
    struct stat stat_of;
    bool found = real != NULL && stat(real, &stat_of) == 0;

    if (found && !S_ISDIR(stat_of.st_mode)) {
        errno = ENOTDIR;
        found = false;
    }
    if (found)
        *text = mem_string(bytes_of_string(real));
    else
        config_refuse(message, "%s", strerror(errno));
    free(real);
    mem_free(path);
    return found;
}

static bool text_read(const struct config_row *row, struct bytes word, const char *home, char **text, struct message *message)
{
    if (word.size > 0 && memchr(word.data, 0, word.size))
        return config_refuse(message, "argument must not contain a NUL byte");
    if (row->kind == CONFIG_DIR_KIND)
        return dir_read(word, home, text, message);
    if (row->kind == CONFIG_FILE_NAME_KIND && !file_name_read(row, word, message))
        return false;
    if (row->kind == CONFIG_HOST_NAME_KIND && !host_name_read(word, message))
        return false;
    if (row->kind == CONFIG_NODE_NAME_KIND && !node_name_read(word, message))
        return false;
    if (row->kind == CONFIG_TITLE_KIND && !title_read(word, message))
        return false;
    if (row->kind == CONFIG_STRING_KIND && word.size < (size_t)row->low)
        return config_refuse(message, "%s can't be empty", row->name);
    *text = mem_string(word);
    return true;
}

/* -- all kinds -- */

void config_value_release(struct config_value *value)
{
    mem_free(value->text);
    *value = (struct config_value){ 0 };
}

struct config_value config_value_copy(const struct config_value *value)
{
    return (struct config_value){ value->number, value->text ? mem_string(bytes_of_string(value->text)) : NULL };
}

bool config_value_equal(const struct config_value *a, const struct config_value *b)
{
    if (a->text && b->text && strcmp(a->text, b->text) != 0)
        return false;
    return a->number == b->number && !a->text == !b->text;
}

/* The events that A includes are shown as A. Redis does not show n in addition to A; in a file it is necessary. */
static void events_print(int64_t events, bool for_file, struct buffer *out)
{
    bool all = (events & CONFIG_EVENTS_ALL) == CONFIG_EVENTS_ALL;

    if (all)
        buffer_append_u8(out, 'A');
    for (int bit = 0; CONFIG_EVENT_LETTERS[bit]; bit++) {
        bool covered = all && (bit < 10 || (CONFIG_EVENT_LETTERS[bit] == 'n' && !for_file));

        if (events >> bit & 1 && !covered)
            buffer_append_u8(out, (uint8_t)CONFIG_EVENT_LETTERS[bit]);
    }
}

static void flags_print(const struct config_row *row, int64_t flags, struct buffer *out)
{
    if (flags == 0)
        buffer_append_bytes(out, config_row_word_at(row, 0));
    for (int bit = 0; flags >> bit; bit++) {
        if (!(flags >> bit & 1))
            continue;
        if (flags & ((INT64_C(1) << bit) - 1))
            buffer_append_u8(out, ' ');
        buffer_append_bytes(out, config_row_word_at(row, bit + 1));
    }
}

void config_value_print(const struct config_row *row, const struct config_value *value, struct buffer *out)
{
    switch (row->kind) {
    case CONFIG_BOOL_KIND: buffer_append_string(out, value->number ? "yes" : "no"); break;
    case CONFIG_INTEGER_KIND:
    case CONFIG_MEMORY_KIND: buffer_append_format(out, "%lld", (long long)value->number); break;
    case CONFIG_PERCENT_MEMORY_KIND:
        buffer_append_format(out, value->number < 0 ? "%lld%%" : "%lld",
            (long long)(value->number < 0 ? -value->number : value->number));
        break;
    case CONFIG_OCTAL_KIND: buffer_append_format(out, "%llo", (long long)value->number); break;
    case CONFIG_ENUM_KIND: buffer_append_bytes(out, config_row_word_at(row, value->number)); break;
    case CONFIG_FLAGS_KIND: flags_print(row, value->number, out); break;
    case CONFIG_EVENTS_KIND: events_print(value->number, false, out); break;
    default: buffer_append_string(out, value->text ? value->text : ""); break;
    }
}

void config_memory_print(int64_t size, struct buffer *out)
{
    static const char *const units[] = { "", "kb", "mb", "gb" };
    int unit = 0;

    for (; unit < 3 && size > 0 && size % 1024 == 0; unit++)
        size /= 1024;
    buffer_append_format(out, "%lld%s", (long long)size, units[unit]);
}

void config_value_print_lines(const struct config_row *row, const struct config_value *value,
    const struct config_value *initial, struct buffer *out)
{
    struct buffer text = { 0 };

    if (is_list(row->kind) || row->kind == CONFIG_LINES_KIND) {
        config_list_print_lines(row, value, initial, out);
        return;
    }
    if (initial && config_value_equal(value, initial))
        return;
    if (row->kind == CONFIG_EVENTS_KIND)
        events_print(value->number, true, &text);
    else if (row->kind == CONFIG_MEMORY_KIND || (row->kind == CONFIG_PERCENT_MEMORY_KIND && value->number >= 0))
        config_memory_print(value->number, &text);
    else
        config_value_print(row, value, &text);
    buffer_append_format(out, "%s ", row->name);
    config_words_quote(out, buffer_bytes(&text));
    buffer_append_u8(out, '\n');
    buffer_release(&text);
}

bool config_refuse(struct message *message, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    message_set_args(message, format, arguments);
    va_end(arguments);
    return false;
}

char *config_path(const char *home, struct bytes path)
{
    struct buffer whole = { 0 };

    if (path.size == 0 || path.data[0] != '/')
        buffer_append_format(&whole, "%s/", home);
    buffer_append_bytes(&whole, path);
    buffer_append_u8(&whole, 0);
    return whole.data;      /* a buffer's memory comes from mem_alloc */
}
