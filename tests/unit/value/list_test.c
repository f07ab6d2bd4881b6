#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "containers/listpack.h"
#include "support/seed.h"
#include "value/codec.h"
#include "value/list.h"
#include "value/lzf.h"

static const struct value_limits normal = { .list_fill = -2, .seed = { 1, 2 } };

static void assert_encoding(const struct value *list, const char *name)
{
    assert_string_equal(value_encoding_name(list), name);
}

static void push(struct value *list, const struct value_limits *limits, enum list_end end, struct bytes element)
{
    list_grow(list, limits, 1, element.size);
    list_push(list, end, element);
}

static void assert_element(const struct value *list, size_t index, struct bytes expected)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    struct bytes found;

    list_iterate(&iterator, list, index, LIST_TAIL);
    assert_true(list_step(&iterator));
    found = list_element(&iterator, digits);
    assert_int_equal(found.size, expected.size);
    assert_memory_equal(found.data, expected.data, found.size);
    assert_true(list_equals(&iterator, expected));
    list_iterate_end(&iterator);
}

/* The model: an array of strings. */
enum { MODEL_MAX = 6000 };
struct model {
    struct bytes elements[MODEL_MAX];
    size_t count;
};

static struct bytes own(struct bytes bytes)
{
    char *copy = mem_alloc(bytes.size + 1);

    memcpy(copy, bytes.data, bytes.size);
    return bytes_of(copy, bytes.size);
}

static void model_insert(struct model *model, size_t index, struct bytes element)
{
    memmove(model->elements + index + 1, model->elements + index, (model->count - index) * sizeof(element));
    model->elements[index] = own(element);
    model->count++;
}

static void model_delete(struct model *model, size_t index, size_t count)
{
    for (size_t i = index; i < index + count; i++)
        mem_free((char *)model->elements[i].data);
    memmove(model->elements + index, model->elements + index + count, (model->count - index - count) * sizeof(struct bytes));
    model->count -= count;
}

static size_t model_remove(struct model *model, struct bytes element, size_t count_max, enum list_end from)
{
    size_t removed = 0;

    for (size_t seen = model->count, i = 0; seen > 0 && removed < count_max; seen--) {
        size_t at = from == LIST_HEAD ? i : seen - 1;

        if (bytes_equal(model->elements[at], element)) {
            model_delete(model, at, 1);
            removed++;
        } else {
            i++;
        }
    }
    return removed;
}

static void assert_same(const struct value *list, const struct model *model, uint64_t seed)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    size_t seen = 0;

    if (list_count(list) != model->count)
        fail_msg("seed %" PRIu64 ": %zu elements instead of %zu", seed, list_count(list), model->count);
    for (int backwards = 0; backwards < 2; backwards++) {
        seen = 0;
        list_iterate(&iterator, list, backwards ? model->count - 1 : 0, backwards ? LIST_HEAD : LIST_TAIL);
        for (; list_step(&iterator); seen++) {
            if (seen >= model->count ||
                !bytes_equal(list_element(&iterator, digits), model->elements[backwards ? model->count - 1 - seen : seen]))
                fail_msg("seed %" PRIu64 ": element %zu differs", seed, seen);
        }
        list_iterate_end(&iterator);
        if (seen != model->count)
            fail_msg("seed %" PRIu64 ": %zu elements seen instead of %zu", seed, seen, model->count);
    }
    if (model->count > 0) {
        char at_end[TEXT_INT_SIZE];

        assert_true(bytes_equal(list_end_element(list, LIST_HEAD, at_end), model->elements[0]));
        assert_true(bytes_equal(list_end_element(list, LIST_TAIL, at_end), model->elements[model->count - 1]));
    }
}

static void assert_survives(const struct value *list, const struct value_limits *limits, enum codec_form form, uint64_t seed)
{
    struct buffer out = { 0 }, scratch = { 0 };
    struct value_limits exact;
    struct value decoded, copy = value_copy(list);
    uint8_t digest[20], again[20];

    value_digest(list, digest);
    value_digest(&copy, again);
    assert_memory_equal(digest, again, 20);
    codec_encode(list, &out);
    exact = codec_limits_of(buffer_bytes(&out), form, limits);
    if (codec_decode(buffer_bytes(&out), &exact, &scratch, &decoded) != STATUS_OK)
        fail_msg("seed %" PRIu64 ": not decoded", seed);
    value_digest(&decoded, again);
    assert_memory_equal(digest, again, 20);
    assert_int_equal(decoded.encoding, list->encoding);
    value_free(&decoded);
    value_free(&copy);
    buffer_release(&out);
    buffer_release(&scratch);
}

