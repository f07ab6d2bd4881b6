#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/random.h"
#include "containers/listpack.h"
#include "support/seed.h"

static void assert_element(const struct listpack *pack, size_t at, struct bytes expected)
{
    char digits[TEXT_INT_SIZE];
    struct bytes got;

    assert_true(at != LISTPACK_NONE);
    got = listpack_get(pack, at, digits);
    assert_int_equal(got.size, expected.size);
    if (expected.size > 0)
        assert_memory_equal(got.data, expected.data, expected.size);
}

static void an_empty_pack_is_valid_and_has_no_elements(void **state)
{
    struct listpack *pack = listpack_create();

    assert_true(listpack_is_valid(listpack_bytes(pack)));
    assert_int_equal(listpack_size(pack), 7);
    assert_int_equal(listpack_count(pack), 0);
    assert_int_equal(listpack_first(pack), LISTPACK_NONE);
    assert_int_equal(listpack_last(pack), LISTPACK_NONE);
    assert_int_equal(listpack_seek(pack, 0), LISTPACK_NONE);
    assert_int_equal(listpack_seek(pack, -1), LISTPACK_NONE);
    assert_int_equal(listpack_find(pack, listpack_first(pack), BYTES("x"), 0), LISTPACK_NONE);
    listpack_destroy(pack);
}

/* Dumped by redis-server 7.0 for HSET h a 1 b -5 c 200 d 70000 e 3000000000 f xyz, without the footer. */
static void the_bytes_are_those_of_redis(void **state)
{
    static const uint8_t expected[] = { 0x35, 0, 0, 0, 0x0c, 0,
        0x81, 'a', 2, 0x01, 1,
        0x81, 'b', 2, 0xdf, 0xfb, 2,
        0x81, 'c', 2, 0xc0, 0xc8, 2,
        0x81, 'd', 2, 0xf2, 0x70, 0x11, 0x01, 4,
        0x81, 'e', 2, 0xf4, 0x00, 0x5e, 0xd0, 0xb2, 0, 0, 0, 0, 9,
        0x81, 'f', 2, 0x83, 'x', 'y', 'z', 4,
        0xff };
    static const char *const elements[] = { "a", "1", "b", "-5", "c", "200", "d", "70000", "e", "3000000000", "f", "xyz" };
    struct listpack *pack = listpack_create();

    for (size_t i = 0; i < 12; i++)
        listpack_append(&pack, bytes_of_string(elements[i]));
    assert_int_equal(listpack_size(pack), sizeof(expected));
    assert_memory_equal(listpack_bytes(pack).data, expected, sizeof(expected));
    listpack_destroy(pack);
}

static void integers_of_every_width_are_read_back(void **state)
{
    static const int64_t numbers[] = { 0, 1, 127, 128, 4095, 4096, -1, -4096, -4097, 32767, 32768, -32768, -32769, 8388607,
        8388608, -8388608, -8388609, INT32_MAX, (int64_t)INT32_MAX + 1, INT32_MIN, (int64_t)INT32_MIN - 1, INT64_MAX,
        INT64_MIN };
    static const size_t widths[] = { 2, 2, 2, 3, 3, 4, 3, 3, 4, 4, 5, 4, 5, 5, 6, 5, 6, 6, 10, 6, 10, 10, 10 };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct listpack *pack = listpack_create();
        char text[32];
        int64_t number;

        listpack_append_int(&pack, numbers[i]);
        snprintf(text, sizeof(text), "%" PRId64, numbers[i]);
        listpack_append(&pack, bytes_of_string(text));
        assert_int_equal(listpack_size(pack), 7 + 2 * widths[i]);
        assert_true(listpack_is_valid(listpack_bytes(pack)));
        for (int index = 0; index < 2; index++) {
            assert_true(listpack_get_int(pack, listpack_seek(pack, index), &number));
            assert_true(number == numbers[i]);
            assert_element(pack, listpack_seek(pack, index), bytes_of_string(text));
        }
        listpack_destroy(pack);
    }
}

static void only_canonical_numbers_become_integers(void **state)
{
    static const char *const texts[] = { "", "-", "-0", "00", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808",
        "-9223372036854775809", "99999999999999999999" };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct listpack *pack = listpack_create();
        int64_t number;

        listpack_append(&pack, bytes_of_string(texts[i]));
        assert_false(listpack_get_int(pack, listpack_first(pack), &number));
        assert_element(pack, listpack_first(pack), bytes_of_string(texts[i]));
        assert_int_equal(listpack_find(pack, listpack_first(pack), bytes_of_string(texts[i]), 0), listpack_first(pack));
        listpack_destroy(pack);
    }
}

