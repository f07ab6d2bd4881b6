/* Streams in pages beside the same in memory: all functions of the type give the same, whichever pages are missing, and what was asked for is enough. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/folded_pager.h"
#include "support/scaled.h"
#include "value/codec.h"
#include "value/stream_group.h"
#include "value/stream_nodes.h"

enum { IDS_MAX = 8, LARGE = 1000 };

static const struct value_limits limits = { .seed = { 3, 4 }, .stream_node_size_max = 4096, .stream_node_entries_max = 5, .page_threshold = 1, .page_size = 64 };

struct rig {
    struct folded_pager folder;
    struct paged_access access;
    struct value paged, plain;
    struct random random;
    uint64_t next;
};

static struct stream *paged_in(struct rig *rig)
{
    return stream_of(&rig->paged);
}

static struct stream *plain_in(struct rig *rig)
{
    return stream_of(&rig->plain);
}

static struct stream_id id_of(uint64_t number)
{
    return (struct stream_id){ number / 3, number % 3 };
}

/* Until the question, which is put again and again, returns true. */
#define ASK(rig, question) FOLDED_ASK(rig, 200, question)

enum append_to { TO_PLAIN, TO_BOTH, TO_BOTH_ASKED };

/* With the same fields as others, or with different ones. */
static void append(struct rig *rig, enum append_to to)
{
    static char large[LARGE];
    char text[32];
    bool is_odd = random_below(&rig->random, 4) == 0;
    struct bytes pairs[] = { BYTES("field"), bytes_of(text, (size_t)sprintf(text, "%d", (int)random_below(&rig->random, 5000))), is_odd ? BYTES("another") : BYTES("second"),
        random_below(&rig->random, 30) == 0 ? bytes_of(large, LARGE) : BYTES("some text") };

    rig->next += 1 + random_below(&rig->random, 4);
    assert_true(stream_append(plain_in(rig), &limits, id_of(rig->next), pairs, 2));
    if (to == TO_BOTH_ASKED)
        ASK(rig, stream_has_append(paged_in(rig), &limits, pairs, 2));
    if (to != TO_PLAIN)
        assert_true(stream_append(paged_in(rig), &limits, id_of(rig->next), pairs, 2));
}