static struct bytes random_element(struct random *random, char *room)
{
    uint64_t kind = random_below(random, 40);
    size_t size;

    if (kind < 14)
        return bytes_of(room, text_of_int((int64_t)random_below(random, 8), room));
    if (kind < 20)
        return bytes_of(room, text_of_int((int64_t)random_next(random) >> random_below(random, 63), room));
    size = kind == 39 ? random_below(random, 4) == 0 ? 70000 : 9000 : kind > 35 ? random_below(random, 1500) : random_below(random, 30);
    for (size_t i = 0; i < size; i++)
        room[i] = kind % 2 ? (char)('a' + i % 3) : (char)random_next(random);
    return bytes_of(room, size);
}

static void step(struct random *random, const struct value_limits *limits, struct value *list, struct model *model)
{
    static char room[70000];
    struct bytes element = random_element(random, room);
    size_t index = model->count > 0 ? random_below(random, model->count) : 0, count;
    enum list_end end = random_below(random, 2) ? LIST_HEAD : LIST_TAIL;

    switch (random_below(random, 16)) {
    case 0: case 1: case 2: case 3: case 4: case 5: case 6:
        push(list, limits, end, element);
        model_insert(model, end == LIST_HEAD ? 0 : model->count, element);
        return;
    case 7: case 8: case 9:
        index = random_below(random, model->count + 1);
        list_grow(list, limits, 1, element.size);
        list_insert(list, index, element);
        model_insert(model, index, element);
        return;
    case 10:
        if (model->count == 0)
            return;
        list_grow(list, limits, 1, element.size);
        list_set(list, index, element);
        mem_free((char *)model->elements[index].data);
        model->elements[index] = own(element);
        break;
    case 11: case 12: case 13:
        count = model->count > 0 ? random_below(random, 4) : 0;
        index = end == LIST_HEAD ? 0 : model->count - (count < model->count ? count : model->count);
        count = count < model->count - index ? count : model->count - index;
        list_delete(list, index, count);
        model_delete(model, index, count);
        break;
    case 14:
        count = random_below(random, 20) == 0 ? model->count - index : random_below(random, 10);
        count = count < model->count - index ? count : model->count - index;
        list_delete(list, index, count);
        model_delete(model, index, count);
        break;
    default:
        count = random_below(random, 3) == 0 ? SIZE_MAX : 1 + random_below(random, 5);
        assert_int_equal(list_remove(list, element, count, end), model_remove(model, element, count, end));
    }
    list_shrink(list, limits);
}

/* No chunk exceeds its limit by more than replacing may cause, and exactly those that should be are compressed. */
static void assert_chunks(const struct value *list, uint64_t seed)
{
    size_t chunks;

    if (list->encoding != LIST_CHUNKS)
        return;
    chunks = chunk_list_chunks(list->object);
    for (size_t i = 0; i < chunks; i++) {
        struct chunk_view view = chunk_list_view(list->object, i);

        if (view.form == CHUNK_PACK && !listpack_is_valid(view.bytes))
            fail_msg("seed %" PRIu64 ": chunk %zu is no listpack", seed, i);
        if (view.form == CHUNK_PACK && view.bytes.size > 128 * 1024)
            fail_msg("seed %" PRIu64 ": chunk %zu has %zu bytes", seed, i, view.bytes.size);
    }
}

static void assert_compressed(const struct value *list, size_t depth, uint64_t seed)
{
    size_t chunks;

    if (list->encoding != LIST_CHUNKS)
        return;
    chunks = chunk_list_chunks(list->object);
    for (size_t i = 0; i < chunks; i++) {
        struct chunk_view view = chunk_list_view(list->object, i);
        bool inner = depth > 0 && i >= depth && chunks - i > depth;
        char room[128 * 1024];

        if (view.form == CHUNK_COMPRESSED && !inner)
            fail_msg("seed %" PRIu64 ": chunk %zu of %zu is compressed", seed, i, chunks);
        /* The least that compression must save is 8 bytes, but what lzf_encode gives may differ by some from call to call. */
        if (view.form == CHUNK_PACK && inner && view.bytes.size >= 48 && lzf_encode(view.bytes, room, view.bytes.size - 24) > 0)
            fail_msg("seed %" PRIu64 ": chunk %zu of %zu is not compressed", seed, i, chunks);
    }
}