static void strings_of_every_size_class_are_read_back_in_both_directions(void **state)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 126, 127, 128, 4095, 4096, 16376, 16377, 16378, 16379, 16380, 2097140, 2097145,
        2097146, 2097147, 2097150 };
    struct listpack *pack = listpack_create();
    char *data = mem_alloc(3000000);
    size_t at, count = sizeof(sizes) / sizeof(sizes[0]);

    memset(data, 'x', 3000000);
    for (size_t i = 0; i < count; i++) {
        listpack_append(&pack, bytes_of(data, sizes[i]));
        assert_true(listpack_is_valid(listpack_bytes(pack)));
    }
    at = listpack_last(pack);
    for (size_t i = count; i-- > 0; at = listpack_previous(pack, at))
        assert_element(pack, at, bytes_of(data, sizes[i]));
    assert_int_equal(at, LISTPACK_NONE);
    mem_free(data);
    listpack_destroy(pack);
}

/* The model: an array of texts. */
enum { MODEL_MAX = 400 };

struct model {
    size_t count;
    char *texts[MODEL_MAX];
    size_t sizes[MODEL_MAX];
};

static void model_put(struct model *model, size_t index, struct bytes bytes)
{
    memmove(&model->texts[index + 1], &model->texts[index], (model->count - index) * sizeof(char *));
    memmove(&model->sizes[index + 1], &model->sizes[index], (model->count - index) * sizeof(size_t));
    model->texts[index] = mem_string(bytes);
    model->sizes[index] = bytes.size;
    model->count++;
}

static void model_cut(struct model *model, size_t index)
{
    mem_free(model->texts[index]);
    model->count--;
    memmove(&model->texts[index], &model->texts[index + 1], (model->count - index) * sizeof(char *));
    memmove(&model->sizes[index], &model->sizes[index + 1], (model->count - index) * sizeof(size_t));
}

static struct bytes random_text(struct random *random, char *room)
{
    size_t size;

    if (random_below(random, 2) == 0) {
        int64_t number = (int64_t)random_next(random) >> random_below(random, 64);

        return bytes_of(room, text_of_int(number, room));
    }
    size = random_below(random, random_below(random, 20) == 0 ? 5000 : 90);
    for (size_t i = 0; i < size; i++)
        room[i] = (char)random_next(random);
    return bytes_of(room, size);
}

static void assert_same(const struct listpack *pack, const struct model *model)
{
    size_t at = listpack_first(pack);

    assert_true(listpack_is_valid(listpack_bytes(pack)));
    assert_int_equal(listpack_count(pack), model->count);
    for (size_t i = 0; i < model->count; i++, at = listpack_next(pack, at)) {
        assert_element(pack, at, bytes_of(model->texts[i], model->sizes[i]));
        assert_int_equal(listpack_seek(pack, (int64_t)i), at);
        assert_int_equal(listpack_seek(pack, (int64_t)i - (int64_t)model->count), at);
    }
    assert_int_equal(at, LISTPACK_NONE);
}

static void random_changes_match_a_plain_array(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random random;
        struct listpack *pack = listpack_create();
        struct model model = { 0 };
        char room[5000];

        print_message("seed %" PRIu64 "\n", seed);
        random_init(&random, seed);
        for (int step = 0; step < 600; step++) {
            struct bytes text = random_text(&random, room);
            size_t index = model.count > 0 ? random_below(&random, model.count) : 0;
            size_t at = listpack_seek(pack, (int64_t)index);

            switch (random_below(&random, model.count < 50 ? 4 : 6)) {
            case 0:
                if (model.count < MODEL_MAX) {
                    listpack_append(&pack, text);
                    model_put(&model, model.count, text);
                }
                break;
            case 1:
                if (model.count < MODEL_MAX) {
                    size_t new = listpack_insert(&pack, at, text);

                    assert_element(pack, new, text);
                    model_put(&model, index, text);
                }
                break;
            case 2:
                if (at != LISTPACK_NONE) {
                    listpack_replace(&pack, at, text);
                    model_cut(&model, index);
                    model_put(&model, index, text);
                }
                break;
            case 3:
                at = listpack_find(pack, listpack_first(pack), text, 0);
                for (index = 0; index < model.count; index++)
                    if (bytes_equal(bytes_of(model.texts[index], model.sizes[index]), text))
                        break;
                assert_int_equal(at, index < model.count ? listpack_seek(pack, (int64_t)index) : LISTPACK_NONE);
                break;
            default:
                if (at != LISTPACK_NONE) {
                    size_t count = 1 + random_below(&random, 3), after;

                    after = listpack_delete(&pack, at, count);
                    for (; count > 0 && index < model.count; count--)
                        model_cut(&model, index);
                    assert_int_equal(after, index < model.count ? at : LISTPACK_NONE);
                }
            }
            if (step % 20 == 0)
                assert_same(pack, &model);
        }
        assert_same(pack, &model);
        while (model.count > 0)
            model_cut(&model, 0);
        listpack_destroy(pack);
    }
}

