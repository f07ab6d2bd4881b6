/* Streams and their groups are compared with arrays; and their payloads are tested. */
#include "value/stream_group.h"

#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "value/codec.h"

enum { ENTRIES_MAX = 1500, STEPS = 3000, SEEDS = 3, IDS = 60, CONSUMERS = 3 };

static const struct value_limits limits = { .stream_node_size_max = 4096, .stream_node_entries_max = 10, .seed = { 3, 4 } };

struct model {
    struct value value;
    struct stream *stream;
    struct stream_id ids[ENTRIES_MAX];
    size_t count;
    uint64_t added;
    struct stream_id max_deleted;
};

static struct stream_id id_of(uint64_t ms, uint64_t seq)
{
    return (struct stream_id){ ms, seq };
}

/* The pairs of an entry follow from its ID: some have the fields of the node, some have their own. */
static size_t pairs_of(struct stream_id id, char digits[24], struct bytes pairs[4])
{
    pairs[0] = bytes_of_string(id.ms % 5 == 0 ? "other" : "field");
    pairs[1] = bytes_of(digits, (size_t)sprintf(digits, "%llu-%llu", (unsigned long long)id.ms, (unsigned long long)id.seq));
    pairs[2] = bytes_of_string("n");
    pairs[3] = bytes_of_string("12345");
    return id.ms % 7 == 0 ? 1 : 2;
}

static void append(struct model *model, struct stream_id id)
{
    struct bytes pairs[4];
    char digits[24];
    size_t count = pairs_of(id, digits, pairs);

    assert_true(stream_append(model->stream, &limits, id, pairs, count));
    model->ids[model->count++] = id;
    model->added++;
}

static void cut(struct model *model, size_t at, size_t count)
{
    memmove(model->ids + at, model->ids + at + count, (model->count - at - count) * sizeof(model->ids[0]));
    model->count -= count;
}

static void assert_entry(struct stream_iterator *iterator, struct stream_id wanted)
{
    struct bytes pairs[4], field, value;
    size_t count, wanted_count;
    struct stream_id id;
    char digits[24];

    assert_true(stream_next(iterator, &id, &count));
    assert_int_equal(stream_id_compare(id, wanted), 0);
    wanted_count = pairs_of(wanted, digits, pairs);
    assert_int_equal(count, wanted_count);
    for (size_t i = 0; i < count; i++) {
        stream_pair(iterator, &field, &value);
        assert_true(bytes_equal(field, pairs[2 * i]));
        assert_true(bytes_equal(value, pairs[2 * i + 1]));
    }
}

static void assert_range(const struct model *model, const struct stream *stream, struct stream_id start, struct stream_id end)
{
    struct stream_iterator iterator;
    size_t first = 0, last, count;
    struct stream_id id;

    while (first < model->count && stream_id_compare(model->ids[first], start) < 0)
        first++;
    for (last = first; last < model->count && stream_id_compare(model->ids[last], end) <= 0;)
        last++;
    stream_iterate(&iterator, stream, start, end, STREAM_UP);
    for (size_t i = first; i < last; i++)
        assert_entry(&iterator, model->ids[i]);
    assert_false(stream_next(&iterator, &id, &count));
    stream_iterate(&iterator, stream, start, end, STREAM_DOWN);
    for (size_t i = last; i-- > first;)
        assert_entry(&iterator, model->ids[i]);
    assert_false(stream_next(&iterator, &id, &count));
}

static void assert_same(const struct model *model, const struct stream *stream)
{
    stream_verify(stream);
    assert_true(stream->length == model->count);
    assert_true(stream->entries_added == model->added);
    assert_int_equal(stream_id_compare(stream->max_deleted_id, model->max_deleted), 0);
    assert_int_equal(stream_id_compare(stream_last_live_id(stream), model->count ? model->ids[model->count - 1] : id_of(0, 0)), 0);
    assert_int_equal(stream_id_compare(stream->first_id, model->count ? model->ids[0] : id_of(0, 0)), 0);
    assert_range(model, stream, id_of(0, 0), STREAM_ID_MAX);
}

static void assert_comes_back(const struct model *model)
{
    struct buffer payload = { 0 }, again = { 0 }, scratch = { 0 };
    struct value back, copy = value_copy(&model->value);

    assert_same(model, stream_of(&copy));
    value_free(&copy);
    codec_encode(&model->value, &payload);
    assert_int_equal(codec_decode(buffer_bytes(&payload), &limits, &scratch, &back), STATUS_OK);
    assert_same(model, stream_of(&back));
    codec_encode(&back, &again);
    assert_true(bytes_equal(buffer_bytes(&payload), buffer_bytes(&again)));
    value_free(&back);
    buffer_release(&payload);
    buffer_release(&again);
    buffer_release(&scratch);
}

