/* Registry load: texts become libraries, and these a part of the registry, all or none: FUNCTION LOAD, FUNCTION RESTORE, an image, an RDB file.
 *
 *   registry_load_init(&load, registry, interpreter, host);
 *   good = registry_load_text(&load, text, &error);               or registry_load_dump; takes long
 *   good = good && registry_load_publish(&load, how, &error);     quick
 *   registry_load_release(&load);
 *
 * Functions that return false append the text of the error reply, without '-', to `error`, and have changed nothing.
 *
 * Owner: one thread at a time.
 */
#ifndef KELVIN_SCRIPT_REGISTRY_LOAD_H
#define KELVIN_SCRIPT_REGISTRY_LOAD_H

#include "script/registry.h"

struct registry_load {
    struct registry *registry;
    struct interpreter *interpreter;    /* nothing else uses it */
    const struct script_host *host;     /* for redis.log; or NULL */
    struct library **libraries;         /* held */
    int count;
};

/* All are borrowed. */
void registry_load_init(struct registry_load *load, struct registry *registry, struct interpreter *interpreter, const struct script_host *host);
void registry_load_release(struct registry_load *load);

/* Without locks: these run the libraries' code. */
bool registry_load_text(struct registry_load *load, struct bytes text, struct buffer *error);
/* Any bytes. */
bool registry_load_dump(struct registry_load *load, struct bytes dump, size_t text_size_max, struct buffer *error);

enum registry_how {
    REGISTRY_ADDS,              /* a library that is there already is an error */
    REGISTRY_REPLACES,          /* libraries of the same names */
    REGISTRY_REPLACES_ALL,
};
/* No other thread publishes meanwhile. */
bool registry_load_publish(struct registry_load *load, enum registry_how how, struct buffer *error);

#endif
