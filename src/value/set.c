#include "value/set.h"

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "containers/dict.h"
#include "containers/intset.h"
#include "containers/listpack.h"
#include "value/paged.h"
#include "value/type.h"

/* No count is trusted: beyond some megabytes the table grows as members are read. Filling an intset in a bad order
 * takes quadratic time, so a large one is not built member by member. */
enum { BUILD_RESERVE_MAX = 1 << 20, BUILD_INTSET_MAX = 1 << 14 };

static inline struct intset *ints_of(const struct value *set)
{
    return set->object;
}

static inline struct listpack *pack_of(const struct value *set)
{
    return set->object;
}

static inline struct dict *dict_of(const struct value *set)
{
    return set->object;
}

/* A change may move these. */
static inline struct intset **ints_slot(struct value *set)
{
    return (struct intset **)&set->object;
}

static inline struct listpack **pack_slot(struct value *set)
{
    return (struct listpack **)&set->object;
}

static struct value value_of(enum value_encoding encoding, void *object)
{
    return (struct value){ .type = VALUE_SET, .encoding = encoding, .object = object };
}

static size_t intset_entries_max(const struct value_limits *limits)
{
    return limits->set_intset_entries_max < INTSET_COUNT_MAX ? limits->set_intset_entries_max : INTSET_COUNT_MAX - 1;
}

size_t set_count(const struct value *set)
{
    switch (set->encoding) {
    case SET_INTSET: return intset_count(ints_of(set));
    case SET_LISTPACK: return listpack_count(pack_of(set));
    case SET_PAGED: return paged_count(set);
    default: return dict_count(dict_of(set));
    }
}

static size_t pack_find(const struct listpack *pack, struct bytes member)
{
    return listpack_find(pack, listpack_first(pack), member, 0);
}

bool set_has(const struct value *set, struct bytes member)
{
    int64_t number;

    switch (set->encoding) {
    case SET_INTSET: return text_to_int(member, &number) && intset_has(ints_of(set), number);
    case SET_LISTPACK: return pack_find(pack_of(set), member) != LISTPACK_NONE;
    case SET_PAGED: return paged_find(set, member, NULL);
    default: return dict_find(dict_of(set), member, NULL);
    }
}

/* Conversion to another encoding */

static void put_in_place(struct value *set, enum value_encoding encoding, void *object)
{
    value_free(set);
    *set = value_of(encoding, object);
}

/* Converts to a table with room for `count`. False if a member occurred twice. */
static bool to_table(struct value *set, const struct value_limits *limits, size_t count)
{
    struct dict *dict = dict_create(&limits->seed);
    struct set_iterator iterator;
    struct bytes member;
    bool is_set = true;

    dict_reserve(dict, count);
    set_iterate(&iterator, set);
    while (set_next(&iterator, &member))
        is_set &= dict_put(dict, member, bytes_of(NULL, 0));
    put_in_place(set, SET_TABLE, dict);
    return is_set;
}

static void ints_to_pack(struct value *set)
{
    struct listpack *pack = listpack_create();

    for (size_t i = 0; i < intset_count(ints_of(set)); i++)
        listpack_append_int(&pack, intset_get(ints_of(set), i));
    put_in_place(set, SET_LISTPACK, pack);
}

/* Whether `member` may be added to a listpack. */
static bool pack_takes(const struct value *set, const struct value_limits *limits, struct bytes member)
{
    return listpack_count(pack_of(set)) < limits->set_listpack_entries_max && member.size <= limits->set_listpack_value_max &&
        listpack_has_room(pack_of(set), 1, member.size);
}

/* Whether the integers, of which the first and the last have the most digits, and `member` may become a listpack. */
static bool ints_fit_pack(const struct intset *ints, const struct value_limits *limits, struct bytes member)
{
    size_t count = intset_count(ints), longest = member.size;
    char digits[TEXT_INT_SIZE];

    if (count >= limits->set_listpack_entries_max || count > LISTPACK_SIZE_MAX / 2 / (LISTPACK_ELEMENT_OVERHEAD + 8) ||
        member.size > LISTPACK_SIZE_MAX / 2)
        return false;
    for (size_t i = 0; i < 2 && count > 0; i++) {
        size_t size = text_of_int(intset_get(ints, i == 0 ? 0 : count - 1), digits);

        if (size > longest)
            longest = size;
    }
    return longest <= limits->set_listpack_value_max;
}

/* A member that an intset cannot hold is about to be added. */
static void leave_ints(struct value *set, const struct value_limits *limits, struct bytes member)
{
    if (ints_fit_pack(ints_of(set), limits, member))
        ints_to_pack(set);
    else
        CHECK(to_table(set, limits, set_count(set) + 1));
}

