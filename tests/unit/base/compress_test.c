#include "base/compress.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

enum { SAMPLES = 4000, ROUNDS = 300, TEXT_MAX = 3000 };

/* What such texts have in common is more than what one has twice. */
static void append_json(struct random *random, struct buffer *text)
{
    buffer_append_format(text, "{\"id\":%llu,\"name\":\"user-%llx\",\"email\":\"u%llu@example.com\",\"roles\":[\"reader\",\"%s\"],\"active\":%s}",
        (unsigned long long)random_below(random, 1u << 30), (unsigned long long)random_next(random),
        (unsigned long long)random_below(random, 1u << 20), random_below(random, 2) ? "editor" : "owner", random_below(random, 2) ? "true" : "false");
}

static struct compress_dictionary *train(struct random *random)
{
    struct buffer samples = { 0 }, bytes = { 0 };
    size_t *sizes = mem_alloc(SAMPLES * sizeof(*sizes));
    struct compress_dictionary *dictionary;

    for (int i = 0; i < SAMPLES; i++) {
        size_t before = samples.size;

        append_json(random, &samples);
        sizes[i] = samples.size - before;
    }
    assert_true(compress_train(samples.data, sizes, SAMPLES, 8192, &bytes));
    assert_true(bytes.size > 0 && bytes.size <= 8192);
    dictionary = compress_dictionary_create(buffer_bytes(&bytes));
    assert_non_null(dictionary);
    buffer_release(&samples);
    buffer_release(&bytes);
    mem_free(sizes);
    return dictionary;
}

static const enum compress_codec codecs[] = { COMPRESS_ZSTD, COMPRESS_LZ4 };
enum { CODECS = sizeof(codecs) / sizeof(codecs[0]) };

struct rig {
    struct random random;
    struct compressor *compressor;
    struct compress_dictionary *dictionary;
    struct decompressors decompressors;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));

    random_init(&rig->random, seed_new());
    rig->compressor = compressor_create();
    rig->dictionary = train(&rig->random);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    compressor_destroy(rig->compressor);
    compress_dictionary_destroy(rig->dictionary);
    decompressors_release(&rig->decompressors);
    mem_free(rig);
    return 0;
}

/* The bytes are where the address sanitizer sees a read beyond them. */
static enum status decompress_copy(struct rig *rig, enum compress_codec codec, const struct compress_dictionary *dictionary, struct bytes frame,
    size_t size, struct buffer *text)
{
    char *copy = mem_alloc(frame.size > 0 ? frame.size : 1);
    enum status status;

    if (frame.size > 0)
        memcpy(copy, frame.data, frame.size);
    status = decompress_text(&rig->decompressors, codec, dictionary, bytes_of(copy, frame.size), size, text);
    mem_free(copy);
    return status;
}

static void texts_come_back_with_and_without_a_dictionary(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < ROUNDS; i++) {
        const struct compress_dictionary *dictionary = i % 2 ? rig->dictionary : NULL;
        enum compress_codec codec = codecs[i / 2 % CODECS];
        struct buffer text = { 0 }, frame = { 0 }, again = { 0 };

        for (uint64_t parts = random_below(&rig->random, 20); parts > 0; parts--)
            append_json(&rig->random, &text);
        buffer_append_string(&frame, "before");
        buffer_append_string(&again, "also");
        assert_true(compress_text(rig->compressor, codec, dictionary, buffer_bytes(&text), 1 << 20, &frame));
        assert_memory_equal(frame.data, "before", 6);
        assert_int_equal(decompress_copy(rig, codec, dictionary, bytes_of(frame.data + 6, frame.size - 6), text.size, &again), STATUS_OK);
        assert_true(again.size == 4 + text.size);
        if (text.size > 0)
            assert_memory_equal(again.data + 4, text.data, text.size);
        buffer_release(&text);
        buffer_release(&frame);
        buffer_release(&again);
    }
}