static void a_stream_behaves_like_an_array(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct model *model = calloc(1, sizeof(*model));
        struct stream_id last = { 0, 0 };
        struct random dice;

        print_message("seed %llu\n", (unsigned long long)seed);
        random_init(&dice, seed);
        model->value = stream_create();
        model->stream = stream_of(&model->value);
        for (int step = 0; step < STEPS; step++) {
            uint64_t kind = random_below(&dice, 100);

            if (kind < 70 && model->count < ENTRIES_MAX) {
                last = random_below(&dice, 2) ? id_of(last.ms, last.seq + 1) : id_of(last.ms + 1 + random_below(&dice, 3), 0);
                append(model, last);
            } else if (kind < 96 && model->count > 0) {
                size_t at = random_below(&dice, model->count);
                struct stream_id id = model->ids[at];

                assert_true(stream_has(model->stream, id));
                assert_true(stream_delete(model->stream, id));
                assert_false(stream_has(model->stream, id));
                assert_false(stream_delete(model->stream, id));
                if (stream_id_compare(id, model->max_deleted) > 0)
                    model->max_deleted = id;
                cut(model, at, 1);
            } else if (kind == 96 && model->count > 0) {
                size_t left = random_below(&dice, model->count + 1);
                struct stream_trim trim = { .by = TRIM_LENGTH, .length_max = left };

                assert_true(stream_trim(model->stream, &trim) == model->count - left);
                cut(model, 0, model->count - left);
                model->max_deleted = model->stream->max_deleted_id;
            } else if (kind == 97 && model->count > 0) {
                size_t at = random_below(&dice, model->count);
                struct stream_trim trim = { .by = TRIM_ID, .min_id = model->ids[at] };

                assert_true(stream_trim(model->stream, &trim) == at);
                cut(model, 0, at);
                model->max_deleted = model->stream->max_deleted_id;
            } else if (kind == 98 && model->count > 0) {
                size_t left = random_below(&dice, model->count), gone;
                struct stream_trim trim = { .by = TRIM_LENGTH, .approximate = true, .length_max = left, .limit = 25 };

                gone = stream_trim(model->stream, &trim);
                assert_true(gone <= 25 && gone <= model->count - left);
                cut(model, 0, gone);
                model->max_deleted = model->stream->max_deleted_id;
            } else {
                uint64_t from = random_below(&dice, last.ms + 2);

                assert_range(model, model->stream, id_of(from, random_below(&dice, 3)), id_of(from + random_below(&dice, 50), 1));
            }
            if (step % 100 == 0)
                assert_same(model, model->stream);
        }
        assert_comes_back(model);
        value_free(&model->value);
        free(model);
    }
}

static void pending_entries_match_an_array(void **state)
{
    static const char *const names[CONSUMERS] = { "anna", "bert", "cleo" };

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int owner[IDS];
        struct value value = stream_create();
        struct stream *stream = stream_of(&value);
        struct stream_group *group = stream_group_create(stream, bytes_of_string("g"), id_of(0, 0), 0);
        struct random dice;

        print_message("seed %llu\n", (unsigned long long)seed);
        random_init(&dice, seed);
        assert_null(stream_group_create(stream, bytes_of_string("g"), id_of(0, 0), 0));
        for (int i = 0; i < CONSUMERS; i++)
            assert_non_null(stream_consumer_create(group, bytes_of_string(names[i]), 1));
        assert_null(stream_consumer_create(group, bytes_of_string("anna"), 1));
        for (int i = 0; i < IDS; i++)
            owner[i] = -1;
        for (int step = 0; step < STEPS; step++) {
            int id = (int)random_below(&dice, IDS), who = (int)random_below(&dice, CONSUMERS);
            size_t wanted[CONSUMERS] = { 0 }, all = 0;
            uint64_t kind = random_below(&dice, 50);

            if (kind < 30) {
                /* Times that are lower now and then: stream_verify compares them with the group's oldest. */
                int64_t delivered_ms = 1000 + step - (int64_t)random_below(&dice, 20);

                assert_true(stream_pending_assign(group, id_of(1, (uint64_t)id), stream_consumer_find(group, bytes_of_string(names[who])),
                    delivered_ms)->delivered_ms == delivered_ms);
                owner[id] = who;
            } else if (kind < 49) {
                assert_int_equal(stream_pending_remove(group, id_of(1, (uint64_t)id)), owner[id] >= 0);
                owner[id] = -1;
            } else {
                stream_consumer_destroy(group, stream_consumer_find(group, bytes_of_string(names[who])));
                assert_null(stream_consumer_find(group, bytes_of_string(names[who])));
                assert_non_null(stream_consumer_create(group, bytes_of_string(names[who]), 2));
                for (int i = 0; i < IDS; i++)
                    owner[i] = owner[i] == who ? -1 : owner[i];
            }
            for (int i = 0; i < IDS; i++) {
                if (owner[i] < 0)
                    continue;
                wanted[owner[i]]++;
                all++;
                assert_non_null(idmap_find(&stream_consumer_find(group, bytes_of_string(names[owner[i]]))->pending, id_of(1, (uint64_t)i)));
            }
            assert_int_equal(group->pending.count, all);
            for (int i = 0; i < CONSUMERS; i++)
                assert_int_equal(stream_consumer_find(group, bytes_of_string(names[i]))->pending.count, wanted[i]);
            stream_verify(stream);
        }
        assert_true(stream_group_destroy(stream, bytes_of_string("g")));
        assert_false(stream_group_destroy(stream, bytes_of_string("g")));
        value_free(&value);
    }
}

