/* Hash, private: the encodings as used by hash.c and hash_times.c. A pack contains pairs, or, with times, triples: first
 * those with a time, earliest first, then those without (0). A table with times consists of the dict of pairs and a tree of the
 * fields with a time, ordered by time; so setting the first time in a large hash costs no more than setting another one.
 *
 * An encoding with times has at least one, except for an empty hash.
 */
#ifndef KELVIN_VALUE_HASH_PRIVATE_H
#define KELVIN_VALUE_HASH_PRIVATE_H

#include "base/compiler.h"
#include "containers/btree.h"
#include "containers/dict.h"
#include "containers/listpack.h"
#include "value/hash.h"
#include "value/paged_times.h"

struct timed_table {
    struct dict *dict;
    struct btree *times;        /* milliseconds as scores: integers below 2^53 are exact */
};

static inline bool hash_is_pack(const struct value *hash)
{
    return (hash->encoding & HASH_TABLE) == 0;
}

static inline struct listpack *hash_pack(const struct value *hash)
{
    return hash->object;
}

/* A change of a pack may move it. */
static inline struct listpack **hash_pack_slot(struct value *hash)
{
    return (struct listpack **)&hash->object;
}

static inline struct timed_table *hash_timed(const struct value *hash)
{
    return hash->object;
}

static inline struct dict *hash_dict(const struct value *hash)
{
    return LIKELY(hash->encoding == HASH_TABLE) ? hash->object : hash_timed(hash)->dict;
}

/* The number of elements per field in a pack. */
static inline size_t hash_stride(const struct value *hash)
{
    return hash->encoding == HASH_LISTPACK ? 2 : 3;
}

static inline size_t hash_pack_find(const struct value *hash, struct bytes field)
{
    const struct listpack *pack = hash_pack(hash);

    return listpack_find(pack, listpack_first(pack), field, hash_stride(hash) - 1);
}

static inline struct value hash_value_of(enum value_encoding encoding, void *object)
{
    return (struct value){ .type = VALUE_HASH, .encoding = (uint8_t)encoding, .object = object };
}

struct timed_table *timed_table_create(struct dict *dict, const struct hash_seed *seed);
struct timed_table *timed_table_copy(const struct timed_table *table);
void timed_table_destroy(struct timed_table *table);

bool hash_fits_pack(const struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value);
/* hash_set for an encoding with times. */
enum hash_time_fate { HASH_ENDS_TIME, HASH_KEEPS_TIME };
bool hash_set_timed(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value,
    enum hash_time_fate fate);

/* Converts a pack to a table with room for `count` fields and frees the pack. False if a field occurred twice. */
bool hash_to_table(struct value *hash, const struct value_limits *limits, size_t count);
/* Called after a removal: without any time left, changes to the encoding without times. */
void hash_drop_times_if_none(struct value *hash);

/* For a pack with times: the time of the field at position `at`; 0: none. */
int64_t hash_pack_time(const struct value *hash, size_t at);

/* The time of the field that hash_next has found. */
int64_t hash_iterator_time(const struct hash_iterator *iterator, struct bytes field);

#endif
