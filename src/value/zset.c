#include "value/zset.h"

#include "base/check.h"
#include "containers/listpack.h"
#include "value/paged_zset.h"
#include "value/type.h"

enum { BUILD_RESERVE_MAX = 1 << 20 };

static inline bool is_listpack(const struct value *zset)
{
    return zset->encoding == ZSET_LISTPACK;
}

static inline struct listpack *pack_of(const struct value *zset)
{
    return zset->object;
}

static inline struct btree *tree_of(const struct value *zset)
{
    return zset->object;
}

/* A change of a pack may move it. */
static inline struct listpack **pack_slot(struct value *zset)
{
    return (struct listpack **)&zset->object;
}

static struct value value_of_pack(struct listpack *pack)
{
    return (struct value){ .type = VALUE_ZSET, .encoding = ZSET_LISTPACK, .object = pack };
}

static struct value value_of_tree(struct btree *tree)
{
    return (struct value){ .type = VALUE_ZSET, .encoding = ZSET_TREE, .object = tree };
}

struct value zset_create(void)
{
    return value_of_pack(listpack_create());
}

struct value zset_create_for(const struct value_limits *limits, size_t count, size_t member_size)
{
    if (count <= limits->zset_listpack_entries_max && member_size <= limits->zset_listpack_value_max)
        return zset_create();
    return value_of_tree(btree_create(&limits->seed));
}

size_t zset_count(const struct value *zset)
{
    if (UNLIKELY(value_is_paged(zset)))
        return paged_count(zset);
    return is_listpack(zset) ? listpack_count(pack_of(zset)) / 2 : btree_count(tree_of(zset));
}

/* Listpacks: member, score, member, score ..., in order */

/* False if it is not a score, which is possible only in bytes from outside. */
static bool pack_read_score(const struct listpack *pack, size_t at, double *score)
{
    char digits[TEXT_INT_SIZE];
    int64_t number;

    if (listpack_get_int(pack, at, &number)) {
        *score = (double)number;
        return true;
    }
    return text_to_double(listpack_get(pack, at, digits), score);
}

static double pack_score(const struct listpack *pack, size_t at)
{
    double score;

    CHECK(pack_read_score(pack, at, &score));
    return score;
}

/* The position of the member. */
static size_t pack_find(const struct listpack *pack, struct bytes member)
{
    return listpack_find(pack, listpack_first(pack), member, 1);
}

static int pack_compare(const struct listpack *pack, size_t at, double score, struct bytes member)
{
    double own = pack_score(pack, listpack_next(pack, at));
    char digits[TEXT_INT_SIZE];

    if (own != score)
        return own < score ? -1 : 1;
    return bytes_compare(listpack_get(pack, at, digits), member);
}

/* The position of the member before which it belongs. Members added in order are recognised at once. */
static size_t pack_place(const struct listpack *pack, struct bytes member, double score)
{
    size_t at = listpack_last(pack);

    if (at == LISTPACK_NONE || pack_compare(pack, listpack_previous(pack, at), score, member) < 0)
        return LISTPACK_NONE;
    at = listpack_first(pack);
    while (pack_compare(pack, at, score, member) < 0)
        at = listpack_next(pack, listpack_next(pack, at));
    return at;
}

static void pack_insert(struct listpack **pack, struct bytes member, double score)
{
    char digits[TEXT_DOUBLE_SIZE];
    size_t at = pack_place(*pack, member, score);
    int64_t number = 0;

    at = listpack_insert(pack, at, member);
    at = listpack_next(*pack, at);
    if (score >= -0x1p62 && score <= 0x1p62)
        number = (int64_t)score;
    if (number != 0 ? (double)number == score : score == 0)
        listpack_insert_int(pack, at, number);
    else
        listpack_insert(pack, at, bytes_of(digits, text_of_double(score, digits)));
}

static void pack_append(struct listpack **pack, struct bytes member, double score)
{
    char digits[TEXT_DOUBLE_SIZE];

    listpack_append(pack, member);
    /* A score that is an integer is written with the digits of the integer, except for the sign of 0. */
    if (score == 0)
        listpack_append_int(pack, 0);
    else
        listpack_append(pack, bytes_of(digits, text_of_double(score, digits)));
}

