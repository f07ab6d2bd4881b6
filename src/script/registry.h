/* Registry: the sources of EVAL and the libraries of functions, one registry for all workers. Interpreters and compiled code are each worker's
 * own (registry_view.h).
 *
 * Sources are found by their SHA-1. They are part of the server and not of the data: neither logged nor saved. Those that came by EVAL alone
 * are limited, in number and in bytes; when there are more, one that was not used for long is dropped. Those of SCRIPT LOAD stay until
 * SCRIPT FLUSH.
 *
 * Libraries are data. They change as a whole: a change publishes the next set. Commands that change them run with all partitions locked, and
 * are logged there, so that a checkpoint's cut is before or after both. What was published is what starts from then on: a worker that begins a
 * function looks at registry_version first. A run that began before keeps what it holds.
 *
 * Thread-safe. Its lock is a leaf: no other lock is taken under it, and nothing is compiled.
 */
#ifndef KELVIN_SCRIPT_REGISTRY_H
#define KELVIN_SCRIPT_REGISTRY_H

#include "script/library_set.h"
#include "script/source.h"

struct registry;

enum {
    REGISTRY_EVAL_SOURCES_MAX = 500,            /* as in Redis 7.4 */
    REGISTRY_EVAL_SIZE_MAX = 64 << 20,          /* bytes; the newest one is kept whatever its size */
};

struct registry *registry_create(void);
void registry_destroy(struct registry *registry);       /* NULL is fine */

/* How a source came to be known. */
enum source_origin { SOURCE_OF_EVAL, SOURCE_OF_LOAD };

/* Sources. They are returned held; `sha` is SCRIPT_SHA_SIZE lower case digits. */

struct source *registry_find_source(struct registry *registry, const char *sha);       /* NULL: it is not known */
/* The same; if it came by EVAL, it is from now on as if it had come by SCRIPT LOAD. */
struct source *registry_keep_source(struct registry *registry, const char *sha);
/* A new source that compiles without an error. Takes over the caller's hold, and returns the source of that name: this one, or one with the same
 * text that another worker has added. From then on every worker finds it. */
struct source *registry_add_source(struct registry *registry, struct source *source, enum source_origin origin);
/* SCRIPT FLUSH: afterwards no worker starts any of them. */
void registry_flush_sources(struct registry *registry);
/* The number of flushes: compiled copies from before can be forgotten. */
uint64_t registry_flushes(const struct registry *registry);

/* Libraries. */

struct library_set *registry_libraries(struct registry *registry);      /* held */
/* Returns the version of the current set, which grows with every change. Another thread's registry_publish is seen once it has returned. */
uint64_t registry_version(const struct registry *registry);
/* Makes this the current set, which takes over the caller's hold. Callers exclude one another. */
void registry_publish(struct registry *registry, struct library_set *set);
/* For library_create: never the same number twice. */
uint64_t registry_next_library(struct registry *registry);

struct registry_stats {
    uint64_t source_count, source_bytes;        /* with what it takes to find them */
    uint64_t kept_bytes;                        /* of those of SCRIPT LOAD */
    uint64_t dropped_count;                     /* sources of EVAL that were dropped for others */
    uint64_t library_count, function_count, library_bytes;
};
void registry_stats(struct registry *registry, struct registry_stats *stats);

#endif
