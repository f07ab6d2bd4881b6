#include "containers/paged_table.h"

#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "containers/dict.h"
#include "containers/linear_hash.h"
#include "containers/pair_page.h"
#include "support/memory_pager.h"
#include "support/scaled.h"

enum { VALUE_MAX = 5000, NUMBERS = 4000 };

static const struct hash_seed the_seed = { 0x0123456789abcdefull, 0xfedcba9876543210ull };
static const struct paged_limits small = { 4, 64, 160 };

static char text[VALUE_MAX];        /* what values are made of */

/* A table beside a dict that has the same pairs. */
struct rig {
    struct memory_pager memory;
    struct paged_root root;
    struct paged_table table;
    struct dict *dict;
    uint64_t numbers[NUMBERS];      /* of the pairs that step makes, by the number in the key */
    struct random random;
    uint64_t missing;               /* results */
};

static void rig_init(struct rig *rig, uint64_t seed, struct paged_limits limits)
{
    *rig = (struct rig){ .dict = dict_create(&the_seed) };
    memory_pager_init(&rig->memory);
    rig->table = (struct paged_table){ .root = &rig->root, .pager = &rig->memory.pager, .seed = the_seed, .limits = limits };
    random_init(&rig->random, seed);
    paged_table_create(&rig->table, 0, 0);
}

static void rig_release(struct rig *rig)
{
    dict_destroy(rig->dict);
    memory_pager_release(&rig->memory);
}

static struct bytes key_of(uint64_t number, char room[40])
{
    return bytes_of(room, number == 0 ? 0 : (size_t)snprintf(room, 40, "%.*s%" PRIu64, (int)(number % 13), "field-of-user", number));
}

static uint64_t number_of(const struct rig *rig, struct bytes key)
{
    uint64_t number = 0;

    for (size_t i = 0; i < key.size; i++)
        number = key.data[i] >= '0' && key.data[i] <= '9' ? number * 10 + (uint64_t)(key.data[i] - '0') : 0;
    return number < NUMBERS ? rig->numbers[number] : 0;
}

static struct bytes draw_value(struct rig *rig)
{
    size_t limit = random_below(&rig->random, 100) == 0 ? VALUE_MAX : random_below(&rig->random, 4) == 0 ? 100 : 12, size = random_below(&rig->random, limit);

    return bytes_of(text + random_below(&rig->random, VALUE_MAX - size), size);
}

enum action { PUT, REMOVE, FIND, NUMBER, PUT_NUMBER };

static enum paged_answer act(struct rig *rig, enum action action, struct bytes key, void *argument)
{
    struct bytes *value = argument;

    switch (action) {
    case NUMBER:
        return paged_table_number(&rig->table, key, argument);
    case PUT_NUMBER:
        return paged_table_put_number(&rig->table, key, *(uint64_t *)argument);
    case PUT:
        return paged_table_put(&rig->table, key, *value);
    case REMOVE:
        return paged_table_remove(&rig->table, key);
    case FIND:
        break;
    }
    return paged_table_find(&rig->table, key, value);
}

/* If its page is missing, nothing has changed, and with the page it works. */
static bool act_with_page(struct rig *rig, enum action action, struct bytes key, void *argument)
{
    struct paged_root before = rig->root;
    uint64_t changes = rig->memory.changes;
    enum paged_answer answer = act(rig, action, key, argument);

    if (answer == PAGED_MISSING) {
        assert_memory_equal(&rig->root, &before, sizeof(before));
        assert_int_equal(rig->memory.changes, changes);
        memory_pager_load(&rig->memory, paged_table_page(&rig->table, key));
        rig->missing++;
        answer = act(rig, action, key, argument);
    }
    assert_int_not_equal(answer, PAGED_MISSING);
    return answer == PAGED_YES;
}

static bool put(struct rig *rig, struct bytes key, struct bytes value)
{
    return act_with_page(rig, PUT, key, &value);
}

static bool take_out(struct rig *rig, struct bytes key)
{
    return act_with_page(rig, REMOVE, key, NULL);
}

static bool find(struct rig *rig, struct bytes key, struct bytes *value)
{
    return act_with_page(rig, FIND, key, value);
}

static void load_ahead(struct rig *rig)
{
    uint32_t numbers[PAGE_ROW_AHEAD_MAX], count = paged_table_ahead(&rig->table, numbers);

    assert_in_range(count, 0, PAGE_ROW_AHEAD_MAX);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(numbers[i], numbers[k]);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(numbers[i] < rig->root.pages);
        memory_pager_load(&rig->memory, numbers[i]);
    }
}

