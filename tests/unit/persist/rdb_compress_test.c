#include "persist/rdb_compress.h"

#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "persist/rdb_format.h"
#include "value/codec.h"

#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static int setup(void **state)
{
    *state = rdb_compress_create();
    return 0;
}

static int teardown(void **state)
{
    rdb_compress_destroy(*state);
    return 0;
}

static void add_string(struct buffer *out, const char *text)
{
    codec_write_length(out, strlen(text));
    buffer_append_string(out, text);
}

/* Both are `count` times `numbers` lengths, `strings` strings, `plain` bytes, with the same contents. */
static void assert_same(struct bytes one, struct bytes two, int count, int numbers, int strings, size_t plain)
{
    struct buffer scratch_one = { 0 }, scratch_two = { 0 };
    char digits_one[TEXT_INT_SIZE], digits_two[TEXT_INT_SIZE];

    for (int i = 0; i < count; i++) {
        for (int n = 0; n < numbers; n++) {
            uint64_t a, b;
            bool special;

            assert_int_equal(codec_read_length(&one, &a, &special), STATUS_OK);
            assert_int_equal(codec_read_length(&two, &b, &special), STATUS_OK);
            assert_int_equal(a, b);
        }
        for (int n = 0; n < strings; n++) {
            struct bytes a, b;

            assert_int_equal(codec_read_string(&one, 0, &scratch_one, digits_one, &a), STATUS_OK);
            assert_int_equal(codec_read_string(&two, 0, &scratch_two, digits_two, &b), STATUS_OK);
            assert_true(bytes_equal(a, b));
        }
        assert_memory_equal(one.data, two.data, plain);
        one = bytes_of(one.data + plain, one.size - plain);
        two = bytes_of(two.data + plain, two.size - plain);
    }
    assert_true(bytes_equal(one, two));         /* what follows stays */
    buffer_release(&scratch_one);
    buffer_release(&scratch_two);
}

static void one_string_gets_smaller(void **state)
{
    static const uint8_t types[] = { RDB_TYPE_STRING, RDB_TYPE_SET_INTSET, RDB_TYPE_HASH_LISTPACK, RDB_TYPE_ZSET_LISTPACK, RDB_TYPE_SET_LISTPACK };
    struct buffer body = { 0 };
    struct bytes smaller;

    add_string(&body, LONG);
    for (size_t i = 0; i < sizeof(types); i++) {
        assert_true(rdb_compress_body(*state, types[i], buffer_bytes(&body), &smaller));
        assert_true(smaller.size < 20);
        assert_same(buffer_bytes(&body), smaller, 1, 0, 1, 0);
        assert_false(rdb_compress_body(*state, types[i], smaller, &smaller));       /* not twice */
    }
    buffer_release(&body);
}

