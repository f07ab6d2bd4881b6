#include "value/hash.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "value/hash_private.h"
#include "value/type.h"

enum { BUILD_RESERVE_MAX = 1 << 20 };

struct value hash_create(void)
{
    return hash_value_of(HASH_LISTPACK, listpack_create());
}

size_t hash_count(const struct value *hash)
{
    if (hash->encoding == HASH_LISTPACK)
        return listpack_count(hash_pack(hash)) / 2;
    if (UNLIKELY(value_is_paged(hash)))
        return paged_count(hash);
    return hash_is_pack(hash) ? listpack_count(hash_pack(hash)) / 3 : dict_count(hash_dict(hash));
}

/* For a hash without times. */
static size_t pack_find(const struct listpack *pack, struct bytes field)
{
    return listpack_find(pack, listpack_first(pack), field, 1);
}

bool hash_get(const struct value *hash, struct bytes field, struct bytes *value, char digits[TEXT_INT_SIZE])
{
    const struct listpack *pack = hash_pack(hash);
    size_t at;

    if (hash->encoding == HASH_LISTPACK)
        at = pack_find(pack, field);
    else if (UNLIKELY(value_is_paged(hash)))
        return paged_find(hash, field, value);
    else if (!hash_is_pack(hash))
        return dict_find(hash_dict(hash), field, value);
    else
        at = hash_pack_find(hash, field);
    if (at == LISTPACK_NONE)
        return false;
    *value = listpack_get(pack, listpack_next(pack, at), digits);
    return true;
}

bool hash_has(const struct value *hash, struct bytes field)
{
    if (UNLIKELY(value_is_paged(hash)))
        return paged_find(hash, field, NULL);
    return hash_is_pack(hash) ? hash_pack_find(hash, field) != LISTPACK_NONE : dict_find(hash_dict(hash), field, NULL);
}

bool hash_to_table(struct value *hash, const struct value_limits *limits, size_t count)
{
    struct listpack *pack = hash_pack(hash);
    struct dict *dict = dict_create(&limits->seed);
    struct timed_table *timed = hash_has_times(hash) ? timed_table_create(dict, &limits->seed) : NULL;
    struct hash_iterator iterator;
    struct bytes field, value;
    bool is_set = true;

    dict_reserve(dict, count);
    hash_iterate(&iterator, hash);
    while (iterator.position[0] != LISTPACK_NONE) {
        int64_t time_ms = timed != NULL ? hash_pack_time(hash, iterator.position[0]) : 0;

        hash_next(&iterator, &field, &value);
        is_set &= dict_put(dict, field, value);
        if (time_ms > 0)
            btree_put(timed->times, field, (double)time_ms);
    }
    listpack_destroy(pack);
    *hash = timed != NULL ? hash_value_of(HASH_TABLE_TIMES, timed) : hash_value_of(HASH_TABLE, dict);
    return is_set;
}

bool hash_fits_pack(const struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value)
{
    return field.size <= limits->hash_listpack_value_max && value.size <= limits->hash_listpack_value_max &&
        listpack_has_room(hash_pack(hash), 3, field.size + value.size);
}

static void pack_append(struct value *hash, struct bytes field, struct bytes value)
{
    listpack_append(hash_pack_slot(hash), field);
    listpack_append(hash_pack_slot(hash), value);
}

bool hash_set(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value)
{
    size_t at;

    if (UNLIKELY(hash_has_times(hash)))
        return hash_set_timed(hash, limits, field, value, HASH_ENDS_TIME);
    if (UNLIKELY(value_is_paged(hash)))
        return paged_put(hash, field, value);
    if (hash->encoding == HASH_LISTPACK && !hash_fits_pack(hash, limits, field, value))
        CHECK(hash_to_table(hash, limits, hash_count(hash) + 1));
    if (hash->encoding != HASH_LISTPACK)
        return dict_put(hash->object, field, value);
    at = pack_find(hash_pack(hash), field);
    if (at != LISTPACK_NONE)
        listpack_replace(hash_pack_slot(hash), listpack_next(hash_pack(hash), at), value);
    else
        pack_append(hash, field, value);
    /* Also after an overwrite: the limit may have been lowered since the pack was created. */
    if (listpack_count(hash_pack(hash)) / 2 > limits->hash_listpack_entries_max)
        CHECK(hash_to_table(hash, limits, hash_count(hash)));
    return at == LISTPACK_NONE;
}

