#include "script/registry_view.h"

#include "base/digest.h"

void registry_view_init(struct registry_view *view, struct registry *registry, struct interpreter *interpreter)
{
    *view = (struct registry_view){
        .registry = registry,
        .interpreter = interpreter,
        .version = registry_version(registry),
        .flushes = registry_flushes(registry),
    };
    view->libraries = registry_libraries(registry);
}

static void let_go(struct registry_view *view)
{
    for (int i = 0; i < REGISTRY_VIEW_SOURCES; i++) {
        source_release(view->sources[i]);
        view->sources[i] = NULL;
    }
}

void registry_view_release(struct registry_view *view)
{
    let_go(view);
    library_set_release(view->libraries);
    view->libraries = NULL;
}

/* Libraries that were replaced are unloaded as well: the interpreter loads their new version when it is needed. */
static void unload_gone(struct registry_view *view, const struct library_set *next)
{
    for (int i = 0; i < view->libraries->count; i++) {
        struct library *library = view->libraries->libraries[i];

        if (library_set_find(next, library->script.name) != library)
            interpreter_unload(view->interpreter, library->script.name);
    }
}

void registry_view_refresh(struct registry_view *view)
{
    uint64_t version = registry_version(view->registry), flushes = registry_flushes(view->registry);

    if (version != view->version) {
        struct library_set *next = registry_libraries(view->registry);

        unload_gone(view, next);
        library_set_release(view->libraries);
        view->libraries = next;
        view->version = version;
    }
    if (flushes != view->flushes) {
        let_go(view);
        interpreter_forget_scripts(view->interpreter);
        view->flushes = flushes;
    }
}

static struct source **place_of(struct registry_view *view, const char *sha)
{
    return &view->sources[((unsigned)sha[0] * 16 + (unsigned)sha[1]) % REGISTRY_VIEW_SOURCES];
}

/* So that it is found without the registry's lock. A large one would take memory long after it was dropped. */
static void keep(struct registry_view *view, struct source *source)
{
    struct source **place = place_of(view, source->script.sha);

    if (*place == source || source->text.size > REGISTRY_VIEW_SOURCE_SIZE_MAX)
        return;
    source_release(*place);
    *place = source_hold(source);
}

/* The mark is written only if it is not set, so that workers that run the same script do not disturb one another. */
static void mark_used(struct source *source)
{
    if (!atomic_load_explicit(&source->used, memory_order_relaxed))
        atomic_store_explicit(&source->used, true, memory_order_relaxed);
}

struct source *registry_view_source(struct registry_view *view, const char *sha)
{
    struct source *source = *place_of(view, sha);

    if (source != NULL && !source->retired && memcmp(source->script.sha, sha, SCRIPT_SHA_SIZE) == 0) {
        source_hold(source);
    } else {
        source = registry_find_source(view->registry, sha);
        if (source == NULL)
            return NULL;
        keep(view, source);
    }
    mark_used(source);
    return source;
}

struct source *registry_view_add(struct registry_view *view, struct bytes text, enum source_origin origin, struct buffer *error)
{
    char sha[SCRIPT_SHA_SIZE];
    struct source *source;

    digest_sha1_hex(text, sha);
    source = origin == SOURCE_OF_LOAD ? registry_keep_source(view->registry, sha) : registry_view_source(view, sha);
    if (source != NULL)
        return source;
    source = source_create(sha, text, error);
    if (source == NULL)
        return NULL;
    if (!interpreter_check(view->interpreter, &source->script, error)) {
        source_release(source);
        return NULL;
    }
    source = registry_add_source(view->registry, source, origin);
    keep(view, source);
    return source;
}
