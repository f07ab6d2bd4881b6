#include "tier/recordmap_image.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "store/segments.h"
#include "support/recordmaps.h"
#include "tier/recordmap.h"
#include "tier/shelf.h"

enum { TAG_SPREAD_SMALL = 8 };

static struct bytes key_of(uint64_t number, char text[24])
{
    return bytes_of(text, (size_t)snprintf(text, 24, "%.*s%llu", (int)(number % 8), "a prefix", (unsigned long long)number));
}

/* `bits` of the tags are random: with few there are many twins. */
static struct recordmap *make_map(uint64_t count, unsigned bits, unsigned place_bits, struct random *random)
{
    struct recordmap *map = recordmap_create((uint8_t)random_below(random, 256), (unsigned)random_below(random, RECORDMAP_TAG_SHIFT_MAX + 1));
    unsigned tag_shift = recordmap_tag_shift(map);
    char text[24];

    for (uint64_t i = 0; i < count; i++)
        recordmap_add(map, random_below(random, 1ull << bits) << tag_shift, key_of(i, text), PLACE_NOWHERE + 1 + random_below(random, 1ull << place_bits));
    return map;
}

static void write_image(const struct recordmap *map, struct buffer *out)
{
    struct recordmap_image image = { .map = map };

    while (recordmap_image_write(&image, out))
        ;
    assert_int_equal(out->size, recordmap_image_size(map));
    assert_int_equal(out->size % 8, 0);
}

/* Takes out all records, which says that each is where a lookup looks for it. */
static void empty(struct recordmap *map)
{
    while (recordmap_count(map) > 0) {
        struct recordmap_record record;
        struct recordmap_walk walk;
        char key[24];
        struct bytes copy;

        recordmap_walk_begin(&walk, map, 0);
        assert_true(recordmap_walk_next(&walk, &record));
        assert_false(record.is_twin);
        copy = bytes_of(key, 0);
        recordmap_remove(map, record.tag << recordmap_tag_shift(map), copy, record.place);
    }
}

static void a_loaded_map_is_the_one_that_was_written(void **state)
{
    static const uint64_t counts[] = { 0, 1, 7, 8, 200, 5000, 60000 };
    struct random random;

    random_init(&random, 1);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (unsigned small = 0; small < 2; small++) {
            uint64_t count = small && counts[i] > 5000 ? 5000 : counts[i];
            struct recordmap *map = make_map(count, small ? TAG_SPREAD_SMALL : RECORDMAP_TAG_BITS, small ? 40 : 30, &random);
            struct recordmap *loaded = recordmap_create((uint8_t)random_below(&random, 256), 0);
            struct buffer image = { 0 };
            char text[24];

            write_image(map, &image);
            assert_null(recordmap_image_load(buffer_bytes(&image), loaded));
            assert_true(maps_are_equal(map, loaded));
            assert_int_equal(recordmap_tag_shift(loaded), recordmap_tag_shift(map));
            for (uint64_t k = 0; k < 100; k++) {
                uint64_t hash = random_next(&random);

                recordmap_add(map, hash, key_of(k, text), k + 2);
                recordmap_add(loaded, hash, key_of(k, text), k + 2);
            }
            assert_true(maps_are_equal(map, loaded));
            if (count < 10000)
                empty(loaded);
            recordmap_destroy(map);
            recordmap_destroy(loaded);
            buffer_release(&image);
        }
    }
}

/* All records in one run, which is larger than a chunk. */
static void a_run_that_is_larger_than_a_chunk_is_loaded(void **state)
{
    struct recordmap *map = recordmap_create(0, 0), *loaded = recordmap_create(0, 0);
    struct buffer image = { 0 };

    for (uint64_t tag = 0; tag < 20000; tag++)
        recordmap_add(map, tag, BYTES(""), tag + 2);
    write_image(map, &image);
    assert_true(image.size > 2 * SHELF_CHUNK_WORDS * 8);
    assert_null(recordmap_image_load(buffer_bytes(&image), loaded));
    assert_true(maps_are_equal(map, loaded));
    recordmap_destroy(map);
    recordmap_destroy(loaded);
    buffer_release(&image);
}

/* What a lookup, a walk and changes read and write of a map stays in it: sanitizers see it if not. */
static void use(struct recordmap *map, struct random *random)
{
    struct recordmap_record record;
    struct recordmap_walk walk;
    uint64_t place;
    char text[24];

    recordmap_walk_begin(&walk, map, random_below(random, 1ull << RECORDMAP_TAG_BITS));
    while (recordmap_walk_next(&walk, &record))
        ;
    for (int i = 0; i < 50; i++) {
        uint64_t tag = random_below(random, 1ull << (i % 2 == 0 ? RECORDMAP_TAG_BITS : TAG_SPREAD_SMALL));
        uint64_t hash = tag << recordmap_tag_shift(map);

        (void)recordmap_find(map, hash, BYTES("x"), &place);
        recordmap_add(map, hash, key_of(tag, text), tag % 1000 + 2);
    }
}

static void any_change_of_the_bytes_is_found_or_does_no_harm(void **state)
{
    struct random random;
    int refused = 0;

    random_init(&random, 2);
    for (int round = 0; round < 6000; round++) {
        struct recordmap *map = make_map(random_below(&random, 600), round % 3 == 0 ? TAG_SPREAD_SMALL : RECORDMAP_TAG_BITS, 30, &random);
        struct recordmap *loaded = recordmap_create(0, 0);
        struct buffer image = { 0 };
        size_t size;
        char *copy;

        write_image(map, &image);
        for (uint64_t changes = 1 + random_below(&random, 3); changes > 0; changes--) {
            /* The head, the rows and the runs' first words decide more than what is in them. */
            size_t at = random_below(&random, round % 2 == 0 && image.size > 100 ? 100 : image.size);

            image.data[at] = (char)(random_below(&random, 2) == 0 ? random_next(&random) : (uint64_t)image.data[at] ^ 1ull << random_below(&random, 8));
        }
        size = random_below(&random, 10) == 0 ? random_below(&random, image.size / 8) * 8 : image.size;
        copy = mem_alloc(size + 1);
        memcpy(copy, image.data, size);
        if (recordmap_image_load(bytes_of(copy, size), loaded) == NULL) {
            use(loaded, &random);
        } else {
            refused++;
            assert_int_equal(recordmap_count(loaded), 0);
            recordmap_add(loaded, 7, BYTES("k"), 9);
        }
        mem_free(copy);
        recordmap_destroy(map);
        recordmap_destroy(loaded);
        buffer_release(&image);
    }
    assert_in_range(refused, 2000, 5999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_map_is_the_one_that_was_written),
        cmocka_unit_test(a_run_that_is_larger_than_a_chunk_is_loaded),
        cmocka_unit_test(any_change_of_the_bytes_is_found_or_does_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
