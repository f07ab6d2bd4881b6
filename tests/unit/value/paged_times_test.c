/* Hashes in pages whose fields expire, beside the same in a table: all functions of the type give the same, whichever pages are missing, and what was asked for is enough. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "containers/pair_page.h"
#include "support/folded_pager.h"
#include "support/scaled.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/paged_order.h"
#include "value/paged_times.h"

enum { FIELDS = 700, TIMES = 5000 };

static const struct value_limits limits = { .seed = { 3, 4 }, .page_threshold = 1, .page_size = 128 };

struct rig {
    struct folded_pager folder;
    struct paged_access access;
    struct value paged, plain;
    struct random random;
    int64_t now_ms;
};

static struct bytes field_of(unsigned number, char room[32])
{
    return bytes_of(room, (size_t)snprintf(room, 32, "%s%u", number % 3 == 0 ? "field-" : "", number));
}

static struct bytes random_field(struct rig *rig, char room[32])
{
    return field_of((unsigned)random_below(&rig->random, FIELDS), room);
}

static int64_t random_time(struct rig *rig)
{
    return rig->now_ms + 1 + (int64_t)random_below(&rig->random, random_below(&rig->random, 3) == 0 ? 4 : TIMES);
}

/* `share` in 100 of the fields have times. */
static void rig_init(struct rig *rig, uint64_t seed, unsigned count, unsigned share)
{
    struct value table = hash_build(&limits, 1000000);
    const struct dict *dict;
    char room[32];

    *rig = (struct rig){ .now_ms = 1000 };
    random_init(&rig->random, seed);
    for (unsigned i = 0; i < count; i++) {
        hash_set(&table, &limits, field_of(i, room), BYTES("value"));
        if (random_below(&rig->random, 100) < share)
            hash_set_time(&table, &limits, field_of(i, room), random_time(rig));
    }
    folded_pager_init(&rig->folder);
    rig->access = (struct paged_access){ .table = { .pager = &rig->folder.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    paged_tree_pager_init(&rig->access.tree_pager, &rig->folder.pager);
    rig->plain = table;
    dict = hash_table(&table);
    rig->paged = (struct value){ .type = VALUE_HASH, .encoding = table.encoding | VALUE_PAGED,
        .object = hash_to_pages(&table, &(struct paged_plan){ dict_count(dict), dict_size(dict) }, 1, &rig->access) };
}

/* As between two calls. */
static void lose(struct rig *rig, uint64_t one_in)
{
    memory_pager_lose(&rig->folder.memory, &rig->random, one_in);
    paged_attach(&rig->paged, &rig->access);
}

static void rig_release(struct rig *rig)
{
    value_free(&rig->plain);
    value_free(&rig->paged);
    folded_pager_release(&rig->folder);
}

static void assert_same_value(const struct value *paged, const struct value *plain)
{
    uint8_t digest[20], other[20];

    value_digest(paged, digest);
    value_digest(plain, other);
    assert_memory_equal(digest, other, sizeof(digest));
    assert_string_equal(value_encoding_name(paged), value_encoding_name(plain));
    assert_int_equal(hash_has_times(paged), hash_has_times(plain));
}

/* The tree has the times that the pairs have. */
static void verify(struct rig *rig)
{
    struct page_tree tree;
    struct paged_order_place place;
    size_t rank = 0;

    memory_pager_load_all(&rig->folder.memory);
    assert_int_equal(rig->folder.memory.count, paged_extent_of(&rig->paged).table_pages + paged_extent_of(&rig->paged).tree_pages);
    if (!hash_has_times(&rig->paged))
        return;
    tree = (struct page_tree){ &paged_ordered_of(&rig->paged)->tree, &rig->access.tree_pager.pager, { SIZE_MAX, SIZE_MAX, 0 } };
    page_tree_verify(&tree);
    paged_order_seek_rank(&rig->paged, 0, &place);
    do {
        struct order_element element = paged_order_get(&place);

        assert_int_equal(hash_time(&rig->paged, element.member), (int64_t)element.score);
        rank++;
    } while (paged_order_next(&rig->paged, &place));
    assert_int_equal(rank, tree.root->count);
    for (uint32_t page = 0; page < paged_of(&rig->paged)->root.pages; page++) {
        size_t size = 0;
        const char *data = rig->folder.pager.find(&rig->folder.pager, page, PAGER_LOOK, &size);

        assert_true(pair_page_is_sound(bytes_of(data, size)));
    }
}

/* What is copied, and what is decoded again, is a whole. */
static void assert_copies(struct rig *rig)
{
    struct value copy = value_copy(&rig->paged), decoded;
    struct buffer payload = { 0 }, scratch = { 0 };

    assert_false(value_is_paged(&copy));
    assert_same_value(&copy, &rig->plain);
    value_free(&copy);
    codec_encode(&rig->paged, &payload);
    assert_int_equal(codec_decode(buffer_bytes(&payload), &limits, &scratch, &decoded), STATUS_OK);
    assert_same_value(&decoded, &rig->plain);
    value_free(&decoded);
    buffer_release(&payload);
    buffer_release(&scratch);
}

static void assert_bounds(struct rig *rig)
{
    int64_t first_ms = hash_next_expiry(&rig->plain), last_ms = hash_last_expiry(&rig->plain);

    if (first_ms < 0)
        assert_int_equal(hash_next_expiry(&rig->paged), first_ms);
    else
        assert_in_range(hash_next_expiry(&rig->paged), 1, first_ms);
    if (last_ms < 0)
        assert_int_equal(hash_last_expiry(&rig->paged), last_ms);
    else
        assert_true(hash_last_expiry(&rig->paged) >= last_ms);
}

struct gone {
    struct buffer text;
    size_t count;
};

static void note_gone(void *context, struct bytes field)
{
    struct gone *gone = context;

    buffer_append_bytes(&gone->text, field);
    gone->count++;
}

/* The same fields, and those that expire together in the order that each has. */
static void expire(struct rig *rig, bool asks, size_t max)
{
    struct gone gone = { 0 }, other = { 0 };
    size_t ready, due;

    if (asks && hash_has_times(&rig->paged)) {
        FOLDED_ASK(rig, 400, hash_has_expired(&rig->paged, rig->now_ms, max, &ready));
        due = paged_times_due(&rig->paged, rig->now_ms, max);
        assert_int_equal(ready, due);
        assert_int_equal(hash_has_many_expired(&rig->paged, rig->now_ms, max - 1), hash_has_many_expired(&rig->plain, rig->now_ms, max - 1));
    }
    assert_int_equal(hash_remove_expired(&rig->paged, rig->now_ms, max, note_gone, &gone), hash_remove_expired(&rig->plain, rig->now_ms, max, note_gone, &other));
    assert_int_equal(gone.count, other.count);
    assert_true(bytes_equal(buffer_bytes(&gone.text), buffer_bytes(&other.text)));
    buffer_release(&gone.text);
    buffer_release(&other.text);
    if (asks && gone.count < max && hash_has_times(&rig->paged))
        assert_int_equal(hash_next_expiry(&rig->paged), hash_next_expiry(&rig->plain));
}

/* A change of fields that the arguments name needs their pages. */
static bool has_pages(struct rig *rig, const struct bytes *fields, int count)
{
    bool has = true;

    for (int i = 0; i < count; i++)
        has = paged_has_page(&rig->paged, paged_table_page(&rig->access.table, fields[i])) && has;
    return has;
}

/* Both are asked for together. */
static bool has_change(struct rig *rig, const struct bytes *fields, int count, int64_t time_ms)
{
    bool has = has_pages(rig, fields, count);

    return hash_has_change(&rig->paged, fields, count, 1, time_ms) && has;
}

static void step(struct rig *rig, bool asks)
{
    char rooms[4][32];
    struct bytes fields[4], value, other;
    int count = 1 + (int)random_below(&rig->random, 4);
    char data[300], digits[TEXT_INT_SIZE], others[TEXT_INT_SIZE];
    int64_t time_ms = random_time(rig);

    for (int i = 0; i < 4; i++)
        fields[i] = random_field(rig, rooms[i]);
    memset(data, 'v', sizeof(data));
    value = bytes_of(data, random_below(&rig->random, 20) == 0 ? 280 : random_below(&rig->random, 20));
    switch (random_below(&rig->random, 12)) {
    case 0:
    case 1:
        if (asks)
            FOLDED_ASK(rig, 30, has_change(rig, fields, count, HASH_NO_TIME));
        for (int i = 0; i < count; i++)
            assert_int_equal(hash_set(&rig->paged, &limits, fields[i], value), hash_set(&rig->plain, &limits, fields[i], value));
        break;
    case 2:
        if (asks)
            FOLDED_ASK(rig, 30, has_pages(rig, fields, 1));
        assert_int_equal(hash_set_keeping(&rig->paged, &limits, fields[0], value), hash_set_keeping(&rig->plain, &limits, fields[0], value));
        break;
    case 3:
        if (asks)
            FOLDED_ASK(rig, 30, has_change(rig, fields, count, HASH_NO_TIME));
        for (int i = 0; i < count; i++)
            assert_int_equal(hash_delete(&rig->paged, fields[i]), hash_delete(&rig->plain, fields[i]));
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        if (asks)
            FOLDED_ASK(rig, 30, has_change(rig, fields, count, time_ms));
        for (int i = 0; i < count; i++) {
            if (!hash_has(&rig->plain, fields[i]))
                continue;
            hash_set_time(&rig->paged, &limits, fields[i], time_ms);
            hash_set_time(&rig->plain, &limits, fields[i], time_ms);
        }
        break;
    case 8:
        if (asks)
            FOLDED_ASK(rig, 30, has_change(rig, fields, count, HASH_NO_TIME));
        for (int i = 0; i < count; i++) {
            if (!hash_has(&rig->plain, fields[i]))
                continue;
            hash_set_time(&rig->paged, &limits, fields[i], HASH_NO_TIME);
            hash_set_time(&rig->plain, &limits, fields[i], HASH_NO_TIME);
        }
        break;
    case 9:
        rig->now_ms += (int64_t)random_below(&rig->random, random_below(&rig->random, 20) == 0 ? TIMES : 60);
        expire(rig, asks, random_below(&rig->random, 2) == 0 ? 1 + random_below(&rig->random, 5) : 100000);
        break;
    default:
        if (asks)
            FOLDED_ASK(rig, 30, has_pages(rig, fields, 1));
        assert_int_equal(hash_time(&rig->paged, fields[0]), hash_time(&rig->plain, fields[0]));
        assert_int_equal(hash_has(&rig->paged, fields[0]), hash_has(&rig->plain, fields[0]));
        if (hash_get(&rig->plain, fields[0], &other, others)) {
            assert_true(hash_get(&rig->paged, fields[0], &value, digits));
            assert_true(bytes_equal(value, other));
        }
    }
    assert_int_equal(hash_count(&rig->paged), hash_count(&rig->plain));
    assert_bounds(rig);
}

static void all_functions_do_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(30); seed++) {
        bool asks = seed % 3 == 0;
        unsigned shares[] = { 0, 5, 60, 100 };
        struct rig rig;

        rig_init(&rig, seed, 1 + (unsigned)seed * 20, shares[seed % 4]);
        for (int i = 0; i < 3000; i++) {
            uint64_t brought;

            if (i % 5 == 0)
                lose(&rig, seed % 4 + 1);
            brought = rig.folder.memory.brought;
            step(&rig, asks);
            if (asks)
                assert_int_equal(rig.folder.memory.brought, brought);
            if (i % 100 == 0) {
                assert_same_value(&rig.paged, &rig.plain);
                verify(&rig);
            }
            if (i % 500 == 0 && hash_count(&rig.plain) > 0)
                assert_copies(&rig);
        }
        verify(&rig);
        rig.now_ms += 2 * TIMES;
        expire(&rig, asks, SIZE_MAX);
        assert_false(hash_has_times(&rig.paged));
        assert_same_value(&rig.paged, &rig.plain);
        verify(&rig);
        assert_int_equal(paged_extent_of(&rig.paged).tree_pages, 0);
        rig_release(&rig);
    }
}

