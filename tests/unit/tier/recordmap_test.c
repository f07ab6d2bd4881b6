#include "tier/recordmap.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/random.h"

static const uint64_t tag_mask = (1ull << RECORDMAP_TAG_BITS) - 1;

static int tag_compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* --- a reference: distinct tags and how often each is in --- */

struct pool {
    uint64_t *tags;         /* ascending, distinct */
    uint32_t *counts;
    size_t size;
    uint64_t total;
};

/* `spread` bits of the tag are random, from the lowest on; the others are those of `base`. */
static void pool_init(struct pool *pool, struct random *random, size_t size, unsigned spread, uint64_t base)
{
    size_t distinct = 0;

    pool->tags = mem_alloc(size * sizeof(*pool->tags));
    for (size_t i = 0; i < size; i++)
        pool->tags[i] = ((base >> spread << spread) | random_below(random, 1ull << spread)) & tag_mask;
    qsort(pool->tags, size, sizeof(*pool->tags), tag_compare);
    for (size_t i = 0; i < size; i++)
        if (distinct == 0 || pool->tags[i] != pool->tags[distinct - 1])
            pool->tags[distinct++] = pool->tags[i];
    pool->size = distinct;
    pool->counts = mem_zalloc(distinct * sizeof(*pool->counts));
    pool->total = 0;
}

static void pool_release(struct pool *pool)
{
    mem_free(pool->tags);
    mem_free(pool->counts);
}

/* A hash with this tag; what is above the tag is noise. */
static uint64_t hash_with(struct random *random, uint64_t tag)
{
    return (random_next(random) & ~tag_mask) | tag;
}

static uint8_t *pool_save(const struct pool *pool)
{
    uint8_t *saved = mem_alloc(pool->total * RECORDMAP_TAG_SIZE);
    uint8_t *out = saved;

    for (size_t i = 0; i < pool->size; i++)
        for (uint32_t copy = 0; copy < pool->counts[i]; copy++)
            for (int byte = 0; byte < RECORDMAP_TAG_SIZE; byte++)
                *out++ = (uint8_t)(pool->tags[i] >> (8 * byte));
    return saved;
}

/* The tags are known exactly, so both results have to be right. */
static void verify(const struct recordmap *map, const struct pool *pool, struct random *random)
{
    uint8_t *expected = pool_save(pool);
    uint8_t *saved = mem_alloc(pool->total * RECORDMAP_TAG_SIZE);

    assert_int_equal(recordmap_count(map), pool->total);
    for (size_t i = 0; i < pool->size; i++) {
        recordmap_prefetch(map, pool->tags[i]);
        assert_int_equal(recordmap_maybe(map, hash_with(random, pool->tags[i])), pool->counts[i] > 0);
    }
    recordmap_save(map, saved);
    assert_int_equal(memcmp(saved, expected, pool->total * RECORDMAP_TAG_SIZE), 0);
    mem_free(expected);
    mem_free(saved);
}

static void tag_add(struct recordmap *map, struct pool *pool, struct random *random, size_t index)
{
    recordmap_add(map, hash_with(random, pool->tags[index]));
    pool->counts[index]++;
    pool->total++;
}

static void tag_remove(struct recordmap *map, struct pool *pool, struct random *random, size_t index)
{
    recordmap_remove(map, hash_with(random, pool->tags[index]));
    pool->counts[index]--;
    pool->total--;
}

/* --- tests --- */

