#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/check.h"

static uint64_t rotate(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

void random_init(struct random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {       /* splitmix64 spreads a poor seed over the whole state */
        uint64_t z = (seed += 0x9e3779b97f4a7c15ull);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        random->state[i] = z ^ (z >> 31);
    }
}

uint64_t random_next(struct random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)random_next(random) * limit) >> 64);
}

void random_system(void *out, size_t size)
{
    char *at = out;

    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        CHECK(got > 0);
        at += got;
        size -= (size_t)got;
    }
}
