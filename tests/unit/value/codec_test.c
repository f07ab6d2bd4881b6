#include "support/unit.h"

#include <string.h>

#include "base/crc64.h"
#include "base/mem.h"
#include "base/random.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/lzf.h"
#include "value/string.h"

static const struct value_limits limits = { .hash_listpack_entries_max = 128, .hash_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits tables_only = { .seed = { 5, 6 } };

/* Results of DUMP in redis-server 7.0.15. */
#define DUMP_HELLO BYTES("\x00\x05hello\x0a\x00\x63\x72\xdf\x76\x65\x34\x20\x0a")
#define DUMP_EMPTY BYTES("\x00\x00\x0a\x00\x5d\x9b\x5c\x40\x0f\x7f\xa2\xda")
#define DUMP_12 BYTES("\x00\xc0\x0c\x0a\x00\x3c\x2a\xf8\x51\x5c\x04\xbc\xd5")
#define DUMP_MINUS_129 BYTES("\x00\xc1\x7f\xff\x0a\x00\x17\x60\x82\x28\x54\x80\x84\x80")
#define DUMP_INT32_MIN BYTES("\x00\xc2\x00\x00\x00\x80\x0a\x00\xc7\x4f\x87\x3e\x33\x55\x81\x87")
#define DUMP_2_31 BYTES("\x00\x0a" "2147483648\x0a\x00\xe7\xb1\x29\xa3\x4c\x1d\x76\xee")
/* "ab" 60 times, LZF. */
#define DUMP_AB_LZF BYTES("\x00\xc3\x0a\x40\x78\x02\x61\x62\x61\xe0\x6a\x01\x01\x61\x62\x0a\x00\xb2\x88\x70\x8c\x53\x07\x16\xd2")
/* name: kelvin, n: -5 */
#define DUMP_HASH BYTES("\x10\x1b\x1b\x00\x00\x00\x04\x00\x84name\x05\x86kelvin\x07\x81n\x02\xdf\xfb\x02\xff\x0a\x00\x9e\xd4\x21\xe2\x4c\xea\x75\x0d")
/* 30 a: 40 b, a listpack in LZF */
#define DUMP_HASH_LZF BYTES("\x10\xc3\x16\x40\x51\x07\x51\x00\x00\x00\x02\x00\x9e\x61\xe0\x14\x00\x02\x1f\xa8\x62\xe0\x1e\x00\x01\x29\xff\x0a\x00\xf5\xe6\x4b\xd1\x76\xec\xfb\x3a")
/* 12345: -7, f: 65 v in LZF; a table */
#define DUMP_TABLE BYTES("\x04\x02\xc1\x39\x30\xc0\xf9\x01\x66\xc3\x09\x40\x41\x01\x76\x76\xe0\x34\x00\x01\x76\x76\x0a\x00\x7e\x7b\x87\x59\x34\x58\x80\x6a")
/* 70 f: 80 v, both in LZF; a table */
#define DUMP_TABLE_LZF BYTES("\x04\x01\xc3\x09\x40\x46\x01\x66\x66\xe0\x39\x00\x01\x66\x66\xc3\x09\x40\x50\x01\x76\x76\xe0\x43\x00\x01\x76\x76\x0a\x00\xa6\x1a\xbe\x40\x2b\x7e\xa3\x1e")
/* Made by hand, and restored by redis-server 7.0.15 as a: xyz, bb: 7. */
#define DUMP_ZIPMAP BYTES("\x09\x11\x02\x01\x61\x03\x02xyz\x00\x00\x02\x62\x62\x01\x00\x37\xff\x09\x00\x24\x0b\x81\x35\x29\x2d\x0d\x3b")
/* Likewise, as a: 3, bb: -123, c: -32768, d: -8388095, e: -2147483648, f: -9223372036854775808. */
#define DUMP_ZIPLIST BYTES("\x0d\x3c\x3c\x00\x00\x00\x31\x00\x00\x00\x0c\x00\x00\x01\x61\x03\xf4\x02\x02\x62\x62\x04\xfe\x85\x03\x01\x63\x03\xc0\x00\x80\x04\x01\x64\x03\xf0\x01\x02\x80\x05\x01\x65\x03\xd0\x00\x00\x00\x80\x06\x01\x66\x03\xe0\x00\x00\x00\x00\x00\x00\x00\x80\xff\x09\x00\x7b\x0c\xef\xf6\xd6\x4b\x02\x6e")

static void assert_restored_string(struct bytes dump, struct bytes expected, const char *encoding)
{
    struct buffer scratch = { 0 };
    struct value value;
    char digits[TEXT_INT_SIZE];

    assert_int_equal(codec_restore(dump, &limits, &scratch, &value), STATUS_OK);
    assert_int_equal(value.type, VALUE_STRING);
    assert_true(bytes_equal(string_bytes(&value, digits), expected));
    assert_string_equal(value_encoding_name(&value), encoding);
    value_free(&value);
    buffer_release(&scratch);
}

static void strings_dumped_by_redis_are_restored(void **state)
{
    char ab[120];

    for (size_t i = 0; i < sizeof(ab); i++)
        ab[i] = "ab"[i % 2];
    assert_restored_string(DUMP_HELLO, BYTES("hello"), "embstr");
    assert_restored_string(DUMP_EMPTY, BYTES(""), "embstr");
    assert_restored_string(DUMP_12, BYTES("12"), "int");
    assert_restored_string(DUMP_MINUS_129, BYTES("-129"), "int");
    assert_restored_string(DUMP_INT32_MIN, BYTES("-2147483648"), "int");
    assert_restored_string(DUMP_2_31, BYTES("2147483648"), "int");
    assert_restored_string(DUMP_AB_LZF, bytes_of(ab, sizeof(ab)), "raw");
}

static void assert_dumped(struct value value, struct bytes expected)
{
    struct buffer out = { 0 };

    codec_dump(&value, &out);
    assert_true(bytes_equal(buffer_bytes(&out), expected));
    buffer_release(&out);
    value_free(&value);
}

static void strings_are_dumped_as_by_redis(void **state)
{
    assert_dumped(string_value(BYTES("hello")), DUMP_HELLO);
    assert_dumped(string_value(BYTES("")), DUMP_EMPTY);
    assert_dumped(string_value(BYTES("12")), DUMP_12);
    assert_dumped(string_value(BYTES("-129")), DUMP_MINUS_129);
    assert_dumped(string_value(BYTES("-2147483648")), DUMP_INT32_MIN);
    assert_dumped(string_value(BYTES("2147483648")), DUMP_2_31);
}

static void a_small_hash_is_dumped_as_by_redis(void **state)
{
    struct value hash = hash_create();

    hash_set(&hash, &limits, BYTES("name"), BYTES("kelvin"));
    hash_set(&hash, &limits, BYTES("n"), BYTES("-5"));
    assert_dumped(hash, DUMP_HASH);
}

/* `pairs`: field, value, ..., NULL. */
static void assert_restored_hash(struct bytes dump, const struct value_limits *how, const char *encoding, const char *const *pairs)
{
    struct buffer scratch = { 0 };
    struct value hash;
    size_t count = 0;

    assert_int_equal(codec_restore(dump, how, &scratch, &hash), STATUS_OK);
    assert_int_equal(hash.type, VALUE_HASH);
    assert_string_equal(value_encoding_name(&hash), encoding);
    for (; pairs[0] != NULL; pairs += 2, count++) {
        char digits[TEXT_INT_SIZE];
        struct bytes value;

        assert_true(hash_get(&hash, bytes_of_string(pairs[0]), &value, digits));
        assert_true(bytes_equal(value, bytes_of_string(pairs[1])));
    }
    assert_int_equal(hash_count(&hash), count);
    assert_int_equal(scratch.size, 0);
    value_free(&hash);
    buffer_release(&scratch);
}

static void hashes_dumped_by_redis_are_restored(void **state)
{
    static const char *const plain[] = { "name", "kelvin", "n", "-5", NULL };
    static const char *const packed[] = { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", NULL };
    static const char *const table[] = { "12345", "-7", "f",
        "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv", NULL };
    static const char *const table_lzf[] = { "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv", NULL };
    static const char *const zipmap[] = { "a", "xyz", "bb", "7", NULL };
    static const char *const ziplist[] = { "a", "3", "bb", "-123", "c", "-32768", "d", "-8388095", "e", "-2147483648", "f",
        "-9223372036854775808", NULL };
    static const struct value_limits wide = { .hash_listpack_entries_max = 128, .hash_listpack_value_max = 100 };

    assert_restored_hash(DUMP_HASH, &limits, "listpack", plain);
    assert_restored_hash(DUMP_HASH, &tables_only, "hashtable", plain);
    assert_restored_hash(DUMP_HASH_LZF, &limits, "listpack", packed);
    assert_restored_hash(DUMP_HASH_LZF, &tables_only, "hashtable", packed);
    assert_restored_hash(DUMP_TABLE, &limits, "hashtable", table);
    assert_restored_hash(DUMP_TABLE, &wide, "listpack", table);
    assert_restored_hash(DUMP_TABLE_LZF, &limits, "hashtable", table_lzf);
    assert_restored_hash(DUMP_TABLE_LZF, &wide, "listpack", table_lzf);
    assert_restored_hash(DUMP_ZIPMAP, &limits, "listpack", zipmap);
    assert_restored_hash(DUMP_ZIPMAP, &tables_only, "hashtable", zipmap);
    assert_restored_hash(DUMP_ZIPLIST, &limits, "listpack", ziplist);
    assert_restored_hash(DUMP_ZIPLIST, &tables_only, "hashtable", ziplist);
}

static void a_bad_footer_is_invalid(void **state)
{
    struct buffer scratch = { 0 }, dump = { 0 };
    struct value value;
    uint64_t crc;

    for (size_t size = 0; size < DUMP_HELLO.size; size++)
        assert_int_equal(codec_restore(bytes_of(DUMP_HELLO.data, size), &limits, &scratch, &value), STATUS_INVALID);
    for (size_t at = 0; at < DUMP_HELLO.size; at++) {
        dump.size = 0;
        buffer_append_bytes(&dump, DUMP_HELLO);
        dump.data[at] ^= 0x10;
        assert_int_equal(codec_restore(buffer_bytes(&dump), &limits, &scratch, &value), STATUS_INVALID);
    }
    for (unsigned version = 0; version < 70000; version += version < 20 ? 1 : 999) {
        dump.size = 0;
        buffer_append(&dump, "\x00\x01x", 3);
        buffer_append_u8(&dump, (uint8_t)version);
        buffer_append_u8(&dump, (uint8_t)(version >> 8));
        crc = crc64(0, buffer_bytes(&dump));
        buffer_append(&dump, &crc, 8);
        assert_int_equal(codec_restore(buffer_bytes(&dump), &limits, &scratch, &value),
            (version & 65535) <= 12 ? STATUS_OK : STATUS_INVALID);
    }
    /* A valid footer after an invalid payload. */
    dump.size = 0;
    buffer_append(&dump, "\x00\x05x\x0a\x00", 5);
    crc = crc64(0, buffer_bytes(&dump));
    buffer_append(&dump, &crc, 8);
    assert_int_equal(codec_restore(buffer_bytes(&dump), &limits, &scratch, &value), STATUS_CORRUPT);
    buffer_release(&dump);
    buffer_release(&scratch);
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
    struct bytes dumps[] = { DUMP_HELLO, DUMP_EMPTY, DUMP_12, DUMP_MINUS_129, DUMP_INT32_MIN, DUMP_2_31, DUMP_AB_LZF, DUMP_HASH,
        DUMP_HASH_LZF, DUMP_TABLE, DUMP_TABLE_LZF, DUMP_ZIPMAP, DUMP_ZIPLIST };

    for (size_t i = 0; i < sizeof(dumps) / sizeof(dumps[0]); i++) {
        size_t size = dumps[i].size - CODEC_DUMP_FOOTER_SIZE;
        struct buffer longer = { 0 };

        for (size_t cut = 0; cut < size; cut++)
            assert_corrupt(bytes_of(dumps[i].data, cut));
        buffer_append(&longer, dumps[i].data, size);
        buffer_append_u8(&longer, 0);
        assert_corrupt(buffer_bytes(&longer));
        buffer_release(&longer);
    }
}

static void hostile_payloads_are_corrupt(void **state)
{
    assert_corrupt(BYTES("\x01\x00"));                                          /* an unknown type */
    assert_corrupt(BYTES("\xff"));
    assert_corrupt(BYTES("\x00\x82\x00\x00\x00\x01x"));                         /* not a valid length */
    assert_corrupt(BYTES("\x00\x80\xff\xff\xff\xffxyz"));                       /* lengths far beyond the end */
    assert_corrupt(BYTES("\x00\x81\xff\xff\xff\xff\xff\xff\xff\xffxyz"));
    assert_corrupt(BYTES("\x00\xc4\x01x"));                                     /* not a special form */
    assert_corrupt(BYTES("\x00\xff\x01x"));
    assert_corrupt(BYTES("\x00\xc3\x03\x81\x00\x00\x00\x40\x00\x00\x00\x00\x01xy"));    /* LZF: announces 256 GB */
    assert_corrupt(BYTES("\x00\xc3\x03\x80\x00\x10\x00\x00\x01xy"));            /* LZF: announces 1 MB */
    assert_corrupt(BYTES("\x00\xc3\x03\x03\x01xy"));                            /* LZF: unpacks to less */
    assert_corrupt(BYTES("\x00\xc3\x03\x01\x01xy"));                            /* LZF: unpacks to more */
    assert_corrupt(BYTES("\x00\xc3\xc0\x03\x01xy"));                            /* LZF: its size is not a length */
    assert_corrupt(BYTES("\x00\xc3\x04\x05\x00x\x20\x01"));                     /* LZF: a reference to before the start */
    assert_corrupt(BYTES("\x04\x00"));                                          /* hashes: empty */
    assert_corrupt(BYTES("\x04\xc0\x01\x01" "a\x01" "b"));                      /* not a valid count */
    assert_corrupt(BYTES("\x04\x02\x01" "a\x01" "b"));                          /* fewer than the count */
    assert_corrupt(BYTES("\x04\x01\x01" "a\x01" "b\x01" "c\x01" "d"));          /* more than the count */
    assert_corrupt(BYTES("\x04\x80\xff\xff\xff\xff\x01" "a\x01" "b"));
    assert_corrupt(BYTES("\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01" "a\x01" "b"));
    assert_corrupt(BYTES("\x04\x02\x01" "a\x01" "b\x01" "a\x01" "c"));          /* equal fields */
    assert_corrupt(BYTES("\x04\x02\xc0\x05\x01" "b\x01" "5\x01" "c"));          /* equal fields in two forms */
    assert_corrupt(BYTES("\x10\x07\x07\x00\x00\x00\x00\x00\xff"));              /* listpack: empty */
    assert_corrupt(BYTES("\x10\x09\x09\x00\x00\x00\x01\x00\x05\x01\xff"));      /* an odd number of elements */
    assert_corrupt(BYTES("\x10\x0b\x0b\x00\x00\x00\x03\x00\x05\x01\x06\x01\xff"));      /* wrong count */
    assert_corrupt(BYTES("\x10\x0b\x0c\x00\x00\x00\x02\x00\x05\x01\x06\x01\xff"));      /* wrong size */
    assert_corrupt(BYTES("\x10\x0b\x0b\x00\x00\x00\x02\x00\x05\x01\x06\x02\xff"));      /* wrong back length */
    assert_corrupt(BYTES("\x10\x0f\x0f\x00\x00\x00\x04\x00\x05\x01\x06\x01\x05\x01\x07\x01\xff"));      /* equal fields */
    assert_corrupt(BYTES("\x0d\x0b\x0b\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff"));      /* ziplist: empty */
    assert_corrupt(BYTES("\x0d\x0d\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xf1\xff"));              /* an odd number of elements */
    assert_corrupt(BYTES("\x0d\x0f\x0f\x00\x00\x00\x0c\x00\x00\x00\x03\x00\x00\xf1\x02\xf2\xff"));      /* wrong count */
    assert_corrupt(BYTES("\x0d\x0f\x0f\x00\x00\x00\x0b\x00\x00\x00\x02\x00\x00\xf1\x02\xf2\xff"));      /* wrong offset of the
                                                                                                         * last element */
    assert_corrupt(BYTES("\x0d\x0f\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf1\x01\xf2\xff"));      /* wrong size of the
                                                                                                         * previous element */
    assert_corrupt(BYTES("\x09\x02\x00\xff"));                                  /* zipmap: empty */
    assert_corrupt(BYTES("\x09\x07\x02\x01" "a\x01\x00" "7\xff"));              /* wrong count */
    assert_corrupt(BYTES("\x09\x07\x01\x01" "a\x01\x09" "7\xff"));              /* more unused bytes than there are */
    assert_corrupt(BYTES("\x09\x0b\x01\xfe\xff\xff\xff\xff" "a\x01\x00" "7\xff"));
}

/* The payloads above are refused for the reason given: these, which differ only in that, are valid. */
static void payloads_next_to_the_hostile_ones_are_valid(void **state)
{
    struct bytes good[] = { BYTES("\x10\x0b\x0b\x00\x00\x00\x02\x00\x05\x01\x06\x01\xff"),
        BYTES("\x10\x0b\x0b\x00\x00\x00\xff\xff\x05\x01\x06\x01\xff"),
        BYTES("\x0d\x0f\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf1\x02\xf2\xff"), BYTES("\x09\x07\x01\x01" "a\x01\x00" "7\xff"),
        BYTES("\x04\x02\x01" "a\x01" "b\x01" "b\x01" "c"), BYTES("\x00\xc3\x03\x02\x01xy"),
        BYTES("\x00\x81\x00\x00\x00\x00\x00\x00\x00\x03xyz") };

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct buffer scratch = { 0 };
        struct value value;

        assert_int_equal(codec_decode(good[i], &limits, &scratch, &value), STATUS_OK);
        value_free(&value);
        buffer_release(&scratch);
    }
}

static void strings_of_every_length_are_decoded(void **state)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 16383, 16384, 16385, 1000000 };
    char *data = mem_alloc(1000000);

    memset(data, 'x', 1000000);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct value value = string_value(bytes_of(data, sizes[i])), again;
        struct buffer out = { 0 }, scratch = { 0 };
        char digits[TEXT_INT_SIZE];

        codec_encode(&value, &out);
        assert_in_range(out.size, sizes[i] + 2, sizes[i] + 6);
        assert_int_equal(codec_decode(buffer_bytes(&out), &limits, &scratch, &again), STATUS_OK);
        assert_int_equal(again.encoding, value.encoding);
        assert_true(bytes_equal(string_bytes(&again, digits), bytes_of(data, sizes[i])));
        assert_int_equal(scratch.capacity, 0);
        value_free(&value);
        value_free(&again);
        buffer_release(&out);
    }
    mem_free(data);
}

