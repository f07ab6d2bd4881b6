/* Hashes: field -> value. A listpack while small, a dict beyond the limits. Every function may change value->encoding and
 * value->object; the caller puts the value back into its entry (key_changed does).
 *
 * A field may have a time of its own at which it dies. A hash with such fields has an encoding with times; without any, it has
 * no byte of them: the first time given to a field changes the encoding, and the last one that goes changes it back. Nothing dies
 * by itself here: whoever opens the key removes the dead (call/key.c). Functions that do not speak of times work alike on all four. */
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
/* True if the field is new. The bytes must not lie in the hash. An old time of the field goes. */
bool hash_set(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
bool hash_delete(struct value *hash, struct bytes field);

/* Times, milliseconds since 1970. */
enum { HASH_NO_TIME = -1, HASH_NO_FIELD = -2 };
#define HASH_TIME_MAX ((int64_t)((1ull << 48) - 1))

/* True if some field has a time. */
static inline bool hash_has_times(const struct value *hash) { return hash->encoding >= HASH_LISTPACK_TIMES; }
/* When the field dies, or one of the two above. */
int64_t hash_time(const struct value *hash, struct bytes field);
/* Gives the field, which is there, a time from 0 to HASH_TIME_MAX, or HASH_NO_TIME. */
void hash_set_time(struct value *hash, const struct value_limits *limits, struct bytes field, int64_t time_ms);
/* hash_set, but the field keeps its time. */
bool hash_set_keeping(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
/* When the next field dies; HASH_NO_TIME if none will. */
int64_t hash_next_death(const struct value *hash);
/* When the last field dies; HASH_NO_TIME if one lives on. */
int64_t hash_last_death(const struct value *hash);
/* True if the times of more than `count` fields have come and it is a table; of a listpack, which is small, never. */
bool hash_has_many_dead(const struct value *hash, int64_t now_ms, size_t count);
/* Removes fields whose time has come, the earliest first, at most `count_max`; tells each one before it goes. Returns how many. */
typedef void hash_died(void *context, struct bytes field);
size_t hash_remove_dead(struct value *hash, int64_t now_ms, size_t count_max, hash_died *died, void *context);

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

/* The same for fields with times. hash_build_timed_end brings the hash into its proper encoding; false if it is empty. */
struct value hash_build_timed(const struct value_limits *limits, size_t count);
bool hash_build_timed_add(struct value *hash, struct bytes field, struct bytes value, int64_t time_ms);
bool hash_build_timed_end(struct value *hash, const struct value_limits *limits);
/* From a listpack of field, value, time (0: none). */
enum status hash_of_timed_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash);

#endif
