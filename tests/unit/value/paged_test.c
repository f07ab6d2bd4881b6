/* Hashes and sets in pages beside the same in tables: all functions of the types give the same, whichever pages are missing. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/memory_pager.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/paged.h"
#include "value/set.h"

static const struct value_limits limits = { .seed = { 3, 4 }, .page_threshold = 1, .page_size = 128 };

struct rig {
    struct memory_pager memory;
    struct paged_access access;
    struct value paged, plain;
    struct random random;
};

/* Both have `count` elements: numbers. */
static void rig_init(struct rig *rig, enum value_type type, uint64_t seed, unsigned count)
{
    struct value table = type == VALUE_HASH ? hash_build(&limits, 1000000) : set_create(&limits, BYTES("x"), 1000000);
    const struct dict *dict;
    char text[24];

    *rig = (struct rig){ 0 };
    random_init(&rig->random, seed);
    for (unsigned i = 0; i < count; i++) {
        struct bytes element = bytes_of(text, (size_t)snprintf(text, sizeof(text), "%u", i));

        if (type == VALUE_HASH)
            hash_set(&table, &limits, element, element);
        else
            set_add(&table, &limits, element);
    }
    memory_pager_init(&rig->memory);
    rig->access = (struct paged_access){ .table = { .pager = &rig->memory.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    rig->plain = table;
    dict = type == VALUE_HASH ? hash_table(&table) : set_table(&table);
    rig->paged = (struct value){ .type = (uint8_t)type, .encoding = table.encoding | VALUE_PAGED,
        .object = paged_create(dict, &(struct paged_plan){ dict_count(dict), dict_size(dict) }, 1, &rig->access) };
}

static void rig_release(struct rig *rig)
{
    value_free(&rig->plain);
    value_free(&rig->paged);
    memory_pager_release(&rig->memory);
}

static struct bytes element_of(struct rig *rig, char text[24])
{
    return bytes_of(text, (size_t)snprintf(text, 24, "%u", (unsigned)random_below(&rig->random, 600)));
}

static void change_hash(struct rig *rig)
{
    char text[24], data[400], digits[TEXT_INT_SIZE], others[TEXT_INT_SIZE];
    struct bytes field = element_of(rig, text), value, other;

    memset(data, 'v', sizeof(data));
    switch (random_below(&rig->random, 5)) {
    case 0:
    case 1:
        value = bytes_of(data, random_below(&rig->random, 20) == 0 ? 300 : random_below(&rig->random, 20));
        assert_int_equal(hash_set(&rig->paged, &limits, field, value), hash_set(&rig->plain, &limits, field, value));
        break;
    case 2:
        assert_int_equal(hash_delete(&rig->paged, field), hash_delete(&rig->plain, field));
        break;
    case 3:
        assert_int_equal(hash_has(&rig->paged, field), hash_has(&rig->plain, field));
        assert_int_equal(hash_time(&rig->paged, field), hash_time(&rig->plain, field));
        break;
    default:
        if (hash_get(&rig->plain, field, &other, others)) {
            assert_true(hash_get(&rig->paged, field, &value, digits));
            assert_true(bytes_equal(value, other));
        } else {
            assert_false(hash_get(&rig->paged, field, &value, digits));
        }
    }
    assert_int_equal(hash_count(&rig->paged), hash_count(&rig->plain));
}

static void change_set(struct rig *rig)
{
    char text[24];
    struct bytes member = element_of(rig, text);

    switch (random_below(&rig->random, 4)) {
    case 0:
    case 1:
        assert_int_equal(set_add(&rig->paged, &limits, member), set_add(&rig->plain, &limits, member));
        break;
    case 2:
        assert_int_equal(set_remove(&rig->paged, member), set_remove(&rig->plain, member));
        break;
    default:
        assert_int_equal(set_has(&rig->paged, member), set_has(&rig->plain, member));
    }
    assert_int_equal(set_count(&rig->paged), set_count(&rig->plain));
}

static void assert_same(const struct value *paged, const struct value *plain)
{
    uint8_t digest[20], other[20];

    value_digest(paged, digest);
    value_digest(plain, other);
    assert_memory_equal(digest, other, sizeof(digest));
    assert_string_equal(value_encoding_name(paged), value_encoding_name(plain));
}

/* What is copied, and what is decoded again, is a whole. */
static void assert_copies(struct rig *rig)
{
    struct value copy = value_copy(&rig->paged), decoded;
    struct buffer payload = { 0 }, scratch = { 0 };

    assert_false(value_is_paged(&copy));
    assert_same(&copy, &rig->plain);
    value_free(&copy);
    codec_encode(&rig->paged, &payload);
    assert_int_equal(codec_decode(buffer_bytes(&payload), &limits, &scratch, &decoded), STATUS_OK);
    assert_same(&decoded, &rig->plain);
    value_free(&decoded);
    buffer_release(&payload);
    buffer_release(&scratch);
}

static void all_functions_do_the_same(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        enum value_type type = seed % 2 ? VALUE_HASH : VALUE_SET;
        struct rig rig;

        rig_init(&rig, type, seed, 1 + (unsigned)seed * 20);
        for (int i = 0; i < 3000; i++) {
            if (i % 10 == 0)
                memory_pager_lose(&rig.memory, &rig.random, seed % 4 + 1);
            if (type == VALUE_HASH)
                change_hash(&rig);
            else
                change_set(&rig);
            if (i % 500 == 0) {
                assert_same(&rig.paged, &rig.plain);
                assert_copies(&rig);
            }
        }
        assert_same(&rig.paged, &rig.plain);
        assert_true(rig.memory.brought > 0 && paged_of(&rig.paged)->root.pages == rig.memory.count);
        rig_release(&rig);
    }
}

/* Loads what the value wants. */
static void load_wanted(struct rig *rig)
{
    assert_true(rig->access.wants_all || rig->access.wanted_count > 0);
    if (rig->access.wants_all)
        memory_pager_load_all(&rig->memory);
    for (uint32_t i = 0; i < rig->access.wanted_count; i++)
        memory_pager_load(&rig->memory, rig->access.wanted[i]);
    paged_forget_wanted(&rig->access);
}

static void mark(void *context, struct bytes field, struct bytes value)
{
    int64_t number;

    (void)value;
    assert_true(text_to_int(field, &number));
    ((int *)context)[number]++;
}

static void mark_member(void *context, struct bytes member)
{
    mark(context, member, member);
}

static void a_scan_asks_for_what_it_needs(void **state)
{
    enum { COUNT = 1000 };
    int seen[COUNT] = { 0 }, asked = 0;
    uint64_t cursor = 0;
    struct rig rig;

    rig_init(&rig, VALUE_HASH, 1, COUNT);
    do {
        memory_pager_lose(&rig.memory, &rig.random, 1);
        while (!hash_scan(&rig.paged, &cursor, 40, mark, seen)) {
            load_wanted(&rig);
            asked++;
        }
    } while (cursor != 0);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(seen[i], 1);
    assert_in_range(asked, 10, COUNT / 20);
    assert_int_equal(rig.memory.brought, 0);
    rig_release(&rig);
}

/* All have the same chance, whichever pages are missing at first: the draw that runs again is the same one. */
static void draws_ask_and_stay_fair(void **state)
{
    enum { COUNT = 300, DRAWS = 200 };
    int seen[COUNT] = { 0 };
    double chi = 0;
    struct rig rig;

    rig_init(&rig, VALUE_SET, 7, COUNT);
    for (int i = 0; i < COUNT * DRAWS / 10; i++) {
        struct random before = rig.random;
        int drawn[COUNT] = { 0 };

        memory_pager_lose(&rig.memory, &before, 2);
        before = rig.random;
        while (!set_sample(&rig.paged, &rig.random, 10, mark_member, drawn)) {
            load_wanted(&rig);
            memset(drawn, 0, sizeof(drawn));
            rig.random = before;
        }
        for (int k = 0; k < COUNT; k++)
            seen[k] += drawn[k];
    }
    for (int k = 0; k < COUNT; k++)
        chi += (double)(seen[k] - DRAWS) * (seen[k] - DRAWS) / DRAWS;
    assert_in_range((uint64_t)chi, 200, 420);               /* 299 degrees of freedom; samples without repetition vary a little less */
    assert_int_equal(rig.memory.brought, 0);
    rig_release(&rig);
}

static void a_walk_asks_for_all(void **state)
{
    enum { COUNT = 100 };
    int seen[COUNT] = { 0 };
    struct rig rig;

    rig_init(&rig, VALUE_SET, 3, COUNT);
    assert_true(set_has_all(&rig.paged));
    memory_pager_lose(&rig.memory, &rig.random, 1);
    assert_false(set_has_all(&rig.paged));
    load_wanted(&rig);
    assert_true(set_sample(&rig.paged, &rig.random, COUNT - 1, mark_member, seen));
    assert_int_equal(rig.memory.brought, 0);
    rig_release(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_functions_do_the_same),
        cmocka_unit_test(a_scan_asks_for_what_it_needs),
        cmocka_unit_test(draws_ask_and_stay_fair),
        cmocka_unit_test(a_walk_asks_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