struct value set_create(const struct value_limits *limits, struct bytes first, size_t count)
{
    struct value set;
    int64_t number;

    if (count <= intset_entries_max(limits) && text_to_int(first, &number))
        return value_of(SET_INTSET, intset_create());
    set = value_of(SET_LISTPACK, listpack_create());
    if (count > limits->set_listpack_entries_max)
        CHECK(to_table(&set, limits, count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX));
    return set;
}

void set_expect(struct value *set, const struct value_limits *limits, size_t count)
{
    if ((set->encoding == SET_INTSET && count > intset_entries_max(limits)) ||
        (set->encoding == SET_LISTPACK && count > limits->set_listpack_entries_max))
        CHECK(to_table(set, limits, count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX));
}

static bool ints_add(struct value *set, const struct value_limits *limits, int64_t number)
{
    if (!intset_add(ints_slot(set), number))
        return false;
    if (intset_count(ints_of(set)) > intset_entries_max(limits))
        CHECK(to_table(set, limits, set_count(set)));
    return true;
}

bool set_add(struct value *set, const struct value_limits *limits, struct bytes member)
{
    int64_t number;

    if (set->encoding == SET_INTSET) {
        if (text_to_int(member, &number))
            return ints_add(set, limits, number);
        leave_ints(set, limits, member);
    }
    if (set->encoding == SET_LISTPACK) {
        if (pack_find(pack_of(set), member) != LISTPACK_NONE)
            return false;
        if (pack_takes(set, limits, member)) {
            listpack_append(pack_slot(set), member);
            return true;
        }
        CHECK(to_table(set, limits, set_count(set) + 1));
    }
    if (UNLIKELY(value_is_paged(set)))
        return paged_put(set, member, bytes_of(NULL, 0));
    return dict_put(dict_of(set), member, bytes_of(NULL, 0));
}

void set_add_new(struct value *set, const struct value_limits *limits, struct bytes member)
{
    if (set->encoding == SET_LISTPACK && pack_takes(set, limits, member))
        listpack_append(pack_slot(set), member);
    else
        CHECK(set_add(set, limits, member));
}

bool set_remove(struct value *set, struct bytes member)
{
    int64_t number;
    size_t at;

    switch (set->encoding) {
    case SET_INTSET: return text_to_int(member, &number) && intset_remove(ints_slot(set), number);
    case SET_LISTPACK:
        at = pack_find(pack_of(set), member);
        if (at != LISTPACK_NONE)
            listpack_delete(pack_slot(set), at, 1);
        return at != LISTPACK_NONE;
    case SET_PAGED: return paged_remove(set, member);
    default: return dict_remove(dict_of(set), member);
    }
}

/* position: the index in an intset; in a listpack, the next member; for a table, the bucket and the index in it. */
void set_iterate(struct set_iterator *iterator, const struct value *set)
{
    iterator->set = set;
    iterator->position[0] = set->encoding == SET_LISTPACK ? listpack_first(pack_of(set)) : 0;
    iterator->position[1] = 0;
    iterator->in_pages = (struct paged_iterator){ 0 };
}

static bool table_next(struct set_iterator *iterator, struct bytes *member)
{
    struct dict_iterator in_dict = { dict_of(iterator->set), iterator->position[0], iterator->position[1] };
    struct bytes nothing;
    bool found;

    if (UNLIKELY(value_is_paged(iterator->set)))
        return paged_next(iterator->set, &iterator->in_pages, member, &nothing);
    found = dict_next(&in_dict, member, &nothing);

    iterator->position[0] = in_dict.bucket;
    iterator->position[1] = in_dict.index;
    return found;
}

bool set_next(struct set_iterator *iterator, struct bytes *member)
{
    const struct value *set = iterator->set;
    size_t at = iterator->position[0];

    switch (set->encoding) {
    case SET_INTSET:
        if (at >= intset_count(ints_of(set)))
            return false;
        *member = bytes_of(iterator->digits, text_of_int(intset_get(ints_of(set), at), iterator->digits));
        iterator->position[0]++;
        return true;
    case SET_LISTPACK:
        if (at == LISTPACK_NONE)
            return false;
        *member = listpack_get(pack_of(set), at, iterator->digits);
        iterator->position[0] = listpack_next(pack_of(set), at);
        return true;
    default: return table_next(iterator, member);
    }
}

static bool is_table(const struct value *set)
{
    return set->encoding & SET_TABLE;
}