/* Each pair is in the page it belongs to, and the root says what there is. Loads pages. */
static void verify(struct rig *rig)
{
    struct paged_iterator iterator = { 0 };
    struct bytes key, value, wanted;
    uint64_t count = 0, size = 0;
    enum paged_answer answer;

    assert_int_equal(rig->memory.count, rig->root.pages);
    while ((answer = paged_table_next(&rig->table, &iterator, &key, &value)) != PAGED_NO) {
        if (answer == PAGED_MISSING) {
            memory_pager_load(&rig->memory, iterator.page);
            continue;
        }
        assert_true(dict_find(rig->dict, key, &wanted));
        assert_true(bytes_equal(value, wanted));
        assert_int_equal(iterator.page, paged_table_page(&rig->table, key));
        assert_int_equal(pair_page_fingerprint(memory_pager_page(&rig->memory, iterator.page), iterator.index - 1), hash_bytes(&the_seed, key) >> 56);
        count++;
        assert_int_equal(iterator.number, number_of(rig, key));
        size += pair_numbered_size(key, value, iterator.number);
    }
    assert_int_equal(count, dict_count(rig->dict));
    assert_int_equal(count, rig->root.count);
    assert_int_equal(size, rig->root.size);
    for (uint32_t page = 0; page < rig->root.pages; page++) {
        assert_true(pair_page_is_sound(memory_pager_page(&rig->memory, page)));
        assert_in_range(pair_page_count(memory_pager_page(&rig->memory, page)), 0, rig->root.longest);
    }
}

/* What was put off is made up for when its pages are there. */
static void settle(struct rig *rig)
{
    uint32_t numbers[PAGE_ROW_AHEAD_MAX], pages;

    memory_pager_load_all(&rig->memory);
    assert_int_equal(paged_table_ahead(&rig->table, numbers), 0);
    do {
        pages = rig->root.pages;
        paged_table_settle(&rig->table);
    } while (rig->root.pages != pages);
}

static void step(struct rig *rig, uint64_t keys, unsigned put_percent)
{
    char room[40];
    uint64_t index = random_below(&rig->random, keys), number = 0;
    struct bytes key = key_of(index, room), value, found, wanted;
    uint64_t action = random_below(&rig->random, 100);

    if (action < put_percent / 4) {
        uint64_t given = random_below(&rig->random, 4) == 0 ? 0 : 1 + random_below(&rig->random, PAIR_NUMBER_MAX);

        assert_int_equal(act_with_page(rig, PUT_NUMBER, key, &given), dict_find(rig->dict, key, NULL));
        if (dict_find(rig->dict, key, NULL))
            rig->numbers[index] = given;
    } else if (action < put_percent) {
        value = draw_value(rig);
        assert_int_equal(put(rig, key, value), dict_put(rig->dict, key, value));
    } else if (action < 90) {
        assert_int_equal(take_out(rig, key), dict_remove(rig->dict, key));
        rig->numbers[index] = 0;
    } else {
        assert_int_equal(act_with_page(rig, NUMBER, key, &number), dict_find(rig->dict, key, NULL));
        assert_int_equal(number, rig->numbers[index]);
        assert_int_equal(find(rig, key, &found), dict_find(rig->dict, key, &wanted));
        if (dict_find(rig->dict, key, &wanted))
            assert_true(bytes_equal(found, wanted));
    }
}

static void random_work_agrees_with_a_dict(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(6); seed++) {
        struct rig rig;

        rig_init(&rig, seed, seed % 2 == 0 ? small : PAGED_LIMITS_DEFAULT);
        for (int i = 0; i < 24000; i++) {
            step(&rig, 4000, i / 6000 % 2 == 0 ? 70 : 20);          /* up, down, up, down */
            if (seed > 2 && random_below(&rig.random, 200) == 0)
                memory_pager_lose(&rig.memory, &rig.random, 1 + random_below(&rig.random, 3));
            if (random_below(&rig.random, 10) == 0)
                load_ahead(&rig);
            if (i % 3000 == 0)
                verify(&rig);
        }
        verify(&rig);
        settle(&rig);
        verify(&rig);
        assert_true(seed <= 2 ? rig.missing == 0 : rig.missing > 100);
        while (dict_count(rig.dict) > 0)
            step(&rig, 4000, 0);
        settle(&rig);
        verify(&rig);
        assert_int_equal(rig.root.pages, 1);
        rig_release(&rig);
    }
}