bool hash_delete(struct value *hash, struct bytes field)
{
    bool was_there;

    if (hash_is_pack(hash)) {
        size_t at = hash_pack_find(hash, field);

        was_there = at != LISTPACK_NONE;
        if (was_there)
            listpack_delete(hash_pack_slot(hash), at, hash_stride(hash));
    } else if (UNLIKELY(value_is_paged(hash))) {
        if (hash_has_times(hash))
            paged_times_forget(hash, field);
        was_there = paged_remove(hash, field);
    } else {
        was_there = dict_remove(hash_dict(hash), field);
        if (hash_has_times(hash))
            btree_remove(hash_timed(hash)->times, field);
    }
    if (UNLIKELY(hash_has_times(hash)))
        hash_drop_times_if_none(hash);
    return was_there;
}

/* position: for a listpack, the next field; for a table, the bucket and the index in it. */
void hash_iterate(struct hash_iterator *iterator, const struct value *hash)
{
    iterator->hash = hash;
    iterator->position[0] = hash_is_pack(hash) ? listpack_first(hash_pack(hash)) : 0;
    iterator->position[1] = 0;
    iterator->in_pages = (struct paged_iterator){ 0 };
}

bool hash_next(struct hash_iterator *iterator, struct bytes *field, struct bytes *value)
{
    const struct value *hash = iterator->hash;
    const struct listpack *pack = hash_pack(hash);
    struct dict_iterator in_dict;
    bool found;

    if (hash_is_pack(hash)) {
        size_t at = iterator->position[0];

        if (at == LISTPACK_NONE)
            return false;
        *field = listpack_get(pack, at, iterator->field_digits);
        at = listpack_next(pack, at);
        *value = listpack_get(pack, at, iterator->value_digits);
        at = listpack_next(pack, at);
        if (UNLIKELY(hash_has_times(hash)))
            at = listpack_next(pack, at);
        iterator->position[0] = at;
        return true;
    }
    if (UNLIKELY(value_is_paged(hash)))
        return paged_next(hash, &iterator->in_pages, field, value);
    in_dict = (struct dict_iterator){ hash_dict(hash), iterator->position[0], iterator->position[1] };
    found = dict_next(&in_dict, field, value);
    iterator->position[0] = in_dict.bucket;
    iterator->position[1] = in_dict.index;
    return found;
}

bool hash_random(const struct value *hash, struct random *random, struct bytes *field, struct bytes *value,
    char field_digits[TEXT_INT_SIZE], char value_digits[TEXT_INT_SIZE])
{
    const struct listpack *pack = hash_pack(hash);
    size_t at;

    if (UNLIKELY(value_is_paged(hash)))
        return paged_random(hash, random, field, value);
    if (!hash_is_pack(hash)) {
        dict_random(hash_dict(hash), random, field, value);
        return true;
    }
    CHECK(hash_count(hash) > 0);
    at = listpack_seek(pack, (int64_t)(random_below(random, hash_count(hash)) * hash_stride(hash)));
    *field = listpack_get(pack, at, field_digits);
    *value = listpack_get(pack, listpack_next(pack, at), value_digits);
    return true;
}

bool hash_has_all(const struct value *hash)
{
    return !value_is_paged(hash) || paged_has_all(hash);
}

bool hash_scan(const struct value *hash, uint64_t *cursor, size_t count, hash_found *found, void *context)
{
    struct hash_iterator iterator;
    struct bytes field, value;

    if (UNLIKELY(value_is_paged(hash)))
        return paged_scan(hash, cursor, count, found, context);
    if (!hash_is_pack(hash)) {
        *cursor = dict_scan(hash_dict(hash), *cursor, count, found, context);
        return true;
    }
    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value))
        found(context, field, value);
    *cursor = 0;
    return true;
}

const struct dict *hash_table(const struct value *hash)
{
    return !hash_is_pack(hash) && !value_is_paged(hash) ? hash_dict(hash) : NULL;
}

struct paged_value *hash_to_pages(const struct value *hash, const struct paged_plan *plan, uint64_t id, struct paged_access *access)
{
    struct value paged = hash_value_of(HASH_PAGED, paged_create(hash_dict(hash), plan, id, access));

    if (hash_has_times(hash))
        paged_times_build(&paged, hash_timed(hash)->times);
    return paged.object;
}

/* The elements in memory. */
static struct value whole(const struct value *hash)
{
    struct dict *dict = paged_to_dict(hash);
    struct timed_table *table;
    struct paged_iterator iterator = { 0 };
    struct bytes field, value;

    if (!hash_has_times(hash))
        return hash_value_of(HASH_TABLE, dict);
    table = timed_table_create(dict, &paged_of(hash)->access->table.seed);
    while (paged_next(hash, &iterator, &field, &value)) {
        if (iterator.number > 0)
            btree_insert(table->times, field, (double)iterator.number);
    }
    return hash_value_of(HASH_TABLE_TIMES, table);
}

