/* Lists in pages beside the same in chunks: all functions of the type give the same, whichever pages are missing, and what was asked for is enough. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/folded_pager.h"
#include "support/scaled.h"
#include "value/codec.h"
#include "value/list.h"

enum { VALUES = 60, LARGE_MAX = 3000 };

static const struct value_limits limits = { .seed = { 3, 4 }, .list_fill = -1, .list_depth = 0, .page_threshold = 1, .page_size = 64 };

struct rig {
    struct folded_pager folder;
    struct paged_access access;
    struct value paged, plain;
    struct random random;
    char *room;
};

/* Few different ones, so that there are twins; some are numbers, some as large as a leaf or larger. */
static struct bytes random_element(struct rig *rig)
{
    unsigned number = (unsigned)random_below(&rig->random, VALUES);

    switch (number % 10) {
    case 0: return bytes_of(rig->room, (size_t)sprintf(rig->room, "%d", (int)number * 1000 - 20000));
    case 1:
        memset(rig->room, 'a' + (int)number / 10, LARGE_MAX);
        return bytes_of(rig->room, number * 4 + (number == 51 ? LARGE_MAX / 2 : 0));
    case 2:
        memset(rig->room, 'k', LARGE_MAX);
        return bytes_of(rig->room, 120 + number);
    default: return bytes_of(rig->room, (size_t)sprintf(rig->room, "element %u", number));
    }
}

