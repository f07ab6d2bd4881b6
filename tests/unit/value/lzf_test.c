#include "value/lzf.h"

#include "support/unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/guarded.h"
#include "support/seed.h"

/* True if it got smaller by `saved`; then it has to come back. */
static bool goes_and_comes_back(struct bytes input, size_t saved, size_t *size)
{
    size_t room = input.size > saved ? input.size - saved : 0;
    char *packed = mem_alloc(room + 1);
    struct buffer back = { 0 };

    *size = lzf_encode(input, packed, room);
    if (*size > 0) {
        assert_true(*size <= room);
        assert_int_equal(lzf_decode(bytes_of(packed, *size), input.size, &back), STATUS_OK);
        assert_memory_equal(back.data, input.data, input.size);
    }
    buffer_release(&back);
    mem_free(packed);
    return *size > 0;
}

static void what_repeats_gets_much_smaller(void **state)
{
    size_t size = 1 << 20, packed;
    char *data = mem_alloc(size);

    memset(data, 'x', size);
    assert_true(goes_and_comes_back(bytes_of(data, size), 5, &packed));
    assert_true(packed < size / 80);
    for (size_t i = 0; i < size; i++)
        data[i] = "the same words, over and over again; "[i % 37];
    assert_true(goes_and_comes_back(bytes_of(data, size), 5, &packed));
    assert_true(packed < size / 50);
    mem_free(data);
}

static void what_does_not_get_smaller_is_refused(void **state)
{
    struct random random;
    char data[5000];
    size_t packed;

    random_init(&random, 1);
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)random_next(&random);
    for (size_t size = 0; size < sizeof(data); size = size * 2 + 1)
        assert_false(goes_and_comes_back(bytes_of(data, size), 1, &packed));
    assert_false(goes_and_comes_back(BYTES("aaaaa"), 5, &packed));
    assert_true(goes_and_comes_back(BYTES("aaaaaaaaaaaaaaaa"), 5, &packed));
}

static void runs_at_the_edges_of_the_format_come_back(void **state)
{
    static const size_t lengths[] = { 3, 4, 8, 9, 10, 31, 32, 33, 263, 264, 265, 266, 267, 528, 8191, 8192, 8193, 8194 };
    struct random random;
    char *data = mem_alloc(60000);
    size_t packed, count = sizeof(lengths) / sizeof(lengths[0]);

    random_init(&random, 7);
    /* Noise, a gap of one length, then a run of another that began before the gap. */
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) {
            size_t size = 0;

            for (; size < 9000; size++)
                data[size] = (char)random_next(&random);
            memcpy(data + size, data + size - lengths[a], lengths[b] < lengths[a] ? lengths[b] : 1);
            size += lengths[b] < lengths[a] ? lengths[b] : 1;
            memset(data + size, 'z', lengths[b]);
            size += lengths[b];
            goes_and_comes_back(bytes_of(data, size), 0, &packed);
        }
    }
    mem_free(data);
}

/* Text with repetitions near and far. */
static void fill(struct random *random, char *data, size_t size)
{
    uint64_t letters = 1 + random_below(random, random_below(random, 3) == 0 ? 256 : 4);

    for (size_t i = 0; i < size; i++) {
        size_t back = random_below(random, 9000), length = random_below(random, 20) == 0 ? random_below(random, 400) : 0;

        for (; length > 0 && back > 0 && back <= i && i < size; length--, i++)
            data[i] = data[i - back];
        if (i < size)
            data[i] = (char)random_below(random, letters);
    }
}

static void anything_comes_back(void **state)
{
    struct random random;
    char *data = mem_alloc(20000);
    size_t packed;
    int smaller = 0;

    random_init(&random, seed_new());
    for (int round = 0; round < 3000; round++) {
        size_t size = random_below(&random, round % 10 == 0 ? 20000 : 300);

        fill(&random, data, size);
        smaller += goes_and_comes_back(bytes_of(data, size), random_below(&random, 10), &packed);
    }
    assert_true(smaller > 1000);
    mem_free(data);
}

