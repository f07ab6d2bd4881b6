/* The estimate of hit ratios at other sizes of memory. */
#include "tier/advise.h"

#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/buffer.h"
#include "base/crc64.h"
#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

enum { DB = 1, SIZE = 100, SECOND = 1000000 };

struct rig {
    struct advise *advise;
    _Atomic uint32_t limit;
    struct advise_measures measures;
    struct advise_estimate estimate;
    struct random random;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    uint64_t seed = seed_new();

    random_init(&rig->random, seed);
    rig->advise = advise_create(seed);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    advise_destroy(rig->advise);
    mem_free(rig);
    return 0;
}

/* A key that is sampled as long as the limit was not halved. */
static uint64_t hash_of(uint64_t key)
{
    struct random random;
    uint64_t hash;

    random_init(&random, key);
    hash = random_next(&random);
    return (hash & ~UINT64_C(0xffffffff)) | ((uint32_t)hash & (ADVISE_LIMIT_MAX - 1));
}

/* `keys`: the sampled ones that have room at maxmemory. */
static void tick(struct rig *rig, double seconds, uint64_t keys)
{
    rig->measures.now_us += (int64_t)(seconds * SECOND);
    rig->measures.high_percent = rig->measures.low_percent = 100;
    rig->measures.memory_max = keys * SIZE * 128;
    advise_tick(rig->advise, &rig->measures, &rig->limit);
    advise_look(rig->advise, &rig->estimate);
}

static void use_as(struct rig *rig, uint64_t key, enum advise_kind kind, bool is_cold)
{
    struct advise_use use = { .kind = kind, .hash = hash_of(key), .incarnation = DB, .size = SIZE, .is_cold = is_cold };

    advise_use(rig->advise, &use, &rig->limit);
    if (kind != ADVISE_CREATE || is_cold)
        rig->measures.hot_hits += 128;
}

static void use(struct rig *rig, uint64_t key)
{
    use_as(rig, key, ADVISE_USE, false);
}

static void create(struct rig *rig, uint64_t count)
{
    for (uint64_t key = 0; key < count; key++)
        use_as(rig, key, ADVISE_CREATE, false);
}

static void begin(struct rig *rig, uint64_t keys, uint64_t room)
{
    tick(rig, 1, room);
    create(rig, keys);
    tick(rig, 1, room);
    advise_reset(rig->advise);
    rig->measures.hot_hits = 0;
    tick(rig, 1, room);
}

static void assert_near(double value, double wanted, double by)
{
    if (!(fabs(value - wanted) <= by))
        fail_msg("%g is not within %g of %g", value, by, wanted);
}

static void nothing_is_sampled_before_the_first_tick(void **state)
{
    struct rig *rig = *state;

    use(rig, 1);
    advise_look(rig->advise, &rig->estimate);
    assert_int_equal(rig->estimate.sampled_keys, 0);
    assert_int_equal(rig->limit, 0);
    tick(rig, 1, 10);
    assert_int_equal(rig->limit, ADVISE_LIMIT_MAX);
}

/* Of 1000 keys, used one after the other, all are hits where all fit. */
static void sizes_that_have_room_for_all_have_no_misses(void **state)
{
    struct rig *rig = *state;

    begin(rig, 1000, 1100);
    for (int i = 0; i < 5000; i++)
        use(rig, (uint64_t)i % 1000);
    tick(rig, 1, 1100);
    for (int i = ADVISE_PRESENT; i < ADVISE_SIZES; i++)
        assert_near(rig->estimate.hit_ratio[i], 1, 0);
    for (int i = 1; i < ADVISE_SIZES; i++)
        assert_true(rig->estimate.hit_ratio[i] >= rig->estimate.hit_ratio[i - 1] - 0.02);
    assert_near(rig->estimate.uses, 5000 * 128, 0);
    assert_near(rig->estimate.misses[ADVISE_PRESENT], 0, 0);
}

