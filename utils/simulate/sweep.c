#include "sweep.h"

#include "base/mem.h"

enum { HIGH_PERCENT = 95, LOW_PERCENT = 92, SHARE_ONE = 1024, SHARE_MIN = SHARE_ONE / 100, WINDOW = 430 /* 48 buckets at a usual load */ };

void sweep_init(struct sweep *sweep, uint32_t key_count, uint32_t capacity)
{
    uint64_t twice = 2 * (uint64_t)capacity;

    *sweep = (struct sweep){ .is_resident = mem_zalloc(key_count * sizeof(bool)), .key_count = key_count };
    sweep->high = (uint32_t)(twice * HIGH_PERCENT / (HIGH_PERCENT + LOW_PERCENT));
    sweep->low = (uint32_t)(twice * LOW_PERCENT / (HIGH_PERCENT + LOW_PERCENT));
    random_init(&sweep->random, 2);
}

void sweep_release(struct sweep *sweep)
{
    mem_free(sweep->is_resident);
}

void sweep_add(struct sweep *sweep, uint32_t key)
{
    sweep->is_resident[key] = true;
    sweep->count++;
}

void sweep_remove(struct sweep *sweep, uint32_t key)
{
    sweep->is_resident[key] = false;
    sweep->count--;
}

static int collect(struct sweep *sweep, uint32_t *keys)
{
    int count = 0;

    while (count < WINDOW && sweep->next < sweep->key_count) {
        if (sweep->is_resident[sweep->next])
            keys[count++] = sweep->next;
        sweep->next++;
    }
    if (sweep->next == sweep->key_count)
        sweep->next = 0;
    return count;
}

void sweep_run(struct sweep *sweep, sweep_window *window, void *state)
{
    uint64_t share;
    uint32_t keys[SWEEP_WINDOW_MAX];

    if (sweep->count <= sweep->high)
        return;
    share = (uint64_t)(sweep->count - sweep->low) * SHARE_ONE / sweep->count + 1;
    if (share < SHARE_MIN)
        share = SHARE_MIN;
    while (sweep->count > sweep->low) {
        int count = collect(sweep, keys);
        int quota = (int)(((uint64_t)count * share + random_below(&sweep->random, SHARE_ONE)) / SHARE_ONE);

        window(state, keys, count, quota);
    }
}
