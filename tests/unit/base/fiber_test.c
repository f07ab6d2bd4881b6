#include "base/fiber.h"

#include "support/unit.h"

struct counting {
    struct fiber_pool *pool;
    int steps, limit;
};

static void count_steps(void *context)
{
    struct counting *counting = context;

    while (counting->steps < counting->limit) {
        counting->steps++;
        fiber_suspend(counting->pool);
    }
}

static void a_fiber_runs_until_it_suspends_itself(void **state)
{
    struct fiber_pool pool;
    _Atomic uint64_t memory = 0;
    struct counting counting = { .pool = &pool, .limit = 3 };
    struct fiber *fiber;

    (void)state;
    fiber_pool_init(&pool, &memory);
    fiber = fiber_create(&pool, count_steps, &counting);
    for (int i = 1; i <= 3; i++) {
        assert_true(fiber_enter(&pool, fiber));
        assert_int_equal(counting.steps, i);
        assert_null(pool.current);
    }
    assert_false(fiber_enter(&pool, fiber));
    assert_int_equal(pool.free_count, 1);
    fiber_pool_release(&pool);
    assert_int_equal(memory, 0);
}

static void fibers_take_turns_and_are_used_again(void **state)
{
    enum { FIBERS = 40, ROUNDS = 50 };
    struct fiber_pool pool;
    _Atomic uint64_t memory = 0;
    struct counting counting[FIBERS];
    struct fiber *fibers[FIBERS];

    (void)state;
    fiber_pool_init(&pool, &memory);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FIBERS; i++) {
            counting[i] = (struct counting){ .pool = &pool, .limit = ROUNDS };
            fibers[i] = fiber_create(&pool, count_steps, &counting[i]);
        }
        for (int step = 0; step < ROUNDS; step++) {
            for (int i = 0; i < FIBERS; i++)
                assert_true(fiber_enter(&pool, fibers[i]));
        }
        for (int i = 0; i < FIBERS; i++)
            assert_false(fiber_enter(&pool, fibers[i]));
        assert_in_range(pool.free_count, 1, FIBERS - 1);        /* a bounded number is kept */
    }
    fiber_pool_release(&pool);
    assert_int_equal(memory, 0);
}

static int depth_reached(int depth)
{
    volatile char frame[1024];

    frame[0] = (char)depth;
    return depth == 0 ? frame[0] : depth_reached(depth - 1) + 1;
}

static void recurse(void *context)
{
    *(int *)context = depth_reached(4000);
}

static void a_fiber_has_a_stack_for_deep_recursion(void **state)
{
    struct fiber_pool pool;
    _Atomic uint64_t memory = 0;
    int depth = 0;

    (void)state;
    fiber_pool_init(&pool, &memory);
    assert_false(fiber_enter(&pool, fiber_create(&pool, recurse, &depth)));
    assert_int_equal(depth, 4000);
    fiber_pool_release(&pool);
    assert_int_equal(memory, 0);
}

enum { DEEP_SIZE = 1 << 20 };

struct diver {
    struct fiber_pool *pool;
    bool suspends_below;
};

static __attribute__((noinline)) void dive(struct diver *diver)
{
    volatile char bytes[DEEP_SIZE];

    for (size_t i = 0; i < sizeof(bytes); i += 1024)
        bytes[i] = 1;
    if (diver->suspends_below)
        fiber_suspend(diver->pool);
    assert_int_equal(bytes[0], 1);
}

static void dive_and_suspend(void *context)
{
    struct diver *diver = context;

    dive(diver);
    fiber_suspend(diver->pool);
}

/* What is counted is what a stack takes: all of a deep one, little of one that was deep. */
static void the_memory_of_stacks_is_counted(void **state)
{
    enum { FIBERS = 20, SLACK = 4 * FIBER_KEPT_SIZE };
    struct fiber_pool pool;
    _Atomic uint64_t memory = 0;
    struct diver above = { &pool, false }, below = { &pool, true };
    struct fiber *fibers[FIBERS], *fiber;

    (void)state;
    fiber_pool_init(&pool, &memory);
    fiber = fiber_create(&pool, dive_and_suspend, &above);
    assert_true(fiber_enter(&pool, fiber));
    assert_in_range(memory, FIBER_LEAST_SIZE, SLACK);
    assert_false(fiber_enter(&pool, fiber));
    for (int i = 0; i < FIBERS; i++) {
        fibers[i] = fiber_create(&pool, dive_and_suspend, &below);
        assert_true(fiber_enter(&pool, fibers[i]));
        assert_in_range(memory, (i + 1) * (uint64_t)DEEP_SIZE, (i + 1) * (uint64_t)(DEEP_SIZE + SLACK));
    }
    for (int i = 0; i < FIBERS; i++) {
        assert_true(fiber_enter(&pool, fibers[i]));
        assert_in_range(memory, (FIBERS - i - 1) * (uint64_t)DEEP_SIZE, (FIBERS - i - 1) * (uint64_t)DEEP_SIZE + FIBERS * (uint64_t)SLACK);
        assert_false(fiber_enter(&pool, fibers[i]));
    }
    assert_in_range(memory, pool.free_count * (uint64_t)FIBER_LEAST_SIZE, pool.free_count * (uint64_t)SLACK);
    fiber_pool_release(&pool);
    assert_int_equal(memory, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fiber_runs_until_it_suspends_itself),
        cmocka_unit_test(fibers_take_turns_and_are_used_again),
        cmocka_unit_test(a_fiber_has_a_stack_for_deep_recursion),
        cmocka_unit_test(the_memory_of_stacks_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
