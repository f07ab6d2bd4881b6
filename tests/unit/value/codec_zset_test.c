/* Sorted sets in dumps and records. codec_test.c tests what is common to all types. */
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "value/codec.h"
#include "value/zset.h"

static const struct value_limits limits = { .zset_listpack_entries_max = 128, .zset_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits trees_only = { .seed = { 5, 6 } };

/* Written by redis-server 7.0.15: -3 12, 1 a, 2.5 b, inf c, with a listpack and with a skip list. */
#define DUMP_LISTPACK BYTES("\x11!!\x00\x00\x00\x08\x00\x0c\x01\xdf\xfd\x02\x81" "a\x02\x01\x01\x81" "b\x02\x83" "2.5\x04\x81" "c\x02\x83" "inf\x04\xff\n\x00" "B\xa4#/\xc0\xf3\xfb\xa3")
#define DUMP_SKIPLIST BYTES("\x05\x04\x01" "c\x00\x00\x00\x00\x00\x00\xf0\x7f\x01" "b\x00\x00\x00\x00\x00\x00\x04@\x01" "a\x00\x00\x00\x00\x00\x00\xf0?\xc0\x0c\x00\x00\x00\x00\x00\x00\x08\xc0\n\x00\x81J\x0c\x8eU)\x97Z")
/* The same in the formats of older versions. */
#define PAYLOAD_TEXT BYTES("\x03\x04\x01" "a\x01" "1\x01" "b\x03" "2.5\xc0\x0c\x02" "-3\x01" "c\xfe")
#define PAYLOAD_ZIPLIST \
    BYTES("\x0c\x25\x25\x00\x00\x00\x1f\x00\x00\x00\x08\x00\x00\xfd\x02\xfe\xfd\x03\x01" \
          "\x61\x03\xf2\x02\x01\x62\x03\x03\x32\x2e\x35\x05\x01\x63\x03\x03\x69\x6e\x66\xff")

static void assert_four(const struct value *zset, const char *encoding)
{
    static const struct { const char *member; double score; } wanted[] = { { "12", -3 }, { "a", 1 }, { "b", 2.5 }, { "c", INFINITY } };
    struct zset_iterator iterator;
    struct bytes member;
    double score;

    assert_int_equal(zset->type, VALUE_ZSET);
    assert_string_equal(value_encoding_name(zset), encoding);
    assert_int_equal(zset_count(zset), 4);
    zset_iterate(&iterator, zset, 0, ZSET_UP);
    for (int i = 0; i < 4; i++) {
        assert_true(zset_next(&iterator, &member, &score));
        assert_true(bytes_equal(member, bytes_of_string(wanted[i].member)));
        assert_true(score == wanted[i].score);
    }
    assert_false(zset_next(&iterator, &member, &score));
}

static enum status decode(struct bytes payload, const struct value_limits *how, struct value *zset)
{
    struct buffer scratch = { 0 };
    enum status status = codec_decode(payload, how, &scratch, zset);

    assert_int_equal(scratch.size, 0);
    buffer_release(&scratch);
    return status;
}

static void sorted_sets_dumped_by_redis_are_restored(void **state)
{
    const struct bytes dumps[] = { DUMP_LISTPACK, DUMP_SKIPLIST };
    struct value_limits few = limits;
    struct buffer scratch = { 0 };
    struct value zset;

    few.zset_listpack_entries_max = 3;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(codec_restore(dumps[i], &limits, &scratch, &zset), STATUS_OK);
        assert_four(&zset, "listpack");
        value_free(&zset);
        assert_int_equal(codec_restore(dumps[i], &few, &scratch, &zset), STATUS_OK);
        assert_four(&zset, "skiplist");
        value_free(&zset);
        assert_int_equal(codec_restore(dumps[i], &trees_only, &scratch, &zset), STATUS_OK);
        assert_four(&zset, "skiplist");
        value_free(&zset);
    }
    buffer_release(&scratch);
}

static void older_formats_are_read(void **state)
{
    const struct bytes payloads[] = { PAYLOAD_TEXT, PAYLOAD_ZIPLIST };
    struct value zset;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(decode(payloads[i], &limits, &zset), STATUS_OK);
        assert_four(&zset, "listpack");
        value_free(&zset);
        assert_int_equal(decode(payloads[i], &trees_only, &zset), STATUS_OK);
        assert_four(&zset, "skiplist");
        value_free(&zset);
    }
}