static void find_with_skip_compares_fields_only(void **state)
{
    static const char *const elements[] = { "a", "b", "b", "7", "7", "c" };
    struct listpack *pack = listpack_create();

    for (size_t i = 0; i < 6; i++)
        listpack_append(&pack, bytes_of_string(elements[i]));
    assert_int_equal(listpack_find(pack, listpack_first(pack), BYTES("b"), 1), listpack_seek(pack, 2));
    assert_int_equal(listpack_find(pack, listpack_first(pack), BYTES("7"), 1), listpack_seek(pack, 4));
    assert_int_equal(listpack_find(pack, listpack_first(pack), BYTES("c"), 1), LISTPACK_NONE);
    assert_int_equal(listpack_find(pack, listpack_first(pack), BYTES("c"), 0), listpack_seek(pack, 5));
    listpack_destroy(pack);
}

static void equal_elements_are_found_in_any_form(void **state)
{
    struct hash_seed seed = { 1, 2 };
    /* "5" as a string, which Redis would not write, and 5 as a number. */
    static const uint8_t odd[] = { 15, 0, 0, 0, 4, 0, 0x81, '5', 2, 1, 1, 5, 1, 2, 1 };
    uint8_t whole[sizeof(odd) + 1];
    struct listpack *pack = listpack_create();

    for (int64_t i = 0; i < 1000; i++) {
        listpack_append_int(&pack, i);
        listpack_append(&pack, BYTES("same"));
    }
    assert_false(listpack_has_twins(pack, 2, &seed));
    assert_true(listpack_has_twins(pack, 1, &seed));
    listpack_append(&pack, BYTES("999"));
    listpack_append(&pack, BYTES("same"));
    assert_true(listpack_has_twins(pack, 2, &seed));
    listpack_destroy(pack);

    memcpy(whole, odd, sizeof(odd));
    whole[sizeof(odd)] = 0xff;
    whole[0] = sizeof(whole);
    assert_true(listpack_is_valid(bytes_of(whole, sizeof(whole))));
    pack = listpack_of_bytes(bytes_of(whole, sizeof(whole)));
    assert_true(listpack_has_twins(pack, 2, &seed));
    assert_int_equal(listpack_find(pack, listpack_first(pack), BYTES("5"), 1), listpack_first(pack));
    listpack_destroy(pack);
}

static void more_than_65534_elements_are_counted(void **state)
{
    struct listpack *pack = listpack_create();

    for (int64_t i = 0; i < 65533; i++)
        listpack_append_int(&pack, i & 63);
    for (size_t i = 65533; i < 65540; i++) {
        assert_int_equal(listpack_count(pack), i);
        assert_true(listpack_is_valid(listpack_bytes(pack)));
        listpack_append_int(&pack, 1);
    }
    assert_int_equal((uint8_t)listpack_bytes(pack).data[4], 255);
    assert_int_equal((uint8_t)listpack_bytes(pack).data[5], 255);
    assert_int_equal(listpack_seek(pack, 65540), LISTPACK_NONE);
    assert_int_equal(listpack_seek(pack, 65539), listpack_last(pack));
    assert_int_equal(listpack_seek(pack, -65540), listpack_first(pack));
    assert_int_equal(listpack_delete(&pack, listpack_seek(pack, 10), SIZE_MAX), LISTPACK_NONE);
    assert_int_equal(listpack_count(pack), 10);
    assert_true(listpack_is_valid(listpack_bytes(pack)));
    listpack_destroy(pack);
}

static void there_is_no_room_beyond_the_largest_size(void **state)
{
    struct listpack *pack = listpack_create();

    assert_true(listpack_has_room(pack, 2, 1000));
    assert_true(listpack_has_room(pack, 1, LISTPACK_SIZE_MAX - 17));
    assert_false(listpack_has_room(pack, 1, LISTPACK_SIZE_MAX - 16));
    assert_false(listpack_has_room(pack, 1, SIZE_MAX));
    assert_false(listpack_has_room(pack, SIZE_MAX, 1));
    listpack_destroy(pack);
}

