#include "workload.h"

#include "base/mem.h"

enum {
    SCAN_FROM = 20, SCAN_TO = 60,       /* percent of a window in which every second request is the scan's */
};

static uint32_t *shuffled(uint32_t count, struct random *random)
{
    uint32_t *keys = mem_alloc(count * sizeof(*keys));

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = (uint32_t)random_below(random, i + 1);

        keys[i] = keys[at];
        keys[at] = i;
    }
    return keys;
}

void workload_init(struct workload *workload, const struct workload_kind *kind, uint32_t key_count, uint32_t loop_size, uint64_t window,
    uint64_t seed)
{
    *workload = (struct workload){ .kind = *kind, .key_count = key_count, .loop_size = loop_size, .window = window };
    random_init(&workload->random, seed);
    if (kind->pattern != PATTERN_LOOP)
        zipf_init(&workload->zipf, key_count, kind->theta);
    workload->by_name = shuffled(key_count, &workload->random);
    workload->by_rank = shuffled(key_count, &workload->random);
    workload->rank_of = mem_alloc(key_count * sizeof(*workload->rank_of));
    for (uint32_t rank = 0; rank < key_count; rank++)
        workload->rank_of[workload->by_rank[rank]] = rank;
}

void workload_release(struct workload *workload)
{
    mem_free(workload->by_name);
    mem_free(workload->by_rank);
    mem_free(workload->rank_of);
}

static void drift(struct workload *workload)
{
    uint32_t a = (uint32_t)random_below(&workload->random, workload->key_count), b = (uint32_t)random_below(&workload->random, workload->key_count);
    uint32_t key_a = workload->by_rank[a], key_b = workload->by_rank[b];

    workload->by_rank[a] = key_b;
    workload->by_rank[b] = key_a;
    workload->rank_of[key_b] = a;
    workload->rank_of[key_a] = b;
}

static bool is_of_scan(const struct workload *workload, uint64_t number)
{
    uint64_t percent = number % workload->window * 100 / workload->window;

    return workload->kind.pattern == PATTERN_SCANS && percent >= SCAN_FROM && percent < SCAN_TO && number % 2 == 0;
}

static uint32_t draw(struct workload *workload)
{
    uint64_t number = workload->done - workload->key_count;

    if (workload->done < workload->key_count)
        return workload->by_name[workload->done];
    if (workload->kind.pattern == PATTERN_LOOP)
        return workload->by_rank[number % workload->loop_size];
    if (is_of_scan(workload, number))
        return workload->scan_next++ % workload->key_count;
    if (workload->kind.pattern == PATTERN_DRIFT && number % (workload->window * (uint64_t)workload->kind.drift / workload->key_count) == 0)
        drift(workload);
    return workload->by_rank[zipf_draw(&workload->zipf, &workload->random)];
}

void workload_next(struct workload *workload, struct request *request)
{
    request->key = draw(workload);
    request->rank = workload->rank_of[request->key];
    workload->done++;
}

uint32_t *workload_sizes(const struct workload_kind *kind, uint32_t key_count)
{
    uint32_t *sizes = mem_alloc(key_count * sizeof(*sizes));
    struct random random;

    random_init(&random, 5);
    for (uint32_t key = 0; key < key_count; key++)
        sizes[key] = kind->is_mixed ? 1u << random_below(&random, (uint64_t)__builtin_ctz(SIZE_SPREAD) + 1) : 1;
    return sizes;
}