static void mark(void *context, struct bytes field, struct bytes value)
{
    (void)value;
    assert_true(hash_has(context, field));
}

/* A view without the fields that have expired is as the hash is when they are gone; the hash stays as it is. */
static void a_view_is_without_the_fields_that_have_expired(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(40); seed++) {
        struct paged_times room;
        struct value view, without;
        struct gone gone = { 0 };
        char fields[32], values[32];
        struct bytes field, value;
        uint64_t cursor = 0;
        struct rig rig;

        rig_init(&rig, seed, 300, seed % 2 == 0 ? 100 : 40);
        rig.now_ms += (int64_t)random_below(&rig.random, seed % 4 == 0 ? TIMES : 400);
        lose(&rig, 2);
        FOLDED_ASK((&rig), 30, paged_times_has_view(&rig.paged, rig.now_ms));
        without = value_copy(&rig.plain);
        hash_remove_expired(&without, rig.now_ms, SIZE_MAX, note_gone, &gone);
        if (hash_count(&without) > 0 && hash_has_times(&without)) {
            paged_times_hide(&rig.paged, rig.now_ms, &room, &view);
            assert_same_value(&view, &without);
            assert_int_equal(hash_count(&view), hash_count(&without));
            assert_int_equal(hash_next_expiry(&view), hash_next_expiry(&without));
            for (unsigned i = 0; i < FIELDS; i++)
                assert_int_equal(hash_time(&view, field_of(i, fields)), hash_time(&without, field_of(i, fields)));
            memory_pager_load_all(&rig.folder.memory);
            do {
                assert_true(hash_scan(&view, &cursor, 10, mark, &without));
            } while (cursor != 0);
            for (int i = 0; i < 100; i++) {
                assert_true(hash_random(&view, &rig.random, &field, &value, fields, values));
                assert_true(hash_has(&without, field));
            }
        }
        rig.access.table.hidden_until = 0;
        paged_attach(&rig.paged, &rig.access);
        assert_same_value(&rig.paged, &rig.plain);
        buffer_release(&gone.text);
        value_free(&without);
        rig_release(&rig);
    }
}