static void random_changes_match_a_plain_array(void **state)
{
    static const int fills[] = { -1, -2, -5, 1, 2, 5, 128, 0 };
    static struct model model;
    uint64_t first = seed_new();

    for (uint64_t seed = first; seed < first + 60; seed++) {
        struct random random;
        struct value_limits limits = normal;
        struct value list = list_create();

        random_init(&random, seed);
        limits.list_fill = fills[random_below(&random, sizeof(fills) / sizeof(fills[0]))];
        limits.list_depth = (int)random_below(&random, 4);
        for (int i = 0; i < 1200 && model.count < MODEL_MAX - 1; i++) {
            step(&random, &limits, &list, &model);
            if (i % 20 == 0) {
                assert_same(&list, &model, seed);
                assert_chunks(&list, seed);
                assert_compressed(&list, (size_t)limits.list_depth, seed);
            }
        }
        assert_same(&list, &model, seed);
        if (model.count > 0)
            assert_survives(&list, &limits, list.encoding == LIST_LISTPACK ? CODEC_FROM_LISTPACK : CODEC_AS_WRITTEN, seed);
        assert_true(value_memory(&list, 0) > 0 && value_memory(&list, 3) > 0 && value_free_effort(&list) > 0);
        value_free(&list);
        model_delete(&model, 0, model.count);
    }
}

static void a_list_grows_into_chunks_and_shrinks_back(void **state)
{
    struct value list = list_create();
    char room[4000] = { 'x' };

    push(&list, &normal, LIST_TAIL, bytes_of(room, 4000));
    push(&list, &normal, LIST_TAIL, bytes_of(room, 4000));
    assert_encoding(&list, "listpack");
    push(&list, &normal, LIST_TAIL, BYTES("a"));
    assert_encoding(&list, "listpack");
    list_grow(&list, &normal, 1, 200);
    assert_encoding(&list, "quicklist");        /* even if no element is added */
    list_shrink(&list, &normal);
    assert_encoding(&list, "quicklist");        /* one chunk, but more than half full */
    list_delete(&list, 0, 1);
    list_shrink(&list, &normal);
    assert_encoding(&list, "listpack");
    assert_int_equal(list_count(&list), 2);
    value_free(&list);
}

/* The room that pushes at the head reserve is given back when a chunk is full. */
static void pushes_at_the_head_take_no_more_memory_than_at_the_tail(void **state)
{
    struct value heads = list_create(), tails = list_create();

    for (int i = 0; i < 20000; i++) {
        push(&heads, &normal, LIST_HEAD, BYTES("an element"));
        push(&tails, &normal, LIST_TAIL, BYTES("an element"));
    }
    assert_true(value_memory(&heads, 0) < value_memory(&tails, 0) + 4096);
    list_delete(&heads, 0, 19700);
    list_delete(&tails, 300, 19700);
    assert_true(value_memory(&heads, 0) < 2 * value_memory(&tails, 0));
    value_free(&heads);
    value_free(&tails);
}

static void chunks_limited_by_count_do_not_exceed_it(void **state)
{
    struct value_limits limits = { .list_fill = 4 };
    struct value list = list_create();

    for (int i = 0; i < 4; i++)
        push(&list, &limits, LIST_TAIL, BYTES("a"));
    assert_encoding(&list, "listpack");
    for (int i = 0; i < 5; i++)
        push(&list, &limits, LIST_TAIL, BYTES("a"));
    assert_encoding(&list, "quicklist");
    assert_int_equal(chunk_list_chunks(list.object), 3);
    list_delete(&list, 4, 5);
    list_shrink(&list, &limits);
    assert_encoding(&list, "quicklist");
    list_delete(&list, 0, 2);
    list_shrink(&list, &limits);
    assert_encoding(&list, "listpack");
    value_free(&list);
}