static void lengths_of_every_form_are_decoded(void **state)
{
    static const uint64_t lengths[] = { 0, 63, 64, 16383, 16384, UINT32_MAX, (uint64_t)UINT32_MAX + 1, UINT64_MAX };
    static const size_t sizes[] = { 1, 1, 2, 2, 5, 5, 9, 9 };

    for (size_t i = 0; i < 8; i++) {
        struct buffer out = { 0 };
        struct bytes input;
        uint64_t length;
        bool is_special;

        codec_write_length(&out, lengths[i]);
        assert_int_equal(out.size, sizes[i]);
        for (size_t cut = 0; cut < out.size; cut++) {
            input = bytes_of(out.data, cut);
            assert_int_equal(codec_read_length(&input, &length, &is_special), STATUS_CORRUPT);
        }
        input = buffer_bytes(&out);
        assert_int_equal(codec_read_length(&input, &length, &is_special), STATUS_OK);
        assert_true(length == lengths[i] && !is_special && input.size == 0);
        buffer_release(&out);
    }
}

static void tables_with_any_contents_are_decoded(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct value hash = hash_create(), again;
        struct buffer out = { 0 }, scratch = { 0 };
        struct random random;
        uint8_t digest[20], digest_again[20];

        print_message("seed %d\n", (int)seed);
        random_init(&random, seed);
        for (uint64_t i = 1 + random_below(&random, seed % 2 ? 3000 : 100); i > 0; i--) {
            char field[200], value[200];
            size_t field_size = random_below(&random, 200), value_size = random_below(&random, 200);
            bool numbers = random_below(&random, 2);

            for (size_t j = 0; j < 200; j++) {
                field[j] = (char)random_next(&random);
                value[j] = (char)random_next(&random);
            }
            if (numbers) {
                field_size = text_of_int((int64_t)random_next(&random) >> random_below(&random, 64), field);
                value_size = text_of_int((int64_t)random_next(&random) >> random_below(&random, 64), value);
            }
            hash_set(&hash, &limits, bytes_of(field, field_size), bytes_of(value, value_size));
        }
        codec_encode(&hash, &out);
        assert_int_equal(codec_decode(buffer_bytes(&out), &limits, &scratch, &again), STATUS_OK);
        assert_int_equal(again.encoding, hash.encoding);
        assert_int_equal(hash_count(&again), hash_count(&hash));
        value_digest(&hash, digest);
        value_digest(&again, digest_again);
        assert_memory_equal(digest, digest_again, 20);
        value_free(&hash);
        value_free(&again);
        buffer_release(&out);
        buffer_release(&scratch);
    }
}