/* The maximum size of a listpack with one more member. */
static bool pack_has_room(const struct listpack *pack, struct bytes member)
{
    return listpack_has_room(pack, 2, member.size + TEXT_DOUBLE_SIZE);
}

static void to_tree(struct value *zset, const struct value_limits *limits)
{
    struct listpack *pack = pack_of(zset);
    struct btree *tree = btree_create(&limits->seed);
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    zset_iterate(&iterator, zset, 0, ZSET_UP);
    while (zset_next(&iterator, &member, &score))
        btree_insert(tree, member, score);
    listpack_destroy(pack);
    *zset = value_of_tree(tree);
}

void zset_expect(struct value *zset, const struct value_limits *limits, size_t count)
{
    if (is_listpack(zset) && count > limits->zset_listpack_entries_max)
        to_tree(zset, limits);
}

bool zset_score(const struct value *zset, struct bytes member, double *score)
{
    const struct listpack *pack = pack_of(zset);
    struct btree_place place;
    size_t at;

    if (is_listpack(zset)) {
        at = pack_find(pack, member);
        if (at == LISTPACK_NONE)
            return false;
        *score = pack_score(pack, listpack_next(pack, at));
        return true;
    }
    if (UNLIKELY(value_is_paged(zset)))
        return paged_zset_score(zset, member, score);
    if (!btree_find(tree_of(zset), member, &place))
        return false;
    *score = btree_get(tree_of(zset), place, NULL);
    return true;
}

static bool pack_rank(const struct listpack *pack, struct bytes member, size_t *rank, double *score)
{
    size_t at = listpack_first(pack);

    for (*rank = 0; at != LISTPACK_NONE && !listpack_equals(pack, at, member); ++*rank)
        at = listpack_next(pack, listpack_next(pack, at));
    if (at == LISTPACK_NONE)
        return false;
    *score = pack_score(pack, listpack_next(pack, at));
    return true;
}

bool zset_rank(const struct value *zset, struct bytes member, bool *is_there, size_t *rank, double *score)
{
    struct btree_place place;

    if (UNLIKELY(value_is_paged(zset)))
        return paged_zset_rank(zset, member, is_there, rank, score);
    if (is_listpack(zset)) {
        *is_there = pack_rank(pack_of(zset), member, rank, score);
        return true;
    }
    *is_there = btree_find(tree_of(zset), member, &place);
    if (*is_there) {
        *rank = btree_rank(tree_of(zset), place);
        *score = btree_get(tree_of(zset), place, NULL);
    }
    return true;
}

/* Only a new member changes a listpack to a tree, as in Redis: a new score never does. */
void zset_insert(struct value *zset, const struct value_limits *limits, struct bytes member, double score)
{
    CHECK(score == score);
    if (is_listpack(zset)) {
        if (zset_count(zset) < limits->zset_listpack_entries_max && member.size <= limits->zset_listpack_value_max &&
            pack_has_room(pack_of(zset), member)) {
            pack_insert(pack_slot(zset), member, score);
            return;
        }
        to_tree(zset, limits);
    }
    if (UNLIKELY(value_is_paged(zset)))
        paged_zset_insert(zset, member, score);
    else
        btree_insert(tree_of(zset), member, score);
}

bool zset_put(struct value *zset, const struct value_limits *limits, struct bytes member, double score)
{
    size_t at;

    CHECK(score == score);
    if (UNLIKELY(value_is_paged(zset)))
        return paged_zset_put(zset, member, score);
    if (!is_listpack(zset))
        return btree_put(tree_of(zset), member, score);
    at = pack_find(pack_of(zset), member);
    if (at == LISTPACK_NONE) {
        zset_insert(zset, limits, member, score);
        return true;
    }
    if (pack_score(pack_of(zset), listpack_next(pack_of(zset), at)) != score) {
        if (pack_has_room(pack_of(zset), bytes_of(NULL, 0))) {      /* the text of the score may become longer */
            listpack_delete(pack_slot(zset), at, 2);
            pack_insert(pack_slot(zset), member, score);
        } else {
            to_tree(zset, limits);
            btree_put(tree_of(zset), member, score);
        }
    }
    return false;
}