static bool table_random(const struct value *set, struct random *random, struct bytes *member)
{
    struct bytes nothing;

    if (UNLIKELY(value_is_paged(set)))
        return paged_random(set, random, member, &nothing);
    dict_random(dict_of(set), random, member, &nothing);
    return true;
}

bool set_random(const struct value *set, struct random *random, char digits[TEXT_INT_SIZE], struct bytes *member)
{
    size_t index;

    CHECK(set_count(set) > 0);
    if (is_table(set))
        return table_random(set, random, member);
    index = random_below(random, set_count(set));
    if (set->encoding == SET_LISTPACK)
        *member = listpack_get(pack_of(set), listpack_seek(pack_of(set), (int64_t)index), digits);
    else
        *member = bytes_of(digits, text_of_int(intset_get(ints_of(set), index), digits));
    return true;
}

/* One pass that selects each member with the probability (still wanted) / (still to come). */
static bool sample_walking(const struct value *set, struct random *random, size_t wanted, set_found *found, void *context)
{
    size_t coming = set_count(set);
    struct set_iterator iterator;
    struct bytes member;

    if (UNLIKELY(value_is_paged(set)) && !paged_has_all(set))
        return false;
    set_iterate(&iterator, set);
    while (wanted > 0 && set_next(&iterator, &member)) {
        if (random_below(random, coming--) < wanted) {
            found(context, member);
            wanted--;
        }
    }
    return true;
}

/* Draws at random until enough different members have been found, which is fast as long as few are wanted. Members of a
 * table that does not change are compared by their addresses. */
static bool sample_drawing(const struct value *set, struct random *random, size_t wanted, set_found *found, void *context)
{
    const struct hash_seed any_seed = { random_next(random), random_next(random) };
    struct dict *seen = dict_create(&any_seed);
    size_t missed = 0;

    dict_reserve(seen, wanted);
    while (dict_count(seen) + missed < wanted && missed < PAGED_WANTED_MAX) {
        struct bytes member;

        if (!table_random(set, random, &member))
            missed++;
        else if (dict_put(seen, bytes_of(&member.data, sizeof(member.data)), bytes_of(NULL, 0)))
            found(context, member);
    }
    dict_destroy(seen);
    return missed == 0;
}

enum { SPARSE_FACTOR = 3 };

bool set_sample(const struct value *set, struct random *random, size_t count, set_found *found, void *context)
{
    CHECK(count <= set_count(set));
    if (count == 0)
        return true;
    if (is_table(set) && count <= set_count(set) / SPARSE_FACTOR)
        return sample_drawing(set, random, count, found, context);
    return sample_walking(set, random, count, found, context);
}

/* The samples of an intset and of a listpack are in their order: the remaining members are copied in one pass, which
 * takes as long for many removals as for one. */
void set_remove_sample(struct value *set, const struct bytes *members, size_t count)
{
    struct value left = *set;
    struct set_iterator iterator;
    struct bytes member;
    int64_t number;
    size_t taken = 0;

    if (is_table(set) || count == 1) {
        for (size_t i = 0; i < count; i++)
            CHECK(set_remove(set, members[i]));
        return;
    }
    left.object = set->encoding == SET_INTSET ? (void *)intset_create() : (void *)listpack_create();
    set_iterate(&iterator, set);
    while (set_next(&iterator, &member)) {
        if (taken < count && bytes_equal(member, members[taken]))
            taken++;
        else if (set->encoding == SET_LISTPACK)
            listpack_append(pack_slot(&left), member);
        else
            CHECK(text_to_int(member, &number) && intset_add(ints_slot(&left), number));
    }
    CHECK(taken == count);
    put_in_place(set, left.encoding, left.object);
}

bool set_has_all(const struct value *set)
{
    return !value_is_paged(set) || paged_has_all(set);
}

/* A member of a table; the value is not used. */
struct scan {
    set_found *found;
    void *context;
};

static void scan_found(void *context, struct bytes member, struct bytes nothing)
{
    struct scan *scan = context;

    scan->found(scan->context, member);
}

bool set_scan(const struct value *set, uint64_t *cursor, size_t count, set_found *found, void *context)
{
    struct scan scan = { found, context };
    struct set_iterator iterator;
    struct bytes member;

    if (UNLIKELY(value_is_paged(set)))
        return paged_scan(set, cursor, count, scan_found, &scan);
    if (is_table(set)) {
        *cursor = dict_scan(dict_of(set), *cursor, count, scan_found, &scan);
        return true;
    }
    set_iterate(&iterator, set);
    while (set_next(&iterator, &member))
        found(context, member);
    *cursor = 0;
    return true;
}