static void a_value_is_read_from_the_front_of_a_file(void **state)
{
    struct bytes input = BYTES("\x03onerest");
    struct buffer scratch = { 0 };
    struct value value;
    char digits[TEXT_INT_SIZE];

    assert_int_equal(codec_read(CODEC_RDB_STRING, &input, &limits, &scratch, &value), STATUS_OK);
    assert_true(bytes_equal(string_bytes(&value, digits), BYTES("one")));
    assert_true(bytes_equal(input, BYTES("rest")));
}

static void lzf_repeats_overlapping_runs(void **state)
{
    struct buffer out = { 0 };

    buffer_append(&out, "kept", 4);
    /* "ab", then 9 + 255 bytes from two bytes back, then "c" */
    assert_int_equal(lzf_decode(BYTES("\x01" "ab\xe0\xff\x01\x00" "c"), 2 + 264 + 1, &out), STATUS_OK);
    assert_int_equal(out.size, 4 + 267);
    for (size_t i = 0; i < 266; i++)
        assert_int_equal(out.data[4 + i], "ab"[i % 2]);
    assert_int_equal(out.data[270], 'c');
    assert_int_equal(lzf_decode(BYTES("\x01" "ab\xe0\xff"), 266, &out), STATUS_CORRUPT);
    assert_int_equal(lzf_decode(BYTES("\x01" "ab\xe0"), 266, &out), STATUS_CORRUPT);
    assert_int_equal(lzf_decode(BYTES("\x02" "ab"), 3, &out), STATUS_CORRUPT);
    assert_int_equal(lzf_decode(BYTES("\x00" "a"), SIZE_MAX, &out), STATUS_CORRUPT);
    assert_int_equal(out.size, 4 + 267);
    assert_true(out.capacity < 4096);
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_dumped_by_redis_are_restored),
        cmocka_unit_test(strings_are_dumped_as_by_redis),
        cmocka_unit_test(a_small_hash_is_dumped_as_by_redis),
        cmocka_unit_test(hashes_dumped_by_redis_are_restored),
        cmocka_unit_test(a_bad_footer_is_invalid),
        cmocka_unit_test(every_truncated_or_extended_payload_is_corrupt),
        cmocka_unit_test(hostile_payloads_are_corrupt),
        cmocka_unit_test(payloads_next_to_the_hostile_ones_are_valid),
        cmocka_unit_test(strings_of_every_length_are_decoded),
        cmocka_unit_test(lengths_of_every_form_are_decoded),
        cmocka_unit_test(tables_with_any_contents_are_decoded),
        cmocka_unit_test(a_value_is_read_from_the_front_of_a_file),
        cmocka_unit_test(lzf_repeats_overlapping_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
