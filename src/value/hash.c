#include "value/hash.h"

#include "base/check.h"
#include "containers/dict.h"
#include "containers/listpack.h"
#include "value/type.h"

enum { BUILD_RESERVE_MAX = 1 << 20 };

static inline bool is_listpack(const struct value *hash)
{
    return hash->encoding == HASH_LISTPACK;
}

static inline struct listpack *pack_of(const struct value *hash)
{
    return hash->object;
}

static inline struct dict *dict_of(const struct value *hash)
{
    return hash->object;
}

/* Changes of a pack may move it. */
static inline struct listpack **pack_slot(struct value *hash)
{
    return (struct listpack **)&hash->object;
}

static struct value value_of_pack(struct listpack *pack)
{
    return (struct value){ .type = VALUE_HASH, .encoding = HASH_LISTPACK, .object = pack };
}

static struct value value_of_dict(struct dict *dict)
{
    return (struct value){ .type = VALUE_HASH, .encoding = HASH_TABLE, .object = dict };
}

struct value hash_create(void)
{
    return value_of_pack(listpack_create());
}

size_t hash_count(const struct value *hash)
{
    return is_listpack(hash) ? listpack_count(pack_of(hash)) / 2 : dict_count(dict_of(hash));
}

static size_t pack_find(const struct listpack *pack, struct bytes field)
{
    return listpack_find(pack, listpack_first(pack), field, 1);
}

bool hash_get(const struct value *hash, struct bytes field, struct bytes *value, char digits[TEXT_INT_SIZE])
{
    const struct listpack *pack = pack_of(hash);
    size_t at;

    if (!is_listpack(hash))
        return dict_find(dict_of(hash), field, value);
    at = pack_find(pack, field);
    if (at == LISTPACK_NONE)
        return false;
    *value = listpack_get(pack, listpack_next(pack, at), digits);
    return true;
}

bool hash_has(const struct value *hash, struct bytes field)
{
    return is_listpack(hash) ? pack_find(pack_of(hash), field) != LISTPACK_NONE : dict_find(dict_of(hash), field, NULL);
}

/* The pairs of a pack become a table with room for `count`; the pack is gone. False if a field was there twice. */
static bool to_table(struct value *hash, const struct value_limits *limits, size_t count)
{
    struct listpack *pack = pack_of(hash);
    struct dict *dict = dict_create(&limits->seed);
    struct hash_iterator iterator;
    struct bytes field, value;
    bool is_set = true;

    dict_reserve(dict, count);
    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value))
        is_set &= dict_put(dict, field, value);
    listpack_destroy(pack);
    *hash = value_of_dict(dict);
    return is_set;
}

static bool fits_listpack(const struct value *hash, const struct value_limits *limits, struct bytes field,
    struct bytes value)
{
    return field.size <= limits->hash_listpack_value_max && value.size <= limits->hash_listpack_value_max &&
        listpack_has_room(pack_of(hash), 2, field.size + value.size);
}

static void pack_append(struct value *hash, struct bytes field, struct bytes value)
{
    listpack_append(pack_slot(hash), field);
    listpack_append(pack_slot(hash), value);
}

bool hash_set(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value)
{
    size_t at;

    if (is_listpack(hash) && !fits_listpack(hash, limits, field, value))
        CHECK(to_table(hash, limits, hash_count(hash) + 1));
    if (!is_listpack(hash))
        return dict_put(dict_of(hash), field, value);
    at = pack_find(pack_of(hash), field);
    if (at != LISTPACK_NONE)
        listpack_replace(pack_slot(hash), listpack_next(pack_of(hash), at), value);
    else
        pack_append(hash, field, value);
    /* After an overwrite too: the limit may have been lowered since the pack was made. */
    if (hash_count(hash) > limits->hash_listpack_entries_max)
        CHECK(to_table(hash, limits, hash_count(hash)));
    return at == LISTPACK_NONE;
}

bool hash_delete(struct value *hash, struct bytes field)
{
    size_t at;

    if (!is_listpack(hash))
        return dict_remove(dict_of(hash), field);
    at = pack_find(pack_of(hash), field);
    if (at != LISTPACK_NONE)
        listpack_delete(pack_slot(hash), at, 2);
    return at != LISTPACK_NONE;
}

/* position: of a listpack, where the next field is; of a table, bucket and index there. */
void hash_iterate(struct hash_iterator *iterator, const struct value *hash)
{
    iterator->hash = hash;
    iterator->position[0] = is_listpack(hash) ? listpack_first(pack_of(hash)) : 0;
    iterator->position[1] = 0;
}