static void add_id(struct buffer *out, uint8_t ms)
{
    const uint8_t id[16] = { [7] = ms };

    buffer_append_bytes(out, bytes_of((const char *)id, sizeof(id)));
}

static void add_number(struct buffer *out, uint8_t number)
{
    const uint8_t eight[8] = { number };

    buffer_append_bytes(out, bytes_of((const char *)eight, sizeof(eight)));
}

/* Three entries, 1-0 to 3-0, and a group with one consumer, for which 2-0 is pending; in the form of one of the RDB types. */
static void build(struct buffer *out, char type)
{
    struct model *model = calloc(1, sizeof(*model));
    struct buffer plain = { 0 };

    model->value = stream_create();
    model->stream = stream_of(&model->value);
    for (uint64_t ms = 1; ms <= 3; ms++)
        append(model, id_of(ms, 0));
    codec_encode(&model->value, &plain);
    buffer_append_bytes(out, bytes_of(&type, 1));
    /* Without groups the nodes are followed by nine lengths of one byte each. */
    buffer_append_bytes(out, bytes_of(plain.data + 1, plain.size - 10));
    buffer_append_bytes(out, type == CODEC_RDB_STREAM ? BYTES("\x03\x03\x00") : BYTES("\x03\x03\x00\x01\x00\x00\x00\x03"));
    buffer_append_bytes(out, BYTES("\x01\x01g\x02\x00"));
    if (type != CODEC_RDB_STREAM)
        buffer_append_bytes(out, BYTES("\x02"));
    buffer_append_bytes(out, BYTES("\x01"));
    add_id(out, 2);
    add_number(out, 9);
    buffer_append_bytes(out, BYTES("\x04\x01\x01" "c"));
    add_number(out, 7);
    if (type == CODEC_RDB_STREAM_3)
        add_number(out, 6);
    buffer_append_bytes(out, BYTES("\x01"));
    add_id(out, 2);
    buffer_release(&plain);
    value_free(&model->value);
    free(model);
}

static const char types[] = { CODEC_RDB_STREAM, CODEC_RDB_STREAM_2, CODEC_RDB_STREAM_3 };

static void all_three_forms_are_read(void **state)
{
    for (size_t i = 0; i < sizeof(types); i++) {
        struct buffer payload = { 0 }, scratch = { 0 }, again = { 0 };
        const struct stream_pending *pending;
        const struct stream_group *group;
        struct value value;

        build(&payload, types[i]);
        assert_int_equal(codec_decode(buffer_bytes(&payload), &limits, &scratch, &value), STATUS_OK);
        stream_verify(stream_of(&value));
        assert_true(stream_of(&value)->length == 3 && stream_of(&value)->entries_added == 3);
        group = stream_group_find(stream_of(&value), bytes_of_string("g"));
        assert_non_null(group);
        assert_int_equal(stream_id_compare(group->last_id, id_of(2, 0)), 0);
        pending = idmap_find(&group->pending, id_of(2, 0));
        assert_non_null(pending);
        assert_true(pending->delivered_ms == 9 && pending->deliveries == 4);
        assert_true(pending->consumer == stream_consumer_find(group, bytes_of_string("c")));
        assert_true(pending->consumer->seen_ms == 7);
        if (types[i] == CODEC_RDB_STREAM_3)
            assert_true(pending->consumer->active_ms == 6);
        codec_encode(&value, &again);
        if (types[i] == CODEC_RDB_STREAM_3)
            assert_true(bytes_equal(buffer_bytes(&again), buffer_bytes(&payload)));
        value_free(&value);
        buffer_release(&payload);
        buffer_release(&scratch);
        buffer_release(&again);
    }
}