struct value hash_build(const struct value_limits *limits, size_t count)
{
    struct value hash = hash_create();

    /* The count is not trusted: beyond some megabytes the table grows as pairs are read. */
    if (count > limits->hash_listpack_entries_max)
        CHECK(hash_to_table(&hash, limits, count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX));
    return hash;
}

bool hash_build_add(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value)
{
    if (hash_is_pack(hash)) {
        if (hash_count(hash) < limits->hash_listpack_entries_max && hash_fits_pack(hash, limits, field, value)) {
            pack_append(hash, field, value);
            return true;
        }
        if (!hash_to_table(hash, limits, hash_count(hash) + 1))
            return false;
    }
    return dict_put(hash_dict(hash), field, value);
}

bool hash_build_end(const struct value *hash, const struct value_limits *limits)
{
    return !hash_is_pack(hash) || !listpack_has_twins(hash_pack(hash), 2, &limits->seed);
}

enum status hash_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash)
{
    struct value built;
    size_t count;
    bool is_good;

    if (!listpack_is_valid(listpack))
        return STATUS_CORRUPT;
    built = hash_value_of(HASH_LISTPACK, listpack_of_bytes(listpack));
    count = listpack_count(hash_pack(&built));
    if (count == 0 || count % 2 != 0) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    is_good = count / 2 > limits->hash_listpack_entries_max ? hash_to_table(&built, limits, count / 2)
                                                            : hash_build_end(&built, limits);
    if (!is_good) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    *hash = built;
    return STATUS_OK;
}

/* Operations of the type */

static const char *hash_encoding_name(const struct value *hash)
{
    static const char *const names[] = {
        [HASH_LISTPACK] = "listpack", [HASH_TABLE] = "hashtable", [HASH_LISTPACK_TIMES] = "listpackex",
        [HASH_TABLE_TIMES] = "hashtable", [HASH_PAGED] = "hashtable", [HASH_PAGED_TIMES] = "hashtable",
    };

    return names[hash->encoding];
}

static void hash_free(struct value *hash)
{
    if (UNLIKELY(value_is_paged(hash)) && hash_has_times(hash))
        paged_ordered_free(hash);
    else if (UNLIKELY(value_is_paged(hash)))
        mem_free(paged_of(hash));
    else if (hash_is_pack(hash))
        listpack_destroy(hash_pack(hash));
    else if (hash_has_times(hash))
        timed_table_destroy(hash_timed(hash));
    else
        dict_destroy(hash_dict(hash));
}

static size_t hash_memory(const struct value *hash, size_t samples)
{
    if (UNLIKELY(value_is_paged(hash)))
        return hash_has_times(hash) ? paged_ordered_memory(hash) : mem_size(paged_of(hash));
    if (hash_is_pack(hash))
        return listpack_memory(hash_pack(hash));
    if (hash_has_times(hash))
        return mem_size(hash_timed(hash)) + dict_memory(hash_dict(hash), samples) +
            btree_memory(hash_timed(hash)->times, samples);
    return dict_memory(hash_dict(hash), samples);
}

static size_t hash_free_effort(const struct value *hash)
{
    if (hash_is_pack(hash) || value_is_paged(hash))
        return 1;
    return dict_count(hash_dict(hash)) + 1 + (hash_has_times(hash) ? btree_blocks(hash_timed(hash)->times) : 0);
}

static struct value hash_copy(const struct value *hash)
{
    if (UNLIKELY(value_is_paged(hash)))
        return whole(hash);
    if (hash_is_pack(hash))
        return hash_value_of(hash->encoding, listpack_copy(hash_pack(hash)));
    if (hash_has_times(hash))
        return hash_value_of(HASH_TABLE_TIMES, timed_table_copy(hash_timed(hash)));
    return hash_value_of(HASH_TABLE, dict_copy(hash_dict(hash)));
}

/* Times are included: as a second element for the field, which has only one if it has no time. */
static void hash_digest(const struct value *hash, struct value_sum *sum)
{
    struct hash_iterator iterator;
    struct bytes field, value;

    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value)) {
        int64_t time_ms = hash_iterator_time(&iterator, field);

        value_sum_add_pair(sum, field, value);
        if (time_ms >= 0)
            value_sum_add_pair(sum, field, bytes_of(&time_ms, sizeof(time_ms)));
    }
}

const struct value_operations hash_operations = {
    .encoding_name = hash_encoding_name,
    .free = hash_free,
    .memory = hash_memory,
    .free_effort = hash_free_effort,
    .copy = hash_copy,
    .digest = hash_digest,
};
