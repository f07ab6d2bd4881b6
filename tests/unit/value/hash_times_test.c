#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "containers/listpack.h"
#include "support/scaled.h"
#include "value/codec.h"
#include "value/hash.h"

enum { FIELDS = 60, STEPS = 30000 };

static const struct value_limits limits = { .hash_listpack_entries_max = 20, .hash_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits wide = { .hash_listpack_entries_max = 512, .hash_listpack_value_max = 64, .seed = { 3, 4 } };
static const struct value_limits tables_only = { .seed = { 3, 4 } };

/* The model: field i has a value (0: it is not there) and a time (HASH_NO_TIME: none). */
struct model {
    unsigned values[FIELDS];
    int64_t times[FIELDS];
};

static struct bytes field_of(unsigned i, char text[32])
{
    /* Numbers and words: both kinds of elements. */
    return bytes_of(text, (size_t)snprintf(text, 32, i % 3 == 0 ? "%u" : "field-%u", i));
}

static struct bytes value_of(unsigned i, char text[32])
{
    return bytes_of(text, (size_t)snprintf(text, 32, i % 2 == 0 ? "%u" : "value %u", i));
}

static void assert_is_model(const struct value *hash, const struct model *model)
{
    char text[32], other[32], digits[TEXT_INT_SIZE];
    struct hash_iterator iterator;
    struct bytes field, value;
    size_t count = 0, walked = 0, timed = 0;
    int64_t next = INT64_MAX, last = 0;

    for (unsigned i = 0; i < FIELDS; i++) {
        bool there = hash_get(hash, field_of(i, text), &value, digits);

        assert_int_equal(there, model->values[i] != 0);
        assert_int_equal(hash_has(hash, field_of(i, text)), there);
        assert_int_equal(hash_time(hash, field_of(i, text)), there ? model->times[i] : HASH_NO_FIELD);
        if (!there)
            continue;
        count++;
        assert_true(bytes_equal(value, value_of(model->values[i], other)));
        if (model->times[i] < 0)
            continue;
        timed++;
        next = model->times[i] < next ? model->times[i] : next;
        last = model->times[i] > last ? model->times[i] : last;
    }
    assert_int_equal(hash_count(hash), count);
    assert_int_equal(hash_has_times(hash), timed > 0);
    assert_int_equal(hash_next_expiry(hash), timed > 0 ? next : HASH_NO_TIME);
    assert_int_equal(hash_last_expiry(hash), timed > 0 && timed == count ? last : HASH_NO_TIME);
    hash_iterate(&iterator, hash);
    while (hash_next(&iterator, &field, &value)) {
        assert_true(hash_has(hash, field));
        walked++;
    }
    assert_int_equal(walked, count);
}

struct expirations {
    struct model *model;
    int64_t now_ms, previous;
    size_t count;
};

static void note_expired(void *context, struct bytes field)
{
    struct expirations *expirations = context;
    char text[32];

    for (unsigned i = 0; i < FIELDS; i++) {
        if (!bytes_equal(field, field_of(i, text)))
            continue;
        assert_int_not_equal(expirations->model->values[i], 0);
        assert_in_range(expirations->model->times[i], expirations->previous, expirations->now_ms);     /* earliest first */
        expirations->previous = expirations->model->times[i];
        expirations->model->values[i] = 0;
        expirations->count++;
        return;
    }
    fail_msg("a field expired that was not there");
}

static void remove_expired(struct value *hash, struct model *model, int64_t now_ms, size_t count_max)
{
    struct expirations expirations = { model, now_ms, 0, 0 };
    size_t count = hash_remove_expired(hash, now_ms, count_max, note_expired, &expirations);

    assert_int_equal(count, expirations.count);
    assert_in_range(count, 0, count_max);
    if (count == count_max)
        return;
    for (unsigned i = 0; i < FIELDS; i++)
        assert_false(model->values[i] != 0 && model->times[i] >= 0 && model->times[i] <= now_ms);
}

/* The same fields and values without times, also for Redis 7.0. A payload that is not complete is noticed. */
static void without_times(const struct value *hash)
{
    struct buffer payload = { 0 }, room = { 0 }, scratch = { 0 };
    struct bytes plain, field, data, found;
    struct hash_iterator iterator;
    struct value back;
    char digits[TEXT_INT_SIZE];

    codec_encode(hash, &payload);
    assert_int_equal(codec_has_times(buffer_bytes(&payload)), hash_has_times(hash));
    if (hash_has_times(hash)) {
        assert_int_equal(codec_without_times(buffer_bytes(&payload), &room, &plain), STATUS_OK);
        assert_int_equal(plain.data[0], CODEC_RDB_HASH);
        assert_int_equal(codec_decode(plain, &wide, &scratch, &back), STATUS_OK);
        assert_false(hash_has_times(&back));
        assert_int_equal(hash_count(&back), hash_count(hash));
        hash_iterate(&iterator, hash);
        while (hash_next(&iterator, &field, &data)) {
            assert_true(hash_get(&back, field, &found, digits));
            assert_true(bytes_equal(found, data));
        }
        value_free(&back);
        for (size_t size = 0; size < payload.size; size += 1 + size / 50)
            assert_int_equal(codec_without_times(bytes_of(payload.data, size), &room, &plain), STATUS_CORRUPT);
    }
    buffer_release(&payload);
    buffer_release(&room);
    buffer_release(&scratch);
}

/* To bytes and back, as in the store (the same encoding) or in RESTORE (according to the limits). */
static void round_trip(struct value *hash, const struct value_limits *to)
{
    struct buffer payload = { 0 }, dump = { 0 }, scratch = { 0 };
    struct value_limits exact;
    struct value back, copy;
    uint8_t digests[3][20];

    without_times(hash);
    codec_encode(hash, &payload);
    codec_dump(hash, &dump);
    assert_int_equal(dump.data[dump.size - CODEC_DUMP_FOOTER_SIZE], hash_has_times(hash) ? 12 : 10);
    exact = codec_limits_of(buffer_bytes(&payload), CODEC_AS_WRITTEN, to);
    assert_int_equal(codec_decode(buffer_bytes(&payload), &exact, &scratch, &back), STATUS_OK);
    assert_int_equal(back.encoding, hash->encoding);
    value_digest(hash, digests[0]);
    value_digest(&back, digests[1]);
    assert_memory_equal(digests[0], digests[1], 20);
    value_free(&back);
    assert_int_equal(codec_restore(buffer_bytes(&dump), to, &scratch, &back), STATUS_OK);
    copy = value_copy(&back);
    value_digest(&copy, digests[2]);
    assert_memory_equal(digests[0], digests[2], 20);
    assert_true(value_memory(&copy, 0) > 0);
    value_free(&copy);
    value_free(hash);
    *hash = back;
    buffer_release(&payload);
    buffer_release(&dump);
    buffer_release(&scratch);
}

static void change(struct value *hash, struct model *model, struct random *random, const struct value_limits *to, int64_t *now_ms)
{
    unsigned i = (unsigned)random_below(random, FIELDS), value = 1 + (unsigned)random_below(random, 1000);
    char field_text[32], value_text[32];
    struct bytes field = field_of(i, field_text);
    bool was_there = model->values[i] != 0;

    switch (random_below(random, 12)) {
    case 0: case 1: case 2:
        assert_int_equal(hash_set(hash, to, field, value_of(value, value_text)), !was_there);
        model->values[i] = value;
        model->times[i] = HASH_NO_TIME;
        break;
    case 3:
        assert_int_equal(hash_set_keeping(hash, to, field, value_of(value, value_text)), !was_there);
        model->values[i] = value;
        if (!was_there)
            model->times[i] = HASH_NO_TIME;
        break;
    case 4: case 5:
        assert_int_equal(hash_delete(hash, field), was_there);
        model->values[i] = 0;
        break;
    case 6: case 7: case 8:
        if (!was_there)
            break;
        model->times[i] = *now_ms + 1 + (int64_t)random_below(random, 400);
        hash_set_time(hash, to, field, model->times[i]);
        break;
    case 9:
        if (!was_there)
            break;
        model->times[i] = HASH_NO_TIME;
        hash_set_time(hash, to, field, HASH_NO_TIME);
        break;
    case 10:
        *now_ms += (int64_t)random_below(random, 60);
        remove_expired(hash, model, *now_ms, random_below(random, 4) == 0 ? 2 : SIZE_MAX);
        break;
    case 11:
        if (hash_count(hash) > 0 && random_below(random, 8) == 0)
            round_trip(hash, to);
        break;
    }
}

static void run_model(uint64_t seed, const struct value_limits *to)
{
    struct value hash = hash_create();
    struct random random;
    struct model model = { 0 };
    int64_t now_ms = 1700000000000;

    print_message("seed %" PRIu64 "\n", seed);
    random_init(&random, seed);
    for (int step = 0; step < scaled(STEPS); step++) {
        change(&hash, &model, &random, to, &now_ms);
        assert_is_model(&hash, &model);
        if (random_below(&random, 2000) == 0) {             /* small again */
            value_free(&hash);
            hash = hash_create();
            memset(&model, 0, sizeof(model));
        }
    }
    value_free(&hash);
}

static void a_hash_with_times_behaves_like_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 2; seed++) {
        run_model(seed, &limits);
        run_model(seed + 100, &wide);
        run_model(seed + 200, &tables_only);
    }
}

