#include "commands/geohash.h"

#include "support/unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/seed.h"

static struct random random_new(void)
{
    uint64_t seed = seed_new();
    struct random random;

    random_init(&random, seed);
    return random;
}

static double between(struct random *random, double limit)
{
    return ((double)random_below(random, 1u << 30) / (1u << 30) * 2 - 1) * limit;
}

static struct geo_point point_new(struct random *random)
{
    return (struct geo_point){ between(random, GEO_LONGITUDE_MAX), between(random, GEO_LATITUDE_MAX) };
}

static bool is_within(struct geo_point point, struct geo_box box)
{
    return point.longitude >= box.min.longitude && point.longitude <= box.max.longitude && point.latitude >= box.min.latitude &&
        point.latitude <= box.max.latitude;
}

/* By definition of the format: halve the range of longitudes, then that of latitudes, 26 times; each bit says which half. */
static uint64_t encode_by_halving(struct geo_point point, int step)
{
    double west = -180, east = 180, south = -GEO_LATITUDE_MAX, north = GEO_LATITUDE_MAX;
    uint64_t bits = 0;

    for (int i = 0; i < step; i++) {
        double middle = (west + east) / 2;

        bits = bits << 1 | (point.longitude >= middle);
        *(point.longitude >= middle ? &west : &east) = middle;
        middle = (south + north) / 2;
        bits = bits << 1 | (point.latitude >= middle);
        *(point.latitude >= middle ? &south : &north) = middle;
    }
    return bits;
}

static void a_position_is_encoded_as_if_by_halving(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 100000; round++) {
        struct geo_point point = point_new(&random);
        int step = 1 + (int)random_below(&random, GEOHASH_STEP_MAX);
        uint64_t bits = geohash_encode(point, step);

        /* On the border of two cells rounding may go either way, so the cell itself is checked. */
        if (bits != encode_by_halving(point, step)) {
            struct geo_box box = geohash_box(bits, step);

            assert_true(fabs(point.longitude - box.min.longitude) < 1e-9 || fabs(point.latitude - box.min.latitude) < 1e-9 ||
                fabs(point.longitude - box.max.longitude) < 1e-9 || fabs(point.latitude - box.max.latitude) < 1e-9);
        }
    }
}

static void known_positions_have_the_numbers_of_redis(void **state)
{
    static const struct { struct geo_point point; uint64_t bits; const char *text; } known[] = {
        { { 13.361389, 38.115556 }, 3479099956230698, "sqc8b49rny0" },      /* Palermo, in Redis' own manual */
        { { 15.087269, 37.502669 }, 3479447370796909, "sqdtr74hyu0" },      /* Catania */
        { { 180, GEO_LATITUDE_MAX }, 13510798882111488, "bp05b5048p0" },
        { { -180, -GEO_LATITUDE_MAX }, 0, "00bh0hbj200" },
        { { 180, -GEO_LATITUDE_MAX }, 9007199254740992, "00bh0hbj200" },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        char text[GEOHASH_TEXT_SIZE];

        assert_int_equal(geohash_encode(known[i].point, GEOHASH_STEP_MAX), known[i].bits);
        geohash_text(geohash_decode(known[i].bits), text);
        assert_memory_equal(text, known[i].text, GEOHASH_TEXT_SIZE);
    }
}

static void a_position_is_decoded_to_within_half_a_cell(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 100000; round++) {
        struct geo_point point = point_new(&random), back = geohash_decode(geohash_encode(point, GEOHASH_STEP_MAX));

        assert_true(fabs(back.longitude - point.longitude) <= 180 / 0x1p26 + 1e-9);
        assert_true(fabs(back.latitude - point.latitude) <= GEO_LATITUDE_MAX / 0x1p26 + 1e-9);
        assert_true(is_within(point, geohash_box(geohash_encode(point, 9), 9)));
    }
}