static void random_work_agrees_with_a_multiset(void **state)
{
    static const unsigned spreads[] = { RECORDMAP_TAG_BITS, RECORDMAP_TAG_BITS, 20, 10, RECORDMAP_TAG_BITS, 12 };

    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct recordmap *map = recordmap_create((uint8_t)(seed * 50));
        struct random random;
        struct pool pool;

        print_message("seed %" PRIu64 "\n", seed);
        random_init(&random, seed);
        pool_init(&pool, &random, 12000, spreads[seed - 1], random_next(&random));
        for (int step = 0; step < 60000; step++) {
            uint64_t grow = step / 15000 % 2 == 0 ? 75 : 25;    /* up, down, up, down: both ways over every boundary */
            size_t index = random_below(&random, pool.size);

            if (random_below(&random, 100) < grow)
                tag_add(map, &pool, &random, index);
            else if (pool.counts[index] > 0)
                tag_remove(map, &pool, &random, index);
            assert_int_equal(recordmap_maybe(map, pool.tags[index]), pool.counts[index] > 0);
            if (step % 2500 == 0)
                verify(map, &pool, &random);
        }
        for (size_t i = 0; i < pool.size; i++)
            while (pool.counts[i] > 0)
                tag_remove(map, &pool, &random, i);
        verify(map, &pool, &random);
        assert_true(recordmap_size(map) < 100);
        pool_release(&pool);
        recordmap_destroy(map);
    }
}

static void nothing_is_lost_at_any_step_of_growth_and_shrinking(void **state)
{
    struct recordmap *map = recordmap_create(0);
    struct random random;
    struct pool pool;
    uint64_t until;

    random_init(&random, 99);
    pool_init(&pool, &random, 6200, RECORDMAP_TAG_BITS, 0);
    /* With stagger 0 there is one run more for each 192 tags: the two adds around each of these steps. */
    for (size_t i = 0; i < pool.size; i++) {
        tag_add(map, &pool, &random, i);
        if (pool.total % 192 <= 1 || pool.total < 40)
            verify(map, &pool, &random);
    }
    for (until = pool.size; until > 0; until--) {
        tag_remove(map, &pool, &random, until * 5003 % pool.size);      /* 5003 is a prime: each comes once */
        if (pool.total % 96 <= 1 || pool.total < 40)
            verify(map, &pool, &random);
    }
    pool_release(&pool);
    recordmap_destroy(map);
}

static void an_empty_map_returns_no_and_holds_almost_no_memory(void **state)
{
    struct recordmap *map = recordmap_create(17);
    struct random random;

    random_init(&random, 5);
    assert_true(recordmap_size(map) < 100);
    assert_int_equal(recordmap_count(map), 0);
    recordmap_save(map, NULL);
    for (int i = 0; i < 1000; i++) {
        uint64_t hash = random_next(&random);

        recordmap_prefetch(map, hash);
        assert_false(recordmap_maybe(map, hash));
    }
    recordmap_add(map, 0);
    assert_true(recordmap_maybe(map, 0));
    recordmap_remove(map, 0);
    assert_false(recordmap_maybe(map, 0));
    assert_true(recordmap_size(map) < 100);
    recordmap_destroy(map);
    recordmap_destroy(NULL);
}

static void equal_tags_are_kept_as_often_as_they_were_added(void **state)
{
    struct recordmap *map = recordmap_create(0);
    uint64_t other = 1ull << RECORDMAP_TAG_BITS;        /* another key's hash with the same tag */

    recordmap_add(map, 42);
    recordmap_add(map, 42 | other);
    recordmap_add(map, 42);
    for (int left = 3; left > 0; left--) {
        assert_int_equal(recordmap_count(map), left);
        assert_true(recordmap_maybe(map, 42));
        assert_true(recordmap_maybe(map, 42 | other));
        recordmap_remove(map, 42 | other);
    }
    assert_false(recordmap_maybe(map, 42));
    recordmap_destroy(map);
}

static void memory_a_tag_stays_within_its_bounds(void **state)
{
    static const uint8_t staggers[] = { 0, 100, 255 };

    for (size_t s = 0; s < sizeof(staggers); s++) {
        struct recordmap *map = recordmap_create(staggers[s]);
        struct random random;

        random_init(&random, s);
        for (uint64_t count = 1; count <= 200000; count++) {
            recordmap_add(map, random_next(&random));
            if (count == 100)
                assert_true(recordmap_size(map) < 1000);
            if (count == 1000)
                assert_true(recordmap_size(map) < 5000);
            if (count >= 10000 && count % 500 == 0)
                assert_true((double)recordmap_size(map) / (double)count < (count < 40000 ? 4.0 : 3.1));
        }
        recordmap_destroy(map);
    }
}