static void a_value_that_would_not_get_smaller_is_not_changed(void **state)
{
    struct bytes smaller = BYTES("untouched");
    struct buffer body = { 0 };

    add_string(&body, "aaaaaaaaaaaaaaaaaaaa");          /* 20: short */
    assert_false(rdb_compress_body(*state, RDB_TYPE_STRING, buffer_bytes(&body), &smaller));
    body.size = 0;
    add_string(&body, "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    assert_false(rdb_compress_body(*state, RDB_TYPE_STRING, buffer_bytes(&body), &smaller));
    body.size = 0;
    buffer_append(&body, "\xc2\1\2\3\4", 5);            /* an integer */
    assert_false(rdb_compress_body(*state, RDB_TYPE_STRING, buffer_bytes(&body), &smaller));
    body.size = 0;
    add_string(&body, LONG);
    assert_false(rdb_compress_body(*state, RDB_TYPE_MODULE_2, buffer_bytes(&body), &smaller));
    assert_true(bytes_is(smaller, "untouched"));
    buffer_release(&body);
}

/* Returns how many of `count` strings get smaller. */
static int count_smaller(struct rdb_compress *compress, struct bytes body, int count)
{
    struct bytes smaller;
    int found = 0;

    for (int i = 0; i < count; i++)
        found += rdb_compress_body(compress, RDB_TYPE_STRING, body, &smaller);
    return found;
}

static void after_many_that_did_not_get_smaller_few_are_tried(void **state)
{
    struct rdb_compress *compress = rdb_compress_create();
    struct buffer random = { 0 }, good = { 0 }, large = { 0 };

    add_string(&random, "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    add_string(&good, LONG);
    codec_write_length(&large, 4096);
    memset(buffer_reserve(&large, 4096), 'a', 4096);
    large.size += 4096;
    assert_int_equal(count_smaller(compress, buffer_bytes(&random), 127), 0);
    assert_int_equal(count_smaller(compress, buffer_bytes(&good), 20), 20);        /* it counts from 0 again */
    assert_int_equal(count_smaller(compress, buffer_bytes(&random), 129), 0);
    assert_int_equal(count_smaller(compress, buffer_bytes(&good), 16), 1);         /* the 16th: from there on all */
    assert_int_equal(count_smaller(compress, buffer_bytes(&good), 20), 20);
    assert_int_equal(count_smaller(compress, buffer_bytes(&random), 129), 0);
    assert_int_equal(count_smaller(compress, buffer_bytes(&large), 1), 1);         /* always tried */
    assert_int_equal(count_smaller(compress, buffer_bytes(&good), 20), 20);
    buffer_release(&random);
    buffer_release(&good);
    buffer_release(&large);
    rdb_compress_destroy(compress);
}

static void elements_of_every_shape_get_smaller(void **state)
{
    static const struct { uint8_t type; int numbers, strings; size_t plain; } shapes[] = {
        { RDB_TYPE_LIST, 0, 1, 0 }, { RDB_TYPE_SET, 0, 1, 0 }, { RDB_TYPE_LIST_QUICKLIST, 0, 1, 0 }, { RDB_TYPE_LIST_QUICKLIST_2, 1, 1, 0 },
        { RDB_TYPE_HASH, 0, 2, 0 }, { RDB_TYPE_ZSET_2, 0, 1, 8 }, { RDB_TYPE_STREAM, 0, 2, 0 }, { RDB_TYPE_STREAM_3, 0, 2, 0 },
    };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct buffer body = { 0 };
        struct bytes smaller, before, after;
        uint64_t count;
        bool special;

        codec_write_length(&body, 300);
        for (int element = 0; element < 300; element++) {
            for (int n = 0; n < shapes[i].numbers; n++)
                codec_write_length(&body, 2);
            for (int n = 0; n < shapes[i].strings; n++) {
                if ((element + n) % 3 == 0)
                    buffer_append(&body, "\xc1\x39\x30", 3);
                else
                    add_string(&body, (element + n) % 3 == 1 ? LONG : "short");
            }
            buffer_append(&body, "plainbyt", shapes[i].plain);
        }
        if (shapes[i].type == RDB_TYPE_STREAM || shapes[i].type == RDB_TYPE_STREAM_3)
            buffer_append_string(&body, "\1\2\3 what follows the nodes");
        assert_true(rdb_compress_body(*state, shapes[i].type, buffer_bytes(&body), &smaller));
        assert_true(smaller.size < body.size / 2);
        before = buffer_bytes(&body);
        after = smaller;
        assert_int_equal(codec_read_length(&before, &count, &special), STATUS_OK);
        assert_int_equal(codec_read_length(&after, &count, &special), STATUS_OK);
        assert_int_equal(count, 300);
        assert_same(before, after, 300, shapes[i].numbers, shapes[i].strings, shapes[i].plain);
        buffer_release(&body);
    }
}

/* A body comes from a record whose checksum was right; it is not trusted nevertheless. */
static void damaged_bodies_are_not_changed_and_never_crash(void **state)
{
    struct random random;
    uint64_t seed;

    random_system(&seed, sizeof(seed));
    random_init(&random, seed);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20000; round++) {
        struct buffer body = { 0 };
        struct bytes smaller, copy;

        codec_write_length(&body, random_below(&random, 6));
        for (uint64_t n = random_below(&random, 6); n > 0; n--)
            add_string(&body, random_below(&random, 2) ? LONG : "short");
        for (uint64_t n = random_below(&random, 4); n > 0; n--)
            body.data[random_below(&random, body.size)] = (char)random_next(&random);
        body.size -= random_below(&random, body.size);
        copy = bytes_of(mem_alloc(body.size), body.size);       /* of its exact size, so that a sanitizer sees a byte read too far */
        memcpy((char *)copy.data, body.data, body.size);
        if (rdb_compress_body(*state, (uint8_t)random_below(&random, 26), copy, &smaller))
            assert_true(smaller.size < copy.size);
        mem_free((char *)copy.data);
        buffer_release(&body);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_string_gets_smaller),
        TEST(a_value_that_would_not_get_smaller_is_not_changed),
        TEST(after_many_that_did_not_get_smaller_few_are_tried),
        TEST(elements_of_every_shape_get_smaller),
        TEST(damaged_bodies_are_not_changed_and_never_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