static void rig_init(struct rig *rig, uint64_t seed, unsigned count)
{
    *rig = (struct rig){ .plain = list_build(&limits), .room = mem_alloc(LARGE_MAX) };
    random_init(&rig->random, seed);
    for (unsigned i = 0; i < count; i++)
        list_build_add(&rig->plain, random_element(rig));
    folded_pager_init(&rig->folder);
    rig->access = (struct paged_access){ .table = { .pager = &rig->folder.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    paged_tree_pager_init(&rig->access.tree_pager, &rig->folder.pager);
    rig->paged = (struct value){ .type = VALUE_LIST, .encoding = LIST_PAGED, .object = paged_list_create(list_chunks(&rig->plain), 1, &rig->access) };
}

static void rig_release(struct rig *rig)
{
    value_free(&rig->plain);
    value_free(&rig->paged);
    folded_pager_release(&rig->folder);
    mem_free(rig->room);
}

/* As between two calls. */
static void lose(struct rig *rig, uint64_t one_in)
{
    memory_pager_lose(&rig->folder.memory, &rig->random, one_in);
    paged_attach(&rig->paged, &rig->access);
}

/* `exact`: no leaf was dropped unread, so the size is known. */
static void verify_tree(struct rig *rig, bool exact)
{
    struct page_tree tree = { &paged_ordered_of(&rig->paged)->tree, &rig->access.tree_pager.pager, { SIZE_MAX, SIZE_MAX, PAGE_TREE_CHILD_SIZE(0) } };
    struct page_tree_path path;
    enum page_tree_answer answer;
    uint64_t size = 0;

    memory_pager_load_all(&rig->folder.memory);
    page_tree_verify(&tree);
    for (answer = page_tree_first(&tree, &path); answer == PAGE_TREE_YES; answer = page_tree_next(&tree, &path)) {
        struct bytes leaf = paged_tree_resident_leaf(&tree, path.leaf);

        assert_true(list_page_is_sound(leaf));
        assert_int_equal(list_page_count(leaf), path.count);
        assert_true(path.count == 1 || leaf.size <= 4 * limits.page_size - 64);
        size += leaf.size;
    }
    if (exact)
        assert_int_equal(paged_of(&rig->paged)->root.size, size);
    for (int end = 0; end < 2; end++) {
        if (paged_list_end_count(&rig->paged, (enum list_end)end) > 0)
            assert_in_range(chunk_list_size(paged_list_end(&rig->paged, (enum list_end)end)), 1, 2 * (4 * limits.page_size - 64));
    }
    assert_int_equal(rig->folder.memory.count, paged_extent_of(&rig->paged).tree_pages);
}

static void assert_same_from(struct rig *rig, size_t index, enum list_end towards)
{
    struct list_iterator iterator, other;
    char digits[TEXT_INT_SIZE], other_digits[TEXT_INT_SIZE];

    list_iterate(&iterator, &rig->paged, index, towards);
    list_iterate(&other, &rig->plain, index, towards);
    while (list_step(&other)) {
        struct bytes element = list_element(&other, other_digits);

        assert_true(list_step(&iterator));
        assert_true(bytes_equal(list_element(&iterator, digits), element) && list_equals(&iterator, element));
    }
    assert_false(list_step(&iterator));
    list_iterate_end(&iterator);
    list_iterate_end(&other);
}

static void assert_same(struct rig *rig)
{
    struct buffer written = { 0 }, scratch = { 0 };
    size_t count = list_count(&rig->plain);
    uint8_t digest[20], other[20];
    struct value read;

    assert_int_equal(list_count(&rig->paged), count);
    value_digest(&rig->plain, other);
    value_digest(&rig->paged, digest);
    assert_memory_equal(digest, other, sizeof(digest));
    assert_string_equal(value_encoding_name(&rig->paged), value_encoding_name(&rig->plain));
    assert_same_from(rig, 0, LIST_TAIL);
    assert_same_from(rig, count, LIST_TAIL);
    if (count > 0) {
        assert_same_from(rig, count - 1, LIST_HEAD);
        assert_same_from(rig, random_below(&rig->random, count), random_below(&rig->random, 2) ? LIST_TAIL : LIST_HEAD);
    }
    /* What is written and what is copied has the same. */
    if (count > 0) {
        codec_encode(&rig->paged, &written);
        assert_int_equal(codec_decode(buffer_bytes(&written), &limits, &scratch, &read), STATUS_OK);
        value_digest(&read, digest);
        assert_memory_equal(digest, other, sizeof(digest));
        value_free(&read);
        read = value_copy(&rig->paged);
        value_digest(&read, digest);
        assert_memory_equal(digest, other, sizeof(digest));
        value_free(&read);
    }
    buffer_release(&written);
    buffer_release(&scratch);
}

/* Until the question, which is put again and again, returns true. */
#define ASK(rig, question) FOLDED_ASK(rig, 200, question)

/* The index of the nth element that equals this one, or the count. */
static size_t index_of(const struct value *list, struct bytes element, enum list_end from, size_t nth)
{
    size_t count = list_count(list), seen = 0, found = count;
    struct list_iterator iterator;

    list_iterate(&iterator, list, from == LIST_HEAD ? 0 : count - 1, from == LIST_HEAD ? LIST_TAIL : LIST_HEAD);
    for (; found == count && list_step(&iterator); seen++) {
        if (list_equals(&iterator, element) && --nth == 0)
            found = from == LIST_HEAD ? seen : count - 1 - seen;
    }
    list_iterate_end(&iterator);
    return found;
}

static void step(struct rig *rig, bool asks)
{
    struct bytes element = random_element(rig);
    enum list_end end = random_below(&rig->random, 2) ? LIST_HEAD : LIST_TAIL;
    size_t all = list_count(&rig->plain), index = random_below(&rig->random, all), count = random_below(&rig->random, 1 + (all - index < 12 ? all - index : 12));
    size_t nth = 1 + random_below(&rig->random, 3), found;
    char digits[TEXT_INT_SIZE], other_digits[TEXT_INT_SIZE];

    switch (random_below(&rig->random, 12)) {
    case 0:
    case 1:
    case 2:
        if (asks)
            ASK(rig, list_has_push(&rig->paged, end, nth, nth * element.size));
        for (size_t i = 0; i < nth; i++) {
            list_push(&rig->paged, end, element);
            list_push(&rig->plain, end, element);
        }
        break;
    case 3:
        if (asks)
            ASK(rig, list_has_set(&rig->paged, index, element.size));
        list_set(&rig->paged, index, element);
        list_set(&rig->plain, index, element);
        break;
    case 4:
    case 5:
        /* At a place that was searched: LINSERT. */
        if (asks)
            ASK(rig, list_has_search(&rig->paged, element, LIST_HEAD, 1, SIZE_MAX));
        found = index_of(&rig->paged, element, LIST_HEAD, 1);
        assert_int_equal(found, index_of(&rig->plain, element, LIST_HEAD, 1));
        if (found < all) {
            found += random_below(&rig->random, 2);
            element = random_element(rig);
            list_insert(&rig->paged, found, element);
            list_insert(&rig->plain, found, element);
        }
        break;
    case 6:
        if (count == all || random_below(&rig->random, 3) > 0)
            break;
        index = end == LIST_HEAD ? 0 : all - count;
        if (asks)
            ASK(rig, list_has_trim(&rig->paged, &limits, end == LIST_HEAD ? count : 0, end == LIST_HEAD ? all : all - count));
        list_delete(&rig->paged, index, count);
        list_delete(&rig->plain, index, count);
        break;
    case 7:
        if (count == all || count == 0 || random_below(&rig->random, 3) > 0)
            break;
        if (asks)
            ASK(rig, paged_list_has_removal(&rig->paged, index, count));
        list_delete(&rig->paged, index, count);
        list_delete(&rig->plain, index, count);
        break;
    case 8:
        if (asks)
            ASK(rig, list_has_search(&rig->paged, element, end, nth, SIZE_MAX));
        found = list_remove(&rig->paged, element, nth, end);
        assert_int_equal(found, list_remove(&rig->plain, element, nth, end));
        break;
    case 9:
        /* No further than the length. */
        if (asks)
            ASK(rig, list_has_search(&rig->paged, element, end, SIZE_MAX, count + 1));
        for (size_t i = 0; i <= count && i < all; i++) {
            size_t at = end == LIST_HEAD ? i : all - 1 - i;
            struct list_iterator iterator;

            list_iterate(&iterator, &rig->paged, at, LIST_TAIL);
            assert_true(list_step(&iterator));
            list_iterate_end(&iterator);
        }
        break;
    default:
        if (asks)
            ASK(rig, list_has_ranks(&rig->paged, end == LIST_HEAD ? 0 : all - 1, 1) && list_has_ranks(&rig->paged, index, count));
        assert_true(bytes_equal(list_end_element(&rig->paged, end, digits), list_end_element(&rig->plain, end, other_digits)));
        if (count > 0) {
            struct list_iterator iterator;

            list_iterate(&iterator, &rig->paged, index, LIST_TAIL);
            for (size_t i = 0; i < count; i++)
                assert_true(list_step(&iterator));
            list_iterate_end(&iterator);
        }
    }
    if (list_count(&rig->plain) == 0) {
        assert_int_equal(list_count(&rig->paged), 0);
        list_push(&rig->paged, end, element);
        list_push(&rig->plain, end, element);
    }
    assert_int_equal(list_count(&rig->paged), list_count(&rig->plain));
}

static void all_functions_do_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(30); seed++) {
        bool asks = seed % 2 == 0, loses = seed % 5 > 0;
        struct rig rig;

        rig_init(&rig, seed, 1 + (unsigned)seed * 40);
        for (int i = 0; i < 3000; i++) {
            uint64_t brought;

            if (loses && i % 5 == 0)
                lose(&rig, seed % 4 + 1);
            brought = rig.folder.memory.brought;
            step(&rig, asks);
            if (asks)
                assert_int_equal(rig.folder.memory.brought, brought);
            if (i % 100 == 0) {
                assert_same(&rig);
                verify_tree(&rig, !loses);
            }
        }
        assert_same(&rig);
        verify_tree(&rig, !loses);
        rig_release(&rig);
    }
}