static void memory_comes_back_after_mass_removal(void **state)
{
    struct recordmap *map = recordmap_create(200);
    struct random adds, removes;
    uint64_t left = 100000;

    random_init(&adds, 8);
    removes = adds;
    for (uint64_t i = 0; i < left; i++)
        recordmap_add(map, random_next(&adds));
    for (; left > 0; left--) {
        if (left % 1000 == 0 && left > 0)
            assert_true(recordmap_size(map) < 5 * left + 16000);
        recordmap_remove(map, random_next(&removes));
    }
    assert_true(recordmap_size(map) < 100);
    recordmap_destroy(map);
}

static void false_maybes_are_rare(void **state)
{
    struct recordmap *map = recordmap_create(3);
    struct random random;
    int wrong = 0;

    random_init(&random, 77);
    for (int i = 0; i < 156250; i++)
        recordmap_add(map, random_next(&random));
    for (int i = 0; i < 2000000; i++)
        wrong += recordmap_maybe(map, random_next(&random));
    assert_in_range(wrong, 1, 36);      /* 18 are due */
    recordmap_destroy(map);
}

static void what_is_saved_is_loaded(void **state)
{
    static const size_t sizes[] = { 0, 1, 2, 7, 8, 9, 191, 192, 193, 384, 385, 1000, 20000 };

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct recordmap *map = recordmap_create((uint8_t)(s * 19));
        struct random random;
        struct pool pool;
        uint8_t *saved;

        random_init(&random, s);
        pool_init(&pool, &random, sizes[s] + 1, RECORDMAP_TAG_BITS, 0);
        pool.size--;
        for (size_t i = 0; i < pool.size; i++) {
            pool.counts[i] = 1 + (uint32_t)(i % 50 == 0);
            pool.total += pool.counts[i];
        }
        saved = pool_save(&pool);
        assert_true(recordmap_load(map, saved, pool.total));
        verify(map, &pool, &random);
        /* It works on: grows, shrinks, and takes more of the same. */
        for (size_t i = 0; i < pool.size; i += 3)
            tag_remove(map, &pool, &random, i);
        verify(map, &pool, &random);
        assert_true(recordmap_load(map, saved, pool.size > 0 ? 1 : 0));
        if (pool.size > 0) {
            pool.counts[0]++;
            pool.total++;
        }
        verify(map, &pool, &random);
        mem_free(saved);
        pool_release(&pool);
        recordmap_destroy(map);
    }
}

static void a_loaded_map_is_as_small_as_a_grown_one(void **state)
{
    struct recordmap *grown = recordmap_create(60);
    struct recordmap *loaded = recordmap_create(60);
    uint8_t *saved = mem_alloc(100000 * RECORDMAP_TAG_SIZE);
    struct random random;

    random_init(&random, 4);
    for (int i = 0; i < 100000; i++)
        recordmap_add(grown, random_next(&random));
    recordmap_save(grown, saved);
    assert_true(recordmap_load(loaded, saved, 100000));
    assert_true(recordmap_size(loaded) < recordmap_size(grown) * 105 / 100);
    mem_free(saved);
    recordmap_destroy(grown);
    recordmap_destroy(loaded);
}

