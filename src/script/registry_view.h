/* Registry view: what one worker has of the registry: an interpreter, and what it needs to start a script without the registry's lock.
 *
 *   registry_view_refresh(view);                               before each script, and from time to time
 *   source = registry_view_source(view, sha);                  or: function = library_set_function(view->libraries, name)
 *   ... the run holds its source, or its library (library_hold), until it ends: the view may let go of them meanwhile
 *
 * Owner: its worker.
 */
#ifndef KELVIN_SCRIPT_REGISTRY_VIEW_H
#define KELVIN_SCRIPT_REGISTRY_VIEW_H

#include "script/registry.h"

enum { REGISTRY_VIEW_SOURCES = 64, REGISTRY_VIEW_SOURCE_SIZE_MAX = 32 << 10 };

struct registry_view {
    struct registry *registry;
    struct interpreter *interpreter;
    struct library_set *libraries;      /* the current ones, after a refresh */
    uint64_t version, flushes;          /* of the registry, as of the last refresh */
    struct source *sources[REGISTRY_VIEW_SOURCES];     /* held; the small ones found last, by the first digits of their names */
};

/* Borrows registry and interpreter. */
void registry_view_init(struct registry_view *view, struct registry *registry, struct interpreter *interpreter);
void registry_view_release(struct registry_view *view);

/* Takes what was published since the last call; unloads from the interpreter what is no longer current. Two loads if nothing changed. */
void registry_view_refresh(struct registry_view *view);

/* Held. `sha` is SCRIPT_SHA_SIZE lower case digits. NULL: it is not known. */
struct source *registry_view_source(struct registry_view *view, const char *sha);

/* The text of EVAL or SCRIPT LOAD becomes a source, unless it is one: it is compiled, and published. NULL: `error` has the text of the error
 * reply, without '-'. Held. */
struct source *registry_view_add(struct registry_view *view, struct bytes text, enum source_origin origin, struct buffer *error);

#endif
