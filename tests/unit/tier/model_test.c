/* The model of one size of memory: the policy's rules, on small cases that can be counted by hand. */
#include "tier/model.h"

#include "support/unit.h"

#include "base/mem.h"
#include "keyspace/uses.h"

enum { SLOTS = 1024, SIZE = 10 };

struct rig {
    struct model model;
    struct model_key keys[SLOTS];
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct random random;

    random_init(&random, 7);
    model_init(&rig->model, SLOTS, 1);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        rig->keys[slot] = (struct model_key){ .hash = random_next(&random), .size = SIZE };
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    model_release(&rig->model);
    mem_free(rig);
    return 0;
}

static bool use(struct rig *rig, uint32_t slot)
{
    return model_use(&rig->model, rig->keys, slot);
}

static uint64_t residents(const struct rig *rig, uint32_t from, uint32_t to)
{
    uint64_t count = 0;

    for (uint32_t slot = from; slot < to; slot++)
        count += model_has(&rig->model, slot);
    return count;
}

static void the_second_use_is_a_hit(void **state)
{
    struct rig *rig = *state;

    assert_false(use(rig, 3));
    assert_true(use(rig, 3));
    assert_int_equal(rig->model.count, 1);
    assert_int_equal(rig->model.size, SIZE);
}

static void uses_are_counted_as_in_an_entry(void **state)
{
    struct rig *rig = *state;

    use(rig, 5);
    assert_int_equal(rig->model.cells[5], MODEL_RESIDENT | MODEL_PROBATION);
    use(rig, 5);
    assert_int_equal(rig->model.cells[5], MODEL_RESIDENT | 2);
    for (int i = 0; i < 20; i++)
        use(rig, 5);
    assert_int_equal(rig->model.cells[5], MODEL_RESIDENT | 7);
    assert_int_equal(rig->model.census.last[USES_RANKS - 1], 1);
    assert_int_equal(rig->model.census.last_total, 1);
}

static void no_more_stay_than_the_mark_allows(void **state)
{
    struct rig *rig = *state;

    rig->model.mark = 100 * SIZE;
    for (int round = 0; round < 3; round++) {
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            use(rig, slot);
            assert_true(rig->model.size <= 110 * SIZE);        /* one round may take fewer than its share */
        }
    }
    assert_in_range(residents(rig, 0, SLOTS), 90, 110);
    assert_int_equal(residents(rig, 0, SLOTS), rig->model.count);
    assert_int_equal(rig->model.count * SIZE, rig->model.size);
}

static void a_scan_does_not_displace_what_is_used_again(void **state)
{
    struct rig *rig = *state;

    rig->model.mark = 100 * SIZE;
    for (int round = 0; round < 4; round++) {
        for (uint32_t slot = 0; slot < 80; slot++)
            use(rig, slot);
    }
    for (uint32_t slot = 100; slot < SLOTS; slot++)     /* half of the turnovers after which uses are halved */
        use(rig, slot);
    assert_true(residents(rig, 0, 80) >= 76);
}

/* Seven of eight residents stay, and those that come displace each other: they are an eighth at most (tier/census.h). If they displaced those whose turn is next, a quarter would miss. */
static void a_loop_over_a_tenth_more_than_fits_keeps_what_is_resident(void **state)
{
    struct rig *rig = *state;
    uint32_t hits = 0;

    rig->model.mark = 900 * SIZE;
    for (int round = 0; round < 30; round++) {
        for (uint32_t slot = 0; slot < 990; slot++)
            hits += use(rig, slot) && round >= 10;
    }
    assert_in_range(hits, 20 * (900 - 900 / 8 - 1), 20 * 900);
}

