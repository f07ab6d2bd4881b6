#include "script/shebang.h"

#include "base/mem.h"
#include "resp/request.h"
#include "script/flags.h"

static bool fail_with(struct buffer *error, const char *text, struct bytes value)
{
    buffer_append_string(error, "ERR ");
    buffer_append_string(error, text);
    buffer_append_bytes(error, value);
    return false;
}

static bool begins_with(struct bytes text, const char *prefix, struct bytes *rest)
{
    size_t size = strlen(prefix);

    if (text.size < size || memcmp(text.data, prefix, size) != 0)
        return false;
    *rest = bytes_of(text.data + size, text.size - size);
    return true;
}

/* The end of the first line. Redis looks for it in a C string, so a NUL byte before it hides it. */
static const char *line_end(struct bytes source)
{
    const char *end = memchr(source.data, '\n', source.size);

    return end != NULL && memchr(source.data, 0, (size_t)(end - source.data)) == NULL ? end : NULL;
}

/* The line is split as an inline command: that is the same language. False: its quotes are not balanced. */
static bool split_line(struct request_parser *words, struct bytes source, const char *end)
{
    struct request_limits limits = { .inline_size_max = INT64_MAX, .bulk_size_max = INT64_MAX, .arg_count_max = INT32_MAX, .authenticated = true };
    size_t consumed, wanted;

    return request_parse(words, &limits, source.data, (size_t)(end - source.data) + 1, &consumed, &wanted) == REQUEST_COMPLETE &&
           words->arg_count > 0;
}

/* "a,b,c"; as in Redis an empty text has no flags, and there may be an empty name between two commas. */
static bool read_flags(struct bytes text, uint32_t *flags, struct buffer *error)
{
    const char *at = text.data, *end = text.data + text.size;

    while (text.size > 0) {
        const char *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        struct bytes name = bytes_of(at, (size_t)((comma != NULL ? comma : end) - at));
        uint32_t flag = script_flag_of(name);

        if (flag == 0)
            return fail_with(error, "Unexpected flag in script shebang: ", name);
        *flags |= flag;
        if (comma == NULL)
            break;
        at = comma + 1;
    }
    return true;
}

static bool read_script_words(const struct request_parser *words, uint32_t *flags, struct buffer *error)
{
    struct bytes names;

    if (!bytes_equal(words->args[0], BYTES("#!lua")))
        return fail_with(error, "Unexpected engine in script shebang: ", words->args[0]);
    *flags = 0;
    for (int i = 1; i < words->arg_count; i++) {
        if (!begins_with(words->args[i], "flags=", &names))
            return fail_with(error, "Unknown lua shebang option: ", words->args[i]);
        if (!read_flags(names, flags, error))
            return false;
    }
    return true;
}

bool shebang_of_script(struct bytes source, size_t *body, uint32_t *flags, struct buffer *error)
{
    struct request_parser words;
    struct bytes rest;
    const char *end;
    bool good;

    *body = 0;
    *flags = SCRIPT_COMPATIBLE;
    if (!begins_with(source, "#!", &rest))
        return true;
    end = line_end(source);
    if (end == NULL)
        return fail_with(error, "Invalid script shebang", BYTES(""));
    *body = (size_t)(end - source.data);
    request_init(&words);
    if (split_line(&words, source, end))
        good = read_script_words(&words, flags, error);
    else
        good = fail_with(error, "Invalid engine in script shebang", BYTES(""));
    request_release(&words);
    return good;
}

static bool read_library_words(const struct request_parser *words, struct shebang_library *library, struct buffer *error)
{
    struct bytes value;

    (void)begins_with(words->args[0], "#!", &value);
    library->engine = mem_string(value);
    for (int i = 1; i < words->arg_count; i++) {
        struct bytes word = words->args[i], prefix = bytes_of(word.data, word.size < 5 ? word.size : 5);

        if (!bytes_is(prefix, "name="))
            return fail_with(error, "Invalid metadata value given: ", word);
        if (library->name != NULL)
            return fail_with(error, "Invalid metadata value, name argument was given multiple times", BYTES(""));
        library->name = mem_string(bytes_of(word.data + prefix.size, word.size - prefix.size));
    }
    return library->name != NULL || fail_with(error, "Library name was not given", BYTES(""));
}

bool shebang_of_library(struct bytes source, struct shebang_library *library, struct buffer *error)
{
    struct request_parser words;
    struct bytes rest;
    const char *end;
    bool good;

    *library = (struct shebang_library){ .name = NULL };
    if (!begins_with(source, "#!", &rest))
        return fail_with(error, "Missing library metadata", BYTES(""));
    end = line_end(source);
    if (end == NULL)
        return fail_with(error, "Invalid library metadata", BYTES(""));
    library->body = (size_t)(end - source.data);
    request_init(&words);
    if (split_line(&words, source, end))
        good = read_library_words(&words, library, error);
    else
        good = fail_with(error, "Invalid library metadata", BYTES(""));
    request_release(&words);
    if (!good)
        shebang_library_release(library);
    return good;
}

void shebang_library_release(struct shebang_library *library)
{
    mem_free(library->engine);
    mem_free(library->name);
    *library = (struct shebang_library){ .name = NULL };
}
