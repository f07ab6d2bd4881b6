/* The kinds of values that are lists of words. */
#include "base/message.h"
#include "config/config_value.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "config/config_words.h"

static const char *const class_names[3] = { "normal", "replica", "pubsub" };

/* Returns the buffer's memory as a string; the caller owns it. */
static char *take_text(struct buffer *text)
{
    buffer_append_u8(text, 0);
    return text->data;
}

static void append_word(struct buffer *text, struct bytes word)
{
    if (text->size > 0)
        buffer_append_u8(text, ' ');
    buffer_append_bytes(text, word);
}

static bool flags_read(const struct config_row *row, const struct bytes *words, int count, int64_t *flags, struct message *message)
{
    *flags = 0;
    for (int i = 0; i < count; i++) {
        int64_t place = config_row_word(row, words[i]);

        if (place < 0)
            return config_refuse(message, "argument(s) must be one of the following: %s", row->words);
        if (place > 0)
            *flags |= INT64_C(1) << (place - 1);
    }
    if (count == 0)
        return config_refuse(message, "argument(s) must be one of the following: %s", row->words);
    if ((*flags & CONFIG_SHUTDOWN_SAVE) && (*flags & CONFIG_SHUTDOWN_NOSAVE))
        return config_refuse(message, "shutdown options SAVE and NOSAVE can't be used simultaneously");
    return true;
}

static bool bind_read(const struct config_row *row, const struct bytes *words, int count, char **text, struct message *message)
{
    struct buffer out = { 0 };
    int addresses = 0;

    for (int i = 0; i < count; i++) {
        if (words[i].size == 0)
            continue;
        if (memchr(words[i].data, 0, words[i].size) || ++addresses > row->high) {
            buffer_release(&out);
            return config_refuse(message,
                addresses > row->high ? "Too many bind addresses specified." : "argument must not contain a NUL byte");
        }
        append_word(&out, words[i]);
    }
    *text = take_text(&out);
    return true;
}

/* A line adds its pairs to those before it; `save ""` removes all. */
static bool save_read(const struct bytes *words, int count, const char *base, char **text, struct message *message)
{
    struct buffer out = { 0 };
    bool good = true, clear = count == 0 || (count == 1 && words[0].size == 0);

    if (base && !clear)
        buffer_append_string(&out, base);
    if (!clear)
        good = count % 2 == 0;
    for (int i = 0; i < count && good && !clear; i++) {
        int64_t number;
        bool seconds = i % 2 == 0;

        good = text_to_int(words[i], &number) && number >= (seconds ? 1 : 0) && (seconds || number <= INT_MAX);
        if (good)
            append_word(&out, words[i]);
    }
    if (!good) {
        buffer_release(&out);
        return config_refuse(message, "Invalid save parameters");
    }
    *text = take_text(&out);
    return true;
}

void config_output_limits_read(const char *text, int64_t limits[3][3])
{
    for (int class = 0; class < 3; class++) {
        text += strcspn(text, " ");
        for (int i = 0; i < 3; i++) {
            char *end;

            limits[class][i] = strtoll(text, &end, 10);
            CHECK(end != text);
            text = end;
        }
        text += strspn(text, " ");
    }
}

static int class_of(struct bytes name)
{
    for (int class = 0; class < 3; class++)
        if (bytes_is(name, class_names[class]))
            return class;
    return bytes_is(name, "slave") ? CONFIG_CLIENT_REPLICA : -1;
}