static void a_large_element_has_a_chunk_of_its_own(void **state)
{
    struct value list = list_create();
    char *large = mem_zalloc(100000);

    push(&list, &normal, LIST_TAIL, BYTES("a"));
    push(&list, &normal, LIST_TAIL, bytes_of(large, 100000));
    push(&list, &normal, LIST_TAIL, BYTES("b"));
    assert_int_equal(chunk_list_chunks(list.object), 3);
    assert_int_equal(chunk_list_view(list.object, 1).form, CHUNK_PLAIN);
    assert_element(&list, 1, bytes_of(large, 100000));
    assert_survives(&list, &normal, CODEC_AS_WRITTEN, 0);
    list_set(&list, 1, BYTES("c"));
    assert_int_equal(chunk_list_view(list.object, 1).form, CHUNK_PACK);
    list_set(&list, 1, bytes_of(large, 100000));
    assert_int_equal(list_remove(&list, bytes_of(large, 100000), SIZE_MAX, LIST_TAIL), 1);
    assert_int_equal(list_count(&list), 2);
    value_free(&list);
    mem_free(large);
}

static void an_index_is_found_among_a_million_elements(void **state)
{
    struct value list = list_create();
    char digits[TEXT_INT_SIZE];

    for (int64_t i = 0; i < 1000000; i++)
        push(&list, &normal, i % 2 ? LIST_TAIL : LIST_HEAD, bytes_of(digits, text_of_int(i, digits)));
    for (int64_t i = 0; i < 500000; i += 777) {
        assert_element(&list, (size_t)(499999 - i), bytes_of(digits, text_of_int(2 * i, digits)));
        assert_element(&list, (size_t)(500000 + i), bytes_of(digits, text_of_int(2 * i + 1, digits)));
    }
    list_delete(&list, 10, 999980);
    assert_int_equal(list_count(&list), 20);
    assert_element(&list, 19, BYTES("999999"));
    value_free(&list);
}

static void compressed_elements_are_read_unchanged(void **state)
{
    struct value_limits limits = { .list_fill = -1, .list_depth = 1 };
    struct value list = list_create(), open = list_create();
    char text[64];

    for (int i = 0; i < 5000; i++) {
        struct bytes element = bytes_of(text, (size_t)snprintf(text, sizeof(text), "a rather repetitive element, number %d", i));

        push(&list, &limits, LIST_TAIL, element);
        push(&open, &normal, LIST_TAIL, element);
    }
    assert_true(value_memory(&list, 0) < value_memory(&open, 0) / 2);
    assert_compressed(&list, 1, 0);
    assert_element(&list, 2500, BYTES("a rather repetitive element, number 2500"));
    list_set(&list, 2500, BYTES("12"));
    list_insert(&list, 2500, BYTES("13"));
    assert_compressed(&list, 1, 0);
    assert_element(&list, 2500, BYTES("13"));
    assert_element(&list, 2501, BYTES("12"));
    assert_survives(&list, &limits, CODEC_AS_WRITTEN, 0);
    value_free(&list);
    value_free(&open);
}

/* From redis-server 7.0.15 and from the descriptions of the formats. */
static void older_formats_are_read(void **state)
{
    static const struct bytes payloads[] = {
        { "\x01\x03\x01" "a\xc0\x0c\x00", 7 },                                                      /* list: a, 12, "" */
        { "\x0a\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01" "a\x03\xfd\xff", 18 },            /* ziplist: a, 12 */
        { "\x0e\x02\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01" "a\x03\xfd\xff"
          "\x0d\x0d\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\xf6\xff", 33 },                           /* quicklist: the same; 5 */
        { "\x12\x02\x02\x0c\x0c\x00\x00\x00\x02\x00\x81" "a\x02\x0c\x01\xff\x01\x03" "xyz", 21 },     /* a listpack: a, 12; plain: xyz */
    };
    static const char *const expected[][4] = { { "a", "12", "" }, { "a", "12" }, { "a", "12", "5" }, { "a", "12", "xyz" } };

    for (size_t i = 0; i < 4; i++) {
        struct buffer scratch = { 0 };
        struct value list;

        assert_int_equal(codec_decode(payloads[i], &normal, &scratch, &list), STATUS_OK);
        assert_int_equal(list.type, VALUE_LIST);
        for (size_t at = 0; at < 4 && expected[i][at] != NULL; at++)
            assert_element(&list, at, bytes_of_string(expected[i][at]));
        value_free(&list);
        buffer_release(&scratch);
    }
}

