/* Fields with expiry times: value/hash_private.h describes how they are stored. */
#include "base/buffer.h"
#include "base/check.h"
#include "base/mem.h"
#include "value/hash_private.h"
#include "value/type.h"

enum { BUILD_RESERVE_MAX = 1 << 20, TRIPLE = 3 };

struct timed_table *timed_table_create(struct dict *dict, const struct hash_seed *seed)
{
    struct timed_table *table = mem_alloc(sizeof(*table));

    *table = (struct timed_table){ dict, btree_create(seed) };
    return table;
}

struct timed_table *timed_table_copy(const struct timed_table *table)
{
    struct timed_table *copy = mem_alloc(sizeof(*copy));

    *copy = (struct timed_table){ dict_copy(table->dict), btree_copy(table->times) };
    return copy;
}

void timed_table_destroy(struct timed_table *table)
{
    dict_destroy(table->dict);
    btree_destroy(table->times);
    mem_free(table);
}

int64_t hash_pack_time(const struct value *hash, size_t at)
{
    const struct listpack *pack = hash_pack(hash);
    int64_t time_ms;

    CHECK(listpack_get_int(pack, listpack_next(pack, listpack_next(pack, at)), &time_ms));
    return time_ms;
}

static int64_t pack_first_time(const struct value *hash)
{
    size_t at = listpack_first(hash_pack(hash));

    return at != LISTPACK_NONE ? hash_pack_time(hash, at) : 0;
}

/* Copies the fields of a pack with the other stride: adds a time of 0 to each, or removes its time. */
static void pack_restride(struct value *hash, enum value_encoding encoding)
{
    struct listpack *pack = listpack_create();
    struct hash_iterator iterator;
    struct bytes field, value;

    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value)) {
        listpack_append(&pack, field);
        listpack_append(&pack, value);
        if (encoding == HASH_LISTPACK_TIMES)
            listpack_append_int(&pack, 0);
    }
    listpack_destroy(hash_pack(hash));
    *hash = hash_value_of(encoding, pack);
}

static void make_timed(struct value *hash, const struct value_limits *limits)
{
    if (hash->encoding == HASH_PAGED)
        paged_times_begin(hash);
    /* Two bytes per field for the 0, and ten for the new time. */
    if (hash->encoding == HASH_LISTPACK && !listpack_has_room(hash_pack(hash), hash_count(hash) + 1, 2))
        CHECK(hash_to_table(hash, limits, hash_count(hash)));
    if (hash->encoding == HASH_LISTPACK)
        pack_restride(hash, HASH_LISTPACK_TIMES);
    else if (hash->encoding == HASH_TABLE)
        *hash = hash_value_of(HASH_TABLE_TIMES, timed_table_create(hash->object, &limits->seed));
}

void hash_drop_times_if_none(struct value *hash)
{
    struct timed_table *table = hash_timed(hash);

    if (value_is_paged(hash)) {
        paged_times_end_if_none(hash);
    } else if (hash_is_pack(hash)) {
        if (pack_first_time(hash) == 0)
            pack_restride(hash, HASH_LISTPACK);
    } else if (btree_count(table->times) == 0) {
        *hash = hash_value_of(HASH_TABLE, table->dict);
        btree_destroy(table->times);
        mem_free(table);
    }
}

int64_t hash_time(const struct value *hash, struct bytes field)
{
    struct btree_place place;
    size_t at;
    int64_t time_ms;

    if (!hash_has_times(hash))
        return hash_has(hash, field) ? HASH_NO_TIME : HASH_NO_FIELD;
    if (value_is_paged(hash)) {
        time_ms = paged_time(hash, field);
        return time_ms > 0 ? time_ms : time_ms == 0 ? HASH_NO_TIME : HASH_NO_FIELD;
    }
    if (!hash_is_pack(hash)) {
        if (btree_find(hash_timed(hash)->times, field, &place)) {
            struct bytes member;

            return (int64_t)btree_get(hash_timed(hash)->times, place, &member);
        }
        return hash_has(hash, field) ? HASH_NO_TIME : HASH_NO_FIELD;
    }
    at = hash_pack_find(hash, field);
    if (at == LISTPACK_NONE)
        return HASH_NO_FIELD;
    time_ms = hash_pack_time(hash, at);
    return time_ms > 0 ? time_ms : HASH_NO_TIME;
}

