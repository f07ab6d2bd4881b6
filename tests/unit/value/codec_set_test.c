/* Sets in dumps and records. codec_test.c tests what is common to all types. */
#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "value/codec.h"
#include "value/set.h"

static const struct value_limits limits = { .set_intset_entries_max = 512, .set_listpack_entries_max = 128,
    .set_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits tables_only = { .seed = { 5, 6 } };

/* Written by redis-server 7.0.15: -5, 1, 2; 1, 70000; 1, 5000000000; b 30 times, 12, a. */
#define DUMP_INTS_2 BYTES("\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\xfb\xff\x01\x00\x02\x00\x0a\x00I.\xedn\xc0\x07\x8c\xef")
#define DUMP_INTS_4 BYTES("\x0b\x10\x04\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00p\x11\x01\x00\x0a\x00'5Cn\xfd" "fV\xc4")
#define DUMP_INTS_8 \
    BYTES("\x0b\x18\x08\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xf2\x05*\x01\x00\x00\x00\x0a\x00T\xf5\xa2j\xe7\x07\xb5\xfc")
#define DUMP_WORDS BYTES("\x02\x03\x1e" "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" "\xc0\x0c\x01" "a\x0a\x00r\xa3\xa2H\x1b\xca\x81\xd4")
/* What 7.2 writes for a and 12, without the footer. */
#define PAYLOAD_LISTPACK BYTES("\x14\x0c\x0c\x00\x00\x00\x02\x00\x81" "a\x02\x0c\x01\xff")

static void assert_members(const struct value *set, const char *encoding, const char *const *members)
{
    size_t count = 0;

    assert_int_equal(set->type, VALUE_SET);
    assert_string_equal(value_encoding_name(set), encoding);
    for (; members[count] != NULL; count++)
        assert_true(set_has(set, bytes_of_string(members[count])));
    assert_int_equal(set_count(set), count);
}

static void assert_restored(struct bytes dump, const struct value_limits *how, const char *encoding, const char *const *members)
{
    struct buffer scratch = { 0 };
    struct value set;

    assert_int_equal(codec_restore(dump, how, &scratch, &set), STATUS_OK);
    assert_members(&set, encoding, members);
    assert_int_equal(scratch.size, 0);
    value_free(&set);
    buffer_release(&scratch);
}

static const char *const ints_2[] = { "1", "2", "-5", NULL };
static const char *const ints_4[] = { "1", "70000", NULL };
static const char *const ints_8[] = { "1", "5000000000", NULL };
static const char *const words[] = { "a", "12", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", NULL };
static const char *const pair[] = { "a", "12", NULL };

static void sets_dumped_by_redis_are_restored(void **state)
{
    struct value_limits short_ones = limits;
    struct buffer scratch = { 0 };
    struct value set;

    assert_restored(DUMP_INTS_2, &limits, "intset", ints_2);
    assert_restored(DUMP_INTS_2, &tables_only, "hashtable", ints_2);
    assert_restored(DUMP_INTS_4, &limits, "intset", ints_4);
    assert_restored(DUMP_INTS_8, &limits, "intset", ints_8);
    assert_restored(DUMP_WORDS, &limits, "listpack", words);
    assert_restored(DUMP_WORDS, &tables_only, "hashtable", words);
    short_ones.set_listpack_value_max = 29;
    assert_restored(DUMP_WORDS, &short_ones, "hashtable", words);
    assert_int_equal(codec_decode(PAYLOAD_LISTPACK, &limits, &scratch, &set), STATUS_OK);
    assert_members(&set, "listpack", pair);
    value_free(&set);
    assert_int_equal(codec_decode(PAYLOAD_LISTPACK, &tables_only, &scratch, &set), STATUS_OK);
    assert_members(&set, "hashtable", pair);
    value_free(&set);
}

static struct value set_with(const struct value_limits *how, const char *const *members)
{
    struct value set = set_create(how, bytes_of_string(members[0]), 1);

    for (; *members != NULL; members++)
        set_add(&set, how, bytes_of_string(*members));
    return set;
}

static void assert_dumped(struct value set, struct bytes expected)
{
    struct buffer out = { 0 };

    codec_dump(&set, &out);
    assert_true(bytes_equal(buffer_bytes(&out), expected));
    buffer_release(&out);
    value_free(&set);
}

/* A listpack is also written as Redis 7.0 can read it: member by member. */
static void sets_are_dumped_as_by_redis(void **state)
{
    static const char *const in_its_order[] = { "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "12", "a", NULL };

    assert_dumped(set_with(&limits, ints_2), DUMP_INTS_2);
    assert_dumped(set_with(&limits, ints_4), DUMP_INTS_4);
    assert_dumped(set_with(&limits, ints_8), DUMP_INTS_8);
    assert_dumped(set_with(&limits, in_its_order), DUMP_WORDS);
}

/* Whatever the limits are when it is read. */
static void a_set_is_decoded_to_its_encoding(void **state)
{
    static const struct value_limits packs_only = { .set_listpack_entries_max = 128, .set_listpack_value_max = 64 };
    const struct value_limits *all[] = { &limits, &tables_only, &packs_only };
    const char *const *contents[] = { ints_2, ints_8, words };

    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 9; j++) {
            struct value set = set_with(all[i], contents[j % 3]), again;
            enum codec_form form = set.encoding == SET_LISTPACK ? CODEC_FROM_LISTPACK : CODEC_AS_WRITTEN;
            struct buffer out = { 0 }, scratch = { 0 };
            struct value_limits exact;

            codec_encode(&set, &out);
            exact = codec_limits_of(buffer_bytes(&out), form, all[j / 3]);
            assert_int_equal(codec_decode(buffer_bytes(&out), &exact, &scratch, &again), STATUS_OK);
            assert_members(&again, value_encoding_name(&set), contents[j % 3]);
            value_free(&again);
            value_free(&set);
            buffer_release(&out);
            buffer_release(&scratch);
        }
    }
}

static void assert_corrupt(struct bytes payload)
{
    const struct value_limits *both[] = { &limits, &tables_only };
    struct buffer scratch = { 0 };
    struct value value;
    char *copy = mem_alloc(payload.size);       /* the exact size, so that the sanitizer detects a read beyond it */

    memcpy(copy, payload.data, payload.size);
    for (int i = 0; i < 2; i++)
        assert_int_equal(codec_decode(bytes_of(copy, payload.size), both[i], &scratch, &value), STATUS_CORRUPT);
    mem_free(copy);
    assert_true(scratch.capacity <= 4096 + 100 * payload.size);
    buffer_release(&scratch);
}

static void every_truncated_or_extended_payload_is_corrupt(void **state)
{
    struct bytes payloads[] = { DUMP_INTS_2, DUMP_INTS_4, DUMP_INTS_8, DUMP_WORDS, PAYLOAD_LISTPACK };

    for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
        size_t size = payloads[i].size - (i < 4 ? CODEC_DUMP_FOOTER_SIZE : 0);
        struct buffer longer = { 0 };

        for (size_t cut = 1; cut < size; cut++)
            assert_corrupt(bytes_of(payloads[i].data, cut));
        buffer_append(&longer, payloads[i].data, size);
        buffer_append_u8(&longer, 0);
        assert_corrupt(buffer_bytes(&longer));
        buffer_release(&longer);
    }
}