static void the_encoding_changes_with_the_first_and_the_last_time(void **state)
{
    struct value hash = hash_create();
    size_t without;

    hash_set(&hash, &limits, BYTES("a"), BYTES("1"));
    hash_set(&hash, &limits, BYTES("b"), BYTES("2"));
    without = value_memory(&hash, 0);
    assert_string_equal(value_encoding_name(&hash), "listpack");
    hash_set_time(&hash, &limits, BYTES("a"), 5000);
    assert_string_equal(value_encoding_name(&hash), "listpackex");
    hash_set_time(&hash, &limits, BYTES("a"), HASH_NO_TIME);
    assert_string_equal(value_encoding_name(&hash), "listpack");
    assert_int_equal(value_memory(&hash, 0), without);
    hash_set_time(&hash, &limits, BYTES("b"), 5000);
    hash_set(&hash, &tables_only, BYTES("c"), BYTES("3"));
    assert_int_equal(hash.encoding, HASH_TABLE_TIMES);
    assert_string_equal(value_encoding_name(&hash), "hashtable");
    assert_int_equal(hash_time(&hash, BYTES("b")), 5000);
    hash_delete(&hash, BYTES("b"));
    assert_int_equal(hash.encoding, HASH_TABLE);
    hash_set_time(&hash, &limits, BYTES("c"), 0);
    assert_int_equal(hash_next_expiry(&hash), 1);            /* 0 means none, so the first millisecond is next */
    value_free(&hash);
}

