#include "pubsub/pattern_set.h"

#include <stdatomic.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/text.h"

struct pattern_set {
    _Atomic uint32_t holders;
    int worker_count;
    uint64_t version;
    size_t count;
    struct buffer texts;            /* all patterns, one after the other */
    size_t *ends;                   /* of each, in `texts` */
    uint32_t *subscribers;          /* of each, on each worker */
};

struct pattern_set *pattern_set_create(const struct dict *patterns, int worker_count, uint64_t version)
{
    struct pattern_set *set = mem_alloc(sizeof(*set));
    size_t counts_size = (size_t)worker_count * sizeof(*set->subscribers);
    struct dict_iterator iterator;
    struct bytes pattern, counts;

    *set = (struct pattern_set){ .holders = 1, .worker_count = worker_count, .version = version };
    set->ends = mem_alloc((dict_count(patterns) + 1) * sizeof(*set->ends));
    set->subscribers = mem_alloc((dict_count(patterns) + 1) * counts_size);
    dict_iterate(&iterator, patterns);
    while (dict_next(&iterator, &pattern, &counts)) {
        buffer_append_bytes(&set->texts, pattern);
        memcpy(set->subscribers + set->count * (size_t)worker_count, counts.data, counts_size);
        set->ends[set->count++] = set->texts.size;
    }
    return set;
}

void pattern_set_hold(struct pattern_set *set)
{
    atomic_fetch_add_explicit(&set->holders, 1, memory_order_relaxed);
}

void pattern_set_release(struct pattern_set *set)
{
    if (set == NULL || atomic_fetch_sub(&set->holders, 1) != 1)
        return;
    buffer_release(&set->texts);
    mem_free(set->ends);
    mem_free(set->subscribers);
    mem_free(set);
}

uint64_t pattern_set_version(const struct pattern_set *set)
{
    return set->version;
}

static uint64_t add_subscribers(const struct pattern_set *set, size_t index, bool *wanted)
{
    const uint32_t *counts = set->subscribers + index * (size_t)set->worker_count;
    uint64_t sum = 0;

    for (int i = 0; i < set->worker_count; i++) {
        sum += counts[i];
        wanted[i] = wanted[i] || counts[i] > 0;
    }
    return sum;
}

uint64_t pattern_set_match(const struct pattern_set *set, struct bytes channel, bool *wanted)
{
    uint64_t sum = 0;
    size_t begin = 0;

    for (size_t i = 0; i < set->count; begin = set->ends[i++]) {
        if (text_matches(bytes_of(set->texts.data + begin, set->ends[i] - begin), channel, TEXT_CASE_EXACT))
            sum += add_subscribers(set, i, wanted);
    }
    return sum;
}