/* The first ones that can be removed are counted although others can't. */
static void fields_that_are_ready_are_the_first_ones(void **state)
{
    struct gone gone = { 0 };
    size_t ready, removed = 0;
    struct rig rig;

    (void)state;
    rig_init(&rig, 9, 600, 100);
    rig.now_ms += TIMES;
    for (int i = 0; removed < 600; i++) {
        uint64_t brought = rig.folder.memory.brought;

        assert_true(i < 3000);
        lose(&rig, 3);
        if (!hash_has_expired(&rig.paged, rig.now_ms, 64, &ready) && ready == 0) {
            folded_pager_load_wanted(&rig.folder, &rig.access);
            (void)hash_has_expired(&rig.paged, rig.now_ms, 1, &ready);
        }
        paged_forget_wanted(&rig.access);
        if (ready > 0)
            assert_int_equal(hash_remove_expired(&rig.paged, rig.now_ms, ready, note_gone, &gone), ready);
        assert_int_equal(rig.folder.memory.brought, brought);
        removed += ready;
    }
    assert_int_equal(hash_count(&rig.paged), 0);
    buffer_release(&gone.text);
    rig_release(&rig);
}

/* One of very many is not hidden. */
static void a_draw_finds_the_last_field_that_is_left(void **state)
{
    struct paged_times room;
    struct value view;
    struct rig rig;
    struct bytes field, value;
    char fields[32], values[32], text[32];

    (void)state;
    rig_init(&rig, 7, 20000, 0);
    for (unsigned i = 1; i < 20000; i++)
        hash_set_time(&rig.paged, &limits, field_of(i, text), 1500);
    paged_times_hide(&rig.paged, 1500, &room, &view);
    assert_int_equal(hash_count(&view), 1);
    for (int i = 0; i < 3; i++) {
        assert_true(hash_random(&view, &rig.random, &field, &value, fields, values));
        assert_true(bytes_equal(field, field_of(0, text)));
    }
    rig.access.table.hidden_until = 0;
    paged_attach(&rig.paged, &rig.access);
    rig_release(&rig);
}