/* Elements that come at one end and go at the other, in a list of many leaves: pages are used again, and those that are left are full. */
static void a_queue_uses_its_pages_again(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        enum list_end in = way ? LIST_HEAD : LIST_TAIL, out = way ? LIST_TAIL : LIST_HEAD;
        char room[24];
        struct rig rig;
        uint32_t pages;

        rig_init(&rig, 1, 1);
        for (int i = 0; i < 5000; i++)
            list_push(&rig.paged, in, bytes_of(room, (size_t)sprintf(room, "queued %06d", i)));
        verify_tree(&rig, true);
        pages = paged_extent_of(&rig.paged).tree_pages;
        assert_in_range(list_tree_leaves(&rig.paged), 5000 / 12 - 2, 5000 / 10);
        for (int i = 0; i < 20000; i++) {
            list_push(&rig.paged, in, bytes_of(room, (size_t)sprintf(room, "queued %06d", 5000 + i)));
            list_delete(&rig.paged, out == LIST_HEAD ? 0 : list_count(&rig.paged) - 1, 1);
            if (i % 100 == 0)
                lose(&rig, 2);
        }
        verify_tree(&rig, false);
        assert_in_range(paged_extent_of(&rig.paged).tree_pages, pages / 2, pages + pages / 20 + 40);
        assert_in_range(list_tree_leaves(&rig.paged), 5000 / 12 - 4, 5000 / 10 + 2);
        list_delete(&rig.paged, out == LIST_HEAD ? 0 : 10, list_count(&rig.paged) - 10);
        assert_int_equal(list_count(&rig.paged), 10);
        verify_tree(&rig, false);
        rig_release(&rig);
    }
}

