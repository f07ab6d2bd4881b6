#include "tier/ghost.h"

#include "support/unit.h"

#include "base/random.h"

enum { KEYS = 20000 };

static uint64_t hash_of(uint64_t key)
{
    struct random random;

    random_init(&random, key);
    return random_next(&random);
}

static unsigned uses_of(uint64_t key)
{
    return (unsigned)(key % 7 + 1);
}

/* Returns how many of the keys were found with their uses; none with other ones, but a few by chance. */
static int take_all(struct ghost *ghost, uint64_t first, uint64_t last)
{
    int found = 0, wrong = 0;

    for (uint64_t key = first; key < last; key++) {
        unsigned uses = ghost_take(ghost, hash_of(key));

        found += uses == uses_of(key);
        wrong += uses != 0 && uses != uses_of(key);
    }
    assert_true(wrong < KEYS / 500);
    return found;
}

static void what_was_noted_is_found_once(void **state)
{
    struct ghost ghost = { 0 };

    assert_int_equal(ghost_take(&ghost, 1), 0);
    ghost_note(&ghost, 1, 5, 10);
    ghost_note(&ghost, 2, 0, 10);
    assert_int_equal(ghost_take(&ghost, 2), 0);
    assert_int_equal(ghost_take(&ghost, 1), 5);
    assert_int_equal(ghost_take(&ghost, 1), 0);
    ghost_release(&ghost);
}

static void the_table_grows_with_the_hot_keys_and_keeps_most_of_what_it_has(void **state)
{
    struct ghost ghost = { 0 };

    for (uint64_t key = 0; key < KEYS / 4; key++)
        ghost_note(&ghost, hash_of(key), uses_of(key), 1 + key * 4);
    assert_in_range(ghost.bucket_count * 4, KEYS, 2 * KEYS);
    assert_true(take_all(&ghost, 0, KEYS / 4) > KEYS / 4 * 3 / 4);     /* copies of keys of the other half take room until they are the oldest */
    ghost_release(&ghost);
}

static void a_full_table_gives_up_the_fewest_uses_and_of_these_the_oldest(void **state)
{
    struct ghost ghost = { 0 };
    uint64_t same_bucket = 1 << 20, tag = (uint64_t)1 << 40;

    for (unsigned i = 0; i < 6; i++)
        ghost_note(&ghost, same_bucket + i * tag, i == 0 ? 3 : 2, 16);
    assert_int_equal(ghost_take(&ghost, same_bucket), 3);
    assert_int_equal(ghost_take(&ghost, same_bucket + 1 * tag), 0);
    assert_int_equal(ghost_take(&ghost, same_bucket + 2 * tag), 0);
    for (unsigned i = 3; i < 6; i++)
        assert_int_equal(ghost_take(&ghost, same_bucket + i * tag), 2);
    ghost_release(&ghost);
}

static void uses_are_halved_and_a_large_empty_table_is_given_back(void **state)
{
    struct ghost ghost = { 0 };

    ghost_note(&ghost, 7, 6, KEYS);
    ghost_note(&ghost, 8, 1, KEYS);
    ghost_age(&ghost, KEYS);
    assert_int_equal(ghost_take(&ghost, 7), 3);
    assert_int_equal(ghost_take(&ghost, 8), 0);
    ghost_age(&ghost, 10);
    assert_null(ghost.cells);
    assert_int_equal(ghost_take(&ghost, 7), 0);
    ghost_release(&ghost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_noted_is_found_once),
        cmocka_unit_test(the_table_grows_with_the_hot_keys_and_keeps_most_of_what_it_has),
        cmocka_unit_test(a_full_table_gives_up_the_fewest_uses_and_of_these_the_oldest),
        cmocka_unit_test(uses_are_halved_and_a_large_empty_table_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