/* Pages have the size that the limits say. */
static void pages_are_as_large_as_they_should_be(void **state)
{
    static const struct {
        size_t value, size_min, size_max;       /* mean bytes of pairs in a page */
    } cases[] = { { 16, 500, 1100 }, { 100, 900, 1900 }, { 500, 1500, 3200 }, { 3000, 2900, 6200 } };
    char room[40];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;

        rig_init(&rig, i, PAGED_LIMITS_DEFAULT);
        for (uint64_t key = 1; key <= 3000; key++) {
            put(&rig, key_of(key, room), bytes_of(text, cases[i].value));
            assert_in_range(rig.root.size / rig.root.pages, 0, cases[i].size_max);
        }
        assert_in_range(rig.root.size / rig.root.pages, cases[i].size_min, cases[i].size_max);
        rig_release(&rig);
    }
}

/* Pages are missing nearly always, and are there again some time after they were asked for: they get longer, but not without bound. */
static void growth_that_is_put_off_does_not_run_away(void **state)
{
    enum { PAIRS = 60000, LATE = 100 };
    uint32_t asked[PAGE_ROW_AHEAD_MAX], asked_count = 0, loads = 0;
    struct rig rig;
    char room[40];

    (void)state;
    rig_init(&rig, 1, PAGED_LIMITS_DEFAULT);
    for (uint64_t key = 0; key < PAIRS; key++) {
        put(&rig, key_of(key, room), bytes_of(text, 16));
        if (key % LATE != 0)
            continue;
        for (uint32_t i = 0; i < asked_count; i++)
            memory_pager_load(&rig.memory, asked[i]);
        paged_table_settle(&rig.table);
        memory_pager_lose(&rig.memory, &rig.random, 1);
        for (uint32_t i = 0; i < asked_count; i++)
            memory_pager_load(&rig.memory, asked[i]);
        asked_count = paged_table_ahead(&rig.table, asked);
        loads += asked_count;
    }
    print_message("%u pairs in a page, %u at most; %.3f loads a pair\n", (unsigned)(rig.root.count / rig.root.pages), (unsigned)rig.root.longest, (double)loads / PAIRS);
    assert_in_range(rig.root.count / rig.root.pages, 20, 50);
    assert_in_range(rig.root.longest, 30, 150);
    assert_in_range(loads, PAIRS / 100, PAIRS / 8);         /* what was loaded and not split yet is lost again here, and loaded twice */
    rig_release(&rig);
}

/* --- scanning --- */

enum { STAY = 1500, OTHERS = 6000 };

static void mark(void *context, struct bytes key, struct bytes value)
{
    uint64_t number = strtoull(key.data, NULL, 10);
    uint8_t *seen = context;

    (void)value;
    assert_true(number < STAY + OTHERS && seen[number] < 255);
    seen[number]++;
}

static struct bytes number_key(uint64_t number, char room[40])
{
    return bytes_of(room, (size_t)snprintf(room, 40, "%08" PRIu64, number) + 1);
}

static void change_others(struct rig *rig, bool in_dict)
{
    char room[40];

    for (int i = 0; i < 200; i++) {
        struct bytes key = number_key(STAY + random_below(&rig->random, OTHERS), room);
        bool adds = random_below(&rig->random, rig->random.state[0] % 2 + 2) == 0;

        if (in_dict && adds)
            dict_put(rig->dict, key, BYTES("v"));
        else if (in_dict)
            dict_remove(rig->dict, key);
        else if (adds)
            put(rig, key, BYTES("v"));
        else
            take_out(rig, key);
    }
}

/* The dict's pairs go into the table. */
static void convert(struct rig *rig)
{
    struct dict_iterator iterator;
    struct bytes key, value;
    uint64_t size = 0;
    uint32_t pages;

    dict_iterate(&iterator, rig->dict);
    while (dict_next(&iterator, &key, &value))
        size += pair_size(key, value);
    while (rig->root.pages > 0)
        rig->memory.pager.drop(&rig->memory.pager, --rig->root.pages);
    paged_table_create(&rig->table, dict_count(rig->dict), size);
    pages = rig->root.pages;
    dict_iterate(&iterator, rig->dict);
    while (dict_next(&iterator, &key, &value))
        assert_true(put(rig, key, value));
    assert_in_range(rig->root.pages, pages, pages + 1);
    verify(rig);
}

