#include "support/library_box.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "script/interpreter.h"

struct bytes library_box_text(struct buffer *text, const char *name, const char *functions)
{
    text->size = 0;
    buffer_append_format(text, "#!lua name=%s", name);
    while (*functions != '\0') {
        size_t size = strcspn(functions, " ");

        buffer_append_format(text, "\nredis.register_function('%.*s', function() return 1 end)", (int)size, functions);
        functions += size + (functions[size] == ' ');
    }
    return buffer_bytes(text);
}

struct library *library_box_make(const char *name, const char *functions, uint64_t version)
{
    struct interpreter_options options = { .cached_scripts_max = 1, .load_ms_max = 500 };
    struct interpreter *interpreter = interpreter_create(&options);
    struct buffer text = { 0 }, error = { 0 };
    struct library *library = library_create(library_box_text(&text, name, functions), version, interpreter, NULL, &error);

    interpreter_destroy(interpreter);
    if (library == NULL)
        fprintf(stderr, "%.*s\n", (int)error.size, error.data);
    CHECK(library != NULL);
    buffer_release(&text);
    buffer_release(&error);
    return library;
}

struct library_set *library_box_set(const char *const *libraries)
{
    struct library_set *set = library_set_empty();

    for (uint64_t version = 1; *libraries != NULL; libraries++, version++) {
        const char *colon = strchr(*libraries, ':');
        char name[64] = "";
        struct library *library;
        struct library_set *next;
        struct buffer error = { 0 };

        memcpy(name, *libraries, (size_t)(colon - *libraries));
        library = library_box_make(name, colon + 2, version);
        next = library_set_with(set, &library, 1, LIBRARY_CLASH_FAILS, &error);
        CHECK(next != NULL);
        library_release(library);
        library_set_release(set);
        set = next;
    }
    return set;
}
