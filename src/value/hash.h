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
/* True if the field is new. */
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

#endif