int64_t hash_iterator_time(const struct hash_iterator *iterator, struct bytes field)
{
    if (!hash_has_times(iterator->hash))
        return HASH_NO_TIME;
    if (!value_is_paged(iterator->hash))
        return hash_time(iterator->hash, field);
    return iterator->in_pages.number > 0 ? (int64_t)iterator->in_pages.number : HASH_NO_TIME;
}

/* The position for a field with this time: before the first one that expires later, or never. */
static size_t pack_place(const struct value *hash, int64_t time_ms)
{
    const struct listpack *pack = hash_pack(hash);
    size_t at = listpack_first(pack);

    while (at != LISTPACK_NONE) {
        int64_t other = hash_pack_time(hash, at);

        if (other == 0 || other > time_ms)
            return at;
        for (int i = 0; i < TRIPLE; i++)
            at = listpack_next(pack, at);
    }
    return LISTPACK_NONE;
}

/* Moves the field at `at` to the position for its new time; 0: to the end. */
static void pack_set_time(struct value *hash, size_t at, int64_t time_ms)
{
    struct listpack **pack = hash_pack_slot(hash);
    char digits[TEXT_INT_SIZE];
    struct buffer copy = { 0 };
    struct bytes field;
    size_t field_size, place;

    field = listpack_get(*pack, at, digits);
    field_size = field.size;
    buffer_append_bytes(&copy, field);
    buffer_append_bytes(&copy, listpack_get(*pack, listpack_next(*pack, at), digits));
    listpack_delete(pack, at, TRIPLE);
    place = time_ms > 0 ? pack_place(hash, time_ms) : LISTPACK_NONE;
    /* From last to first, each inserted before the previous one, so that the position does not change. */
    if (place == LISTPACK_NONE) {
        listpack_append(pack, bytes_of(copy.data, field_size));
        listpack_append(pack, bytes_of(copy.data + field_size, copy.size - field_size));
        listpack_append_int(pack, time_ms);
    } else {
        place = listpack_insert_int(pack, place, time_ms);
        place = listpack_insert(pack, place, bytes_of(copy.data + field_size, copy.size - field_size));
        listpack_insert(pack, place, bytes_of(copy.data, field_size));
    }
    buffer_release(&copy);
}

/* For any encoding with times: removes the field's time, if it has one. */
static void hash_clear_time(struct value *hash, struct bytes field)
{
    if (hash_is_pack(hash)) {
        size_t at = hash_pack_find(hash, field);

        if (at != LISTPACK_NONE && hash_pack_time(hash, at) != 0)
            pack_set_time(hash, at, 0);
    } else if (value_is_paged(hash)) {
        if (paged_time(hash, field) > 0)
            paged_times_set(hash, field, 0);
    } else {
        btree_remove(hash_timed(hash)->times, field);
    }
    hash_drop_times_if_none(hash);
}

bool hash_set_timed(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value,
    enum hash_time_fate fate)
{
    bool is_new;

    if (hash_is_pack(hash) && !hash_fits_pack(hash, limits, field, value))
        CHECK(hash_to_table(hash, limits, hash_count(hash) + 1));
    if (hash_is_pack(hash)) {
        size_t at = hash_pack_find(hash, field);

        is_new = at == LISTPACK_NONE;
        if (is_new) {
            listpack_append(hash_pack_slot(hash), field);
            listpack_append(hash_pack_slot(hash), value);
            listpack_append_int(hash_pack_slot(hash), 0);
        } else {
            listpack_replace(hash_pack_slot(hash), listpack_next(hash_pack(hash), at), value);
        }
        if (hash_count(hash) > limits->hash_listpack_entries_max)
            CHECK(hash_to_table(hash, limits, hash_count(hash)));
    } else if (value_is_paged(hash)) {
        is_new = paged_put(hash, field, value);
    } else {
        is_new = dict_put(hash_dict(hash), field, value);
    }
    if (!is_new && fate == HASH_ENDS_TIME)
        hash_clear_time(hash, field);
    return is_new;
}