static void a_scan_finds_what_stays_while_a_dict_becomes_a_table_that_grows_and_shrinks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(20); seed++) {
        uint8_t seen[STAY + OTHERS] = { 0 };
        uint64_t cursor = 0, steps = 0, convert_at = seed % 5;
        struct rig rig;
        char room[40];

        rig_init(&rig, seed, seed % 2 == 0 ? small : PAGED_LIMITS_DEFAULT);
        for (uint64_t number = 0; number < STAY; number++)
            dict_put(rig.dict, number_key(number, room), BYTES("v"));
        do {
            change_others(&rig, steps <= convert_at);
            if (steps == convert_at)
                convert(&rig);
            if (steps < convert_at) {
                cursor = dict_scan(rig.dict, cursor, 100, mark, seen);
            } else {
                uint64_t next = cursor;

                if (seed % 3 == 0)
                    memory_pager_lose(&rig.memory, &rig.random, 3);
                if (paged_table_scan(&rig.table, &cursor, 100, mark, seen) == PAGED_MISSING) {
                    assert_int_equal(cursor, next);
                    memory_pager_load(&rig.memory, paged_table_scan_page(&rig.table, &next));
                    assert_int_equal(paged_table_scan(&rig.table, &cursor, 100, mark, seen), PAGED_YES);
                }
            }
            steps++;
        } while (cursor != 0);
        for (uint64_t number = 0; number < STAY; number++)
            assert_in_range(seen[number], 1, 3);
        assert_true(steps > convert_at);
        rig_release(&rig);
    }
}

/* --- random pairs --- */

/* Chi-square with 299 degrees of freedom is above 400 in one of 30,000 cases. */
static void random_pairs_have_the_same_probability(void **state)
{
    enum { PAIRS = 300, DRAWS = 60000 };
    uint32_t drawn[PAIRS] = { 0 };
    struct rig rig;
    char room[40];
    double square = 0;

    (void)state;
    rig_init(&rig, 3, small);
    for (uint64_t number = 0; number < PAIRS; number++)
        put(&rig, number_key(number, room), bytes_of(text, number % 7 == 0 ? 90 : 3));
    for (int i = 0; i < DRAWS; i++) {
        struct bytes key, value;
        uint32_t page;

        if (i % 100 == 0)
            memory_pager_lose(&rig.memory, &rig.random, 4);
        while (paged_table_random(&rig.table, &rig.random, &key, &value, &page) == PAGED_MISSING)
            memory_pager_load(&rig.memory, page);
        drawn[strtoull(key.data, NULL, 10)]++;
    }
    for (int i = 0; i < PAIRS; i++)
        square += (drawn[i] - (double)DRAWS / PAIRS) * (drawn[i] - (double)DRAWS / PAIRS) / ((double)DRAWS / PAIRS);
    assert_in_range((uint64_t)square, 150, 400);
    rig_release(&rig);
}

/* Pages that were long while a split was put off are not long for ever: the table doubles, and a draw takes few pages again. */
static void the_longest_page_is_forgotten(void **state)
{
    struct rig rig;
    char room[40];
    uint32_t before, split;

    (void)state;
    rig_init(&rig, 4, small);
    for (uint64_t number = 0; number < 200; number++)
        put(&rig, number_key(number, room), BYTES("v"));
    /* The page that is to be split is missing all the time. */
    split = (uint32_t)linear_hash_other_half(rig.root.pages + 1);
    rig.memory.pages[split].is_missing = true;
    for (uint64_t number = 200; number < 2000; number++) {
        if (paged_table_page(&rig.table, number_key(number, room)) != split)
            put(&rig, number_key(number, room), BYTES("v"));
    }
    before = rig.root.longest;
    settle(&rig);
    for (uint64_t number = 0; number < 6000; number++)
        put(&rig, number_key(number, room), BYTES("v"));
    assert_true(rig.root.longest < before / 2);
    rig_release(&rig);
}

struct seen {
    uint64_t until, count;
    struct rig *rig;
};

static void see(void *context, struct bytes key, struct bytes value)
{
    struct seen *seen = context;

    (void)value;
    assert_true(number_of(seen->rig, key) == 0 || number_of(seen->rig, key) > seen->until);
    seen->count++;
}