static bool output_limits_read(const struct bytes *words, int count, const char *base, char **text, struct message *message)
{
    int64_t limits[3][3] = { { 0 } };
    struct buffer out = { 0 };

    if (count % 4 != 0)
        return config_refuse(message, "Wrong number of arguments in buffer limit configuration.");
    if (base)
        config_output_limits_read(base, limits);
    for (int i = 0; i < count; i += 4) {
        int class = class_of(words[i]);
        uint64_t hard = 0, soft = 0;
        int64_t seconds;

        if (class < 0)
            return config_refuse(message, "Invalid client class specified in buffer limit configuration.");
        if (!text_to_memory(words[i + 1], &hard) || !text_to_memory(words[i + 2], &soft) || hard > INT64_MAX ||
            soft > INT64_MAX || !text_to_int(words[i + 3], &seconds) || seconds < 0 || seconds > INT_MAX)
            return config_refuse(message,
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        limits[class][CONFIG_OUTPUT_HARD] = (int64_t)hard;
        limits[class][CONFIG_OUTPUT_SOFT] = (int64_t)soft;
        limits[class][CONFIG_OUTPUT_SOFT_SECONDS] = seconds;
    }
    for (int class = 0; class < 3; class++)     /* CONFIG GET still shows a replica as "slave", as in Redis */
        buffer_append_format(&out, "%s%s %lld %lld %lld", class ? " " : "",
            class == CONFIG_CLIENT_REPLICA ? "slave" : class_names[class], (long long)limits[class][0],
            (long long)limits[class][1], (long long)limits[class][2]);
    *text = take_text(&out);
    return true;
}

static bool oom_values_read(const struct config_row *row, const struct bytes *words, int count, char **text,
    struct message *message)
{
    struct buffer out = { 0 };

    if (count != 3)
        return config_refuse(message, "wrong number of arguments");
    for (int i = 0; i < count; i++) {
        int64_t number;

        if (!text_to_int(words[i], &number) || number < row->low || number > row->high) {
            buffer_release(&out);
            return config_refuse(message,
                "Invalid oom-score-adj-values, elements must be between -2000 and 2000.");
        }
        append_word(&out, words[i]);
    }
    *text = take_text(&out);
    return true;
}

static bool percentiles_read(const struct bytes *words, int count, char **text, struct message *message)
{
    struct buffer out = { 0 };
    bool nothing = count == 1 && words[0].size == 0;

    for (int i = 0; i < count && !nothing; i++) {
        char digits[400];
        double number;
        int size;
        bool good = text_to_double(words[i], &number);

        if (!good || number < 0 || number > 100) {
            buffer_release(&out);
            return config_refuse(message,
                good ? "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                     : "Invalid latency-tracking-info-percentiles parameters");
        }
        size = snprintf(digits, sizeof(digits), "%f", number);
        while (digits[size - 1] == '0')
            size--;
        size -= digits[size - 1] == '.';
        append_word(&out, bytes_of(digits, (size_t)size));
    }
    *text = take_text(&out);
    return true;
}

static bool replicaof_read(const struct bytes *words, int count, char **text, struct message *message)
{
    struct buffer out = { 0 };
    int64_t port;

    if (count != 2)
        return config_refuse(message, "wrong number of arguments");
    if (!(bytes_is(words[0], "no") && bytes_is(words[1], "one"))) {
        if (!text_to_int(words[1], &port) || port < 0 || port > 65535)
            return config_refuse(message, "Invalid master port");
        if (words[0].size == 0 || memchr(words[0].data, 0, words[0].size) || memchr(words[0].data, ' ', words[0].size))
            return config_refuse(message, "Invalid master host");
        append_word(&out, words[0]);
        append_word(&out, words[1]);
    }
    *text = take_text(&out);
    return true;
}

/* A user is defined once. */
static bool has_user(const char *lines, struct bytes name)
{
    struct bytes rest = bytes_of_string(lines), line;
    bool found = false;

    while (!found && config_line_next(&rest, &line)) {
        struct config_words words;

        CHECK(config_words_split(line, &words));
        found = bytes_equal(words.items[0], name);
        config_words_release(&words);
    }
    return found;
}

static bool lines_read(const struct config_row *row, const struct bytes *words, int count, const char *base, char **text,
    struct message *message)
{
    struct buffer out = { 0 };

    if (count < row->low || count > row->high)
        return config_refuse(message, "Bad directive or wrong number of arguments");
    if (row->kind == CONFIG_OBSOLETE_KIND)
        return true;
    if (row->id == CONFIG_USER && base && has_user(base, words[0]))
        return config_refuse(message, "Error in user declaration '%.*s': Duplicate user found. A user can only be defined once in config files",
            (int)(words[0].size < 100 ? words[0].size : 100), words[0].data);
    if (base && *base) {
        buffer_append_string(&out, base);
        buffer_append_u8(&out, '\n');
    }
    for (int i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_u8(&out, ' ');
        config_words_quote(&out, words[i]);
    }
    *text = take_text(&out);
    return true;
}

bool config_list_read(const struct config_row *row, const struct bytes *words, int count,
    const struct config_reading *reading, struct config_value *value, struct message *message)
{
    switch (row->kind) {
    case CONFIG_FLAGS_KIND: return flags_read(row, words, count, &value->number, message);
    case CONFIG_BIND_KIND: return bind_read(row, words, count, &value->text, message);
    case CONFIG_SAVE_KIND: return save_read(words, count, reading->base, &value->text, message);
    case CONFIG_OUTPUT_LIMITS_KIND: return output_limits_read(words, count, reading->base, &value->text, message);
    case CONFIG_OOM_VALUES_KIND: return oom_values_read(row, words, count, &value->text, message);
    case CONFIG_PERCENTILES_KIND: return percentiles_read(words, count, &value->text, message);
    case CONFIG_REPLICAOF_KIND: return replicaof_read(words, count, &value->text, message);
    case CONFIG_LINES_KIND:
    case CONFIG_OBSOLETE_KIND: return lines_read(row, words, count, reading->base, &value->text, message);
    default: CHECK(!"a list"); return false;
    }
}

/* -- lines of a file -- */

static void save_print_lines(const char *text, bool clear_first, struct buffer *out)
{
    struct config_words words;

    if (clear_first || !*text)
        buffer_append_string(out, "save \"\"\n");
    config_words_list(bytes_of_string(text), &words);
    for (int i = 0; i < words.count; i += 2)
        buffer_append_format(out, "save %.*s %.*s\n", (int)words.items[i].size, words.items[i].data,
            (int)words.items[i + 1].size, words.items[i + 1].data);
    config_words_release(&words);
}

static void output_limits_print_lines(const char *text, const char *initial, struct buffer *out)
{
    int64_t limits[3][3], defaults[3][3] = { { 0 } };

    config_output_limits_read(text, limits);
    if (initial)
        config_output_limits_read(initial, defaults);
    for (int class = 0; class < 3; class++) {
        if (initial && memcmp(limits[class], defaults[class], sizeof(limits[class])) == 0)
            continue;
        buffer_append_format(out, "client-output-buffer-limit %s ", class_names[class]);
        config_memory_print(limits[class][CONFIG_OUTPUT_HARD], out);
        buffer_append_u8(out, ' ');
        config_memory_print(limits[class][CONFIG_OUTPUT_SOFT], out);
        buffer_append_format(out, " %lld\n", (long long)limits[class][CONFIG_OUTPUT_SOFT_SECONDS]);
    }
}

void config_list_print_lines(const struct config_row *row, const struct config_value *value,
    const struct config_value *initial, struct buffer *out)
{
    struct buffer text = { 0 };

    if (initial && config_value_equal(value, initial))
        return;
    if (row->kind == CONFIG_SAVE_KIND) {
        save_print_lines(value->text, initial == NULL, out);
    } else if (row->kind == CONFIG_OUTPUT_LIMITS_KIND) {
        output_limits_print_lines(value->text, initial ? initial->text : NULL, out);
    } else if (row->kind == CONFIG_LINES_KIND) {
        struct bytes rest = bytes_of_string(value->text), line;

        while (config_line_next(&rest, &line))
            buffer_append_format(out, "%s %.*s\n", row->name, (int)line.size, line.data);
    } else {
        config_value_print(row, value, &text);
        if (row->kind == CONFIG_REPLICAOF_KIND && text.size == 0)
            buffer_append_string(&text, "no one");
        buffer_append_format(out, "%s ", row->name);
        if (text.size == 0)
            buffer_append_string(out, "\"\"");      /* an empty list */
        buffer_append_bytes(out, buffer_bytes(&text));
        buffer_append_u8(out, '\n');
        buffer_release(&text);
    }
}