bool zset_remove(struct value *zset, struct bytes member)
{
    size_t at;

    if (UNLIKELY(value_is_paged(zset)))
        return paged_zset_remove(zset, member);
    if (!is_listpack(zset))
        return btree_remove(tree_of(zset), member);
    at = pack_find(pack_of(zset), member);
    if (at != LISTPACK_NONE)
        listpack_delete(pack_slot(zset), at, 2);
    return at != LISTPACK_NONE;
}

void zset_remove_ranks(struct value *zset, size_t first, size_t count)
{
    if (UNLIKELY(value_is_paged(zset)))
        paged_zset_remove_ranks(zset, first, count);
    else if (!is_listpack(zset))
        btree_remove_ranks(tree_of(zset), first, count);
    else if (count > 0)
        listpack_delete(pack_slot(zset), listpack_seek(pack_of(zset), (int64_t)first * 2), count * 2);
}

static size_t pack_count_by_score(const struct listpack *pack, double score, enum btree_border border)
{
    size_t at, count = 0;

    for (at = listpack_first(pack); at != LISTPACK_NONE; at = listpack_next(pack, at), count++) {
        double own;

        at = listpack_next(pack, at);
        own = pack_score(pack, at);
        if (own > score || (own == score && border == BTREE_BELOW))
            break;
    }
    return count;
}

bool zset_score_border(const struct value *zset, double score, enum btree_border border, size_t *rank)
{
    if (UNLIKELY(value_is_paged(zset)))
        return paged_order_score_border(zset, score, border, rank);
    *rank = is_listpack(zset) ? pack_count_by_score(pack_of(zset), score, border) : btree_count_by_score(tree_of(zset), score, border);
    return true;
}

static size_t pack_count_by_member(const struct listpack *pack, struct bytes member, enum btree_border border)
{
    char digits[TEXT_INT_SIZE];
    size_t at, count = 0;

    for (at = listpack_first(pack); at != LISTPACK_NONE; at = listpack_next(pack, listpack_next(pack, at)), count++) {
        int order = bytes_compare(listpack_get(pack, at, digits), member);

        if (order > 0 || (order == 0 && border == BTREE_BELOW))
            break;
    }
    return count;
}

bool zset_member_border(const struct value *zset, struct bytes member, enum btree_border border, size_t *rank)
{
    if (UNLIKELY(value_is_paged(zset)))
        return paged_order_member_border(zset, member, border, rank);
    *rank = is_listpack(zset) ? pack_count_by_member(pack_of(zset), member, border) : btree_count_by_member(tree_of(zset), member, border);
    return true;
}

void zset_iterate(struct zset_iterator *iterator, const struct value *zset, size_t rank, enum zset_direction direction)
{
    iterator->zset = zset;
    iterator->direction = direction;
    iterator->was_taken = false;
    iterator->ended = rank >= zset_count(zset);
    if (iterator->ended)
        return;
    if (is_listpack(zset))
        iterator->at = listpack_seek(pack_of(zset), (int64_t)rank * 2);
    else if (UNLIKELY(value_is_paged(zset)))
        iterator->rank = rank;          /* nothing is read before it is asked for */
    else
        btree_seek_rank(tree_of(zset), rank, &iterator->place);
}

static void pack_step(struct zset_iterator *iterator, const struct listpack *pack)
{
    size_t at = iterator->at;

    if (iterator->direction == ZSET_UP) {
        at = listpack_next(pack, listpack_next(pack, at));
    } else {
        at = listpack_previous(pack, at);
        if (at != LISTPACK_NONE)
            at = listpack_previous(pack, at);
    }
    iterator->at = at;
    iterator->ended = at == LISTPACK_NONE;
}