static void hostile_payloads_are_corrupt(void **state)
{
    assert_corrupt(BYTES("\x02\x00"));                                          /* empty */
    assert_corrupt(BYTES("\x02\x02\x01" "a"));                                  /* fewer than the count */
    assert_corrupt(BYTES("\x02\x01\x01" "a\x01" "b"));                          /* more than the count */
    assert_corrupt(BYTES("\x02\x80\xff\xff\xff\xff\x01" "a"));
    assert_corrupt(BYTES("\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01" "a"));
    assert_corrupt(BYTES("\x02\xc0\x01\x01" "a"));                              /* not a valid count */
    assert_corrupt(BYTES("\x02\x02\x01" "a\x01" "a"));                          /* equal members, also as integers, also in two forms */
    assert_corrupt(BYTES("\x02\x02\x01" "5\x01" "5"));
    assert_corrupt(BYTES("\x02\x03\xc0\x05\x01" "x\x01" "5"));
    assert_corrupt(BYTES("\x0b\x08\x02\x00\x00\x00\x00\x00\x00\x00"));          /* intset: empty */
    assert_corrupt(BYTES("\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x02\x00\x01\x00"));  /* wrong order */
    assert_corrupt(BYTES("\x0b\x0a\x02\x00\x00\x00\xff\xff\xff\x7f\x02\x00"));
    assert_corrupt(BYTES("\x0b\xc0\x0a"));                                      /* a number is not a blob */
    assert_corrupt(BYTES("\x14\x07\x07\x00\x00\x00\x00\x00\xff"));              /* listpack: empty; equal members */
    assert_corrupt(BYTES("\x14\x0b\x0b\x00\x00\x00\x02\x00\x05\x01\x05\x01\xff"));
    assert_corrupt(BYTES("\x14\x0c\x0c\x00\x00\x00\x02\x00\x05\x01\x81" "5\x02\xff"));
}

/* The payloads above are refused for the reason given: these, which differ only in that, are valid. */
static void payloads_next_to_the_hostile_ones_are_valid(void **state)
{
    struct bytes good[] = { BYTES("\x02\x01\x01" "a"), BYTES("\x02\x02\x01" "5\x01" "6"), BYTES("\x02\x03\xc0\x05\x01" "x\x01" "6"),
        BYTES("\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x02\x00"), BYTES("\x14\x0b\x0b\x00\x00\x00\x02\x00\x05\x01\x06\x01\xff"),
        BYTES("\x14\x0c\x0c\x00\x00\x00\x02\x00\x05\x01\x81" "6\x02\xff") };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct buffer scratch = { 0 };
        struct value value;

        assert_int_equal(codec_decode(good[i], &limits, &scratch, &value), STATUS_OK);
        value_free(&value);
        buffer_release(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_dumped_by_redis_are_restored),
        cmocka_unit_test(sets_are_dumped_as_by_redis),
        cmocka_unit_test(a_set_is_decoded_to_its_encoding),
        cmocka_unit_test(every_truncated_or_extended_payload_is_corrupt),
        cmocka_unit_test(hostile_payloads_are_corrupt),
        cmocka_unit_test(payloads_next_to_the_hostile_ones_are_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