static void many_expired_fields_are_distinguished_from_few(void **state)
{
    struct value hash = hash_create();
    char digits[TEXT_INT_SIZE];

    for (int i = 0; i < 40; i++) {
        struct bytes field = bytes_of(digits, text_of_int(i, digits));

        hash_set(&hash, &limits, field, BYTES("v"));
        if (i == 10)
            assert_false(hash_has_many_expired(&hash, 1000, 0));       /* a listpack */
        if (i < 30)
            hash_set_time(&hash, &limits, field, 100 + i);
    }
    assert_int_equal(hash.encoding, HASH_TABLE_TIMES);
    assert_false(hash_has_many_expired(&hash, 99, 0));
    assert_true(hash_has_many_expired(&hash, 100, 0));
    assert_false(hash_has_many_expired(&hash, 109, 10));
    assert_true(hash_has_many_expired(&hash, 110, 10));
    assert_true(hash_has_many_expired(&hash, 1000, 29));
    assert_false(hash_has_many_expired(&hash, 1000, 30));
    value_free(&hash);
    hash = hash_create();
    assert_false(hash_has_many_expired(&hash, 1000, 0));
    value_free(&hash);
}

static enum status decode(struct bytes payload, const struct value_limits *to, struct value *hash)
{
    struct buffer scratch = { 0 };
    enum status status = codec_decode(payload, to, &scratch, hash);

    buffer_release(&scratch);
    return status;
}