/* Uniform use: what fits is hit, whatever the policy. */
static void with_uniform_use_the_hit_ratio_is_the_share_that_fits(void **state)
{
    struct rig *rig = *state;

    begin(rig, 4000, 2000);
    for (int i = 0; i < 40000; i++)
        use(rig, random_below(&rig->random, 4000));
    tick(rig, 1, 2000);
    for (int i = 0; i < ADVISE_SIZES; i++) {
        double fits = 0.5 * advise_factor(i);

        assert_near(rig->estimate.hit_ratio[i], fits < 1 ? fits : 1, 0.03);
    }
    assert_near(rig->estimate.misses[ADVISE_PRESENT], 0.5 * 40000 * 128, 0.03 * 40000 * 128);
}

/* 20 bytes for each key of 100 that is cold: with half the memory 750 fit instead of 1000, as 80 * 750 = 100 * 1000 - 20 * 2000. */
static void records_of_cold_keys_take_room(void **state)
{
    struct rig *rig = *state;

    rig->measures.record_size = 20;
    begin(rig, 4000, 2000);
    for (int i = 0; i < 40; i++) {
        for (int n = 0; n < 1000; n++)
            use(rig, random_below(&rig->random, 4000));
        tick(rig, 1, 2000);
        if (i == 10) {
            advise_reset(rig->advise);
            rig->measures.hot_hits = 0;
        }
    }
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT], 0.5, 0.03);
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT - ADVISE_OCTAVE], 0.1875, 0.03);
}

static void overwritten_cold_keys_are_neither_hits_nor_misses(void **state)
{
    struct rig *rig = *state;

    begin(rig, 4000, 2000);
    for (int i = 0; i < 40000; i++)
        use_as(rig, random_below(&rig->random, 4000), i % 2 == 0 ? ADVISE_OVERWRITE : ADVISE_USE, false);
    tick(rig, 1, 2000);
    /* A quarter misses, a quarter is overwritten: of three quarters two are hits. */
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT], 2 / 3.0, 0.03);
    assert_near(rig->estimate.misses[ADVISE_PRESENT], 0.25 * 40000 * 128, 0.02 * 40000 * 128);
}

static void what_is_not_in_the_sample_yet_counts_as_far_as_it_is_known(void **state)
{
    struct rig *rig = *state;

    tick(rig, 1, 100000);
    for (uint64_t key = 0; key < 100; key++)
        use_as(rig, key, ADVISE_USE, key < 60);         /* 60 were cold */
    tick(rig, 1, 100000);
    assert_near(rig->estimate.unknown, 100 * 128, 0.1);
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT], 0.4, 1e-9);
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT - 1], 0, 1e-9);     /* the 40 are not known there */
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT + 1], 1, 1e-9);     /* nor the 60 here */
    use(rig, 5);
    tick(rig, 1, 100000);
    assert_near(rig->estimate.unknown, 100 * 128, 1);
}

static void keys_that_are_deleted_or_flushed_leave_the_sample(void **state)
{
    struct rig *rig = *state;
    const uint32_t none[] = { DB + 1 }, both[] = { DB - 1, DB, DB + 1, DB + 2, DB + 5 };

    begin(rig, 500, 1000);
    assert_int_equal(rig->estimate.sampled_keys, 500);
    for (uint64_t key = 0; key < 200; key++)
        advise_remove(rig->advise, hash_of(key), DB);
    advise_remove(rig->advise, hash_of(400), DB + 7);   /* of another database */
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, 300);
    assert_false(advise_sweep_is_due(rig->advise));
    advise_forget(rig->advise);
    assert_true(advise_sweep_is_due(rig->advise));
    advise_sweep(rig->advise, both, 5);
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, 300);
    advise_sweep(rig->advise, none, 1);
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, 0);
}

