/* Hashes: field -> value. A listpack while small, a dict beyond the limits, or in pages (value/paged.h). Every function may change value->encoding
 * and value->object; the caller puts the value back into its entry (key_changed does).
 *
 * A field may have an expiry time of its own. A hash with such fields has an encoding with times; without any, times
 * take no memory: the first time set changes the encoding, and the removal of the last one changes it back. No field is
 * removed automatically here: the code that opens the key removes expired fields (call/key.c). Functions that do not
 * deal with times work alike on all encodings.
 */
#ifndef KELVIN_VALUE_HASH_H
#define KELVIN_VALUE_HASH_H

#include "base/compiler.h"
#include "base/random.h"
#include "base/text.h"
#include "containers/paged_table.h"
#include "value/value.h"

struct dict;
struct paged_access;
struct paged_plan;
struct paged_value;

struct value hash_create(void);                                 /* empty, a listpack */
size_t hash_count(const struct value *hash);

/* The value of a field; an integer in a listpack is printed into `digits`. Borrowed until the hash changes. */
bool hash_get(const struct value *hash, struct bytes field, struct bytes *value, char digits[TEXT_INT_SIZE]);
bool hash_has(const struct value *hash, struct bytes field);
/* True if the field is new. The bytes must not be part of the hash. An old time of the field is removed. */
bool hash_set(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
bool hash_delete(struct value *hash, struct bytes field);

/* Times are milliseconds since 1970. */
enum { HASH_NO_TIME = -1, HASH_NO_FIELD = -2 };
#define HASH_TIME_MAX ((int64_t)((1ull << 48) - 1))

/* True if some field has an expiry time. */
static inline bool hash_has_times(const struct value *hash) { return hash->encoding & HASH_LISTPACK_TIMES; }
/* The expiry time of the field, or one of the two constants above. */
int64_t hash_time(const struct value *hash, struct bytes field);
/* Sets the expiry time of a field, which must exist: 0 to HASH_TIME_MAX, or HASH_NO_TIME. */
void hash_set_time(struct value *hash, const struct value_limits *limits, struct bytes field, int64_t time_ms);
/* hash_set, but the field keeps its expiry time. */
bool hash_set_keeping(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
/* When the next field expires; HASH_NO_TIME if none does. In pages it may be a bound: none expires before it. */
int64_t hash_next_expiry(const struct value *hash);
/* When the first of those fields does that have not by now; HASH_NO_TIME if none does. Reads a page that is missing. */
int64_t hash_next_expiry_after(const struct value *hash, int64_t now_ms);
/* When the last field expires; HASH_NO_TIME if one does not. In pages it may be a bound: all have expired then. */
int64_t hash_last_expiry(const struct value *hash);
/* Fields of a hash in pages that are removed together, as each may need a page. */
enum { HASH_EXPIRED_IN_PAGES = 64 };
/* True if more than `count` fields have expired and it is a table or in pages; for a listpack, which is small, always false. */
bool hash_has_many_expired(const struct value *hash, int64_t now_ms, size_t count);
/* Removes expired fields, the earliest first, at most `count_max`; calls `expired` for each before it is removed. Returns
 * the number removed. */
typedef void hash_expired_field(void *context, struct bytes field);
size_t hash_remove_expired(struct value *hash, int64_t now_ms, size_t count_max, hash_expired_field *expired, void *context);

/* Iterates over all pairs, in no particular order. The hash must not change meanwhile. */
struct hash_iterator {
    const struct value *hash;
    uint64_t position[4];
    struct paged_iterator in_pages;
    char field_digits[TEXT_INT_SIZE], value_digits[TEXT_INT_SIZE];
};
void hash_iterate(struct hash_iterator *iterator, const struct value *hash);
bool hash_next(struct hash_iterator *iterator, struct bytes *field, struct bytes *value);

/* A random pair; the hash must not be empty. False: it is in pages that are missing (value/paged.h). */
bool hash_random(const struct value *hash, struct random *random, struct bytes *field, struct bytes *value,
    char field_digits[TEXT_INT_SIZE], char value_digits[TEXT_INT_SIZE]);

/* Before a walk over all pairs whose command does not say that it needs all. False: they are in pages that are missing. */
bool hash_has_all(const struct value *hash);

/* HSCAN: calls `found` for about `count` pairs from `*cursor` on and sets it to the next one, 0 at the end. A listpack
 * is returned completely. A pair that is there from the first to the last call is found at least once. False: pages are missing. */
typedef void hash_found(void *context, struct bytes field, struct bytes value);
bool hash_scan(const struct value *hash, uint64_t *cursor, size_t count, hash_found *found, void *context);

/* The table of a hash that may be kept in pages; NULL: it is another one. */
const struct dict *hash_table(const struct value *hash);
/* Takes it into pages, times included: as paged_create. */
struct paged_value *hash_to_pages(const struct value *hash, const struct paged_plan *plan, uint64_t id, struct paged_access *access);

/* Whether the fields' own pages are there, for a command whose row does not name them, and room for as many more. `fields`: every step-th of `count`. False: pages are missing (value/paged.h). */
bool hash_has_fields(const struct value *hash, const struct bytes *fields, int count, int step);
/* Whether what a change of fields needs of a hash in pages beside their own pages is there: their times go (time_ms < 0), or are set. `fields`: every step-th of `count`, for example of arguments.
 * False: pages are missing (value/paged.h). */
bool hash_times_have_change(const struct value *hash, const struct bytes *fields, int count, int step, int64_t time_ms);          /* only of HASH_PAGED_TIMES */
static inline bool hash_has_change(const struct value *hash, const struct bytes *fields, int count, int step, int64_t time_ms)
{
    return LIKELY(hash->encoding != HASH_PAGED_TIMES) || hash_times_have_change(hash, fields, count, step, time_ms);
}
/* The same for the removal of up to `count_max` fields that have expired (hash_remove_expired). `*ready`: how many of them can be removed now. */
bool hash_has_expired(const struct value *hash, int64_t now_ms, size_t count_max, size_t *ready);

/* Building a hash from untrusted bytes; used by the codec. If a function returns false or STATUS_CORRUPT, the hash is
 * consistent but must not be used: free it.
 *
 * hash_build_add adds a pair without looking up the field. It and hash_build_end return false if a field occurred twice; this is
 * detected at the end at the latest. `count` pairs are expected; within limits, memory for them is reserved at once. */
struct value hash_build(const struct value_limits *limits, size_t count);
bool hash_build_add(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
bool hash_build_end(const struct value *hash, const struct value_limits *limits);
/* From the bytes of a listpack, which are copied; a table if it has too many pairs. STATUS_CORRUPT for an invalid or
 * empty one, a field without a value, or a field that occurs twice. */
enum status hash_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash);

/* The same for fields with times. hash_build_timed_end changes the hash to its proper encoding; false if it is empty. */
struct value hash_build_timed(const struct value_limits *limits, size_t count);
bool hash_build_timed_add(struct value *hash, struct bytes field, struct bytes value, int64_t time_ms);
bool hash_build_timed_end(struct value *hash, const struct value_limits *limits);
/* From a listpack of field, value, time (0: none). */
enum status hash_of_timed_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash);

#endif