static void a_dictionary_makes_small_texts_small(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < CODECS; i++) {
        struct buffer text = { 0 }, with = { 0 }, without = { 0 };

        append_json(&rig->random, &text);
        assert_true(compress_text(rig->compressor, codecs[i], rig->dictionary, buffer_bytes(&text), 1 << 20, &with));
        assert_true(compress_text(rig->compressor, codecs[i], NULL, buffer_bytes(&text), 1 << 20, &without));
        assert_true(with.size * 3 < text.size * 2 && with.size * 3 < without.size * 2);
        buffer_release(&text);
        buffer_release(&with);
        buffer_release(&without);
    }
}

static void noise(struct rig *rig, char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)random_next(&rig->random);
}

static void what_does_not_get_small_enough_is_refused(void **state)
{
    struct rig *rig = *state;
    char bytes[500];

    noise(rig, bytes, sizeof(bytes));
    for (int i = 0; i < 2 * CODECS; i++) {
        struct buffer frame = { 0 }, text = { 0 };
        const struct compress_dictionary *dictionary = i % 2 ? rig->dictionary : NULL;

        buffer_append_string(&frame, "before");
        assert_false(compress_text(rig->compressor, codecs[i / 2], dictionary, bytes_of(bytes, sizeof(bytes)), sizeof(bytes) - 1, &frame));
        assert_false(compress_text(rig->compressor, codecs[i / 2], dictionary, bytes_of(bytes, sizeof(bytes)), 0, &frame));
        assert_true(frame.size == 6);
        /* The compressor is as good as before. */
        frame.size = 0;
        append_json(&rig->random, &text);
        append_json(&rig->random, &text);
        assert_true(compress_text(rig->compressor, codecs[i / 2], NULL, buffer_bytes(&text), text.size - 1, &frame));
        buffer_release(&text);
        buffer_release(&frame);
    }
}

/* The limit is exact: a frame that has just that size is made, with one byte less it is not. */
static void the_limit_of_a_frame_is_exact(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < CODECS; i++) {
        struct buffer text = { 0 }, frame = { 0 }, again = { 0 };

        append_json(&rig->random, &text);
        assert_true(compress_text(rig->compressor, codecs[i], rig->dictionary, buffer_bytes(&text), 1 << 20, &frame));
        assert_false(compress_text(rig->compressor, codecs[i], rig->dictionary, buffer_bytes(&text), frame.size - 1, &again));
        assert_true(again.size == 0);
        assert_true(compress_text(rig->compressor, codecs[i], rig->dictionary, buffer_bytes(&text), frame.size, &again));
        assert_true(bytes_equal(buffer_bytes(&frame), buffer_bytes(&again)));
        buffer_release(&text);
        buffer_release(&frame);
        buffer_release(&again);
    }
}

/* Any other size is refused, larger and smaller, and so is no dictionary. */
static void only_the_exact_size_is_right(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < CODECS; i++) {
        struct buffer text = { 0 }, frame = { 0 }, again = { 0 };

        append_json(&rig->random, &text);
        assert_true(compress_text(rig->compressor, codecs[i], rig->dictionary, buffer_bytes(&text), 1 << 20, &frame));
        for (size_t size = 0; size < text.size * 2; size++) {
            if (size == text.size)
                continue;
            assert_int_equal(decompress_copy(rig, codecs[i], rig->dictionary, buffer_bytes(&frame), size, &again), STATUS_CORRUPT);
            assert_true(again.size == 0);
        }
        assert_int_equal(decompress_copy(rig, codecs[i], NULL, buffer_bytes(&frame), text.size, &again), STATUS_CORRUPT);
        buffer_release(&text);
        buffer_release(&frame);
        buffer_release(&again);
    }
}

/* A text of zeros is the smallest frame for its size: no more memory than the size that the caller allows. */
static void a_bomb_is_bounded(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < CODECS; i++) {
        struct buffer text = { 0 }, frame = { 0 }, again = { 0 };

        memset(buffer_reserve(&text, 8 << 20), 0, 8 << 20);
        text.size = 8 << 20;
        assert_true(compress_text(rig->compressor, codecs[i], NULL, buffer_bytes(&text), 1 << 20, &frame));
        assert_true(frame.size < 64 << 10);
        assert_int_equal(decompress_copy(rig, codecs[i], NULL, buffer_bytes(&frame), 65536, &again), STATUS_CORRUPT);
        assert_true(again.capacity < 4 * 65536);
        assert_int_equal(decompress_copy(rig, codecs[i], NULL, buffer_bytes(&frame), text.size, &again), STATUS_OK);
        buffer_release(&text);
        buffer_release(&frame);
        buffer_release(&again);
    }
}

