/* What codec.c unpacks: no more than is allowed, and only as much as the bytes contain. */
#include "value/codec.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "containers/listpack.h"

enum {
    LITERAL_SIZE = 2, REFERENCE_SIZE = 3, REFERENCE_GIVES = 264,
    UNPACKED = 1 + 20000 * REFERENCE_GIVES,         /* 5 MB */
};

static const struct value_limits no_limits = { .list_fill = -2 };

/* LZF of a long run of x: `references` references of 264 bytes each, after the first x. */
static void write_many(struct buffer *out, size_t references, uint64_t claimed)
{
    buffer_append_u8(out, 0xc3);
    codec_write_length(out, LITERAL_SIZE + references * REFERENCE_SIZE);
    codec_write_length(out, claimed);
    buffer_append(out, "\x00x", LITERAL_SIZE);
    for (size_t i = 0; i < references; i++)
        buffer_append(out, "\xe0\xff\x00", REFERENCE_SIZE);
}

/* A value of `type` whose only, or last, string is that one. */
static struct buffer payload_of(uint8_t type, uint64_t claimed)
{
    struct buffer out = { 0 };

    buffer_append_u8(&out, type);
    if (type == CODEC_RDB_LIST || type == CODEC_RDB_SET || type == CODEC_RDB_ZSET || type == CODEC_RDB_HASH || type == CODEC_RDB_LIST_QUICKLIST_2)
        codec_write_length(&out, 1);
    if (type == CODEC_RDB_HASH)
        codec_write_string(&out, BYTES("field"));
    if (type == CODEC_RDB_LIST_QUICKLIST_2)
        codec_write_length(&out, 1);                /* a plain chunk */
    write_many(&out, UNPACKED / REFERENCE_GIVES, claimed);
    if (type == CODEC_RDB_ZSET)
        buffer_append(&out, "\x01" "5", 2);
    return out;
}

static const uint8_t types[] = {
    CODEC_RDB_STRING, CODEC_RDB_LIST, CODEC_RDB_SET, CODEC_RDB_ZSET, CODEC_RDB_HASH, CODEC_RDB_LIST_QUICKLIST_2,
};

static enum status decode(struct bytes payload, size_t unpacked_max, size_t *scratch_taken)
{
    struct value_limits limits = no_limits;
    struct buffer scratch = { 0 };
    struct value value;
    enum status status;

    limits.string_unpacked_max = unpacked_max;
    status = codec_decode(payload, &limits, &scratch, &value);
    *scratch_taken = scratch.capacity;
    if (status == STATUS_OK && value_is_object(&value))
        value_free(&value);
    buffer_release(&scratch);
    return status;
}

static void a_string_is_unpacked_up_to_the_limit(void **state)
{
    size_t taken;

    for (size_t i = 0; i < sizeof(types); i++) {
        struct buffer payload = payload_of(types[i], UNPACKED);

        printf("RDB type %u\n", types[i]);
        assert_int_equal(decode(buffer_bytes(&payload), UNPACKED - 1, &taken), STATUS_CORRUPT);
        assert_int_equal(taken, 0);
        assert_int_equal(decode(buffer_bytes(&payload), UNPACKED, &taken), STATUS_OK);
        assert_int_equal(decode(buffer_bytes(&payload), 0, &taken), STATUS_OK);
        buffer_release(&payload);
    }
}

static void a_size_that_the_bytes_do_not_contain_allocates_nothing(void **state)
{
    size_t taken;

    for (size_t i = 0; i < sizeof(types); i++) {
        for (int off = -1; off <= 1; off += 2) {
            struct buffer payload = payload_of(types[i], (uint64_t)(UNPACKED + off));

            assert_int_equal(decode(buffer_bytes(&payload), 0, &taken), STATUS_CORRUPT);
            assert_int_equal(taken, 0);
            buffer_release(&payload);
        }
    }
}

static void a_listpack_is_unpacked_up_to_its_size_limit(void **state)
{
    static const uint8_t blobs[] = {
        CODEC_RDB_HASH_ZIPMAP, CODEC_RDB_LIST_ZIPLIST, CODEC_RDB_SET_INTSET, CODEC_RDB_ZSET_ZIPLIST, CODEC_RDB_HASH_ZIPLIST,
        CODEC_RDB_HASH_LISTPACK, CODEC_RDB_ZSET_LISTPACK, CODEC_RDB_SET_LISTPACK,
    };
    const size_t references = LISTPACK_SIZE_MAX / REFERENCE_GIVES + 1;
    struct buffer payload = { 0 };
    size_t taken;

    buffer_append_u8(&payload, 0);
    write_many(&payload, references, 1 + references * REFERENCE_GIVES);
    for (size_t i = 0; i < sizeof(blobs); i++) {
        payload.data[0] = (char)blobs[i];
        assert_int_equal(decode(buffer_bytes(&payload), 0, &taken), STATUS_CORRUPT);
        assert_int_equal(taken, 0);
    }
    buffer_release(&payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_is_unpacked_up_to_the_limit),
        cmocka_unit_test(a_size_that_the_bytes_do_not_contain_allocates_nothing),
        cmocka_unit_test(a_listpack_is_unpacked_up_to_its_size_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
