/* Library set: all libraries there are at one moment. Immutable and counted: a change makes another set, so that a checkpoint, a dump or a
 * worker keeps what it holds. A change takes time in proportion to the number of functions.
 */
#ifndef KELVIN_SCRIPT_LIBRARY_SET_H
#define KELVIN_SCRIPT_LIBRARY_SET_H

#include <stdatomic.h>

#include "script/library.h"

struct library_set {
    struct library **libraries;     /* by name */
    int count, function_count;
    size_t size;                    /* bytes of memory, the libraries included */
    const struct library_function **index;      /* of functions by name: open addressing, `index_size` is a power of two or 0 */
    uint32_t index_size;
    _Atomic uint32_t references;
};

struct library_set *library_set_empty(void);
struct library_set *library_set_hold(struct library_set *set);
void library_set_release(struct library_set *set);          /* NULL is fine */

/* By its exact name. Borrowed, like a function; NULL: there is none. */
struct library *library_set_find(const struct library_set *set, struct bytes name);
/* Whatever the case of the name. */
const struct library_function *library_set_function(const struct library_set *set, struct bytes name);

enum library_clash { LIBRARY_CLASH_FAILS, LIBRARY_CLASH_REPLACES };

/* A set with all of `set` and `added`, whose libraries are held by it, too. A library that is already there is replaced, or is an error. Two
 * functions with the same name are an error. NULL: `error` has the text of the error reply, without '-'. */
struct library_set *library_set_with(const struct library_set *set, struct library *const *added, int count, enum library_clash clash,
    struct buffer *error);
/* A set without that library; NULL: there is none of that name. */
struct library_set *library_set_without(const struct library_set *set, struct bytes name);

#endif