/* Any order of uses and deletes: the sample has exactly the keys that exist. */
static void the_sample_has_what_exists(void **state)
{
    enum { KEYS = 3000 };
    struct rig *rig = *state;
    bool exists[KEYS] = { false };
    uint32_t count = 0;

    tick(rig, 1, 1000);
    for (int i = 0; i < 60000; i++) {
        uint64_t key = random_below(&rig->random, KEYS);

        if (random_below(&rig->random, 3) == 0) {
            advise_remove(rig->advise, hash_of(key), DB);
            count -= exists[key];
            exists[key] = false;
        } else {
            use_as(rig, key, exists[key] ? ADVISE_USE : ADVISE_CREATE, false);
            count += !exists[key];
            exists[key] = true;
        }
    }
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, count);
    for (uint64_t key = 0; key < KEYS; key++)
        advise_remove(rig->advise, hash_of(key), DB);
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, 0);
}

static void memory_is_bounded_and_the_estimate_holds_with_fewer_keys(void **state)
{
    enum { KEYS = 200000 };         /* 25 million keys of the server */
    struct rig *rig = *state;

    begin(rig, KEYS, KEYS / 2);
    for (int i = 0; i < 4 * KEYS; i++) {
        use(rig, random_below(&rig->random, KEYS));
        if (i % KEYS == 0)
            tick(rig, 1, KEYS / 2);
    }
    tick(rig, 1, KEYS / 2);
    assert_in_range(rig->estimate.sampled_keys, ADVISE_KEYS_MAX / 2 - 500, ADVISE_KEYS_MAX);
    assert_int_equal(rig->limit, ADVISE_LIMIT_MAX / 16);
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT], 0.5, 0.03);
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT - ADVISE_OCTAVE], 0.25, 0.03);
    assert_true(advise_memory(rig->advise) < 3500000);
    /* When most keys are gone, more of the others are sampled. */
    for (uint64_t key = 0; key < KEYS; key++) {
        if (key % 16 != 0)
            advise_remove(rig->advise, hash_of(key), DB);
    }
    tick(rig, 1, KEYS / 2);
    assert_int_equal(rig->limit, ADVISE_LIMIT_MAX / 8);
}

static void slots_of_keys_that_are_gone_are_given_back(void **state)
{
    enum { KEYS = 20000 };
    struct rig *rig = *state;
    const uint32_t none[] = { DB + 1 };

    begin(rig, KEYS, KEYS);
    assert_true(advise_memory(rig->advise) > 1000000);
    for (uint64_t key = 100; key < KEYS; key++)
        advise_remove(rig->advise, hash_of(key), DB);
    tick(rig, 1, KEYS);
    assert_int_equal(rig->estimate.sampled_keys, 100);
    assert_true(advise_memory(rig->advise) < 600000);
    for (uint64_t key = 0; key < 100; key++)
        use(rig, key);
    tick(rig, 1, KEYS);
    assert_int_equal(rig->estimate.sampled_keys, 100);
    assert_near(rig->estimate.hit_ratio[ADVISE_PRESENT], 1, 0);
    create(rig, KEYS);
    advise_sweep(rig->advise, none, 1);         /* FLUSHALL */
    tick(rig, 1, KEYS);
    assert_true(advise_memory(rig->advise) < 600000);
}

static void what_was_long_ago_counts_less(void **state)
{
    struct rig *rig = *state;

    begin(rig, 1000, 250);
    for (int i = 0; i < 3000; i++)
        use(rig, (uint64_t)i % 1000);                   /* a loop: hardly any hits */
    tick(rig, 10, 250);
    assert_true(rig->estimate.hit_ratio[ADVISE_PRESENT] < 0.4);
    assert_near(rig->estimate.seconds, 11, 0.1);        /* one of begin */
    tick(rig, ADVISE_HALF_LIFE_S, 250);
    assert_near(rig->estimate.uses, 1500 * 128, 200);
    for (int i = 0; i < 30000; i++)
        use(rig, (uint64_t)i % 100);
    tick(rig, 1, 250);
    assert_true(rig->estimate.hit_ratio[ADVISE_PRESENT] > 0.9);
}