static void a_copy_is_independent(void **state)
{
    struct listpack *pack = listpack_create(), *copy;

    listpack_append(&pack, BYTES("one"));
    copy = listpack_copy(pack);
    listpack_append(&pack, BYTES("two"));
    assert_int_equal(listpack_count(copy), 1);
    assert_int_equal(listpack_count(pack), 2);
    assert_true(listpack_memory(pack) >= listpack_size(pack));
    listpack_destroy(pack);
    listpack_destroy(copy);
}

static void every_truncated_pack_is_invalid(void **state)
{
    struct listpack *pack = listpack_create();
    struct bytes bytes;

    listpack_append(&pack, BYTES("hello"));
    listpack_append_int(&pack, 123456);
    bytes = listpack_bytes(pack);
    for (size_t size = 0; size < bytes.size; size++) {
        char *copy = mem_alloc(size);           /* the exact size, so that the sanitizer detects a read beyond it */

        memcpy(copy, bytes.data, size);
        assert_false(listpack_is_valid(bytes_of(copy, size)));
        if (size >= 4) {
            copy[0] = (char)size;
            assert_false(listpack_is_valid(bytes_of(copy, size)));
        }
        mem_free(copy);
    }
    listpack_destroy(pack);
}

/* Any valid bytes can be read in both directions without leaving them. */
static void hostile_bytes_are_refused_or_can_be_walked(void **state)
{
    size_t passed = 0;

    for (uint64_t seed = 1; seed <= 30000; seed++) {
        struct random random;
        struct listpack *pack = listpack_create();
        struct bytes bytes;
        char room[5000], *hostile;
        size_t changes;

        random_init(&random, seed);
        for (uint64_t i = random_below(&random, 6); i > 0; i--)
            listpack_append(&pack, random_text(&random, room));
        bytes = listpack_bytes(pack);
        hostile = mem_alloc(bytes.size);
        memcpy(hostile, bytes.data, bytes.size);
        for (changes = random_below(&random, 4); changes > 0; changes--)
            hostile[random_below(&random, random_below(&random, 2) ? bytes.size : 7)] = (char)random_next(&random);
        if (listpack_is_valid(bytes_of(hostile, bytes.size))) {
            struct listpack *copy = listpack_of_bytes(bytes_of(hostile, bytes.size));
            size_t count = 0, sum = 0, back = 0;
            char digits[TEXT_INT_SIZE];

            passed++;
            for (size_t at = listpack_first(copy); at != LISTPACK_NONE; at = listpack_next(copy, at), count++) {
                struct bytes got = listpack_get(copy, at, digits);

                for (size_t i = 0; i < got.size; i++)
                    sum += (uint8_t)got.data[i];
            }
            for (size_t at = listpack_last(copy); at != LISTPACK_NONE; at = listpack_previous(copy, at))
                back++;
            if (count != back || count != listpack_count(copy))
                fail_msg("seed %" PRIu64 ": %zu forwards, %zu backwards, sum %zu", seed, count, back, sum);
            listpack_destroy(copy);
        }
        mem_free(hostile);
        listpack_destroy(pack);
    }
    assert_in_range(passed, 5000, 29000);
}

/* Sizes that fill the space for collecting exactly, exceed it, and are larger than it. */
static void gathering_and_appending_give_the_same_pack(void **state)
{
    static char text[3000];

    memset(text, 'x', sizeof(text));
    for (uint64_t seed = 1; seed <= 500; seed++) {
        struct listpack *appended = listpack_create(), *gathered = listpack_create();
        struct listpack_gather gather;
        struct random random;

        random_init(&random, seed);
        listpack_gather_begin(&gather, &gathered);
        for (size_t count = random_below(&random, 40); count > 0; count--) {
            struct bytes bytes = bytes_of(text, random_below(&random, random_below(&random, 6) == 0 ? sizeof(text) : 100));
            int64_t number = (int64_t)random_next(&random) >> random_below(&random, 64);

            if (random_below(&random, 2) == 0) {
                listpack_append(&appended, bytes);
                listpack_gather(&gather, bytes);
            } else {
                listpack_append_int(&appended, number);
                listpack_gather_int(&gather, number);
            }
        }
        listpack_gather_end(&gather);
        if (!bytes_equal(listpack_bytes(appended), listpack_bytes(gathered)) || !listpack_is_valid(listpack_bytes(gathered)))
            fail_msg("seed %" PRIu64, seed);
        listpack_destroy(appended);
        listpack_destroy(gathered);
    }
}