/* What goes into the middle, always at the same place, makes no leaf of its own each time. */
static void insertions_at_one_place_fill_leaves(void **state)
{
    (void)state;
    for (int after = 0; after < 2; after++) {
        char room[24];
        struct rig rig;

        rig_init(&rig, 1, 1);
        for (int i = 0; i < 400; i++)
            list_push(&rig.paged, LIST_TAIL, bytes_of(room, (size_t)sprintf(room, "first %06d", i)));
        for (int i = 0; i < 5000; i++)
            list_insert(&rig.paged, after ? 200 : 200 + (size_t)i, bytes_of(room, (size_t)sprintf(room, "added %06d", i)));
        verify_tree(&rig, true);
        assert_in_range(list_tree_leaves(&rig.paged), 1, 5400 / 6);
        rig_release(&rig);
    }
}

/* A range goes without its pages being read, but for those at its borders. */
static void removing_a_range_reads_its_borders_only(void **state)
{
    struct rig rig;
    uint64_t brought;

    (void)state;
    rig_init(&rig, 3, 4000);
    lose(&rig, 1);
    brought = rig.folder.memory.brought;
    ASK(&rig, list_has_trim(&rig.paged, &limits, 1500, 2500));
    list_delete(&rig.paged, 2500, list_count(&rig.paged) - 2500);
    list_delete(&rig.paged, 0, 1500);
    list_delete(&rig.plain, 2500, list_count(&rig.plain) - 2500);
    list_delete(&rig.plain, 0, 1500);
    assert_int_equal(rig.folder.memory.brought, brought);
    assert_same(&rig);
    verify_tree(&rig, false);
    rig_release(&rig);
}

/* Elements near the ends may be larger than a leaf is now. */
static void leaves_of_another_size(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(20); seed++) {
        struct rig rig;

        rig_init(&rig, seed, 400);
        for (int i = 0; i < 2000; i++) {
            struct value_limits other = limits;

            if (i % 50 == 0) {
                other.page_size = (size_t[]){ 64, 1024, 256, 32 }[random_below(&rig.random, 4)];
                rig.access.table.limits = paged_limits_of(&other);
                paged_attach(&rig.paged, &rig.access);
            }
            step(&rig, false);
            if (i % 100 == 0)
                assert_same(&rig);
        }
        assert_same(&rig);
        rig_release(&rig);
    }
}

static void a_short_list_becomes_a_listpack(void **state)
{
    struct value pack;
    struct rig rig;

    (void)state;
    rig_init(&rig, 2, 600);
    assert_false(list_becomes_pack(&rig.paged, &limits, &pack));
    list_delete(&rig.paged, 5, list_count(&rig.paged) - 5);
    list_delete(&rig.plain, 5, list_count(&rig.plain) - 5);
    lose(&rig, 1);
    assert_false(list_becomes_pack(&rig.paged, &limits, &pack));
    ASK(&rig, list_has_trim(&rig.paged, &limits, 0, 4));
    list_delete(&rig.paged, 4, 1);
    list_delete(&rig.plain, 4, 1);
    assert_true(list_becomes_pack(&rig.paged, &limits, &pack));
    list_shrink(&rig.plain, &limits);
    assert_int_equal(pack.encoding, LIST_LISTPACK);
    assert_string_equal(value_encoding_name(&pack), value_encoding_name(&rig.plain));
    value_free(&rig.paged);
    rig.paged = pack;
    assert_same(&rig);
    rig_release(&rig);
}

static void damaged_pages_are_found(void **state)
{
    static const char *const bad[] = { "", "\0", "\1", "\2x", "\0\7\0\0\0\0\0\xff", "\0\7\0\0\0\1\0\xff", "\0\x08\0\0\0\1\0\x05\xff" };
    static const size_t sizes[] = { 0, 1, 1, 2, 8, 8, 9 };

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_false(list_page_is_sound(bytes_of(bad[i], sizes[i])));
    assert_true(list_page_is_sound(bytes_of("\1x", 2)));
    assert_true(list_page_is_sound(bytes_of("\0\x09\0\0\0\1\0\x05\1\xff", 10)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_functions_do_the_same),
        cmocka_unit_test(a_queue_uses_its_pages_again),
        cmocka_unit_test(insertions_at_one_place_fill_leaves),
        cmocka_unit_test(removing_a_range_reads_its_borders_only),
        cmocka_unit_test(leaves_of_another_size),
        cmocka_unit_test(a_short_list_becomes_a_listpack),
        cmocka_unit_test(damaged_pages_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