static void another_maxmemory_begins_again(void **state)
{
    struct rig *rig = *state;

    begin(rig, 1000, 250);
    for (int i = 0; i < 3000; i++)
        use(rig, (uint64_t)i % 1000);
    tick(rig, 1, 250);
    assert_true(rig->estimate.misses[ADVISE_PRESENT] > 0);
    tick(rig, 1, 2000);
    assert_near(rig->estimate.misses[ADVISE_PRESENT], 0, 0);
    assert_int_equal(rig->estimate.sampled_keys, 1000);
}

static void a_time_without_maxmemory_does_not_count(void **state)
{
    struct rig *rig = *state;

    begin(rig, 1000, 250);
    tick(rig, 1, 0);
    for (int i = 0; i < 3000; i++)
        use(rig, (uint64_t)i % 1000);
    tick(rig, 1, 0);
    assert_true(rig->estimate.uses > 0);
    for (int i = 0; i < 1000; i++)
        use(rig, (uint64_t)i % 1000);
    tick(rig, 1, 250);
    assert_near(rig->estimate.uses, 0, 0);
    assert_near(rig->estimate.seconds, 0, 0);
    for (int i = 0; i < 3000; i++)
        use(rig, (uint64_t)i % 1000);                   /* a loop */
    tick(rig, 1, 250);
    assert_near(rig->estimate.uses, 3000 * 128, 100);
    assert_true(rig->estimate.hit_ratio[ADVISE_PRESENT] < 0.4);
}

/* CONFIG RESETSTAT may be between the two: the counts of the next tick are still the old ones. */
static void a_reset_does_not_count_old_uses_again(void **state)
{
    struct rig *rig = *state;

    begin(rig, 1000, 250);
    for (int i = 0; i < 3000; i++)
        use(rig, (uint64_t)i % 1000);
    tick(rig, 1, 250);
    advise_reset(rig->advise);
    tick(rig, 1, 250);
    assert_near(rig->estimate.uses, 0, 0);
    rig->measures.resets++;
    rig->measures.hot_hits += 100;                      /* more than before, all of them since the reset */
    tick(rig, 1, 250);
    assert_near(rig->estimate.uses, (double)rig->measures.hot_hits, 1);
}

static void switched_off_it_forgets_all(void **state)
{
    struct rig *rig = *state;

    begin(rig, 1000, 250);
    advise_clear(rig->advise, &rig->limit);
    use(rig, 1);
    advise_look(rig->advise, &rig->estimate);
    assert_int_equal(rig->limit, 0);
    assert_int_equal(rig->estimate.sampled_keys, 0);
    assert_true(advise_memory(rig->advise) < 20000);
}

/* --- the file --- */

static void run_some(struct rig *rig)
{
    begin(rig, 3000, 1000);
    for (int i = 0; i < 10000; i++)
        use(rig, random_below(&rig->random, 3000));
    tick(rig, 1, 1000);
}

static void what_is_written_comes_back(void **state)
{
    struct rig *rig = *state;
    struct advise *other = advise_create(1);
    struct advise_estimate estimate;
    _Atomic uint32_t limit = 0;
    struct buffer text = { 0 }, again = { 0 };

    run_some(rig);
    advise_encode(rig->advise, &text);
    assert_int_equal(advise_decode(other, buffer_bytes(&text), &limit), STATUS_OK);
    advise_look(other, &estimate);
    assert_int_equal(estimate.sampled_keys, 3000);
    assert_int_equal(limit, ADVISE_LIMIT_MAX);          /* so that deletes of the log are reported */
    assert_memory_equal(estimate.hit_ratio, rig->estimate.hit_ratio, sizeof(estimate.hit_ratio));
    assert_near(estimate.uses, rig->estimate.uses, 0);
    advise_encode(other, &again);
    assert_int_equal(again.size, text.size);
    advise_destroy(other);
    buffer_release(&text);
    buffer_release(&again);
}

