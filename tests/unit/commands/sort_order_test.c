#include "support/unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "commands/sort_order.h"

enum { ITEMS_MAX = 300 };

static char texts[ITEMS_MAX][8];

/* The order that the header defines, written a second time. */
static bool comes_before(const struct sort_item *a, const struct sort_item *b, enum sort_by by, enum sort_direction direction)
{
    int order;

    if (by == SORT_BY_NUMBER)
        order = a->score < b->score ? -1 : a->score > b->score;
    else if (a->has_weight != b->has_weight)
        order = a->has_weight ? 1 : -1;
    else
        order = a->has_weight ? bytes_compare(a->weight, b->weight) : 0;
    if (order == 0)
        order = bytes_compare(a->element, b->element);
    if (order == 0)
        return a->index < b->index;
    return direction == SORT_UP ? order < 0 : order > 0;
}

static void sort_plainly(struct sort_item *items, size_t count, enum sort_by by, enum sort_direction direction)
{
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && comes_before(&items[j], &items[j - 1], by, direction); j--) {
            struct sort_item kept = items[j];

            items[j] = items[j - 1];
            items[j - 1] = kept;
        }
    }
}

static void make_items(struct random *random, struct sort_item *items, size_t count, uint64_t kinds)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes text = bytes_of(texts[i], (size_t)snprintf(texts[i], sizeof(texts[i]), "%u", (unsigned)random_below(random, kinds)));

        items[i] = (struct sort_item){ .element = text, .weight = bytes_of(texts[random_below(random, i + 1)], 1), .index = i,
            .has_weight = random_below(random, 5) > 0, .score = (double)random_below(random, kinds) - 3 };
    }
}

static void any_range_is_as_if_all_items_were_sorted(void **state)
{
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct sort_item items[ITEMS_MAX], expected[ITEMS_MAX];
        enum sort_direction direction = seed % 2 ? SORT_UP : SORT_DOWN;
        enum sort_by by = seed % 4 < 2 ? SORT_BY_NUMBER : SORT_BY_TEXT;
        size_t count, first, end;
        struct random random;

        random_init(&random, seed);
        count = random_below(&random, seed % 10 ? 20 : ITEMS_MAX) + 1;
        first = random_below(&random, count + 1);
        end = first + random_below(&random, count - first + 1);
        if (seed % 5 == 0) {
            first = 0;
            end = count;
        }
        make_items(&random, items, count, seed % 3 ? 5 : 1000);
        memcpy(expected, items, count * sizeof(items[0]));
        sort_plainly(expected, count, by, direction);
        sort_items(items, count, first, end, by, direction, &random);
        for (size_t i = first; i < end; i++) {
            if (items[i].index != expected[i].index)
                fail_msg("seed %" PRIu64 ": place %zu", seed, i);
        }
    }
}

static void numbers_are_read_as_strtod_does(void **state)
{
    static const struct {
        struct bytes text;
        double score;
    } good[] = { { { "", 0 }, 0 }, { { "1", 1 }, 1 }, { { " \t-2.5", 6 }, -2.5 }, { { "+3", 2 }, 3 }, { { "0x10", 4 }, 16 },
        { { "1e3", 3 }, 1000 }, { { "inf", 3 }, INFINITY }, { { "-Infinity", 9 }, -INFINITY }, { { "1\0x", 3 }, 1 }, { { "-0", 2 }, 0 } };
    static const char *const bad[] = { "a", "1 ", "1a", "nan", "1e400", "-1e400", "1e-400", "5e-324", "--1", "1.5.5", "0x" };
    double score;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(sort_score(good[i].text, &score));
        assert_true(score == good[i].score);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (sort_score(bytes_of_string(bad[i]), &score))
            fail_msg("%s", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_is_as_if_all_items_were_sorted),
        cmocka_unit_test(numbers_are_read_as_strtod_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
