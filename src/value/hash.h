/* Hashes: field -> value. A listpack while small, a dict beyond the limits. Every function may change value->encoding and
 * value->object; the caller puts the value back into its entry (key_changed does). */
#ifndef KELVIN_VALUE_HASH_H
#define KELVIN_VALUE_HASH_H

#include "base/random.h"
#include "base/text.h"
#include "value/value.h"

struct value hash_create(void);                                 /* empty, a listpack */
size_t hash_count(const struct value *hash);

/* The value of a field; integers in a listpack are printed into `digits`. Borrowed until the hash changes. */
bool hash_get(const struct value *hash, struct bytes field, struct bytes *value, char digits[TEXT_INT_SIZE]);
bool hash_has(const struct value *hash, struct bytes field);
/* True if the field is new. The bytes must not lie in the hash. */
bool hash_set(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
bool hash_delete(struct value *hash, struct bytes field);

/* All pairs, in no promised order. The hash does not change meanwhile. */
struct hash_iterator {
    const struct value *hash;
    uint64_t position[4];
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
};
void hash_iterate(struct hash_iterator *iterator, const struct value *hash);
bool hash_next(struct hash_iterator *iterator, struct bytes *field, struct bytes *value);

/* A random pair; the hash is not empty. */
void hash_random(const struct value *hash, struct random *random, struct bytes *field, struct bytes *value,
    char field_digits[TEXT_INT_SIZE], char value_digits[TEXT_INT_SIZE]);

/* HSCAN: calls `found` for about `count` pairs from `cursor` on and returns the next cursor, 0 at the end. A listpack
 * is returned whole. A pair that is there from the first to the last call is found at least once. */
typedef void hash_found(void *context, struct bytes field, struct bytes value);
uint64_t hash_scan(const struct value *hash, uint64_t cursor, size_t count, hash_found *found, void *context);

/* Building one from bytes that nobody vouches for; used by the codec. After a false or a STATUS_CORRUPT that was given
 * a hash, the hash is whole but not to be used: free it.
 *
 * hash_build_add: a pair, without looking for the field first. Both of these are false if a field came twice; that is
 * known at the latest at the end. `count` pairs are expected; within reason, room is made for them at once. */
struct value hash_build(const struct value_limits *limits, size_t count);
bool hash_build_add(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
bool hash_build_end(const struct value *hash, const struct value_limits *limits);
/* From the bytes of a listpack, which are copied; a table if it has too many pairs. STATUS_CORRUPT for an invalid one,
 * an empty one, a field without a value, a field that is there twice. */
enum status hash_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash);

#endif
