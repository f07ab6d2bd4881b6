#include "expiries.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/siphash.h"

static void add(struct expiry_list *list, int64_t expire_ms, uint32_t incarnation, uint64_t hash)
{
    static const struct hash_seed seed = { 1, 2 };
    uint64_t words[3] = { (uint64_t)expire_ms, incarnation, hash };

    if (list->count == list->capacity) {
        list->capacity = list->capacity + list->capacity / 2 + 1024;
        list->prints = mem_realloc(list->prints, list->capacity * sizeof(list->prints[0]));
    }
    list->prints[list->count++] = hash_bytes(&seed, bytes_of(words, sizeof(words)));
}

void expiries_expect(struct expiries *expiries, int64_t expire_ms, uint32_t incarnation, uint64_t hash)
{
    add(&expiries->expected, expire_ms, incarnation, hash);
}

void expiries_announce(struct expiries *expiries, int64_t expire_ms, uint32_t incarnation, uint64_t hash)
{
    add(&expiries->announced, expire_ms, incarnation, hash);
}

uint64_t expiries_count(const struct expiries *expiries)
{
    return expiries->announced.count;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

static void sort(struct expiry_list *list)
{
    if (list->count > 0)
        qsort(list->prints, list->count, sizeof(list->prints[0]), compare_numbers);
}

void expiries_compare(struct expiries *expiries, uint64_t *silent, uint64_t *stale)
{
    const struct expiry_list *expected = &expiries->expected, *announced = &expiries->announced;
    size_t a = 0, b = 0;

    *silent = *stale = 0;
    sort(&expiries->expected);
    sort(&expiries->announced);
    while (a < expected->count || b < announced->count) {
        uint64_t first = a < expected->count ? expected->prints[a] : UINT64_MAX, second = b < announced->count ? announced->prints[b] : UINT64_MAX;

        *silent += first < second;
        *stale += second < first;
        a += first <= second;
        b += second <= first;
    }
}

void expiries_release(struct expiries *expiries)
{
    mem_free(expiries->expected.prints);
    mem_free(expiries->announced.prints);
    *expiries = (struct expiries){ 0 };
}