/* The assumption of mem_class about the allocator, which blocks that grow by it depend on. */
/* Both packs must have the same bytes after each change. The block with the gap has the size class of both. */
static void changes_at_the_ends_give_the_same_pack_with_a_gap(void **state)
{
    enum { STEPS = 3000, GROWING = 2000, SIZE_MAX_OF_GAP = 4096 };
    struct listpack *pack = listpack_create(), *other = listpack_create();
    uint64_t seed = seed_new();
    struct random random;
    size_t gap = 0, gaps = 0;

    random_init(&random, seed);
    for (int i = 0; i < STEPS; i++) {
        char text[300] = "";
        struct bytes bytes = bytes_of(text, random_below(&random, 8) == 0 ? random_below(&random, sizeof(text)) : random_below(&random, 4));
        size_t all = listpack_count(pack), count = 1 + random_below(&random, 3);

        memset(text, '0' + (int)random_below(&random, 20), sizeof(text));
        if (random_below(&random, 10) < (i < GROWING ? 7 : 2)) {
            if (random_below(&random, 2)) {
                listpack_gap_prepend(&pack, &gap, SIZE_MAX_OF_GAP, bytes);
                listpack_insert(&other, listpack_first(other), bytes);
            } else {
                listpack_gap_append(&pack, gap, bytes);
                listpack_append(&other, bytes);
            }
        } else if (all > count && random_below(&random, 2)) {
            listpack_gap_delete_first(&pack, &gap, count);
            listpack_delete(&other, listpack_first(other), count);
        } else if (all > count) {
            listpack_gap_delete_last(&pack, gap, count);
            listpack_delete(&other, listpack_seek(other, -(int64_t)count), count);
        }
        assert_true(bytes_equal(listpack_bytes(pack), listpack_bytes(other)));
        assert_true(listpack_is_valid(listpack_bytes(pack)));
        assert_true(gap < LISTPACK_GAP_MAX + listpack_size(pack) + sizeof(text));
        assert_true(mem_size((char *)pack - gap) >= gap + listpack_size(pack));
        gaps += gap > 0;
    }
    if (gaps < STEPS / 4)
        fail_msg("only %zu gaps, seed %" PRIu64, gaps, seed);
    listpack_gap_close(&pack, &gap);
    assert_true(bytes_equal(listpack_bytes(pack), listpack_bytes(other)));
    assert_true(listpack_memory(pack) <= listpack_memory(other));
    listpack_destroy(pack);
    listpack_destroy(other);
}

static void a_block_has_its_size_class(void **state)
{
    for (size_t size = 1; size < 100000; size += size < 5000 ? 1 : 997) {
        void *block = mem_alloc(size), *of_class = mem_alloc(mem_class(size));

        assert_true(mem_class(size) >= size && mem_class(mem_class(size)) == mem_class(size));
        if (mem_class(size) > size && mem_size(block) != mem_class(size))
            fail_msg("%zu bytes: %zu set aside, of class %zu", size, mem_size(block), mem_class(size));
        assert_int_equal(mem_size(of_class), mem_class(size));
        mem_free(block);
        mem_free(of_class);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pack_is_valid_and_has_no_elements),
        cmocka_unit_test(the_bytes_are_those_of_redis),
        cmocka_unit_test(integers_of_every_width_are_read_back),
        cmocka_unit_test(only_canonical_numbers_become_integers),
        cmocka_unit_test(strings_of_every_size_class_are_read_back_in_both_directions),
        cmocka_unit_test(random_changes_match_a_plain_array),
        cmocka_unit_test(find_with_skip_compares_fields_only),
        cmocka_unit_test(equal_elements_are_found_in_any_form),
        cmocka_unit_test(more_than_65534_elements_are_counted),
        cmocka_unit_test(there_is_no_room_beyond_the_largest_size),
        cmocka_unit_test(a_copy_is_independent),
        cmocka_unit_test(every_truncated_pack_is_invalid),
        cmocka_unit_test(gathering_and_appending_give_the_same_pack),
        cmocka_unit_test(changes_at_the_ends_give_the_same_pack_with_a_gap),
        cmocka_unit_test(a_block_has_its_size_class),
        cmocka_unit_test(hostile_bytes_are_refused_or_can_be_walked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
