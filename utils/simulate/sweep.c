#include "sweep.h"

#include "base/mem.h"

enum { HIGH_PERCENT = 95, LOW_PERCENT = 92, SHARE_ONE = 1024, SHARE_MIN = SHARE_ONE / 100, WINDOW = 430 /* 48 buckets at a usual load */ };

void sweep_init(struct sweep *sweep, const struct room *room)
{
    uint64_t twice = 2 * room->capacity;

    *sweep = (struct sweep){ .room = room, .is_resident = mem_zalloc(room->key_count * sizeof(bool)) };
    sweep->high = twice * HIGH_PERCENT / (HIGH_PERCENT + LOW_PERCENT);
    sweep->low = twice * LOW_PERCENT / (HIGH_PERCENT + LOW_PERCENT);
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
    sweep->used += sweep->room->sizes[key];
}

void sweep_remove(struct sweep *sweep, uint32_t key)
{
    sweep->is_resident[key] = false;
    sweep->count--;
    sweep->used -= sweep->room->sizes[key];
}

static int collect(struct sweep *sweep, uint32_t *keys)
{
    int count = 0;

    while (count < WINDOW && sweep->next < sweep->room->key_count) {
        if (sweep->is_resident[sweep->next])
            keys[count++] = sweep->next;
        sweep->next++;
    }
    if (sweep->next == sweep->room->key_count)
        sweep->next = 0;
    return count;
}

void sweep_run(struct sweep *sweep, sweep_window *window, void *state)
{
    uint64_t share;
    uint32_t keys[SWEEP_WINDOW_MAX];

    if (sweep->used <= sweep->high)
        return;
    share = (sweep->used - sweep->low) * SHARE_ONE / sweep->used + 1;
    if (share < SHARE_MIN)
        share = SHARE_MIN;
    while (sweep->used > sweep->low) {
        int count = collect(sweep, keys);
        int quota = (int)(((uint64_t)count * share + random_below(&sweep->random, SHARE_ONE)) / SHARE_ONE);

        window(state, keys, count, quota);
    }
}