static void damaged_payloads_are_refused(void **state)
{
    const struct bytes bad[] = {
        BYTES("\x05\x00"),                                                          /* empty */
        BYTES("\x05\x01\x01" "a\x00\x00\x00\x00\x00\x00\xf8\x7f"),                  /* NaN */
        BYTES("\x05\x01\x01" "a\x00\x00\x00\x00\x00\x00\xf8"),                      /* a part of a score */
        BYTES("\x05\x02\x01" "a\x00\x00\x00\x00\x00\x00\x00\x00\x01" "a\x00\x00\x00\x00\x00\x00\xf0\x3f"),     /* twice */
        BYTES("\x05\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01" "a"),                  /* an impossible count */
        BYTES("\x03\x01\x01" "a\xfd"),                                              /* NaN */
        BYTES("\x03\x01\x01" "a\x01x"),                                             /* not a number */
        BYTES("\x03\x01\x01" "a\x05" "1"),
        BYTES("\x11\x07\x07\x00\x00\x00\x00\x00\xff"),                              /* empty */
        BYTES("\x11\x0a\x0a\x00\x00\x00\x01\x00\x81" "a\x02\xff"),                  /* a member without a score */
        BYTES("\x11\x0d\x0d\x00\x00\x00\x02\x00\x81" "a\x02\x81" "x\x02\xff"),      /* not a number */
        BYTES("\x11\x11\x11\x00\x00\x00\x04\x00\x81" "a\x02\x02\x01\x81" "b\x02\x01\x01\xff"),     /* out of order */
        BYTES("\x11\x11\x11\x00\x00\x00\x04\x00\x81" "b\x02\x01\x01\x81" "a\x02\x01\x01\xff"),
        BYTES("\x11\x11\x11\x00\x00\x00\x04\x00\x81" "a\x02\x01\x01\x81" "a\x02\x01\x01\xff"),     /* twice */
        BYTES("\x11\x11\x11\x00\x00\x00\x04\x00\x81" "a\x02\x01\x01\x81" "a\x02\x02\x01\xff"),
    };
    struct value zset;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (decode(bad[i], &limits, &zset) != STATUS_CORRUPT || decode(bad[i], &trees_only, &zset) != STATUS_CORRUPT)
            fail_msg("payload %zu was taken", i);
    }
    /* The same, but in order. */
    assert_int_equal(decode(BYTES("\x11\x11\x11\x00\x00\x00\x04\x00\x81" "a\x02\x01\x01\x81" "b\x02\x01\x01\xff"), &limits, &zset),
        STATUS_OK);
    value_free(&zset);
}

static void a_value_is_decoded_as_it_was(void **state)
{
    static const double scores[] = { 0, -0.0, 1, 2.5, INFINITY, -INFINITY, 1e300, 5e-324, 0.1, 4611686018427387904.0, 1e17 };
    char member[400];

    for (size_t count = 1; count < 700; count = count * 3 + 1) {
        for (int kind = 0; kind < 3; kind++) {
            const struct value_limits *how = kind == 0 ? &trees_only : &limits;
            struct value zset = zset_create_for(how, 1, 1), back;
            struct buffer payload = { 0 }, scratch = { 0 };
            struct value_limits exact;
            uint8_t digest[20], digest_back[20];

            for (size_t i = 0; i < count; i++) {
                size_t size = (size_t)sprintf(member, "%zu", i * 1000003);

                if (kind == 2 && i % 3 == 0) {
                    memset(member + size, 'x', 300);
                    size += 300;
                }
                zset_put(&zset, how, bytes_of(member, size), scores[i % (sizeof(scores) / sizeof(scores[0]))]);
            }
            codec_encode(&zset, &payload);
            exact = codec_limits_of(buffer_bytes(&payload), CODEC_AS_WRITTEN, kind == 0 ? &limits : &trees_only);
            assert_int_equal(codec_decode(buffer_bytes(&payload), &exact, &scratch, &back), STATUS_OK);
            assert_int_equal(back.encoding, zset.encoding);
            value_digest(&zset, digest);
            value_digest(&back, digest_back);
            assert_memory_equal(digest, digest_back, 20);
            value_free(&zset);
            value_free(&back);
            buffer_release(&payload);
            buffer_release(&scratch);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted_sets_dumped_by_redis_are_restored),
        cmocka_unit_test(older_formats_are_read),
        cmocka_unit_test(damaged_payloads_are_refused),
        cmocka_unit_test(a_value_is_decoded_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
