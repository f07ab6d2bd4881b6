#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "keyspace/partition.h"
#include "tier/record.h"
#include "value/hash.h"
#include "value/string.h"

static const struct value_limits limits = { .hash_listpack_entries_max = 4, .hash_listpack_value_max = 8, .seed = { 1, 2 } };

struct box {
    struct partitions *all;
    struct keyspace *keyspace;
    struct buffer bytes, scratch;
    struct record record;
};

static void open_box(struct box *box)
{
    *box = (struct box){ .all = partitions_create(1, 1, (struct hash_seed){ 3, 4 }) };
    partitions_lock_all(box->all);
    box->keyspace = partition_keyspace(&box->all->partitions[0], 0);
}

static void close_box(struct box *box)
{
    value_free(&box->record.value);
    partitions_unlock_all(box->all);
    partitions_destroy(box->all);
    buffer_release(&box->bytes);
    buffer_release(&box->scratch);
}

/* Into an entry, into a record, and back. Takes the value. */
static const struct value *travel(struct box *box, struct value value, int64_t expire_ms, const struct value_limits *with)
{
    uint64_t hash = hash_bytes(&box->all->seed, BYTES("key"));
    uint32_t handle = keyspace_insert(box->keyspace, hash, BYTES("key"), &value, expire_ms, RECORD_NONE, 0);

    assert_int_not_equal(handle, 0);
    keyspace_entry(box->keyspace, handle)->heat = 77;
    record_encode(keyspace_entry(box->keyspace, handle), &box->bytes);
    assert_int_equal(record_decode(buffer_bytes(&box->bytes), with, &box->scratch, &box->record), STATUS_OK);
    return &box->record.value;
}

static void assert_string_travels(struct value value, struct bytes bytes, int encoding)
{
    char digits[TEXT_INT_SIZE];
    const struct value *back;
    struct box box;

    open_box(&box);
    back = travel(&box, value, -1, &limits);
    assert_int_equal(back->encoding, encoding);
    assert_true(bytes_equal(string_bytes(back, digits), bytes));
    assert_int_equal(box.record.heat, 77);
    assert_int_equal(box.record.expire_ms, -1);
    close_box(&box);
}

static struct value text_of(struct bytes bytes)
{
    return (struct value){ .type = VALUE_STRING, .encoding = STRING_EMBEDDED, .bytes = bytes };
}

static void a_string_comes_back_as_it_was_kept(void **state)
{
    static char big[STRING_INLINE_MAX + 1];

    assert_string_travels(string_value(BYTES("hello")), BYTES("hello"), STRING_EMBEDDED);
    assert_string_travels(string_value(BYTES("")), BYTES(""), STRING_EMBEDDED);
    assert_string_travels(string_value(BYTES("-12")), BYTES("-12"), STRING_INT);
    assert_string_travels(string_value_raw(BYTES("-12")), BYTES("-12"), STRING_RAW);
    assert_string_travels(text_of(BYTES("-12")), BYTES("-12"), STRING_EMBEDDED);
    assert_string_travels(text_of(BYTES("100000000000")), BYTES("100000000000"), STRING_EMBEDDED);
    assert_string_travels(string_value(bytes_of(big, sizeof(big))), bytes_of(big, sizeof(big)), STRING_BIG);
}

static void a_table_stays_a_table_although_it_is_small(void **state)
{
    struct value hash = hash_create();
    const struct value *back;
    struct box box;

    open_box(&box);
    hash_set(&hash, &limits, BYTES("f"), BYTES("a value too long for a listpack"));
    hash_set(&hash, &limits, BYTES("f"), BYTES("v"));
    assert_int_equal(hash.encoding, HASH_TABLE);
    back = travel(&box, hash, 5, &limits);
    assert_int_equal(back->encoding, HASH_TABLE);
    assert_int_equal(hash_count(back), 1);
    assert_int_equal(box.record.expire_ms, 5);
    close_box(&box);
}

static void a_listpack_stays_one_although_the_limits_went_down(void **state)
{
    struct value_limits lower = limits;
    struct value hash = hash_create();
    const struct value *back;
    struct box box;

    open_box(&box);
    hash_set(&hash, &limits, BYTES("f"), BYTES("v"));
    hash_set(&hash, &limits, BYTES("g"), BYTES("v"));
    lower.hash_listpack_entries_max = 1;
    back = travel(&box, hash, -1, &lower);
    assert_int_equal(back->encoding, HASH_LISTPACK);
    assert_int_equal(hash_count(back), 2);
    close_box(&box);
}

/* Any byte may be wrong: an answer, no crash. (That nothing is read beyond the end, a sanitizer says.) */
static void damaged_records_are_refused_or_read(void **state)
{
    struct value hash = hash_create();
    struct box box;
    enum value_type type;
    int64_t expire_ms;

    open_box(&box);
    hash_set(&hash, &limits, BYTES("f"), BYTES("v"));
    travel(&box, hash, 5, &limits);
    for (size_t size = 0; size < box.bytes.size; size++) {
        struct record record;

        box.scratch.size = 0;
        assert_int_not_equal(record_decode(bytes_of(box.bytes.data, size), &limits, &box.scratch, &record), STATUS_OK);
    }
    for (size_t at = 0; at < box.bytes.size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct record record;

            box.bytes.data[at] ^= (char)(1 << bit);
            box.scratch.size = 0;
            if (record_decode(buffer_bytes(&box.bytes), &limits, &box.scratch, &record) == STATUS_OK)
                value_free(&record.value);
            (void)!record_peek(buffer_bytes(&box.bytes), &expire_ms, &type);
            box.bytes.data[at] ^= (char)(1 << bit);
        }
    }
    box.bytes.data[0] = 2;
    assert_int_equal(record_decode(buffer_bytes(&box.bytes), &limits, &box.scratch, &(struct record){ 0 }), STATUS_VERSION);
    close_box(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_comes_back_as_it_was_kept),
        cmocka_unit_test(a_table_stays_a_table_although_it_is_small),
        cmocka_unit_test(a_listpack_stays_one_although_the_limits_went_down),
        cmocka_unit_test(damaged_records_are_refused_or_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