static void assert_dumps(const struct value *value)
{
    struct buffer kept = { 0 }, dump = { 0 }, room = { 0 }, scratch = { 0 };
    struct bytes converted, dumped;
    struct value back;

    codec_encode(value, &kept);
    codec_dump(value, &dump);
    dumped = bytes_of(dump.data, dump.size - CODEC_DUMP_FOOTER_SIZE);
    assert_true(dumped.data[0] == CODEC_RDB_STREAM_2 && kept.data[0] == CODEC_RDB_STREAM_3);
    buffer_append_u8(&room, 'x');
    assert_int_equal(codec_for_dump(buffer_bytes(&kept), &room, &converted), STATUS_OK);
    assert_true(bytes_equal(converted, dumped));
    for (size_t size = 0; size < kept.size; size++) {
        room.size = 1;
        if (codec_for_dump(bytes_of(kept.data, size), &room, &converted) == STATUS_OK)
            fail_msg("the first %zu bytes of %zu are no stream", size, kept.size);
    }
    assert_int_equal(codec_decode(dumped, &limits, &scratch, &back), STATUS_OK);
    stream_verify(stream_of(&back));
    value_free(&back);
    buffer_release(&kept);
    buffer_release(&dump);
    buffer_release(&room);
    buffer_release(&scratch);
}

static void records_but_not_dumps_contain_the_times_of_consumers(void **state)
{
    struct buffer payload = { 0 }, scratch = { 0 };
    const struct stream_group *group;
    const char *const groups[] = { "a", "g", "z" };
    struct value value = stream_create(), back;
    struct stream *stream = stream_of(&value);

    assert_dumps(&value);
    for (uint64_t ms = 1; ms <= 40; ms++) {
        struct bytes pair[2] = { bytes_of_string("field"), bytes_of_string(ms % 3 ? "a value" : "7") };

        assert_true(stream_append(stream, &limits, id_of(ms, 300), pair, 1));
    }
    assert_dumps(&value);
    for (size_t i = 0; i < 3; i++) {
        struct stream_group *made = stream_group_create(stream, bytes_of_string(groups[i]), id_of(9, 0), (int64_t)i - 1);
        struct stream_consumer *one = stream_consumer_create(made, bytes_of_string("one"), 1000);

        assert_dumps(&value);
        stream_consumer_create(made, bytes_of_string("never active"), 2000);
        one->active_ms = 700 + (int64_t)i;
        for (uint64_t ms = 1; ms <= 30 * i; ms++)
            stream_pending_assign(made, id_of(ms, 300), one, 0)->deliveries = ms * 50;
        assert_dumps(&value);
    }
    codec_encode(&value, &payload);
    assert_int_equal(codec_decode(buffer_bytes(&payload), &limits, &scratch, &back), STATUS_OK);
    for (size_t i = 0; i < 3; i++) {
        group = stream_group_find(stream_of(&back), bytes_of_string(groups[i]));
        assert_true(stream_consumer_find(group, bytes_of_string("one"))->active_ms == 700 + (int64_t)i);
        assert_true(stream_consumer_find(group, bytes_of_string("one"))->seen_ms == 1000);
        assert_true(stream_consumer_find(group, bytes_of_string("never active"))->active_ms == -1);
    }
    value_free(&back);
    value_free(&value);
    buffer_release(&payload);
    buffer_release(&scratch);
}

/* Each byte is replaced by each value, and the payload is truncated at each position: what is accepted must be consistent. */
static void any_bytes_are_harmless(void **state)
{
    for (size_t i = 0; i < sizeof(types); i++) {
        struct buffer payload = { 0 }, scratch = { 0 };
        struct value value;
        size_t refused = 0;

        build(&payload, types[i]);
        for (size_t size = 0; size < payload.size; size++) {
            char *cut_off = malloc(size + 1);

            memcpy(cut_off, payload.data, size);
            if (codec_decode(bytes_of(cut_off, size), &limits, &scratch, &value) != STATUS_CORRUPT)
                fail_msg("type %d was taken with %zu bytes", types[i], size);
            free(cut_off);
        }
        for (size_t at = 1; at < payload.size; at++) {
            char was = payload.data[at];

            for (int byte = 0; byte < 256; byte++) {
                payload.data[at] = (char)byte;
                if (codec_decode(buffer_bytes(&payload), &limits, &scratch, &value) == STATUS_OK) {
                    stream_verify(stream_of(&value));
                    value_free(&value);
                } else {
                    refused++;
                }
                scratch.size = 0;
            }
            payload.data[at] = was;
        }
        assert_true(refused > 1000);
        buffer_release(&payload);
        buffer_release(&scratch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_behaves_like_an_array),
        cmocka_unit_test(pending_entries_match_an_array),
        cmocka_unit_test(all_three_forms_are_read),
        cmocka_unit_test(records_but_not_dumps_contain_the_times_of_consumers),
        cmocka_unit_test(any_bytes_are_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