static void damage(struct random *random, char *data, size_t *size)
{
    for (uint64_t i = random_below(random, 4); i > 0 && *size > 0; i--) {
        size_t at = random_below(random, *size);

        switch (random_below(random, 4)) {
        case 0: data[at] = (char)random_next(random); break;
        case 1: data[at] ^= (char)(1 << random_below(random, 8)); break;
        case 2: data[at] = (char)(0xe0 | random_below(random, 32)); break;
        default: *size = at;
        }
    }
}

/* Input and output each end right before a page that can't be accessed, or begin right after one. */
static void no_input_is_read_or_written_beyond_its_end(void **state)
{
    enum { SIZE_MAX_TRIED = 12000 };
    struct guarded plain = guarded_create(SIZE_MAX_TRIED), packed = guarded_create(SIZE_MAX_TRIED + SIZE_MAX_TRIED / 16 + 16);
    struct random random;
    int accepted = 0, refused = 0;

    random_init(&random, seed_new());
    for (int round = 0; round < 20000; round++) {
        bool at_end = random_below(&random, 4) > 0;
        size_t size = random_below(&random, round % 50 == 0 ? SIZE_MAX_TRIED : 120), room, packed_size;
        char *text = at_end ? plain.end - size : plain.start, *to;
        struct buffer out = { 0 };

        fill(&random, text, size);
        room = random_below(&random, size + size / 16 + 4);
        to = at_end ? packed.end - room : packed.start;
        packed_size = lzf_encode(bytes_of(text, size), to, room);
        assert_true(packed_size <= room);
        if (packed_size == 0) {
            packed_size = size;
            to = at_end ? packed.end - size : packed.start;
            memcpy(to, text, size);
        } else if (at_end) {
            to = memmove(packed.end - packed_size, to, packed_size);
        }
        damage(&random, to, &packed_size);
        if (at_end)
            to = memmove(packed.end - packed_size, to, packed_size);
        if (random_below(&random, 8) == 0)
            size = random_below(&random, 2 * size + 2);
        if (size > SIZE_MAX_TRIED)
            size = SIZE_MAX_TRIED;
        out = (struct buffer){ .data = at_end ? plain.end - size : plain.start, .capacity = size };
        if (lzf_decode(bytes_of(to, packed_size), size, &out) == STATUS_OK) {
            assert_int_equal(out.size, size);
            accepted++;
        } else {
            assert_int_equal(out.size, 0);
            refused++;
        }
        assert_true(out.capacity == size);
    }
    assert_true(accepted > 1000 && refused > 1000);
    guarded_destroy(&plain);
    guarded_destroy(&packed);
}

static void sizes_at_the_edges_are_refused_or_read(void **state)
{
    struct buffer out = { 0 };
    char room[8];

    assert_int_equal(lzf_encode(BYTES(""), room, sizeof(room)), 0);
    assert_int_equal(lzf_encode(BYTES("a"), room, sizeof(room)), 0);
    assert_int_equal(lzf_encode(BYTES("aaaaaaaa"), room, 0), 0);
    assert_int_equal(lzf_decode(BYTES(""), 0, &out), STATUS_OK);
    assert_int_equal(lzf_decode(BYTES(""), 1, &out), STATUS_CORRUPT);
    assert_int_equal(lzf_decode(BYTES("\x00" "a"), 0, &out), STATUS_CORRUPT);
    assert_int_equal(lzf_decode(BYTES("\x00" "a"), ((size_t)1 << 32) + 1, &out), STATUS_CORRUPT);
    assert_int_equal(lzf_decode(bytes_of(room, ((size_t)1 << 32) + 2), 1, &out), STATUS_CORRUPT);
    assert_int_equal(out.size, 0);
    assert_int_equal(out.capacity, 0);
    assert_int_equal(lzf_decode(BYTES("\x00" "a"), 1, &out), STATUS_OK);
    assert_true(bytes_equal(buffer_bytes(&out), BYTES("a")));
    buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_repeats_gets_much_smaller),
        cmocka_unit_test(what_does_not_get_smaller_is_refused),
        cmocka_unit_test(runs_at_the_edges_of_the_format_come_back),
        cmocka_unit_test(anything_comes_back),
        cmocka_unit_test(no_input_is_read_or_written_beyond_its_end),
        cmocka_unit_test(sizes_at_the_edges_are_refused_or_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
