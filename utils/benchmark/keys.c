#include "keys.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/mem.h"
#include "zipf.h"

struct key_space {
    struct key_space_config config;
    struct zipf zipf;
    uint64_t hot_limit;         /* random 64-bit numbers below it draw from the hot part */
    bool all_hot;
    uint64_t scatter_mask;      /* smallest 2^n - 1 that covers all ranks */
    unsigned scatter_shift;
};

struct key_space *key_space_create(const struct key_space_config *config)
{
    struct key_space *space = mem_zalloc(sizeof(*space));
    unsigned bits = 1;

    CHECK(config->count > 0 && config->count <= (uint64_t)1 << 62);
    space->config = *config;
    while ((uint64_t)1 << bits < config->count)
        bits++;
    space->scatter_mask = ((uint64_t)1 << bits) - 1;
    space->scatter_shift = (bits + 1) / 2;
    if (config->distribution == DISTRIBUTION_ZIPFIAN)
        zipf_init(&space->zipf, config->count, config->zipf_theta);
    if (config->distribution == DISTRIBUTION_HOT) {
        CHECK(config->hot_count > 0 && config->hot_count <= config->count);
        space->all_hot = config->hot_percent >= 100 || config->hot_count == config->count;
        if (!space->all_hot)
            space->hot_limit = (uint64_t)(config->hot_percent / 100 * 0x1p64);
    }
    return space;
}

void key_space_destroy(struct key_space *space)
{
    mem_free(space);
}

/* Each step (multiply by an odd number, add a constant, xor with the upper half) is reversible within the mask, so together
 * they permute 0 .. mask; repeating them until the number is below the count permutes 0 .. count - 1 (cycle walking). The
 * mask is less than twice the count, so this takes at most two rounds on average.
 */
uint64_t key_space_scatter(const struct key_space *space, uint64_t rank)
{
    uint64_t mask = space->scatter_mask, x = rank;
    unsigned shift = space->scatter_shift;

    do {
        x = (x * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) & mask;
        x ^= x >> shift;
        x = (x * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du) & mask;
        x ^= x >> shift;
        x = (x * 0xaf251af3b0f025b5u + 0x14057b7ef767814fu) & mask;
        x ^= x >> shift;
    } while (x >= space->config.count);
    return x;
}

static uint64_t draw_hot(const struct key_space *space, struct random *random)
{
    uint64_t hot = space->config.hot_count;

    if (space->all_hot || random_next(random) < space->hot_limit)
        return random_below(random, hot);
    return hot + random_below(random, space->config.count - hot);
}

uint64_t key_space_draw(const struct key_space *space, struct random *random, uint64_t ticket)
{
    switch (space->config.distribution) {
    case DISTRIBUTION_UNIFORM: return random_below(random, space->config.count);
    case DISTRIBUTION_ZIPFIAN: return key_space_scatter(space, zipf_draw(&space->zipf, random));
    case DISTRIBUTION_HOT: return key_space_scatter(space, draw_hot(space, random));
    case DISTRIBUTION_SEQUENTIAL: return ticket % space->config.count;
    }
    CHECK(!"a distribution of its own");
    return 0;
}

unsigned key_space_digits(const struct key_space *space)
{
    unsigned digits = 1;

    for (uint64_t rest = (space->config.count - 1) / 10; rest > 0; rest /= 10)
        digits++;
    return digits;
}

void digits_write(char *out, unsigned width, uint64_t number)
{
    while (width > 0) {
        out[--width] = (char)('0' + number % 10);
        number /= 10;
    }
}