const struct dict *set_table(const struct value *set)
{
    return set->encoding == SET_TABLE ? dict_of(set) : NULL;
}

/* Building. Starts with an intset or a listpack, which the first member decides; with a table if there are more members
 * than either may have. */
struct value set_build(const struct value_limits *limits, size_t count)
{
    struct value set;

    if (count <= intset_entries_max(limits) && count <= BUILD_INTSET_MAX)
        return value_of(SET_INTSET, intset_create());
    set = value_of(SET_LISTPACK, listpack_create());
    if (count > limits->set_listpack_entries_max)
        CHECK(to_table(&set, limits, count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX));
    return set;
}

bool set_build_add(struct value *set, const struct value_limits *limits, struct bytes member)
{
    int64_t number;

    if (set->encoding == SET_INTSET) {
        if (intset_count(ints_of(set)) < intset_entries_max(limits) && text_to_int(member, &number))
            return intset_add(ints_slot(set), number);
        leave_ints(set, limits, member);
    }
    if (set->encoding == SET_LISTPACK) {
        if (pack_takes(set, limits, member)) {
            listpack_append(pack_slot(set), member);
            return true;
        }
        if (!to_table(set, limits, set_count(set) + 1))
            return false;
    }
    return dict_put(dict_of(set), member, bytes_of(NULL, 0));
}

bool set_build_end(const struct value *set, const struct value_limits *limits)
{
    return set->encoding != SET_LISTPACK || !listpack_has_twins(pack_of(set), 1, &limits->seed);
}

enum status set_of_intset(struct bytes intset, const struct value_limits *limits, struct value *set)
{
    struct value built;

    if (!intset_is_valid(intset))
        return STATUS_CORRUPT;
    built = value_of(SET_INTSET, intset_of_bytes(intset));
    if (set_count(&built) == 0) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    if (set_count(&built) > intset_entries_max(limits))
        CHECK(to_table(&built, limits, set_count(&built)));
    *set = built;
    return STATUS_OK;
}

enum status set_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *set)
{
    struct value built;
    size_t count;
    bool is_good;

    if (!listpack_is_valid(listpack))
        return STATUS_CORRUPT;
    built = value_of(SET_LISTPACK, listpack_of_bytes(listpack));
    count = set_count(&built);
    is_good = count > 0 && (count > limits->set_listpack_entries_max ? to_table(&built, limits, count)
                                                                     : set_build_end(&built, limits));
    if (!is_good) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    *set = built;
    return STATUS_OK;
}

/* Operations of the type */

static const char *set_encoding_name(const struct value *set)
{
    switch (set->encoding) {
    case SET_INTSET: return "intset";
    case SET_LISTPACK: return "listpack";
    default: return "hashtable";
    }
}

static void set_free(struct value *set)
{
    switch (set->encoding) {
    case SET_INTSET: intset_destroy(ints_of(set)); break;
    case SET_LISTPACK: listpack_destroy(pack_of(set)); break;
    case SET_PAGED: mem_free(paged_of(set)); break;
    default: dict_destroy(dict_of(set));
    }
}

static size_t set_memory(const struct value *set, size_t samples)
{
    switch (set->encoding) {
    case SET_INTSET: return intset_memory(ints_of(set));
    case SET_LISTPACK: return listpack_memory(pack_of(set));
    case SET_PAGED: return mem_size(paged_of(set));
    default: return dict_memory(dict_of(set), samples);
    }
}

static size_t set_free_effort(const struct value *set)
{
    return set->encoding == SET_TABLE ? dict_count(dict_of(set)) + 1 : 1;
}

static struct value set_copy(const struct value *set)
{
    switch (set->encoding) {
    case SET_INTSET: return value_of(SET_INTSET, intset_copy(ints_of(set)));
    case SET_LISTPACK: return value_of(SET_LISTPACK, listpack_copy(pack_of(set)));
    case SET_PAGED: return value_of(SET_TABLE, paged_to_dict(set));
    default: return value_of(SET_TABLE, dict_copy(dict_of(set)));
    }
}

static void set_digest(const struct value *set, struct value_sum *sum)
{
    struct set_iterator iterator;
    struct bytes member;

    set_iterate(&iterator, set);
    while (set_next(&iterator, &member))
        value_sum_add(sum, member);
}

const struct value_operations set_operations = {
    .encoding_name = set_encoding_name,
    .free = set_free,
    .memory = set_memory,
    .free_effort = set_free_effort,
    .copy = set_copy,
    .digest = set_digest,
};