/* The step is taken when the next element is asked for: it may read a page, and the member that was returned is in one. */
static bool next_in_pages(struct zset_iterator *iterator, struct bytes *member, double *score)
{
    struct order_element element;

    if (!iterator->was_taken)
        paged_order_seek_rank(iterator->zset, iterator->rank, &iterator->in_pages);
    else
        iterator->ended = iterator->direction == ZSET_UP ? !paged_order_next(iterator->zset, &iterator->in_pages)
                                                         : !paged_order_previous(iterator->zset, &iterator->in_pages);
    if (iterator->ended)
        return false;
    iterator->was_taken = true;
    element = paged_order_get(&iterator->in_pages);
    *member = element.member;
    *score = element.score;
    return true;
}

bool zset_next(struct zset_iterator *iterator, struct bytes *member, double *score)
{
    const struct value *zset = iterator->zset;

    if (iterator->ended)
        return false;
    if (UNLIKELY(value_is_paged(zset)))
        return next_in_pages(iterator, member, score);
    if (is_listpack(zset)) {
        const struct listpack *pack = pack_of(zset);

        *member = listpack_get(pack, iterator->at, iterator->digits);
        *score = pack_score(pack, listpack_next(pack, iterator->at));
        pack_step(iterator, pack);
        return true;
    }
    *score = btree_get(tree_of(zset), iterator->place, member);
    iterator->ended = iterator->direction == ZSET_UP ? !btree_next(tree_of(zset), &iterator->place)
                                                     : !btree_previous(tree_of(zset), &iterator->place);
    return true;
}

bool zset_scan(const struct value *zset, uint64_t *cursor, size_t count, btree_found *found, void *context)
{
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    if (UNLIKELY(value_is_paged(zset)))
        return paged_zset_scan(zset, cursor, count, found, context);
    if (is_listpack(zset)) {
        zset_iterate(&iterator, zset, 0, ZSET_UP);
        while (zset_next(&iterator, &member, &score))
            found(context, member, score);
        *cursor = 0;
    } else {
        *cursor = btree_scan(tree_of(zset), *cursor, count, found, context);
    }
    return true;
}

bool zset_random(const struct value *zset, struct random *random, struct bytes *member, double *score)
{
    struct zset_iterator iterator;

    if (UNLIKELY(value_is_paged(zset)))
        return paged_zset_random(zset, random, member, score);
    zset_iterate(&iterator, zset, random_below(random, zset_count(zset)), ZSET_UP);
    return zset_next(&iterator, member, score);
}

bool zset_has_room(const struct value *zset, size_t count)
{
    return !value_is_paged(zset) || paged_has_room(zset, count);
}

bool zset_has_all(const struct value *zset)
{
    bool has_table;

    if (!value_is_paged(zset))
        return true;
    has_table = paged_zset_has_table(zset);
    return paged_tree_has_ranks(zset, 0, SIZE_MAX) && has_table;
}

bool zset_has_ranks(const struct value *zset, size_t first, size_t count)
{
    return !value_is_paged(zset) || paged_tree_has_ranks(zset, first, count);
}

bool zset_has_removal(const struct value *zset, size_t first, size_t count)
{
    return !value_is_paged(zset) || paged_zset_has_removal(zset, first, count);
}

bool zset_has_score(const struct value *zset, struct bytes member, bool *is_there, double *score)
{
    if (value_is_paged(zset))
        return paged_zset_has_score(zset, member, is_there, score);
    *is_there = zset_score(zset, member, score);
    return true;
}

bool zset_has_put(const struct value *zset, struct bytes member, double score, bool adds, size_t count)
{
    return !value_is_paged(zset) || paged_zset_has_put(zset, member, score, adds, count);
}

bool zset_has_element(const struct value *zset, struct bytes member)
{
    return !value_is_paged(zset) || paged_zset_has_element(zset, member);
}

const struct btree *zset_tree(const struct value *zset)
{
    return zset->encoding == ZSET_TREE ? zset->object : NULL;
}

void zset_compact(struct value *zset, const struct value_limits *limits)
{
    struct listpack *pack;
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    if (zset->encoding != ZSET_TREE || zset_count(zset) > limits->zset_listpack_entries_max)
        return;
    pack = listpack_create();
    zset_iterate(&iterator, zset, 0, ZSET_UP);
    while (zset_next(&iterator, &member, &score)) {
        if (member.size > limits->zset_listpack_value_max || !pack_has_room(pack, member)) {
            listpack_destroy(pack);
            return;
        }
        pack_append(&pack, member, score);
    }
    btree_destroy(tree_of(zset));
    *zset = value_of_pack(pack);
}