bool hash_set_keeping(struct value *hash, const struct value_limits *limits, struct bytes field, struct bytes value)
{
    return hash_has_times(hash) ? hash_set_timed(hash, limits, field, value, HASH_KEEPS_TIME) : hash_set(hash, limits, field, value);
}

void hash_set_time(struct value *hash, const struct value_limits *limits, struct bytes field, int64_t time_ms)
{
    CHECK(time_ms <= HASH_TIME_MAX && time_ms >= HASH_NO_TIME);
    if (time_ms == HASH_NO_TIME) {
        if (hash_has_times(hash))
            hash_clear_time(hash, field);
        return;
    }
    if (time_ms == 0)
        time_ms = 1;            /* 0 means none; both are long ago */
    make_timed(hash, limits);
    if (hash_is_pack(hash) && !listpack_has_room(hash_pack(hash), 1, 0))
        CHECK(hash_to_table(hash, limits, hash_count(hash)));
    if (hash_is_pack(hash)) {
        size_t at = hash_pack_find(hash, field);

        CHECK(at != LISTPACK_NONE);
        pack_set_time(hash, at, time_ms);
    } else if (value_is_paged(hash)) {
        paged_times_set(hash, field, time_ms);
    } else {
        btree_put(hash_timed(hash)->times, field, (double)time_ms);
    }
}

/* For a tree of times. */
static int64_t time_of_rank(const struct btree *times, size_t rank)
{
    struct btree_place place;
    struct bytes field;

    CHECK(btree_seek_rank(times, rank, &place));
    return (int64_t)btree_get(times, place, &field);
}

int64_t hash_next_expiry(const struct value *hash)
{
    int64_t time_ms;

    if (!hash_has_times(hash) || hash_count(hash) == 0)
        return HASH_NO_TIME;
    if (value_is_paged(hash))
        return paged_times_of(hash)->bounds.first_ms;
    time_ms = hash_is_pack(hash) ? pack_first_time(hash) : time_of_rank(hash_timed(hash)->times, 0);
    return time_ms > 0 ? time_ms : HASH_NO_TIME;
}

int64_t hash_next_expiry_after(const struct value *hash, int64_t now_ms)
{
    const struct btree *times;
    size_t rank, at;
    int64_t time_ms;

    if (!hash_has_times(hash))
        return HASH_NO_TIME;
    if (value_is_paged(hash))
        return paged_times_next_after(hash, now_ms);
    if (!hash_is_pack(hash)) {
        times = hash_timed(hash)->times;
        rank = btree_count_by_score(times, (double)now_ms, BTREE_NOT_ABOVE);
        return rank < btree_count(times) ? time_of_rank(times, rank) : HASH_NO_TIME;
    }
    at = pack_place(hash, now_ms);
    time_ms = at != LISTPACK_NONE ? hash_pack_time(hash, at) : 0;
    return time_ms > 0 ? time_ms : HASH_NO_TIME;
}

int64_t hash_last_expiry(const struct value *hash)
{
    size_t count = hash_count(hash);
    int64_t time_ms = 0;

    if (!hash_has_times(hash) || count == 0)
        return HASH_NO_TIME;
    if (value_is_paged(hash))
        return paged_ordered_of(hash)->tree.count == count ? paged_times_of(hash)->bounds.last_ms : HASH_NO_TIME;
    if (hash_is_pack(hash))
        CHECK(listpack_get_int(hash_pack(hash), listpack_last(hash_pack(hash)), &time_ms));
    else if (btree_count(hash_timed(hash)->times) == count)
        time_ms = time_of_rank(hash_timed(hash)->times, count - 1);
    return time_ms > 0 ? time_ms : HASH_NO_TIME;
}

bool hash_has_many_expired(const struct value *hash, int64_t now_ms, size_t count)
{
    const struct btree *times;

    if (!hash_has_times(hash) || hash_is_pack(hash))
        return false;
    if (value_is_paged(hash))
        return paged_times_due(hash, now_ms, count + 1) > count;
    times = hash_timed(hash)->times;
    return btree_count(times) > count && time_of_rank(times, count) <= now_ms;
}

