#include "script/library.h"

#include "base/mem.h"
#include "script/shebang.h"

bool library_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return name.size > 0;
}

bool library_head_read(struct bytes text, struct library_head *head, struct buffer *error)
{
    struct shebang_library shebang;

    *head = (struct library_head){ .name = NULL };
    if (!shebang_of_library(text, &shebang, error))
        return false;
    if (!library_name_is_valid(bytes_of_string(shebang.name)))
        buffer_append_string(error, "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long");
    else if (!bytes_is(bytes_of_string(shebang.engine), "lua"))
        buffer_append_format(error, "ERR Engine '%s' not found", shebang.engine);
    else
        *head = (struct library_head){ mem_string(bytes_of_string(shebang.name)), shebang.body };
    shebang_library_release(&shebang);
    return head->name != NULL;
}

void library_head_release(struct library_head *head)
{
    mem_free(head->name);
    head->name = NULL;
}

static struct bytes copy_of(struct bytes bytes)
{
    return bytes_of(mem_string(bytes), bytes.size);
}

static void take_function(void *context, struct bytes name, struct bytes description, unsigned flags)
{
    struct library *library = context;
    int count = library->function_count;

    if ((count & (count - 1)) == 0)
        library->functions = mem_realloc(library->functions, ((size_t)count * 2 + 1) * sizeof(library->functions[0]));
    library->functions[library->function_count++] = (struct library_function){
        .library = library,
        .name = copy_of(name),
        .description = description.data != NULL ? copy_of(description) : (struct bytes){ NULL, 0 },
        .flags = flags,
    };
}

static struct library *make(struct bytes text, const struct library_head *head, uint64_t version)
{
    struct library *library = mem_zalloc(sizeof(*library));

    library->references = 1;
    library->text = copy_of(text);
    library->script = (struct script_library){
        .name = copy_of(bytes_of_string(head->name)),
        .version = version,
        .code = bytes_of(library->text.data + head->body, text.size - head->body),
    };
    return library;
}

static size_t measure(const struct library *library)
{
    size_t size = mem_size(library) + mem_size(library->text.data) + mem_size(library->script.name.data) + mem_size(library->functions);

    for (int i = 0; i < library->function_count; i++) {
        size += mem_size(library->functions[i].name.data);
        if (library->functions[i].description.data != NULL)
            size += mem_size(library->functions[i].description.data);
    }
    return size;
}

struct library *library_create(struct bytes text, uint64_t version, struct interpreter *interpreter, const struct script_host *host,
    struct buffer *error)
{
    struct library_head head;
    struct library *library;
    bool good;

    if (!library_head_read(text, &head, error))
        return NULL;
    library = make(text, &head, version);
    library_head_release(&head);
    good = interpreter_load(interpreter, &library->script, host, take_function, library, error);
    interpreter_unload(interpreter, library->script.name);
    if (good && library->function_count == 0) {
        buffer_append_string(error, "ERR No functions registered");
        good = false;
    }
    if (good) {
        library->size = measure(library);
        return library;
    }
    library_release(library);
    return NULL;
}

struct library *library_hold(struct library *library)
{
    atomic_fetch_add_explicit(&library->references, 1, memory_order_relaxed);
    return library;
}

void library_release(struct library *library)
{
    if (library == NULL || atomic_fetch_sub_explicit(&library->references, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < library->function_count; i++) {
        mem_free((char *)library->functions[i].name.data);
        mem_free((char *)library->functions[i].description.data);
    }
    mem_free(library->functions);
    mem_free((char *)library->script.name.data);
    mem_free((char *)library->text.data);
    mem_free(library);
}