static void any_number_and_any_score_is_a_position_within_the_limits(void **state)
{
    static const double scores[] = { -1, -0.5, 0.5, 1e300, -1e300, INFINITY, -INFINITY, 0x1p53, 0x1p63, -0x1p63, 0x1p64, 1.2e19 };
    static const uint64_t numbers[] = { UINT64_MAX, 0, 0, 0, (uint64_t)1 << 63, 0, (uint64_t)1 << 63, (uint64_t)1 << 53,
        (uint64_t)1 << 63, (uint64_t)1 << 63, 0, 12000000000000000000u };
    struct random random = random_new();

    for (size_t i = 0; i < sizeof(scores) / sizeof(scores[0]); i++)
        assert_int_equal(geohash_of_score(scores[i]), numbers[i]);
    for (int round = 0; round < 100000; round++) {
        struct geo_point point = geohash_decode(random_next(&random) >> random_below(&random, 64));

        assert_true(fabs(point.longitude) <= GEO_LONGITUDE_MAX && fabs(point.latitude) <= GEO_LATITUDE_MAX);
    }
}

static void a_neighbour_begins_where_the_cell_ends(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 100000; round++) {
        int step = 1 + (int)random_below(&random, GEOHASH_STEP_MAX);
        uint64_t cell = geohash_encode(point_new(&random), step);
        struct geo_box box = geohash_box(cell, step), east = geohash_box(geohash_neighbour(cell, step, 1, 0), step);
        struct geo_box north = geohash_box(geohash_neighbour(cell, step, 0, 1), step);

        assert_true(east.min.longitude == (box.max.longitude == 180 ? -180 : box.max.longitude));
        assert_true(east.min.latitude == box.min.latitude && east.max.latitude == box.max.latitude);
        assert_true(north.min.latitude == (box.max.latitude >= GEO_LATITUDE_MAX ? -GEO_LATITUDE_MAX : box.max.latitude));
        assert_true(north.min.longitude == box.min.longitude);
        for (int x = -1; x <= 1; x++) {
            for (int y = -1; y <= 1; y++)
                assert_int_equal(geohash_neighbour(geohash_neighbour(cell, step, x, y), step, -x, -y), cell);
        }
    }
}

static void distances_are_those_of_a_sphere(void **state)
{
    const double quarter = 6372797.560856 * M_PI / 2;
    struct geo_point zero = { 0, 0 }, east = { 90, 0 }, north = { 0, 85 }, behind = { 180, 0 };
    struct random random = random_new();

    assert_true(geo_distance(zero, zero) == 0);
    assert_true(fabs(geo_distance(zero, east) - quarter) < 1e-6);
    assert_true(fabs(geo_distance(zero, behind) - 2 * quarter) < 1e-6);
    assert_true(fabs(geo_distance(zero, north) - quarter * 85 / 90) < 1e-6);
    assert_true(fabs(geo_degrees_of_metres(quarter) - 90) < 1e-9);
    for (int round = 0; round < 100000; round++) {
        struct geo_point a = point_new(&random), b = point_new(&random), c = point_new(&random);
        struct geo_point other_end = { a.longitude > 0 ? a.longitude - 180 : a.longitude + 180, -a.latitude };

        assert_true(geo_distance(a, b) == geo_distance(b, a));
        assert_true(geo_distance(a, b) <= geo_distance(a, c) + geo_distance(c, b) + 1e-3);
        assert_true(geo_distance(a, other_end) <= 2 * quarter + 1e-6);      /* false for NaN */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_position_is_encoded_as_if_by_halving),
        cmocka_unit_test(known_positions_have_the_numbers_of_redis),
        cmocka_unit_test(a_position_is_decoded_to_within_half_a_cell),
        cmocka_unit_test(any_number_and_any_score_is_a_position_within_the_limits),
        cmocka_unit_test(a_neighbour_begins_where_the_cell_ends),
        cmocka_unit_test(distances_are_those_of_a_sphere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
