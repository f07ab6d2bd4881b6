#include "commands/geo_area.h"

#include "support/unit.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "support/seed.h"

static struct random random_new(void)
{
    uint64_t seed = seed_new();
    struct random random;

    random_init(&random, seed);
    return random;
}

static double between(struct random *random, double low, double high)
{
    return low + (double)random_below(random, 1u << 30) / (1u << 30) * (high - low);
}

static bool is_covered(const struct geo_scores *cells, int count, struct geo_point point)
{
    double score = (double)geohash_encode(point, GEOHASH_STEP_MAX);

    for (int i = 0; i < count; i++) {
        if (score >= cells[i].min && score < cells[i].max)
            return true;
    }
    return false;
}

static struct geo_area area_new(struct random *random)
{
    double size = pow(10, between(random, 0, 5.5));

    return (struct geo_area){
        .shape = random_below(random, 2) == 0 ? GEO_CIRCLE : GEO_BOX,
        .centre = { between(random, -180, 179.99), between(random, -60, 60) },
        .radius = size, .width = size * between(random, 0.1, 2), .height = size * between(random, 0.1, 2),
    };
}

/* Not near the poles, where cells are too narrow. */
static void points_in_an_area_are_in_its_cells(void **state)
{
    struct random random = random_new();
    int inside = 0;

    for (int round = 0; round < 20000; round++) {
        struct geo_area area = area_new(&random);
        struct geo_scores cells[GEO_CELLS_MAX];
        int count = geo_area_cells(&area, cells);

        assert_in_range(count, 1, GEO_CELLS_MAX);
        for (int i = 0; i < 20; i++) {
            double reach = geo_degrees_of_metres(fmax(area.radius, fmax(area.width, area.height)));
            struct geo_point point = { area.centre.longitude + between(&random, -2, 2) * reach,
                area.centre.latitude + between(&random, -1, 1) * reach };
            double distance;

            if (point.longitude >= 180)
                point.longitude -= 360;
            if (point.longitude < -180)
                point.longitude += 360;
            if (fabs(point.latitude) < GEO_LATITUDE_MAX && geo_area_has(&area, point, &distance)) {
                inside++;
                assert_true(is_covered(cells, count, point));
            }
        }
    }
    assert_true(inside > 20000);
}

static void cells_are_different(void **state)
{
    struct random random = random_new();

    for (int round = 0; round < 20000; round++) {
        struct geo_area area = area_new(&random);
        struct geo_scores cells[GEO_CELLS_MAX];
        int count;

        area.centre.latitude = between(&random, -GEO_LATITUDE_MAX, GEO_LATITUDE_MAX);
        area.radius = pow(10, between(&random, 0, 8));
        area.width = area.height = area.radius;
        count = geo_area_cells(&area, cells);
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < i; j++)
                assert_true(cells[i].min >= cells[j].max || cells[i].max <= cells[j].min);
        }
    }
}

static void invalid_sizes_are_harmless(void **state)
{
    static const double sizes[] = { 0, 5e-324, 1e308, INFINITY };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int shape = GEO_CIRCLE; shape <= GEO_BOX; shape++) {
            struct geo_area area = { .shape = shape, .centre = { 180, GEO_LATITUDE_MAX }, .radius = sizes[i], .width = sizes[i],
                .height = sizes[i] };
            struct geo_scores cells[GEO_CELLS_MAX];

            assert_in_range(geo_area_cells(&area, cells), 1, GEO_CELLS_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_in_an_area_are_in_its_cells),
        cmocka_unit_test(cells_are_different),
        cmocka_unit_test(invalid_sizes_are_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