/* The first time of a field costs its own page; with the last one the tree is gone. */
static void a_time_changes_one_page_of_the_table(void **state)
{
    struct rig rig;
    uint64_t changes;
    uint32_t pages;

    (void)state;
    rig_init(&rig, 5, 600, 0);
    assert_false(hash_has_times(&rig.paged));
    pages = rig.folder.memory.count;
    changes = rig.folder.memory.changes;
    hash_set_time(&rig.paged, &limits, BYTES("7"), 2000);
    assert_in_range(rig.folder.memory.changes - changes, 1, 4);
    assert_int_equal(rig.folder.memory.count, pages + 1);
    assert_int_equal(hash_next_expiry(&rig.paged), 2000);
    assert_int_equal(hash_last_expiry(&rig.paged), HASH_NO_TIME);
    hash_set_time(&rig.paged, &limits, BYTES("7"), HASH_NO_TIME);
    assert_int_equal(rig.paged.encoding, HASH_PAGED);
    assert_int_equal(rig.folder.memory.count, pages);
    rig_release(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_functions_do_the_same),
        cmocka_unit_test(a_view_is_without_the_fields_that_have_expired),
        cmocka_unit_test(fields_that_are_ready_are_the_first_ones),
        cmocka_unit_test(a_draw_finds_the_last_field_that_is_left),
        cmocka_unit_test(a_time_changes_one_page_of_the_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
