/* Strings in blocks beside the same bytes in one piece: reads and writes give the same, whichever pages are missing, and what was asked for is enough. */
#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "support/memory_pager.h"
#include "support/scaled.h"
#include "support/seed.h"
#include "value/codec.h"
#include "value/paged_string.h"

enum { LENGTH_MAX = 6000 };

static const struct value_limits limits = { .seed = { 3, 4 }, .page_threshold = 1, .page_size = 64 };

struct rig {
    struct memory_pager memory;
    struct paged_access access;
    struct value paged;
    struct buffer plain;
    struct random random;
};

static struct bytes random_bytes(struct rig *rig, char *room, size_t size_max)
{
    size_t size = random_below(&rig->random, size_max + 1);
    bool zeros = random_below(&rig->random, 3) == 0;

    for (size_t i = 0; i < size; i++)
        room[i] = zeros ? '\0' : (char)random_below(&rig->random, 256);
    return bytes_of(room, size);
}

/* The string begins with `size` bytes and is zeros up to `length`. */
static void rig_init(struct rig *rig, uint64_t seed, size_t size, size_t length)
{
    char room[LENGTH_MAX];

    *rig = (struct rig){ 0 };
    random_init(&rig->random, seed);
    for (size_t i = 0; i < size; i++)
        room[i] = (char)random_below(&rig->random, 3);
    buffer_append(&rig->plain, room, size);
    memset(buffer_reserve(&rig->plain, length - size), 0, length - size);
    rig->plain.size = length;
    memory_pager_init(&rig->memory);
    rig->access = (struct paged_access){ .table = { .pager = &rig->memory.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    rig->paged = (struct value){ .type = VALUE_STRING, .encoding = STRING_PAGED,
        .object = paged_string_create(bytes_of(room, size), NULL, length, paged_string_block(&limits), 1, &rig->access) };
}

static void rig_release(struct rig *rig)
{
    value_free(&rig->paged);
    memory_pager_release(&rig->memory);
    buffer_release(&rig->plain);
}

/* As between two calls. */
static void lose(struct rig *rig)
{
    memory_pager_lose(&rig->memory, &rig->random, 2);
    paged_attach(&rig->paged, &rig->access);
}

static void load_wanted(struct rig *rig)
{
    assert_true(rig->access.wanted_count > 0 && !rig->access.wants_all);
    for (uint32_t i = 0; i < rig->access.wanted_count; i++)
        memory_pager_load(&rig->memory, rig->access.wanted[i]);
    paged_forget_wanted(&rig->access);
}

/* What is asked for is there when it is asked for again. */
#define ASK(rig, question) \
    do { \
        if (!(question)) { \
            load_wanted(rig); \
            assert_true(question); \
        } \
        assert_int_equal((rig)->access.wanted_count, 0); \
    } while (0)

static void write_plain(struct rig *rig, size_t offset, struct bytes bytes)
{
    size_t end = offset + bytes.size;

    if (end > rig->plain.size) {
        memset(buffer_reserve(&rig->plain, end - rig->plain.size), 0, end - rig->plain.size);
        rig->plain.size = end;
    }
    if (bytes.size > 0)
        memcpy(rig->plain.data + offset, bytes.data, bytes.size);
}

/* Pages are as the header says. `exact`: no page was overwritten unread. */
static void verify(struct rig *rig, bool exact)
{
    const struct paged_string *string = paged_string_of(&rig->paged);
    uint64_t size = 0;

    memory_pager_load_all(&rig->memory);
    assert_int_equal(string->length, rig->plain.size);
    assert_int_equal(rig->memory.count, string->paged.root.pages);
    assert_int_equal(string->paged.root.pages, (string->length + string->block - 1) / string->block);
    for (uint32_t i = 0; i < string->paged.root.pages; i++) {
        struct bytes page = memory_pager_page(&rig->memory, i);
        uint64_t left = string->length - (uint64_t)i * string->block;

        assert_true(page.size <= string->block && page.size <= left);
        size += page.size;
    }
    if (exact)
        assert_int_equal(string->paged.root.size, size);
    assert_true(string->paged.root.size >= size && string->paged.root.size <= string->length);
}

static void assert_same(struct rig *rig)
{
    struct value plain = string_value_raw(buffer_bytes(&rig->plain)), read;
    struct buffer written = { 0 }, scratch = { 0 };
    struct blob *joined = string_join(&rig->paged);
    uint8_t digest[20], other[20];
    char digits[TEXT_INT_SIZE];
    int64_t number;

    assert_true(bytes_equal(buffer_bytes(&joined->buffer), buffer_bytes(&rig->plain)));
    blob_release(joined);
    assert_int_equal(string_size(&rig->paged), rig->plain.size);
    assert_false(string_to_int(&rig->paged, &number));
    assert_string_equal(value_encoding_name(&rig->paged), "raw");
    value_digest(&rig->paged, digest);
    value_digest(&plain, other);
    assert_memory_equal(digest, other, sizeof(digest));
    codec_encode(&rig->paged, &written);
    assert_int_equal(codec_decode(buffer_bytes(&written), &limits, &scratch, &read), STATUS_OK);
    assert_true(bytes_equal(string_bytes(&read, digits), buffer_bytes(&rig->plain)));
    value_free(&read);
    read = value_copy(&rig->paged);
    assert_int_equal(read.encoding, STRING_BIG);
    assert_true(bytes_equal(string_bytes(&read, digits), buffer_bytes(&rig->plain)));
    value_free(&read);
    value_free(&plain);
    buffer_release(&written);
    buffer_release(&scratch);
}

static void step(struct rig *rig, bool asks)
{
    char room[LENGTH_MAX], read[LENGTH_MAX];
    size_t length = rig->plain.size, offset = random_below(&rig->random, length), size = random_below(&rig->random, length - offset + 1);
    size_t block = paged_string_of(&rig->paged)->block;
    struct bytes bytes;

    switch (random_below(&rig->random, 5)) {
    case 0:         /* also whole blocks, and after the end */
        offset = random_below(&rig->random, 3) == 0 ? offset / block * block : random_below(&rig->random, length + 300);
        if (offset > LENGTH_MAX - 1500)
            offset = LENGTH_MAX - 1500;
        bytes = random_bytes(rig, room, 1500);
        if (asks)
            ASK(rig, paged_string_has_write(&rig->paged, offset, bytes.size));
        paged_string_write(&rig->paged, offset, bytes);
        write_plain(rig, offset, bytes);
        break;
    case 1:
        offset = length < LENGTH_MAX - 200 ? length : offset;
        bytes = random_bytes(rig, room, 200 < LENGTH_MAX - offset ? 200 : LENGTH_MAX - offset);
        if (asks)
            ASK(rig, paged_string_has_write(&rig->paged, offset, bytes.size));
        paged_string_write(&rig->paged, offset, bytes);
        write_plain(rig, offset, bytes);
        break;
    case 2:
        size = random_below(&rig->random, LENGTH_MAX);
        paged_string_grow(&rig->paged, size);           /* reads nothing */
        if (size > length)
            write_plain(rig, size, bytes_of("", 0));
        break;
    default:
        if (asks)
            ASK(rig, string_has(&rig->paged, offset, size));
        string_read(&rig->paged, offset, size, read);
        assert_true(size == 0 || memcmp(read, rig->plain.data + offset, size) == 0);
        if (asks)
            ASK(rig, string_has(&rig->paged, length + size, 5));        /* after the end nothing is needed */
    }
}

static void reads_and_writes_do_the_same(void **state)
{
    static const size_t lengths[] = { 192, 193, 400, 3000, 192 * 4 };

    (void)state;
    for (int round = 0; round < scaled(60); round++) {
        size_t length = lengths[round % 5];
        bool asks = round % 4 != 0;
        struct rig rig;

        rig_init(&rig, seed_new(), round % 3 == 0 ? length / 2 : length, length);
        verify(&rig, true);
        assert_same(&rig);
        for (unsigned i = 0; i < 300; i++) {
            lose(&rig);
            step(&rig, asks);
            if (asks)
                assert_int_equal(rig.memory.brought, 0);
            if (i % 20 == 0) {
                verify(&rig, false);
                assert_same(&rig);
            }
        }
        rig_release(&rig);
    }
}

static void a_whole_block_is_overwritten_unread(void **state)
{
    char bytes[3000];
    struct rig rig;

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    rig_init(&rig, 1, 3000, 3000);
    memory_pager_lose(&rig.memory, &rig.random, 1);
    paged_attach(&rig.paged, &rig.access);
    assert_true(paged_string_has_write(&rig.paged, 192 * 2, 192 * 3));
    paged_string_write(&rig.paged, 192 * 2, bytes_of(bytes, 192 * 3));
    assert_int_equal(rig.memory.brought, 0);
    assert_false(paged_string_has_write(&rig.paged, 192 * 2, 192 * 7 + 1));
    assert_int_equal(rig.access.wanted_count, 1);
    assert_int_equal(rig.access.wanted[0], 9);
    paged_forget_wanted(&rig.access);
    write_plain(&rig, 192 * 2, bytes_of(bytes, 192 * 3));
    verify(&rig, false);
    assert_same(&rig);
    rig_release(&rig);
}

/* Of 300,000 bytes there are 1,563 blocks. */
static void what_the_bytes_were_in_is_consumed(void **state)
{
    enum { SIZE = 300000 };
    struct rig rig = { 0 };
    struct blob *blob = blob_create(SIZE);

    (void)state;
    random_init(&rig.random, 1);
    for (size_t i = 0; i < SIZE; i++)
        buffer_append_u8(&blob->buffer, (uint8_t)random_below(&rig.random, 256));
    buffer_append_bytes(&rig.plain, buffer_bytes(&blob->buffer));
    memory_pager_init(&rig.memory);
    rig.access = (struct paged_access){ .table = { .pager = &rig.memory.pager, .seed = limits.seed, .limits = paged_limits_of(&limits) } };
    rig.paged = (struct value){ .type = VALUE_STRING, .encoding = STRING_PAGED,
        .object = paged_string_create(buffer_bytes(&blob->buffer), blob, SIZE, paged_string_block(&limits), 1, &rig.access) };
    assert_int_equal(blob->buffer.size, 0);
    assert_int_equal(blob->buffer.capacity, 0);
    blob_release(blob);
    verify(&rig, true);
    assert_same(&rig);
    rig_release(&rig);
}

static void zeros_take_no_room(void **state)
{
    char digits[TEXT_INT_SIZE];
    struct string_run run;
    struct rig rig;

    (void)state;
    rig_init(&rig, 1, 0, 192);
    paged_string_grow(&rig.paged, 192 * 1000 + 1);
    assert_int_equal(paged_of(&rig.paged)->root.pages, 1001);
    assert_int_equal(paged_of(&rig.paged)->root.size, 0);
    paged_string_write(&rig.paged, 192 * 500 + 3, bytes_of("y", 1));
    assert_int_equal(paged_of(&rig.paged)->root.size, 4);
    run = string_run(&rig.paged, 192 * 500 + 2, digits);
    assert_true(run.size == 2 && memcmp(run.data, "\0y", 2) == 0);
    run = string_run(&rig.paged, 192 * 500 + 4, digits);
    assert_true(run.size == 188 && run.data == NULL);
    run = string_run(&rig.paged, 192 * 1000, digits);
    assert_true(run.size == 1 && run.data == NULL);
    rig_release(&rig);
}

static void impossible_roots_are_refused(void **state)
{
    struct paged_root root;

    (void)state;
    assert_false(paged_string_root(0, 0, 192, &root));
    assert_false(paged_string_root(0, 10, 0, &root));
    assert_false(paged_string_root(11, 10, 192, &root));
    assert_false(paged_string_root(0, UINT64_MAX, 192, &root));
    assert_false(paged_string_root(0, UINT64_C(192) * PAGED_TREE_FIRST + 1, 192, &root));
    assert_true(paged_string_root(0, UINT64_C(192) * PAGED_TREE_FIRST, 192, &root));
    assert_int_equal(root.pages, PAGED_TREE_FIRST);
    assert_true(paged_string_root(193, 193, 192, &root));
    assert_int_equal(root.pages, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes_do_the_same),
        cmocka_unit_test(a_whole_block_is_overwritten_unread),
        cmocka_unit_test(what_the_bytes_were_in_is_consumed),
        cmocka_unit_test(zeros_take_no_room),
        cmocka_unit_test(impossible_roots_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