static void a_demoted_key_comes_back_with_its_uses(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < 4; i++)
        use(rig, 9);
    use(rig, 10);
    rig->model.mark = 0;
    model_make_room(&rig->model, rig->keys);
    for (int i = 0; i < 100 && rig->model.count > 0; i++)
        model_make_room(&rig->model, rig->keys);
    assert_int_equal(rig->model.count, 0);
    rig->model.mark = UINT64_MAX;
    assert_false(use(rig, 9));
    assert_in_range(rig->model.cells[9] & MODEL_USES, 1, 4);   /* they may have been halved meanwhile */
    assert_true(rig->model.cells[9] & MODEL_PROBATION);
    assert_false(use(rig, 11));
    assert_int_equal(rig->model.cells[11], MODEL_RESIDENT | MODEL_PROBATION);
}

static void what_is_deleted_or_grows_changes_the_sum(void **state)
{
    struct rig *rig = *state;

    use(rig, 1);
    use(rig, 2);
    model_resize(&rig->model, 1, SIZE, 50);
    model_resize(&rig->model, 3, SIZE, 50);             /* not resident */
    assert_int_equal(rig->model.size, 50 + SIZE);
    model_remove(&rig->model, 1, 50);
    model_remove(&rig->model, 3, 50);
    assert_int_equal(rig->model.size, SIZE);
    assert_int_equal(rig->model.count, 1);
    assert_int_equal(rig->model.census.last_total, 1);
    model_move(&rig->model, 2, 700);
    assert_true(model_has(&rig->model, 700));
    assert_false(model_has(&rig->model, 2));
}

/* They find the next one that goes at each use, however small the share is that goes in a round. */
static void few_residents_are_within_the_mark_after_each_use(void **state)
{
    struct rig *rig = *state;

    rig->model.mark = 4 * SIZE;
    rig->model.share = MODEL_SHARE_ONE / 100;
    for (uint32_t i = 0; i < 20 * SLOTS; i++) {
        use(rig, i * 7 % SLOTS);
        assert_true(rig->model.size <= rig->model.mark);
    }
    assert_int_equal(rig->model.count, 4);
}

/* Halving looks at the whole table. */
static void few_residents_are_not_halved_all_the_time(void **state)
{
    struct rig *rig = *state;

    rig->model.mark = 4 * SIZE;
    for (uint32_t slot = 0; slot < 150; slot++)
        use(rig, slot);
    assert_int_equal(rig->model.taken, 146);
}

static void assert_bits_are_right(const struct rig *rig)
{
    uint64_t count = 0;

    for (uint32_t slot = 0; slot < rig->model.slot_count; slot++) {
        assert_int_equal(rig->model.residents[slot / 64] >> slot % 64 & 1, model_has(&rig->model, slot));
        count += model_has(&rig->model, slot);
    }
    assert_int_equal(count, rig->model.count);
}

static void each_resident_has_its_bit(void **state)
{
    struct rig *rig = *state;
    uint8_t *cells = mem_zalloc(SLOTS / 2);

    rig->model.mark = 50 * SIZE;
    for (uint32_t i = 0; i < 4 * SLOTS; i++) {
        use(rig, i * 7 % (SLOTS / 2));
        if (i % 3 == 0)
            model_remove(&rig->model, i % SLOTS, SIZE);
        if (i % 5 == 0) {
            model_move(&rig->model, i * 11 % (SLOTS / 2), SLOTS - 1);
            model_remove(&rig->model, SLOTS - 1, SIZE);
        }
    }
    assert_bits_are_right(rig);
    for (uint32_t slot = 0; slot < SLOTS / 2; slot++)
        cells[slot] = rig->model.cells[slot];
    model_replace(&rig->model, cells, SLOTS / 2, rig->keys);
    assert_bits_are_right(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_second_use_is_a_hit, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(uses_are_counted_as_in_an_entry, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(no_more_stay_than_the_mark_allows, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_scan_does_not_displace_what_is_used_again, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_loop_over_a_tenth_more_than_fits_keeps_what_is_resident, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_demoted_key_comes_back_with_its_uses, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(few_residents_are_within_the_mark_after_each_use, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(few_residents_are_not_halved_all_the_time, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(each_resident_has_its_bit, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_is_deleted_or_grows_changes_the_sum, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