static void load_refuses_what_cannot_have_been_saved(void **state)
{
    static const uint8_t descending[] = { 1, 0, 0, 0, 0, 9, 0, 0, 0, 0, 8, 0, 0, 0, 0 };
    static const uint8_t descending_high[] = { 0, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 1 };
    static const uint8_t too_large[] = { 1, 0, 0, 0, 0, 0, 0, 0, 0, 4 };
    struct recordmap *map = recordmap_create(0);

    for (int filled = 0; filled < 2; filled++) {
        assert_false(recordmap_load(map, descending, 3));
        assert_false(recordmap_load(map, descending_high, 2));
        assert_false(recordmap_load(map, too_large, 2));
        assert_int_equal(recordmap_count(map), filled);
        assert_false(recordmap_maybe(map, 1));
        assert_false(recordmap_maybe(map, 9));
        if (filled == 0)
            recordmap_add(map, 1234);
    }
    assert_true(recordmap_load(map, descending, 2));
    assert_int_equal(recordmap_count(map), 3);
    assert_true(recordmap_maybe(map, 1) && recordmap_maybe(map, 9) && recordmap_maybe(map, 1234));
    recordmap_destroy(map);
}

static void keys_of_one_tag_stay_correct_and_bounded(void **state)
{
    struct recordmap *map = recordmap_create(0);
    uint64_t tag = 0x155555555ull;

    for (uint64_t i = 0; i < 10000; i++) {
        recordmap_add(map, i << RECORDMAP_TAG_BITS | tag);
        assert_true(recordmap_size(map) < 6 * (i + 1) + 1500);
    }
    assert_true(recordmap_maybe(map, tag));
    assert_false(recordmap_maybe(map, tag ^ 1));
    assert_false(recordmap_maybe(map, tag ^ 1ull << 33));
    for (uint64_t i = 0; i < 10000; i++) {
        assert_true(recordmap_maybe(map, tag));
        recordmap_remove(map, tag);
    }
    assert_false(recordmap_maybe(map, tag));
    assert_true(recordmap_size(map) < 100);
    recordmap_destroy(map);
}

static void keys_of_one_run_stay_correct_and_bounded(void **state)
{
    struct recordmap *map = recordmap_create(128);
    struct random random;
    struct pool pool;

    random_init(&random, 31);
    pool_init(&pool, &random, 12000, 14, 0x2aaaaaaaaull);      /* the first 20 bits are the same */
    for (size_t i = 0; i < pool.size; i++) {
        tag_add(map, &pool, &random, i);
        assert_true(recordmap_size(map) < 6 * pool.total + 1500);
    }
    verify(map, &pool, &random);
    assert_false(recordmap_maybe(map, pool.tags[0] ^ 1ull << 33));
    for (size_t i = 0; i < pool.size; i++)
        if (i % 10 != 0)
            tag_remove(map, &pool, &random, i);
    verify(map, &pool, &random);
    pool_release(&pool);
    recordmap_destroy(map);
}

/* In a child, as the CHECK ends the process. */
static int remove_absent(uint64_t present, uint64_t absent)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        struct recordmap *map = recordmap_create(0);

        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        if (present != 0)
            recordmap_add(map, present);
        recordmap_remove(map, absent);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void removing_what_is_not_there_stops_the_process(void **state)
{
    assert_int_equal(remove_absent(0, 5), SIGABRT);
    assert_int_equal(remove_absent(4, 5), SIGABRT);
    assert_int_equal(remove_absent(5, 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_a_multiset),
        cmocka_unit_test(nothing_is_lost_at_any_step_of_growth_and_shrinking),
        cmocka_unit_test(an_empty_map_returns_no_and_holds_almost_no_memory),
        cmocka_unit_test(equal_tags_are_kept_as_often_as_they_were_added),
        cmocka_unit_test(memory_a_tag_stays_within_its_bounds),
        cmocka_unit_test(memory_comes_back_after_mass_removal),
        cmocka_unit_test(false_maybes_are_rare),
        cmocka_unit_test(what_is_saved_is_loaded),
        cmocka_unit_test(a_loaded_map_is_as_small_as_a_grown_one),
        cmocka_unit_test(load_refuses_what_cannot_have_been_saved),
        cmocka_unit_test(keys_of_one_tag_stay_correct_and_bounded),
        cmocka_unit_test(keys_of_one_run_stay_correct_and_bounded),
        cmocka_unit_test(removing_what_is_not_there_stops_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