static void damage_is_found_and_changes_nothing(void **state)
{
    struct rig *rig = *state;
    struct buffer text = { 0 };

    run_some(rig);
    advise_encode(rig->advise, &text);
    for (size_t at = 0; at < text.size; at += 1 + random_below(&rig->random, 200)) {
        text.data[at] ^= 0x10;
        assert_int_equal(advise_decode(rig->advise, buffer_bytes(&text), &rig->limit), STATUS_CORRUPT);
        text.data[at] ^= 0x10;
    }
    for (size_t size = 0; size < text.size; size += 1 + random_below(&rig->random, 500))
        assert_int_equal(advise_decode(rig->advise, bytes_of(text.data, size), &rig->limit), STATUS_CORRUPT);
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, 3000);
    buffer_release(&text);
}

static enum status decode_with(struct rig *rig, struct buffer *text)
{
    uint64_t crc = crc64(0, bytes_of(text->data, text->size - 8));

    memcpy(text->data + text->size - 8, &crc, 8);
    return advise_decode(rig->advise, buffer_bytes(text), &rig->limit);
}

static void numbers_out_of_range_are_damage(void **state)
{
    static const double numbers[] = { 1.7e308, 1.1e15, -1, INFINITY, NAN };
    struct rig *rig = *state;
    struct buffer text = { 0 };

    run_some(rig);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        text.size = 0;
        advise_encode(rig->advise, &text);
        memcpy(text.data + 32 + 3 * 8, &numbers[i], 8);         /* misses */
        assert_int_equal(decode_with(rig, &text), STATUS_CORRUPT);
    }
    buffer_release(&text);
}

static void as_many_keys_as_there_is_room_for_are_damage(void **state)
{
    enum { KEY = 20 + ADVISE_SIZES, HEAD = 32 + (3 + 3 * ADVISE_SIZES) * 8 };
    struct rig *rig = *state;
    struct buffer text = { 0 };
    uint32_t count = ADVISE_KEYS_MAX, size = SIZE;

    begin(rig, 1, 20);
    advise_encode(rig->advise, &text);
    memcpy(text.data + 12, &count, 4);
    text.size = HEAD;
    for (uint64_t key = 0; key < count; key++) {
        char bytes[KEY] = { 0 };
        uint64_t hash = hash_of(key);

        memcpy(bytes, &hash, 8);
        bytes[8] = DB;
        memcpy(bytes + 12, &size, 4);
        buffer_append(&text, bytes, sizeof(bytes));
    }
    buffer_append(&text, "checksum", 8);
    assert_int_equal(decode_with(rig, &text), STATUS_CORRUPT);
    count--;
    memcpy(text.data + 12, &count, 4);
    text.size -= KEY;
    assert_int_equal(decode_with(rig, &text), STATUS_OK);
    buffer_release(&text);
}

static void another_version_is_not_damage(void **state)
{
    struct rig *rig = *state;
    struct buffer text = { 0 };

    run_some(rig);
    advise_encode(rig->advise, &text);
    text.data[4] = '9';
    assert_int_equal(decode_with(rig, &text), STATUS_VERSION);
    buffer_release(&text);
}

/* Under a checksum that is right. */
static void hostile_bytes_are_refused_or_harmless(void **state)
{
    struct rig *rig = *state;
    struct buffer good = { 0 };

    begin(rig, 60, 20);
    tick(rig, 1, 20);
    advise_encode(rig->advise, &good);
    for (int round = 0; round < 500; round++) {
        struct buffer text = { 0 };

        buffer_append_bytes(&text, buffer_bytes(&good));
        for (uint64_t i = 1 + random_below(&rig->random, 5); i > 0; i--) {
            text.data[8 + random_below(&rig->random, text.size - 16)] =
                (char)(random_below(&rig->random, 2) ? random_next(&rig->random) : 255 * random_below(&rig->random, 2));
        }
        (void)decode_with(rig, &text);
        for (uint64_t key = 0; key < 70; key++)
            use(rig, key);
        tick(rig, 1, 20);
        assert_true(rig->estimate.hit_ratio[ADVISE_PRESENT] >= 0 && rig->estimate.hit_ratio[ADVISE_PRESENT] <= 1);
        buffer_release(&text);
    }
    buffer_release(&good);
}