static size_t pack_remove_expired(struct value *hash, int64_t now_ms, size_t count_max, hash_expired_field *expired, void *context)
{
    const struct listpack *pack = hash_pack(hash);
    size_t at = listpack_first(pack), count = 0;
    char digits[TEXT_INT_SIZE];

    while (at != LISTPACK_NONE && count < count_max) {
        int64_t time_ms = hash_pack_time(hash, at);

        if (time_ms == 0 || time_ms > now_ms)
            break;
        expired(context, listpack_get(pack, at, digits));
        count++;
        for (int i = 0; i < TRIPLE; i++)
            at = listpack_next(pack, at);
    }
    if (count > 0)
        listpack_delete(hash_pack_slot(hash), listpack_first(pack), count * TRIPLE);
    return count;
}

static size_t table_remove_expired(struct timed_table *table, int64_t now_ms, size_t count_max, hash_expired_field *expired, void *context)
{
    struct btree_place place;
    size_t count = 0;
    bool more = btree_seek_rank(table->times, 0, &place);

    while (more && count < count_max) {
        struct bytes field;

        if ((int64_t)btree_get(table->times, place, &field) > now_ms)
            break;
        expired(context, field);
        dict_remove(table->dict, field);
        count++;
        more = btree_next(table->times, &place);
    }
    if (count > 0)
        btree_remove_ranks(table->times, 0, count);
    return count;
}

size_t hash_remove_expired(struct value *hash, int64_t now_ms, size_t count_max, hash_expired_field *expired, void *context)
{
    size_t count;

    if (!hash_has_times(hash))
        return 0;
    if (hash_is_pack(hash))
        count = pack_remove_expired(hash, now_ms, count_max, expired, context);
    else if (value_is_paged(hash))
        count = paged_times_remove(hash, now_ms, count_max, expired, context);
    else
        count = table_remove_expired(hash_timed(hash), now_ms, count_max, expired, context);
    if (count > 0)
        hash_drop_times_if_none(hash);
    return count;
}

/* Questions */

bool hash_has_fields(const struct value *hash, const struct bytes *fields, int count, int step)
{
    bool has;

    if (!value_is_paged(hash))
        return true;
    has = paged_has_room(hash, (size_t)(count / step));
    for (int i = 0; i < count; i += step)
        has = paged_has_page(hash, paged_table_page(&paged_of(hash)->access->table, fields[i])) && has;
    return has;
}

bool hash_times_have_change(const struct value *hash, const struct bytes *fields, int count, int step, int64_t time_ms)
{
    bool has = true;

    for (int i = 0; i < count; i += step)
        has = paged_times_has_change(hash, fields[i], time_ms, (size_t)(count / step)) && has;
    return has;
}

bool hash_has_expired(const struct value *hash, int64_t now_ms, size_t count_max, size_t *ready)
{
    *ready = count_max;
    return !value_is_paged(hash) || !hash_has_times(hash) || paged_times_has_due(hash, now_ms, count_max, ready);
}

/* Building. The fields are first put into a table, whatever their number and order */

struct value hash_build_timed(const struct value_limits *limits, size_t count)
{
    struct dict *dict = dict_create(&limits->seed);

    dict_reserve(dict, count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX);
    return hash_value_of(HASH_TABLE_TIMES, timed_table_create(dict, &limits->seed));
}

bool hash_build_timed_add(struct value *hash, struct bytes field, struct bytes value, int64_t time_ms)
{
    struct timed_table *table = hash_timed(hash);

    if (!dict_put(table->dict, field, value))
        return false;
    if (time_ms > 0)
        btree_insert(table->times, field, (double)time_ms);
    return true;
}

static bool fits_pack(const struct dict *dict, const struct value_limits *limits)
{
    struct dict_iterator iterator;
    struct bytes field, value;
    size_t size = 0;

    if (dict_count(dict) > limits->hash_listpack_entries_max)
        return false;
    dict_iterate(&iterator, dict);
    while (dict_next(&iterator, &field, &value)) {
        if (field.size > limits->hash_listpack_value_max || value.size > limits->hash_listpack_value_max)
            return false;
        size += field.size + value.size + TRIPLE * LISTPACK_ELEMENT_OVERHEAD;
        if (size > LISTPACK_SIZE_MAX / 2)
            return false;
    }
    return true;
}

