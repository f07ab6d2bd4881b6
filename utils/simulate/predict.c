#include "predict.h"

#include <stdio.h>

#include "base/mem.h"
#include "tier/advise.h"

enum { SIZES = 5, PERCENT_MIDDLE = 100 };
static const double factors[SIZES] = { 0.25, 0.5, 1, 2, 4 };

/* A hash as the server would have it, but one that keys of one number always have. */
static uint64_t hash_of(uint32_t key)
{
    struct random random;

    random_init(&random, key);
    return random_next(&random);
}

static double simulate(const struct sequence *sequence, uint32_t from, uint64_t capacity, uint32_t rate)
{
    struct room room = { sequence->key_count, sequence->sizes, capacity };
    void *state = policy_kelvin.create(&room);
    uint64_t hits = 0;

    for (uint32_t i = 0; i < sequence->count; i++) {
        struct request request = { .key = sequence->keys[i], .minute = (uint16_t)(i / (rate * 60)) };
        bool is_hit = policy_kelvin.request(state, &request);

        hits += i >= from && is_hit;
    }
    policy_kelvin.destroy(state);
    return 100.0 * (double)hits / (sequence->count - from);
}

/* Keys are 64 units of the server's each, so that sizes of 1 are not lost. All requests are uses of keys that exist. */
static void advise_all(const struct sequence *sequence, uint32_t from, uint64_t capacity, struct advise_estimate *estimate)
{
    struct advise *advise = advise_create(1);
    struct advise_measures measures = { .high_percent = PERCENT_MIDDLE, .low_percent = PERCENT_MIDDLE - 3, .memory_max = capacity * 64 * 200 / 197 };
    _Atomic uint32_t limit = 0;
    bool *exists = mem_zalloc(sequence->key_count * sizeof(bool));

    for (uint32_t i = 0; i < sequence->count; i++) {
        uint32_t key = sequence->keys[i];
        struct advise_use use = { .kind = exists[key] ? ADVISE_USE : ADVISE_CREATE, .hash = hash_of(key), .incarnation = 1, .size = sequence->sizes[key] * 64 };

        if (i % 100000 == 0 || i == from) {
            measures.now_us += 1000000;
            advise_tick(advise, &measures, &limit);
        }
        if (i == from)
            advise_reset(advise);
        if (i == from)
            measures.hot_hits = 0;
        exists[key] = true;
        measures.hot_hits++;
        if (advise_samples(&limit, use.hash))
            advise_use(advise, &use, &limit);
    }
    advise_tick(advise, &measures, &limit);
    advise_look(advise, estimate);
    advise_destroy(advise);
    mem_free(exists);
}

void predict(const struct sequence *sequence, uint32_t from, uint64_t capacity, uint32_t rate)
{
    struct advise_estimate estimate;

    advise_all(sequence, from, capacity, &estimate);
    printf("\n| size | simulated | predicted | difference |\n| ---: | ---: | ---: | ---: |\n");
    for (int i = 0; i < SIZES; i++) {
        double measured = simulate(sequence, from, (uint64_t)((double)capacity * factors[i]), rate);
        double predicted = 100 * estimate.hit_ratio[ADVISE_PRESENT + (i - 2) * ADVISE_OCTAVE];

        printf("| %g | %.2f | %.2f | %+.2f |\n", factors[i], measured, predicted, predicted - measured);
        fflush(stdout);
    }
    printf("\n%u keys sampled, one of %.0f\n", estimate.sampled_keys, 1 / estimate.sampled_share);
}