/* --- threads --- */

enum { THREADS = 3, THREAD_KEYS = 500 };

/* Each thread has keys of its own; in the end half of them are left. */
struct user {
    pthread_t thread;
    struct rig *rig;
    uint64_t first;
};

static void *use_keys(void *context)
{
    struct user *user = context;
    struct advise_use use = { .incarnation = DB, .size = SIZE };

    for (uint64_t i = 0; i < 4 * THREAD_KEYS; i++) {
        use.hash = hash_of(user->first + i % THREAD_KEYS);
        use.kind = i < THREAD_KEYS ? ADVISE_CREATE : ADVISE_USE;
        if (advise_samples(&user->rig->limit, use.hash))
            advise_use(user->rig->advise, &use, &user->rig->limit);
    }
    for (uint64_t i = 0; i < THREAD_KEYS; i += 2)
        advise_remove(user->rig->advise, hash_of(user->first + i), DB);
    return NULL;
}

static void threads_use_keys_while_others_look(void **state)
{
    struct rig *rig = *state;
    struct user users[THREADS];
    struct buffer text = { 0 };

    tick(rig, 1, 1000);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){ .rig = rig, .first = (uint64_t)i * THREAD_KEYS };
        assert_int_equal(pthread_create(&users[i].thread, NULL, use_keys, &users[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        tick(rig, 1, 1000);
        text.size = 0;
        advise_encode(rig->advise, &text);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(users[i].thread, NULL), 0);
    tick(rig, 1, 1000);
    assert_int_equal(rig->estimate.sampled_keys, THREADS * THREAD_KEYS / 2);
    buffer_release(&text);
}

static void between_two_sizes_values_are_interpolated(void **state)
{
    double values[ADVISE_SIZES] = { 1, 3 };

    values[ADVISE_SIZES - 1] = 9;
    assert_near(advise_between(values, 0.25), 1.5, 1e-9);
    assert_near(advise_between(values, ADVISE_SIZES - 1), 9, 0);
    assert_near(advise_factor(ADVISE_PRESENT), 1, 0);
    assert_near(advise_factor(ADVISE_PRESENT + 2 * ADVISE_OCTAVE), 4, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_sampled_before_the_first_tick, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(sizes_that_have_room_for_all_have_no_misses, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(with_uniform_use_the_hit_ratio_is_the_share_that_fits, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(records_of_cold_keys_take_room, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(overwritten_cold_keys_are_neither_hits_nor_misses, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_is_not_in_the_sample_yet_counts_as_far_as_it_is_known, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(keys_that_are_deleted_or_flushed_leave_the_sample, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(the_sample_has_what_exists, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(memory_is_bounded_and_the_estimate_holds_with_fewer_keys, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(slots_of_keys_that_are_gone_are_given_back, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_was_long_ago_counts_less, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(another_maxmemory_begins_again, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_time_without_maxmemory_does_not_count, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(a_reset_does_not_count_old_uses_again, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(switched_off_it_forgets_all, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_is_written_comes_back, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(damage_is_found_and_changes_nothing, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(numbers_out_of_range_are_damage, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(as_many_keys_as_there_is_room_for_are_damage, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(another_version_is_not_damage, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(hostile_bytes_are_refused_or_harmless, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(threads_use_keys_while_others_look, open_rig, close_rig),
        cmocka_unit_test(between_two_sizes_values_are_interpolated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