static void rig_init(struct rig *rig, uint64_t seed, unsigned count)
{
    struct stream_group *group;
    struct stream_consumer *consumer;
    struct value from;

    *rig = (struct rig){ .plain = stream_create() };
    random_init(&rig->random, seed);
    for (unsigned i = 0; i < count; i++)
        append(rig, TO_PLAIN);
    group = stream_group_create(plain_in(rig), BYTES("group"), id_of(7), 2);
    consumer = stream_consumer_create(group, BYTES("consumer"), 1000);
    for (uint64_t i = 1; i < 20; i += 3)
        (void)stream_pending_assign(group, id_of(i), consumer, 2000);
    folded_pager_init(&rig->folder);
    rig->access = (struct paged_access){ .table = { .pager = &rig->folder.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    paged_tree_pager_init(&rig->access.tree_pager, &rig->folder.pager);
    from = value_copy(&rig->plain);
    rig->paged = (struct value){ .type = VALUE_STREAM, .encoding = STREAM_PAGED, .object = stream_nodes_to_pages(stream_of(&from), 1, &rig->access) };
    value_free(&from);
}

static void rig_release(struct rig *rig)
{
    value_free(&rig->plain);
    value_free(&rig->paged);
    folded_pager_release(&rig->folder);
}

static void lose(struct rig *rig, uint64_t one_in)
{
    memory_pager_lose(&rig->folder.memory, &rig->random, one_in);
}

static void verify(struct rig *rig)
{
    struct page_tree tree = { &paged_ordered_of(&rig->paged)->tree, &rig->access.tree_pager.pager, { SIZE_MAX, SIZE_MAX, PAGE_TREE_CHILD_SIZE(16) } };
    struct page_tree_path path;
    enum page_tree_answer answer;
    struct buffer tail = { 0 };
    uint64_t live = 0;

    stream_verify(plain_in(rig));
    memory_pager_load_all(&rig->folder.memory);
    stream_verify(paged_in(rig));
    page_tree_verify(&tree);
    for (answer = page_tree_first(&tree, &path); answer == PAGE_TREE_YES; answer = page_tree_next(&tree, &path)) {
        uint64_t in_leaf;

        assert_true(stream_page_is_sound(paged_tree_resident_leaf(&tree, path.leaf), &in_leaf));
        assert_int_equal(in_leaf, path.count);
    }
    assert_int_equal(rig->folder.memory.count, paged_extent_of(&rig->paged).tree_pages);
    stream_write_tail(paged_in(rig), &tail);
    if (tail.size > 0)
        assert_true(stream_page_is_sound(buffer_bytes(&tail), &live));
    buffer_release(&tail);
    assert_int_equal(tree.root->count + live, plain_in(rig)->length);
}

static void assert_same_range(struct rig *rig, struct stream_id start, struct stream_id end, uint64_t count, enum stream_direction direction)
{
    struct stream_iterator iterator, other;
    struct stream_id id, other_id;
    size_t pairs, other_pairs;

    stream_iterate(&iterator, paged_in(rig), start, end, direction);
    stream_iterate(&other, plain_in(rig), start, end, direction);
    for (uint64_t i = 0; count == 0 || i < count; i++) {
        bool more = stream_next(&other, &other_id, &other_pairs);

        assert_int_equal(stream_next(&iterator, &id, &pairs), more);
        if (!more)
            break;
        assert_int_equal(stream_id_compare(id, other_id), 0);
        assert_int_equal(pairs, other_pairs);
        for (; pairs > 0; pairs--) {
            struct bytes field, value, other_field, other_value;

            stream_pair(&iterator, &field, &value);
            stream_pair(&other, &other_field, &other_value);
            assert_true(bytes_equal(field, other_field) && bytes_equal(value, other_value));
        }
    }
}

static void assert_same(struct rig *rig)
{
    struct buffer written = { 0 }, scratch = { 0 };
    uint8_t digest[20], other[20];
    struct value copy;

    value_digest(&rig->plain, other);
    value_digest(&rig->paged, digest);
    assert_memory_equal(digest, other, sizeof(digest));
    assert_string_equal(value_encoding_name(&rig->paged), "stream");
    assert_same_range(rig, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 0, STREAM_UP);
    assert_same_range(rig, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 0, STREAM_DOWN);
    assert_int_equal(stream_id_compare(paged_in(rig)->first_id, plain_in(rig)->first_id), 0);
    assert_int_equal(stream_id_compare(stream_last_live_id(paged_in(rig)), stream_last_live_id(plain_in(rig))), 0);
    codec_encode(&rig->paged, &written);
    assert_int_equal(codec_decode(buffer_bytes(&written), &limits, &scratch, &copy), STATUS_OK);
    value_digest(&copy, digest);
    assert_memory_equal(digest, other, sizeof(digest));
    stream_verify(stream_of(&copy));
    value_free(&copy);
    copy = value_copy(&rig->paged);
    value_digest(&copy, digest);
    assert_memory_equal(digest, other, sizeof(digest));
    stream_verify(stream_of(&copy));
    value_free(&copy);
    buffer_release(&written);
    buffer_release(&scratch);
}

static struct stream_id random_id(struct rig *rig)
{
    return id_of(random_below(&rig->random, 5) ? rig->next - random_below(&rig->random, rig->next < 3000 ? rig->next : 3000) : random_below(&rig->random, rig->next + 5));
}

static void step(struct rig *rig, bool asks)
{
    struct stream_id ids[IDS_MAX], start = random_id(rig), end = random_id(rig);
    enum stream_direction direction = random_below(&rig->random, 2) ? STREAM_UP : STREAM_DOWN;
    struct stream_trim trim = { .by = random_below(&rig->random, 2) ? TRIM_LENGTH : TRIM_ID, .min_id = random_id(rig) };
    size_t count = random_below(&rig->random, IDS_MAX);

    switch (random_below(&rig->random, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        append(rig, asks ? TO_BOTH_ASKED : TO_BOTH);
        break;
    case 5:
    case 6:
        for (size_t i = 0; i < count; i++)
            ids[i] = random_below(&rig->random, 3) ? random_id(rig) : plain_in(rig)->first_id;
        if (count > 2 && plain_in(rig)->length > 0)         /* those at the front, one after the other */
            ids[0] = plain_in(rig)->first_id, ids[1] = (struct stream_id){ ids[0].ms, ids[0].seq + 1 };
        if (asks)
            ASK(rig, stream_has_ids(paged_in(rig), ids, count));
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(stream_has(paged_in(rig), ids[i]), stream_has(plain_in(rig), ids[i]));
            assert_int_equal(stream_delete(paged_in(rig), ids[i]), stream_delete(plain_in(rig), ids[i]));
        }
        break;
    case 7:
        if (random_below(&rig->random, 4) > 0)
            break;
        trim.length_max = plain_in(rig)->length - random_below(&rig->random, plain_in(rig)->length < 40 ? plain_in(rig)->length + 1 : 40);
        trim.min_id = id_of(plain_in(rig)->first_id.ms * 3 + random_below(&rig->random, 60));
        if (asks)
            ASK(rig, stream_has_trim(paged_in(rig), &trim, 0));
        assert_int_equal(stream_trim(paged_in(rig), &trim), stream_trim(plain_in(rig), &trim));
        break;
    case 8:
        /* An approximate trim depends on the nodes: what is left is trimmed exactly in the other one. */
        trim.approximate = true;
        trim.limit = random_below(&rig->random, 2) * 30;
        trim.length_max = plain_in(rig)->length - random_below(&rig->random, plain_in(rig)->length < 20 ? plain_in(rig)->length + 1 : 20);
        trim.min_id = id_of(plain_in(rig)->first_id.ms * 3 + random_below(&rig->random, 30));
        if (asks)
            ASK(rig, stream_has_trim(paged_in(rig), &trim, 0));
        (void)stream_trim(paged_in(rig), &trim);
        assert_true(trim.by == TRIM_ID || paged_in(rig)->length >= trim.length_max);
        trim = (struct stream_trim){ .by = TRIM_LENGTH, .length_max = paged_in(rig)->length };
        (void)stream_trim(plain_in(rig), &trim);
        break;
    case 9:
        if (asks)
            ASK(rig, stream_has_range(paged_in(rig), (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 1, STREAM_DOWN));
        assert_int_equal(stream_id_compare(stream_last_live_id(paged_in(rig)), stream_last_live_id(plain_in(rig))), 0);
        (void)stream_last_kept_id(paged_in(rig));
        break;
    default:
        if (asks)
            ASK(rig, stream_has_range(paged_in(rig), start, end, count, direction));
        assert_same_range(rig, start, end, count, direction);
    }
    assert_int_equal(paged_in(rig)->length, plain_in(rig)->length);
    assert_int_equal(stream_id_compare(paged_in(rig)->first_id, plain_in(rig)->first_id), 0);
    assert_int_equal(stream_id_compare(paged_in(rig)->max_deleted_id, plain_in(rig)->max_deleted_id), 0);
}

static void all_functions_do_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(30); seed++) {
        bool asks = seed % 2 == 0, loses = seed % 5 > 0;
        struct rig rig;

        rig_init(&rig, seed, 1 + (unsigned)seed * 30);
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
                verify(&rig);
            }
        }
        assert_same(&rig);
        verify(&rig);
        rig_release(&rig);
    }
}