bool hash_next(struct hash_iterator *iterator, struct bytes *field, struct bytes *value)
{
    const struct value *hash = iterator->hash;
    const struct listpack *pack = pack_of(hash);
    struct dict_iterator in_dict;
    bool found;

    if (is_listpack(hash)) {
        size_t at = iterator->position[0];

        if (at == LISTPACK_NONE)
            return false;
        *field = listpack_get(pack, at, iterator->field_digits);
        at = listpack_next(pack, at);
        *value = listpack_get(pack, at, iterator->value_digits);
        iterator->position[0] = listpack_next(pack, at);
        return true;
    }
    in_dict = (struct dict_iterator){ dict_of(hash), iterator->position[0], iterator->position[1] };
    found = dict_next(&in_dict, field, value);
    iterator->position[0] = in_dict.bucket;
    iterator->position[1] = in_dict.index;
    return found;
}

void hash_random(const struct value *hash, struct random *random, struct bytes *field, struct bytes *value,
    char field_digits[TEXT_INT_SIZE], char value_digits[TEXT_INT_SIZE])
{
    const struct listpack *pack = pack_of(hash);
    size_t at;

    if (!is_listpack(hash)) {
        dict_random(dict_of(hash), random, field, value);
        return;
    }
    CHECK(hash_count(hash) > 0);
    at = listpack_seek(pack, (int64_t)random_below(random, hash_count(hash)) * 2);
    *field = listpack_get(pack, at, field_digits);
    *value = listpack_get(pack, listpack_next(pack, at), value_digits);
}

uint64_t hash_scan(const struct value *hash, uint64_t cursor, size_t count, hash_found *found, void *context)
{
    struct hash_iterator iterator;
    struct bytes field, value;

    if (!is_listpack(hash))
        return dict_scan(dict_of(hash), cursor, count, found, context);
    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value))
        found(context, field, value);
    return 0;
}

struct value hash_build(const struct value_limits *limits, size_t count)
{
    struct value hash = hash_create();

    /* The count is somebody's word: beyond some megabytes the table grows as pairs really come. */
    if (count > limits->hash_listpack_entries_max)
        CHECK(to_table(&hash, limits, count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX));
    return hash;
}

bool hash_build_add(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value)
{
    if (is_listpack(hash)) {
        if (hash_count(hash) < limits->hash_listpack_entries_max && fits_listpack(hash, limits, field, value)) {
            pack_append(hash, field, value);
            return true;
        }
        if (!to_table(hash, limits, hash_count(hash) + 1))
            return false;
    }
    return dict_put(dict_of(hash), field, value);
}

bool hash_build_end(const struct value *hash, const struct value_limits *limits)
{
    return !is_listpack(hash) || !listpack_has_twins(pack_of(hash), 2, &limits->seed);
}

enum status hash_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash)
{
    struct value built;
    size_t count;
    bool is_good;

    if (!listpack_is_valid(listpack))
        return STATUS_CORRUPT;
    built = value_of_pack(listpack_of_bytes(listpack));
    count = listpack_count(pack_of(&built));
    if (count == 0 || count % 2 != 0) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    is_good = count / 2 > limits->hash_listpack_entries_max ? to_table(&built, limits, count / 2)
                                                            : hash_build_end(&built, limits);
    if (!is_good) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    *hash = built;
    return STATUS_OK;
}

/* What value.c asks. */

static const char *hash_encoding_name(const struct value *hash)
{
    return is_listpack(hash) ? "listpack" : "hashtable";
}

static void hash_free(struct value *hash)
{
    if (is_listpack(hash))
        listpack_destroy(pack_of(hash));
    else
        dict_destroy(dict_of(hash));
}

static size_t hash_memory(const struct value *hash, size_t samples)
{
    return is_listpack(hash) ? listpack_memory(pack_of(hash)) : dict_memory(dict_of(hash), samples);
}

static size_t hash_effort(const struct value *hash)
{
    return is_listpack(hash) ? 1 : dict_count(dict_of(hash)) + 1;
}

static struct value hash_copy(const struct value *hash)
{
    return is_listpack(hash) ? value_of_pack(listpack_copy(pack_of(hash))) : value_of_dict(dict_copy(dict_of(hash)));
}

static void hash_digest(const struct value *hash, struct value_sum *sum)
{
    struct hash_iterator iterator;
    struct bytes field, value;

    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value))
        value_sum_add_pair(sum, field, value);
}

const struct value_operations hash_operations = {
    .encoding_name = hash_encoding_name,
    .free = hash_free,
    .memory = hash_memory,
    .effort = hash_effort,
    .copy = hash_copy,
    .digest = hash_digest,
};