/* Converts a table that is small enough to a pack: first the fields with times, ordered by time. */
static void table_to_pack(struct value *hash)
{
    struct timed_table *table = hash_timed(hash);
    struct listpack *pack = listpack_create();
    struct dict_iterator iterator;
    struct btree_place place;
    struct bytes field, value;

    for (bool more = btree_seek_rank(table->times, 0, &place); more; more = btree_next(table->times, &place)) {
        int64_t time_ms = (int64_t)btree_get(table->times, place, &field);

        CHECK(dict_find(table->dict, field, &value));
        listpack_append(&pack, field);
        listpack_append(&pack, value);
        listpack_append_int(&pack, time_ms);
    }
    dict_iterate(&iterator, table->dict);
    while (dict_next(&iterator, &field, &value)) {
        if (btree_find(table->times, field, &place))
            continue;
        listpack_append(&pack, field);
        listpack_append(&pack, value);
        listpack_append_int(&pack, 0);
    }
    timed_table_destroy(table);
    *hash = hash_value_of(HASH_LISTPACK_TIMES, pack);
}

bool hash_build_timed_end(struct value *hash, const struct value_limits *limits)
{
    if (fits_pack(hash_dict(hash), limits))
        table_to_pack(hash);
    hash_drop_times_if_none(hash);
    return hash_count(hash) > 0;
}

/* Whether the pack has the order of a pack with times. `*is_good` is false if it is not valid in any order. */
static bool is_in_order(const struct listpack *pack, bool *is_good)
{
    bool in_order = true;
    int64_t previous = 1;

    for (size_t at = listpack_first(pack); at != LISTPACK_NONE; at = listpack_next(pack, at)) {
        int64_t time_ms;

        at = listpack_next(pack, listpack_next(pack, at));
        if (!listpack_get_int(pack, at, &time_ms) || time_ms < 0 || time_ms > HASH_TIME_MAX) {
            *is_good = false;
            return false;
        }
        if (time_ms != 0 && time_ms < previous)
            in_order = false;
        previous = time_ms != 0 ? time_ms : INT64_MAX;
    }
    return in_order;
}

/* Builds a hash with the same fields, one by one. */
static bool rebuild_by_field(struct value *hash, const struct value_limits *limits)
{
    struct value built = hash_build_timed(limits, hash_count(hash));
    struct hash_iterator iterator;
    struct bytes field, value;
    bool is_good = true;

    hash_iterate(&iterator, hash);
    while (is_good && iterator.position[0] != LISTPACK_NONE) {
        int64_t time_ms = hash_pack_time(hash, iterator.position[0]);

        hash_next(&iterator, &field, &value);
        is_good = hash_build_timed_add(&built, field, value, time_ms);
    }
    if (is_good)
        is_good = hash_build_timed_end(&built, limits);
    listpack_destroy(hash_pack(hash));
    *hash = built;
    return is_good;
}

enum status hash_of_timed_listpack(struct bytes listpack, const struct value_limits *limits, struct value *hash)
{
    struct value built;
    size_t count;
    bool is_good = true, in_order;

    if (!listpack_is_valid(listpack))
        return STATUS_CORRUPT;
    built = hash_value_of(HASH_LISTPACK_TIMES, listpack_of_bytes(listpack));
    count = listpack_count(hash_pack(&built));
    if (count == 0 || count % TRIPLE != 0) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    in_order = is_in_order(hash_pack(&built), &is_good);
    if (is_good && in_order && count / TRIPLE <= limits->hash_listpack_entries_max) {
        is_good = !listpack_has_twins(hash_pack(&built), TRIPLE, &limits->seed);
        if (is_good)
            hash_drop_times_if_none(&built);
    } else if (is_good) {
        is_good = rebuild_by_field(&built, limits);
    }
    if (!is_good) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    *hash = built;
    return STATUS_OK;
}