/* A stream that is trimmed to a length for ever has no more pages for ever, and trimming reads no pages but the new first one. */
static void a_trimmed_stream_uses_its_pages_again(void **state)
{
    struct stream_trim trim = { .by = TRIM_LENGTH, .length_max = 1000 };
    struct rig rig;
    uint32_t pages;

    (void)state;
    rig_init(&rig, 1, 1100);
    pages = paged_extent_of(&rig.paged).tree_pages;
    for (int i = 0; i < 10000; i++) {
        append(&rig, TO_BOTH);
        if (i % 50 == 0) {
            (void)stream_trim(paged_in(&rig), &trim);
            (void)stream_trim(plain_in(&rig), &trim);
            lose(&rig, 3);
        }
    }
    assert_same(&rig);
    verify(&rig);
    assert_in_range(paged_extent_of(&rig.paged).tree_pages, pages / 2, pages * 3 / 2);
    trim = (struct stream_trim){ .by = TRIM_ID, .min_id = id_of(rig.next - 50) };
    lose(&rig, 1);
    ASK(&rig, stream_has_trim(paged_in(&rig), &trim, 0));
    pages = 0;
    for (uint32_t i = 0; i < rig.folder.memory.capacity; i++)
        pages += rig.folder.memory.pages[i].data != NULL && !rig.folder.memory.pages[i].is_missing;
    assert_in_range(pages, 2, 40);
    assert_int_equal(stream_trim(paged_in(&rig), &trim), stream_trim(plain_in(&rig), &trim));
    assert_same(&rig);
    trim = (struct stream_trim){ .by = TRIM_LENGTH, .length_max = 0 };
    (void)stream_trim(paged_in(&rig), &trim);
    (void)stream_trim(plain_in(&rig), &trim);
    assert_same(&rig);
    append(&rig, TO_BOTH);
    assert_same(&rig);
    verify(&rig);
    rig_release(&rig);
}

static void damaged_pages_are_found(void **state)
{
    struct rig rig;
    struct bytes page;
    uint64_t live;
    char *copy;

    (void)state;
    rig_init(&rig, 1, 40);
    page = memory_pager_page(&rig.folder.memory, 1);
    copy = mem_alloc(page.size);
    for (size_t size = 0; size <= page.size; size++) {
        memcpy(copy, page.data, size);
        assert_int_equal(stream_page_is_sound(bytes_of(copy, size), &live), size == page.size);
    }
    for (size_t at = STREAM_PAGE_HEAD_SIZE; at < page.size; at++) {
        memcpy(copy, page.data, page.size);
        copy[at] ^= (char)0xff;
        (void)stream_page_is_sound(bytes_of(copy, page.size), &live);
    }
    mem_free(copy);
    rig_release(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_functions_do_the_same),
        cmocka_unit_test(a_trimmed_stream_uses_its_pages_again),
        cmocka_unit_test(damaged_pages_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