/* As if they were gone, and all are there again afterwards. */
static void hidden_pairs_are_not_found(void **state)
{
    struct rig rig;
    struct paged_iterator iterator = { 0 };
    struct seen seen = { PAIR_NUMBER_MAX / 2, 0, &rig };
    uint64_t cursor = 0, walked = 0, hidden = 0;
    struct bytes key, value;
    char room[40];

    (void)state;
    rig_init(&rig, 6, small);
    for (int i = 0; i < 8000; i++)
        step(&rig, NUMBERS, 70);
    for (uint64_t i = 0; i < NUMBERS; i++)
        hidden += rig.numbers[i] > 0 && rig.numbers[i] <= seen.until;
    assert_true(hidden > 100 && hidden < rig.root.count / 2);
    rig.table.hidden_until = seen.until;
    rig.root.count -= hidden;
    for (uint64_t i = 0; i < NUMBERS; i++) {
        bool is_there = dict_find(rig.dict, key_of(i, room), NULL) && (rig.numbers[i] == 0 || rig.numbers[i] > seen.until);
        uint64_t number;

        assert_int_equal(find(&rig, key_of(i, room), &value), is_there);
        assert_int_equal(paged_table_find(&rig.table, key_of(i, room), NULL) == PAGED_YES, is_there);
        assert_int_equal(act_with_page(&rig, NUMBER, key_of(i, room), &number), is_there);
    }
    while (paged_table_next(&rig.table, &iterator, &key, &value) == PAGED_YES) {
        assert_true(iterator.number == 0 || iterator.number > seen.until);
        walked++;
    }
    assert_int_equal(walked, rig.root.count);
    do {
        assert_int_equal(paged_table_scan(&rig.table, &cursor, 10, see, &seen), PAGED_YES);
    } while (cursor != 0);
    assert_int_equal(seen.count, walked);
    for (int i = 0; i < 10000; i++) {
        uint32_t page;

        assert_int_equal(paged_table_random(&rig.table, &rig.random, &key, &value, &page), PAGED_YES);
        see(&seen, key, value);
    }
    rig.table.hidden_until = 0;
    rig.root.count += hidden;
    verify(&rig);
    rig_release(&rig);
}

/* Of a root that is not that of its pages. */
static void a_draw_from_damage_ends(void **state)
{
    struct bytes key, value;
    struct rig rig;
    uint32_t page;

    (void)state;
    rig_init(&rig, 5, small);
    rig.root = (struct paged_root){ 1, 1, 1, 1, 1 };
    assert_int_equal(paged_table_random(&rig.table, &rig.random, &key, &value, &page), PAGED_NO);
    rig_release(&rig);
}

/* --- the root --- */

static void a_root_is_written_and_read(void **state)
{
    static const struct paged_root bad[] = { { 0, 0, 0, 0, 0 }, { 5, 4, 1, 5, 5 }, { 0, 4, 1, 5, 5 }, { 5, 0, 1, 5, 5 }, { 5, 50, 1, 0, 0 }, { 5, 50, 1, 3, 4 } };
    struct paged_root root = { 1ull << 40, 1ull << 45, 1u << 31, 77, 66 }, read = { 0 };
    char bytes[PAGED_ROOT_SIZE], again[PAGED_ROOT_SIZE];

    (void)state;
    paged_root_write(&root, bytes);
    assert_true(paged_root_read(bytes, &read));
    paged_root_write(&read, again);
    assert_memory_equal(bytes, again, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        paged_root_write(&bad[i], bytes);
        assert_false(paged_root_read(bytes, &read));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_a_dict),
        cmocka_unit_test(pages_are_as_large_as_they_should_be),
        cmocka_unit_test(growth_that_is_put_off_does_not_run_away),
        cmocka_unit_test(a_scan_finds_what_stays_while_a_dict_becomes_a_table_that_grows_and_shrinks),
        cmocka_unit_test(random_pairs_have_the_same_probability),
        cmocka_unit_test(the_longest_page_is_forgotten),
        cmocka_unit_test(hidden_pairs_are_not_found),
        cmocka_unit_test(a_draw_from_damage_ends),
        cmocka_unit_test(a_root_is_written_and_read),
    };

    for (int i = 0; i < VALUE_MAX; i++)
        text[i] = (char)(i * 7 + i / 100);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