/* The same four fields in all four types: a at 2000, b without, c at 1000, d at 2000. */
static void all_four_payloads_are_read(void **state)
{
    static const struct { const char *field, *value; int64_t time_ms; } rows[] = {
        { "c", "3", 1000 }, { "a", "1", 2000 }, { "d", "4", 2000 }, { "b", "2", 0 },
    };
    int64_t earliest = 1000;

    for (int type = CODEC_RDB_HASH_TIMES_OLD; type <= CODEC_RDB_HASH_LISTPACK_TIMES; type++) {
        for (int unordered = 0; unordered < 2; unordered++) {
            struct buffer payload = { 0 };
            struct listpack *pack = listpack_create();
            struct value hash;

            buffer_append_u8(&payload, (uint8_t)type);
            if (type >= CODEC_RDB_HASH_TIMES)
                buffer_append(&payload, &earliest, 8);
            if (type == CODEC_RDB_HASH_TIMES || type == CODEC_RDB_HASH_TIMES_OLD)
                codec_write_length(&payload, 4);
            for (int i = 0; i < 4; i++) {
                int row = unordered ? 3 - i : i;
                int64_t time_ms = rows[row].time_ms;

                codec_write_length(&payload, (uint64_t)(type == CODEC_RDB_HASH_TIMES && time_ms > 0 ? time_ms - earliest + 1 : time_ms));
                codec_write_string(&payload, bytes_of_string(rows[row].field));
                codec_write_string(&payload, bytes_of_string(rows[row].value));
                listpack_append(&pack, bytes_of_string(rows[row].field));
                listpack_append(&pack, bytes_of_string(rows[row].value));
                listpack_append_int(&pack, time_ms);
            }
            if (type == CODEC_RDB_HASH_LISTPACK_TIMES || type == CODEC_RDB_HASH_LISTPACK_TIMES_OLD) {
                struct bytes block = listpack_bytes(pack);

                payload.size = type == CODEC_RDB_HASH_LISTPACK_TIMES ? 9 : 1;
                codec_write_length(&payload, block.size);
                buffer_append_bytes(&payload, block);
            }
            assert_int_equal(decode(buffer_bytes(&payload), &limits, &hash), STATUS_OK);
            assert_string_equal(value_encoding_name(&hash), "listpackex");
            assert_int_equal(hash_time(&hash, BYTES("a")), 2000);
            assert_int_equal(hash_time(&hash, BYTES("b")), HASH_NO_TIME);
            assert_int_equal(hash_time(&hash, BYTES("c")), 1000);
            assert_int_equal(hash_time(&hash, BYTES("d")), 2000);
            assert_int_equal(hash_next_expiry(&hash), 1000);
            value_free(&hash);
            assert_int_equal(decode(buffer_bytes(&payload), &tables_only, &hash), STATUS_OK);
            assert_int_equal(hash.encoding, HASH_TABLE_TIMES);
            assert_int_equal(hash_next_expiry(&hash), 1000);
            value_free(&hash);
            /* Truncated at every position. */
            for (size_t size = 0; size < payload.size; size++)
                assert_int_equal(decode(bytes_of(payload.data, size), &limits, &hash), STATUS_CORRUPT);
            listpack_destroy(pack);
            buffer_release(&payload);
        }
    }
}

static void a_corrupt_payload_is_refused(void **state)
{
    struct value hash;

    /* The same field twice; a time beyond the maximum; an impossible number of fields; no fields. */
    assert_int_equal(decode(BYTES("\x18\1\0\0\0\0\0\0\0\2\1\1" "f\1v\1\1" "f\1w"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x18\1\0\0\0\0\0\0\0\1\x81\xff\xff\xff\xff\xff\xff\xff\xff\1" "f\1v"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x18\1\0\0\0\0\0\0\x80\1\1\1" "f\1v"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x18\1\0\0\0\0\0\0\0\x80\xff\xff\xff\xff\1\1" "f\1v"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x18\1\0\0\0\0\0\0\0\0"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x16\0"), &limits, &hash), STATUS_CORRUPT);
    /* A listpack whose third element is a word; one of two elements; one with a negative time. */
    assert_int_equal(decode(BYTES("\x17\x10\x10\0\0\0\3\0\x81" "f\2\x81v\2\x81w\2\xff"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x17\x0d\x0d\0\0\0\2\0\x81" "f\2\x81v\2\xff"), &limits, &hash), STATUS_CORRUPT);
    assert_int_equal(decode(BYTES("\x17\x10\x10\0\0\0\3\0\x81" "f\2\x81v\2\xdf\xff\2\xff"), &limits, &hash), STATUS_CORRUPT);
    /* The same with a valid time, to show that nothing else was wrong. */
    assert_int_equal(decode(BYTES("\x17\x0f\x0f\0\0\0\3\0\x81" "f\2\x81v\2\5\1\xff"), &limits, &hash), STATUS_OK);
    assert_int_equal(hash_time(&hash, BYTES("f")), 5);
    value_free(&hash);
    assert_int_equal(decode(BYTES("\x17\x0f\x0f\0\0\0\3\0\x81" "f\2\x81v\2\0\1\xff"), &limits, &hash), STATUS_OK);
    assert_string_equal(value_encoding_name(&hash), "listpack");        /* no time in it */
    value_free(&hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hash_with_times_behaves_like_the_model),
        cmocka_unit_test(the_encoding_changes_with_the_first_and_the_last_time),
        cmocka_unit_test(many_expired_fields_are_distinguished_from_few),
        cmocka_unit_test(all_four_payloads_are_read),
        cmocka_unit_test(a_corrupt_payload_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