static void corrupt_payloads_are_refused(void **state)
{
    static const struct bytes bad[] = {
        { "\x01\x00", 2 }, { "\x01\x02\x01" "a", 4 }, { "\x12\x00", 2 }, { "\x12\x01\x02\x07\x07\x00\x00\x00\x00\x00\xff", 11 },
        { "\x12\x01\x03\x01" "a", 5 }, { "\x12\x01\x02\x01" "a", 5 }, { "\x12\x81\xff\xff\xff\xff\xff\xff\xff\xff", 10 },
        { "\x0e\x01\x01" "a", 4 }, { "\x0a\xc0\x01", 3 },
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct buffer scratch = { 0 };
        struct value list;

        assert_int_equal(codec_decode(bad[i], &normal, &scratch, &list), STATUS_CORRUPT);
        buffer_release(&scratch);
    }
}

static void only_equal_lists_have_equal_digests(void **state)
{
    struct value_limits small = { .list_fill = 1 };
    struct value one = list_create(), other = list_create(), turned = list_create();
    uint8_t digests[3][20];

    push(&one, &normal, LIST_TAIL, BYTES("a"));
    push(&one, &normal, LIST_TAIL, BYTES("b"));
    push(&other, &small, LIST_HEAD, BYTES("b"));
    push(&other, &small, LIST_HEAD, BYTES("a"));
    push(&turned, &normal, LIST_HEAD, BYTES("a"));
    push(&turned, &normal, LIST_HEAD, BYTES("b"));
    assert_encoding(&other, "quicklist");
    value_digest(&one, digests[0]);
    value_digest(&other, digests[1]);
    value_digest(&turned, digests[2]);
    assert_memory_equal(digests[0], digests[1], 20);
    assert_memory_not_equal(digests[0], digests[2], 20);
    value_free(&one);
    value_free(&other);
    value_free(&turned);
}

static void lzf_unpacks_what_it_packed(void **state)
{
    uint64_t first = seed_new();
    static char text[20000], packed[20700];

    for (uint64_t seed = first; seed < first + 300; seed++) {
        struct buffer out = { 0 };
        struct random random;
        size_t size, packed_size;
        uint64_t letters;

        random_init(&random, seed);
        size = random_below(&random, random_below(&random, 4) ? 300 : sizeof(text));
        letters = 1 + random_below(&random, random_below(&random, 2) ? 3 : 256);
        for (size_t i = 0; i < size; i++)
            text[i] = (char)random_below(&random, letters);
        packed_size = lzf_encode(bytes_of(text, size), packed, size + size / 32 + 4);
        if (size > 1 && packed_size == 0)
            fail_msg("seed %" PRIu64 ": not compressed", seed);
        if (size != 1 && (lzf_decode(bytes_of(packed, packed_size), size, &out) != STATUS_OK ||
            !bytes_equal(buffer_bytes(&out), bytes_of(text, size))))
            fail_msg("seed %" PRIu64 ": not the same", seed);
        assert_true(lzf_encode(bytes_of(text, size), packed, packed_size / 2) <= packed_size / 2);
        buffer_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_match_a_plain_array),
        cmocka_unit_test(a_list_grows_into_chunks_and_shrinks_back),
        cmocka_unit_test(pushes_at_the_head_take_no_more_memory_than_at_the_tail),
        cmocka_unit_test(chunks_limited_by_count_do_not_exceed_it),
        cmocka_unit_test(a_large_element_has_a_chunk_of_its_own),
        cmocka_unit_test(an_index_is_found_among_a_million_elements),
        cmocka_unit_test(compressed_elements_are_read_unchanged),
        cmocka_unit_test(older_formats_are_read),
        cmocka_unit_test(corrupt_payloads_are_refused),
        cmocka_unit_test(only_equal_lists_have_equal_digests),
        cmocka_unit_test(lzf_unpacks_what_it_packed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
