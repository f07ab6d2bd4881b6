/* Pages of values in a page space, without a tier: names, hashes, IDs, and what flushes and swaps do to them. */
#include "keyspace/pages.h"

#include "support/unit.h"

#include <string.h>

#include "support/seed.h"
#include "value/string.h"

enum { PARTITIONS = 4, DATABASES = 2, MANY = 3000 };

static const int64_t now_ms = 1700000000000;

static int open_partitions(void **state)
{
    *state = partitions_create(PARTITIONS, DATABASES, (struct key_seed){ .sip = { 1, 2 } });
    return 0;
}

static int close_partitions(void **state)
{
    partitions_destroy(*state);
    return 0;
}

static void names_are_read_back(void **state)
{
    const uint64_t ids[] = { 0, 1, 0x123456789abc, (1ull << PAGE_ID_BITS) - 1 };
    const uint32_t numbers[] = { 0, 7, UINT32_MAX };

    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 3; j++) {
            char name[PAGE_NAME_SIZE];
            uint64_t hash = pages_name(ids[i], numbers[j], name), id;
            uint32_t number;

            assert_true(page_name_parse(bytes_of(name, sizeof(name)), &id, &number));
            assert_true(id == ids[i] && number == numbers[j]);
            assert_int_equal(hash >> SLOT_SHIFT, ids[i] >> PAGE_ID_COUNT_BITS);
            assert_int_equal(page_hash(bytes_of(name, sizeof(name))), hash);
            assert_false(page_name_parse(bytes_of(name, sizeof(name) - 1), &id, &number));
            assert_int_equal(page_hash(bytes_of(name, sizeof(name) - 1)), 0);
        }
    }
    (void)state;
}

/* The bits below the first 14 place a page in its partition's table and map: those of neighbours have to differ like random ones. */
static void hashes_of_neighbours_are_spread(void **state)
{
    uint64_t id = 0x2a5ull << PAGE_ID_COUNT_BITS | 1;
    uint32_t low[256] = { 0 }, high[256] = { 0 };

    for (uint32_t number = 0; number < 256 * 100; number++) {
        char name[PAGE_NAME_SIZE];
        uint64_t hash = pages_name(id + number % 4, number / 4, name);

        low[hash & 255]++;
        high[hash << SLOT_BITS >> 56]++;
    }
    for (int i = 0; i < 256; i++) {             /* 100 each; six standard deviations */
        assert_in_range(low[i], 40, 160);
        assert_in_range(high[i], 40, 160);
    }
    (void)state;
}

static void ids_are_new_and_in_the_partition_of_their_key(void **state)
{
    struct partitions *all = *state;
    uint64_t before = 0;

    for (uint64_t i = 0; i < 100; i++) {
        uint64_t hash = i * 0x9e3779b97f4a7c15, id = pages_new_id(all, hash);

        assert_int_equal(pages_partition(all, id), partition_index(all, hash));
        assert_true((id & ((1ull << PAGE_ID_COUNT_BITS) - 1)) > before);
        before = id & ((1ull << PAGE_ID_COUNT_BITS) - 1);
    }
    all->value_count = (1ull << PAGE_ID_COUNT_BITS) - 2;
    assert_int_not_equal(pages_new_id(all, 0), 0);
    assert_int_equal(pages_new_id(all, 0), 0);
    assert_int_equal(pages_new_id(all, 0), 0);
}

static struct keyspace *open_space(struct partitions *all, int db, uint64_t id, struct pages *pages) UNCHECKED_LOCKS;
static struct keyspace *open_space(struct partitions *all, int db, uint64_t id, struct pages *pages)
{
    struct keyspace *space = partition_keyspace(&all->partitions[pages_partition(all, id)], partitions_page_space(all, db));

    pages_init(pages, space, id, now_ms);
    return space;
}

static void fill(struct pages *pages, uint32_t number, size_t size, bool is_new)
{
    struct pager *pager = &pages->pager;

    memset(is_new ? pager->create(pager, number, size) : pager->change(pager, number, size), (int)(number + size), size);
}

