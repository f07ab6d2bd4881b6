/* Sets: different members. Only integers: an intset; few and short members: a listpack; otherwise a dict without
 * values, or the same in pages (value/paged.h). An encoding is only changed to a larger one. Every function that takes a set without const may change
 * set->encoding and set->object; the caller puts the value back into its entry (key_changed does). Bytes passed to a
 * function must not be part of the set.
 */
#ifndef KELVIN_VALUE_SET_H
#define KELVIN_VALUE_SET_H

#include "base/random.h"
#include "base/text.h"
#include "containers/paged_table.h"
#include "value/value.h"

struct dict;

/* Empty, in the right encoding for `count` members, one of which is `first`. */
struct value set_create(const struct value_limits *limits, struct bytes first, size_t count);
/* `count` members are about to be added: changes the encoding now if the current one could not hold all of them. */
void set_expect(struct value *set, const struct value_limits *limits, size_t count);

size_t set_count(const struct value *set);
bool set_has(const struct value *set, struct bytes member);
/* True if the member is new. */
bool set_add(struct value *set, const struct value_limits *limits, struct bytes member);
/* Adds a member that is known not to be there: it is not looked up, which would take linear time in a listpack. */
void set_add_new(struct value *set, const struct value_limits *limits, struct bytes member);
bool set_remove(struct value *set, struct bytes member);

/* Iterates over all members: integers in order, a table in no particular order. The set must not change meanwhile. A
 * member is borrowed until the set changes; one that is stored as an integer is printed into the iterator and valid
 * until the next step only. */
struct set_iterator {
    const struct value *set;
    uint64_t position[2];
    struct paged_iterator in_pages;
    char digits[TEXT_INT_SIZE];
};
void set_iterate(struct set_iterator *iterator, const struct value *set);
bool set_next(struct set_iterator *iterator, struct bytes *member);

/* A random member, all with the same probability; the set must not be empty. False: it is in pages that are missing (value/paged.h). */
bool set_random(const struct value *set, struct random *random, char digits[TEXT_INT_SIZE], struct bytes *member);

/* Calls `found` for `count` different members, every combination with the same probability; `count` is at most set_count. False: pages are missing, and `found` was
 * called for some of them. */
typedef void set_found(void *context, struct bytes member);
bool set_sample(const struct value *set, struct random *random, size_t count, set_found *found, void *context);

/* Removes members found by set_sample, in that order; the bytes must not be part of the set. */
void set_remove_sample(struct value *set, const struct bytes *members, size_t count);

/* Before a walk over all members whose command does not say that it needs all. False: they are in pages that are missing. */
bool set_has_all(const struct value *set);

/* SSCAN: calls `found` for about `count` members from `*cursor` on and sets it to the next one, 0 at the end. An intset
 * or a listpack is returned completely. A member that is there from the first to the last call is found at least once. False: pages are missing. */
bool set_scan(const struct value *set, uint64_t *cursor, size_t count, set_found *found, void *context);

/* The table of a set that may be kept in pages; NULL: it is another one. */
const struct dict *set_table(const struct value *set);

/* Building a set from untrusted bytes, or from members known to be different; used by the codec. If a function returns
 * false or STATUS_CORRUPT, the set is consistent but must not be used: free it.
 *
 * set_build_add adds a member that should not be there yet. It and set_build_end return false if one occurred twice; this is
 * detected at the end at the latest. `count` members are expected; within limits, memory for them is reserved at once. */
struct value set_build(const struct value_limits *limits, size_t count);
bool set_build_add(struct value *set, const struct value_limits *limits, struct bytes member);
bool set_build_end(const struct value *set, const struct value_limits *limits);
/* From the bytes of an intset or a listpack, which are copied; a table if it has too many members. STATUS_CORRUPT for
 * an invalid or empty one, or a member that occurs twice. */
enum status set_of_intset(struct bytes intset, const struct value_limits *limits, struct value *set);
enum status set_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *set);

#endif
