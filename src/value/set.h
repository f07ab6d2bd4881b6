/* Sets: members, each there once. Integers only: an intset; few and short ones: a listpack; else a dict without values. An
 * encoding is only ever left for a larger one. Every function that takes a set without const may change set->encoding and
 * set->object; the caller puts the value back into its entry (key_changed does). Bytes given to one must not lie in the set.
 */
#ifndef KELVIN_VALUE_SET_H
#define KELVIN_VALUE_SET_H

#include "base/random.h"
#include "base/text.h"
#include "value/value.h"

/* Empty, in the encoding that is right for `count` members of which `first` is one. */
struct value set_create(const struct value_limits *limits, struct bytes first, size_t count);
/* `count` members are about to be added: if it would not do for all of them, the encoding is left at once. */
void set_expect(struct value *set, const struct value_limits *limits, size_t count);

size_t set_count(const struct value *set);
bool set_has(const struct value *set, struct bytes member);
/* True if the member is new. */
bool set_add(struct value *set, const struct value_limits *limits, struct bytes member);
/* One that is known not to be there: it is not looked for, which a listpack would take linear time for. */
void set_add_new(struct value *set, const struct value_limits *limits, struct bytes member);
bool set_remove(struct value *set, struct bytes member);

/* All members: integers in order, a table in no promised order. The set does not change meanwhile. A member is borrowed until the
 * set changes; one that is kept as an integer lies in the iterator, and until the next step only. */
struct set_iterator {
    const struct value *set;
    uint64_t position[2];
    char digits[TEXT_INT_SIZE];
};
void set_iterate(struct set_iterator *iterator, const struct value *set);
bool set_next(struct set_iterator *iterator, struct bytes *member);

/* Each member with the same chance; the set is not empty. */
struct bytes set_random(const struct value *set, struct random *random, char digits[TEXT_INT_SIZE]);

/* Calls `found` for `count` different members, each choice of them as likely as any other; `count` is at most set_count. */
typedef void set_found(void *context, struct bytes member);
void set_sample(const struct value *set, struct random *random, size_t count, set_found *found, void *context);

/* Removes members as set_sample gave them, in that order; they do not lie in the set. */
void set_remove_sample(struct value *set, const struct bytes *members, size_t count);

/* SSCAN: calls `found` for about `count` members from `cursor` on and returns the next cursor, 0 at the end. An intset or a
 * listpack is returned whole. A member that is there from the first to the last call is found at least once. */
uint64_t set_scan(const struct value *set, uint64_t cursor, size_t count, set_found *found, void *context);

/* Building one from bytes that nobody vouches for; used by the codec, and where members are known to be different. After a false
 * or a STATUS_CORRUPT that was given a set, the set is whole but not to be used: free it.
 *
 * set_build_add: a member that is not there yet. Both of these are false if one came twice; that is known at the latest at
 * the end. `count` members are expected; within reason, room is made for them at once. */
struct value set_build(const struct value_limits *limits, size_t count);
bool set_build_add(struct value *set, const struct value_limits *limits, struct bytes member);
bool set_build_end(const struct value *set, const struct value_limits *limits);
/* From the bytes of an intset or a listpack, which are copied; a table if it has too many members. STATUS_CORRUPT for an invalid
 * one, an empty one, a member that is there twice. */
enum status set_of_intset(struct bytes intset, const struct value_limits *limits, struct value *set);
enum status set_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *set);

#endif