static void assert_page(struct pages *pages, uint32_t number, size_t size)
{
    size_t found;
    const char *bytes = pages->pager.find(&pages->pager, number, PAGER_USE, &found);

    assert_non_null(bytes);
    assert_int_equal(found, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(bytes[i], (char)(number + size));
}

static size_t size_of(uint32_t number)
{
    return number * 7 % 5000;
}

static void only_what_pages_writes_is_a_page(void **state)
{
    char bytes[2 * 64] = { 0 };
    struct value value = string_value_raw(bytes_of(bytes, 64)), number = string_value_of_int(7);

    (void)state;
    assert_false(pages_is_page(&value));            /* the last byte: 1 to 64 */
    bytes[63] = 65;
    assert_false(pages_is_page(&value));
    bytes[63] = 64;
    assert_true(pages_is_page(&value));
    bytes[63] = 1;
    assert_true(pages_is_page(&value));
    value = string_value_raw(bytes_of(bytes, 63));
    assert_false(pages_is_page(&value));
    value = string_value_raw(bytes_of(bytes, 0));
    assert_false(pages_is_page(&value));
    value = string_value(bytes_of(bytes, 64));      /* embedded */
    assert_false(pages_is_page(&value));
    assert_false(pages_is_page(&number));
}

/* Two values in one partition, many pages: the table grows beyond a leaf for each of the first bits. */
static void pages_of_two_values(void **state) UNCHECKED_LOCKS;
static void pages_of_two_values(void **state)
{
    struct partitions *all = *state;
    struct pages pages, others;
    struct keyspace *space;
    uint64_t id = pages_new_id(all, UINT64_MAX), other = pages_new_id(all, UINT64_MAX);
    size_t size;

    partitions_lock_all(all);
    space = open_space(all, 1, id, &pages);
    open_space(all, 1, other, &others);
    for (uint32_t i = 0; i < MANY; i++) {
        fill(&pages, i, size_of(i), true);
        fill(&others, i, 10, true);
    }
    keyspace_verify(space);
    assert_int_equal(space->table.count, 2 * MANY);
    assert_null(pages.pager.find(&pages.pager, MANY, PAGER_USE, &size));
    for (uint32_t i = 0; i < MANY; i++)
        fill(&pages, i, size_of(i + 1), false);
    pages_drop(&others, 0, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_page(&pages, i, size_of(i + 1));
        assert_null(others.pager.find(&others.pager, i, PAGER_LOOK, &size));
    }
    keyspace_verify(space);
    assert_int_equal(space->table.count, MANY);
    pages.pager.drop(&pages.pager, 0);
    fill(&pages, 0, 3, true);
    assert_page(&pages, 0, 3);
    partitions_unlock_all(all);
}

/* A page that grows by a little stays where it is, and so do its bytes. */
static void a_page_has_some_room(void **state) UNCHECKED_LOCKS;
static void a_page_has_some_room(void **state)
{
    struct partitions *all = *state;
    struct pages pages;
    struct keyspace *space;
    char *bytes;
    uint64_t moves = 0;

    partitions_lock_all(all);
    space = open_space(all, 0, pages_new_id(all, 0), &pages);
    bytes = pages.pager.create(&pages.pager, 5, 0);
    for (size_t size = 1; size < 6000; size++) {
        char *now = pages.pager.change(&pages.pager, 5, size);

        moves += now != bytes;
        bytes = now;
        now[size - 1] = (char)size;
        assert_int_equal((unsigned char)now[size / 2], (size / 2 + 1) & 255);
        assert_int_equal((unsigned char)now[0], 1);
    }
    assert_in_range(moves, 1, 6000 / 60);
    keyspace_verify(space);
    partitions_unlock_all(all);
}

static void pages_go_with_their_database(void **state) UNCHECKED_LOCKS;
static void pages_go_with_their_database(void **state)
{
    struct partitions *all = *state;
    struct keyspace *old[2 * PARTITIONS];
    uint64_t id = pages_new_id(all, 0);
    uint32_t incarnation = partitions_incarnation(all, partitions_page_space(all, 0));
    struct pages pages;
    size_t size;

    partitions_lock_all(all);
    open_space(all, 0, id, &pages);
    fill(&pages, 1, 100, true);
    assert_int_equal(partitions_space_of(all, incarnation), partitions_page_space(all, 0));
    partitions_swap(all, 0, 1);
    assert_int_equal(partitions_space_of(all, incarnation), partitions_page_space(all, 1));
    assert_int_equal(open_space(all, 1, id, &pages)->db, 1);
    assert_page(&pages, 1, 100);
    assert_true(partitions_flush(all, 1, old));         /* it has pages, but no key */
    assert_int_equal(partitions_space_of(all, incarnation), -1);
    for (int i = 0; i < 2 * PARTITIONS; i++)
        keyspace_destroy(old[i]);
    open_space(all, 1, id, &pages);
    assert_null(pages.pager.find(&pages.pager, 1, PAGER_LOOK, &size));
    partitions_unlock_all(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(hashes_of_neighbours_are_spread),
        cmocka_unit_test(only_what_pages_writes_is_a_page),
        cmocka_unit_test_setup_teardown(ids_are_new_and_in_the_partition_of_their_key, open_partitions, close_partitions),
        cmocka_unit_test_setup_teardown(pages_of_two_values, open_partitions, close_partitions),
        cmocka_unit_test_setup_teardown(a_page_has_some_room, open_partitions, close_partitions),
        cmocka_unit_test_setup_teardown(pages_go_with_their_database, open_partitions, close_partitions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
