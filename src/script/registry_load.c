#include "script/registry_load.h"

#include "base/mem.h"
#include "script/library_dump.h"

void registry_load_init(struct registry_load *load, struct registry *registry, struct interpreter *interpreter, const struct script_host *host)
{
    *load = (struct registry_load){ .registry = registry, .interpreter = interpreter, .host = host };
}

void registry_load_release(struct registry_load *load)
{
    for (int i = 0; i < load->count; i++)
        library_release(load->libraries[i]);
    mem_free(load->libraries);
    load->libraries = NULL;
    load->count = 0;
}

bool registry_load_text(struct registry_load *load, struct bytes text, struct buffer *error)
{
    struct library *library = library_create(text, registry_next_library(load->registry), load->interpreter, load->host, error);

    if (library == NULL)
        return false;
    if ((load->count & (load->count - 1)) == 0)
        load->libraries = mem_realloc(load->libraries, ((size_t)load->count * 2 + 1) * sizeof(load->libraries[0]));
    load->libraries[load->count++] = library;
    return true;
}

static bool take_text(void *context, struct bytes text, struct buffer *error)
{
    return registry_load_text(context, text, error);
}

bool registry_load_dump(struct registry_load *load, struct bytes dump, size_t text_size_max, struct buffer *error)
{
    return library_dump_read(dump, text_size_max, take_text, load, error);
}

bool registry_load_publish(struct registry_load *load, enum registry_how how, struct buffer *error)
{
    struct library_set *set = how == REGISTRY_REPLACES_ALL ? library_set_empty() : registry_libraries(load->registry), *next;

    next = library_set_with(set, load->libraries, load->count, how == REGISTRY_REPLACES ? LIBRARY_CLASH_REPLACES : LIBRARY_CLASH_FAILS, error);
    library_set_release(set);
    if (next == NULL)
        return false;
    registry_publish(load->registry, next);
    return true;
}