struct value zset_build(const struct value_limits *limits)
{
    return value_of_tree(btree_create(&limits->seed));
}

/* The count is not trusted: beyond some megabytes the index grows as members are read. */
void zset_build_reserve(struct value *zset, size_t count)
{
    btree_reserve(tree_of(zset), count < BUILD_RESERVE_MAX ? count : BUILD_RESERVE_MAX);
}

bool zset_build_add(struct value *zset, struct bytes member, double score)
{
    return score == score && btree_put(tree_of(zset), member, score);
}

/* True if it is in order, with valid scores. The pack itself must be valid. */
static bool is_sorted(const struct listpack *pack)
{
    size_t at = listpack_first(pack), before = LISTPACK_NONE;
    char digits[TEXT_INT_SIZE];

    for (; at != LISTPACK_NONE; at = listpack_next(pack, listpack_next(pack, at))) {
        double score;

        if (!pack_read_score(pack, listpack_next(pack, at), &score))
            return false;
        if (before != LISTPACK_NONE && pack_compare(pack, before, score, listpack_get(pack, at, digits)) >= 0)
            return false;
        before = at;
    }
    return true;
}

enum status zset_of_listpack(struct bytes listpack, const struct value_limits *limits, struct value *zset)
{
    struct value built;
    size_t count;

    if (!listpack_is_valid(listpack))
        return STATUS_CORRUPT;
    built = value_of_pack(listpack_of_bytes(listpack));
    count = listpack_count(pack_of(&built));
    if (count == 0 || count % 2 != 0 || !is_sorted(pack_of(&built)) || listpack_has_twins(pack_of(&built), 2, &limits->seed)) {
        value_free(&built);
        return STATUS_CORRUPT;
    }
    if (count / 2 > limits->zset_listpack_entries_max)
        to_tree(&built, limits);
    *zset = built;
    return STATUS_OK;
}

/* Operations of the type */

static const char *zset_encoding_name(const struct value *zset)
{
    return is_listpack(zset) ? "listpack" : "skiplist";
}

static void zset_free(struct value *zset)
{
    if (is_listpack(zset))
        listpack_destroy(pack_of(zset));
    else if (UNLIKELY(value_is_paged(zset)))
        paged_ordered_free(zset);
    else
        btree_destroy(tree_of(zset));
}

static size_t zset_memory(const struct value *zset, size_t samples)
{
    if (UNLIKELY(value_is_paged(zset)))
        return paged_ordered_memory(zset);
    return is_listpack(zset) ? listpack_memory(pack_of(zset)) : btree_memory(tree_of(zset), samples);
}

static size_t zset_free_effort(const struct value *zset)
{
    return is_listpack(zset) || value_is_paged(zset) ? 1 : btree_blocks(tree_of(zset));
}

/* A value that leaves its database is whole. */
static struct value zset_copy(const struct value *zset)
{
    if (UNLIKELY(value_is_paged(zset)))
        return value_of_tree(paged_zset_to_btree(zset));
    return is_listpack(zset) ? value_of_pack(listpack_copy(pack_of(zset))) : value_of_tree(btree_copy(tree_of(zset)));
}

static void zset_digest(const struct value *zset, struct value_sum *sum)
{
    char digits[TEXT_DOUBLE_SIZE];
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    zset_iterate(&iterator, zset, 0, ZSET_UP);
    while (zset_next(&iterator, &member, &score)) {
        score = score == 0 ? 0 : score;         /* removes the sign, which a listpack does not store */
        value_sum_add_pair(sum, member, bytes_of(digits, text_of_double(score, digits)));
    }
}

const struct value_operations zset_operations = {
    .encoding_name = zset_encoding_name,
    .free = zset_free,
    .memory = zset_memory,
    .free_effort = zset_free_effort,
    .copy = zset_copy,
    .digest = zset_digest,
};