static void damage(struct rig *rig, enum compress_codec codec, const struct compress_dictionary *dictionary, struct bytes text)
{
    struct buffer frame = { 0 };

    assert_true(compress_text(rig->compressor, codec, dictionary, text, 1 << 20, &frame));
    for (size_t size = 0; size < frame.size; size++) {
        struct buffer again = { 0 };

        assert_int_equal(decompress_copy(rig, codec, dictionary, bytes_of(frame.data, size), text.size, &again), STATUS_CORRUPT);
        buffer_release(&again);
    }
    for (size_t at = 0; at < frame.size * 8; at++) {
        struct buffer again = { 0 };
        enum status status;

        frame.data[at / 8] = (char)(frame.data[at / 8] ^ 1 << at % 8);
        status = decompress_copy(rig, codec, dictionary, buffer_bytes(&frame), text.size, &again);
        assert_true(status == STATUS_CORRUPT ? again.size == 0 : status == STATUS_OK && again.size == text.size);
        frame.data[at / 8] = (char)(frame.data[at / 8] ^ 1 << at % 8);
        buffer_release(&again);
    }
    buffer_release(&frame);
}

static void damage_does_no_harm(void **state)
{
    struct rig *rig = *state;
    struct buffer text = { 0 };

    append_json(&rig->random, &text);
    append_json(&rig->random, &text);
    for (int i = 0; i < 2 * CODECS; i++)
        damage(rig, codecs[i / 2], i % 2 ? rig->dictionary : NULL, buffer_bytes(&text));
    buffer_release(&text);
}

static void noise_is_no_frame(void **state)
{
    struct rig *rig = *state;
    char bytes[64];

    for (int i = 0; i < 20000; i++) {
        struct buffer again = { 0 };
        size_t size = random_below(&rig->random, 300);
        enum status status;

        noise(rig, bytes, sizeof(bytes));
        status = decompress_copy(rig, codecs[i % CODECS], i % 3 ? rig->dictionary : NULL, bytes_of(bytes, random_below(&rig->random, sizeof(bytes))), size,
            &again);
        assert_true(status == STATUS_OK ? again.size == size : status == STATUS_CORRUPT && again.size == 0);
        buffer_release(&again);
    }
}

static void a_dictionary_that_is_too_large_is_refused(void **state)
{
    char *bytes = mem_zalloc(COMPRESS_DICTIONARY_MAX + 1);
    struct compress_dictionary *dictionary = compress_dictionary_create(bytes_of(bytes, COMPRESS_DICTIONARY_MAX));

    (void)state;
    assert_non_null(dictionary);
    assert_null(compress_dictionary_create(bytes_of(bytes, COMPRESS_DICTIONARY_MAX + 1)));
    compress_dictionary_destroy(dictionary);
    mem_free(bytes);
}

static void samples_without_anything_in_common_train_nothing(void **state)
{
    struct buffer dictionary = { 0 };
    size_t sizes[2] = { 3, 3 };

    (void)state;
    assert_false(compress_train("abcdef", sizes, 2, 8192, &dictionary));
    assert_true(dictionary.size == 0);
    buffer_release(&dictionary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_come_back_with_and_without_a_dictionary, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_dictionary_makes_small_texts_small, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_does_not_get_small_enough_is_refused, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_limit_of_a_frame_is_exact, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(only_the_exact_size_is_right, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_bomb_is_bounded, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(damage_does_no_harm, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(noise_is_no_frame, open_rig, close_rig),
        cmocka_unit_test(a_dictionary_that_is_too_large_is_refused),
        cmocka_unit_test(samples_without_anything_in_common_train_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
