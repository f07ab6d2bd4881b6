#include "tier/access.h"

enum segment_access access_choose(struct access *access)
{
    uint32_t left = atomic_load_explicit(&access->direct_left, memory_order_relaxed);

    if (left == 0)
        return SEGMENT_BUFFERED;
    /* Two threads may take the same one: the period is a little longer then. */
    atomic_store_explicit(&access->direct_left, left - 1, memory_order_relaxed);
    return SEGMENT_DIRECT;
}

void access_note(struct access *access, bool is_hit)
{
    uint32_t percent, before;

    if (is_hit)
        atomic_fetch_add_explicit(&access->hits, 1, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&access->reads, 1, memory_order_relaxed) + 1 != ACCESS_WINDOW)
        return;
    percent = access->hits * 100 / ACCESS_WINDOW;
    before = access->percent;
    access->percent = percent;
    access->hits = 0;
    access->reads = 0;
    access->is_missing = percent < ACCESS_ENOUGH_PERCENT && percent < before + ACCESS_RISING_PERCENT;
    access->is_judged = true;
    if (access->is_missing)
        access->direct_left = ACCESS_DIRECT_PERIOD;
}

enum segment_access access_for_writes(const struct access *access, bool is_cramped)
{
    return (access->is_judged ? access->is_missing : is_cramped) ? SEGMENT_DIRECT : SEGMENT_BUFFERED;
}

bool access_is_hitting(const struct access *access)
{
    return access->percent >= ACCESS_HITTING_PERCENT;
}
