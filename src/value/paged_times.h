/* Hash in pages with fields that expire: the table's pairs have the times as their numbers (containers/paged_table.h), so a field's time is where its value is, and beside it is a tree with the fields in the
 * order of their times (value/paged_order.h), for those that expire next. A hash without times has none of both, and the first time changes none of its pages but that of the field.
 *
 * All functions are about hashes with VALUE_PAGED, and with times unless they say something else. What they miss is read at once; those named paged_times_has_ return false if pages are missing, which are
 * wanted then, and can be asked again when they are there.
 */
#ifndef KELVIN_VALUE_PAGED_TIMES_H
#define KELVIN_VALUE_PAGED_TIMES_H

#include "containers/btree.h"
#include "value/paged_tree.h"

/* No time is before the first one nor after the last one. Bounds, as the leaf at the end of the tree may be missing when a time goes; exact when it has been there. */
struct paged_bounds {
    int64_t first_ms, last_ms;
};

struct paged_times {
    struct paged_ordered ordered;       /* first */
    struct paged_bounds bounds;
};

static inline struct paged_times *paged_times_of(const struct value *hash)
{
    return hash->object;
}

/* Only roots; the pages exist. The tree's root is the value's afterwards. */
struct paged_value *paged_times_of_roots(const struct paged_root *root, const struct page_tree_root *tree, const struct paged_bounds *bounds, uint64_t id);

/* A hash in pages without times gets an empty tree. */
void paged_times_begin(struct value *hash);
/* The other way round, if no field has a time. */
void paged_times_end_if_none(struct value *hash);
/* The same as paged_times_begin for a hash that is made of a table; `times` has some of its fields with their times. */
void paged_times_build(struct value *hash, const struct btree *times);

/* Also of a hash without times. 0: it has no time; -1: there is no such field. */
int64_t paged_time(const struct value *hash, struct bytes field);
/* The field exists; 0: it gets no time. */
void paged_times_set(const struct value *hash, struct bytes field, int64_t time_ms);
/* The field is about to be removed. */
void paged_times_forget(const struct value *hash, struct bytes field);

/* How many fields expire until then; not more than `max` are counted. */
size_t paged_times_due(const struct value *hash, int64_t now_ms, size_t max);
/* Removes fields that expire until then, the earliest first, at most `max`; calls `expired` for each before it is removed. Returns how many. */
size_t paged_times_remove(const struct value *hash, int64_t now_ms, size_t max, void (*expired)(void *context, struct bytes field), void *context);
/* Needed by that, and for the first bound to be exact then if it were fewer. `*ready`: the first of them for which all is there, how many. */
bool paged_times_has_due(const struct value *hash, int64_t now_ms, size_t max, size_t *ready);

/* Makes `view` a hash that is read in place of this one: with the pages attached, but as if the fields that expire until then were gone. `room` belongs to the caller; nothing is to be freed. */
void paged_times_hide(const struct value *hash, int64_t now_ms, struct paged_times *room, struct value *view);
/* The first time after that; -1: there is none. */
int64_t paged_times_next_after(const struct value *hash, int64_t now_ms);
/* Needed by both. */
bool paged_times_has_view(const struct value *hash, int64_t now_ms);

/* Needed by a change of the field, as one of `count`: its time goes (time_ms < 0), or is set. */
bool paged_times_has_change(const struct value *hash, struct bytes field, int64_t time_ms, size_t count);

#endif
