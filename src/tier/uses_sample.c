/* tier_sample_uses: hot keys and their bytes by uses, from a sample. */
#include "keyspace/uses.h"
#include "tier/demotion.h"
#include "tier/tier_private.h"

/* Limits: segments of a partition; entries of each; and of these, values outside their entries, each of which takes a microsecond or two to measure. */
enum { SAMPLE_SEGMENTS = 2, SAMPLE_ENTRIES = 32, SAMPLE_OUTSIDE = 4 };

/* The partition is locked. */
static void sample_segment(const struct keyspace *keyspace, uint32_t segment, struct tier_uses *found)
{
    uint32_t unit = 1;
    int outside_count = 0;
    struct entry *entry;

    if (keyspace->heap.segments[segment] == NULL)
        return;
    for (int i = 0; i < SAMPLE_ENTRIES && outside_count < SAMPLE_OUTSIDE && (entry = heap_walk(&keyspace->heap, segment, &unit)) != NULL; i++) {
        uint64_t outside;

        found->keys[entry->uses]++;
        found->bytes[entry->uses] += (double)demotion_entry_size(entry, &outside);
        outside_count += outside > 0;
        unit += entry_block_size(entry) / ENTRY_UNIT;
    }
}

/* Segments of all its keyspaces as one sequence, of which each `stride`th is sampled. Returns how many keys there are. */
static double sample_partition(struct partition *partition, int space_count, struct tier_uses *found) REQUIRES(partition->lock);
static double sample_partition(struct partition *partition, int space_count, struct tier_uses *found)
{
    uint64_t segments = 0, at = 0, next, stride;
    double keys = 0;

    for (int space = 0; space < space_count; space++) {
        const struct keyspace *keyspace = partition_keyspace_if(partition, space);

        segments += keyspace != NULL ? keyspace->heap.segment_count : 0;
        keys += keyspace != NULL ? (double)keyspace->table.count : 0;
    }
    stride = (segments + SAMPLE_SEGMENTS - 1) / SAMPLE_SEGMENTS;
    next = stride / 2;
    for (int space = 0; space < space_count && next < segments; space++) {
        const struct keyspace *keyspace = partition_keyspace_if(partition, space);
        uint64_t end = at + (keyspace != NULL ? keyspace->heap.segment_count : 0);

        for (; next < end; next += stride)
            sample_segment(keyspace, (uint32_t)(next - at), found);
        at = end;
    }
    return keys;
}

void tier_sample_uses(struct tier *tier, struct tier_uses *uses)
{
    *uses = (struct tier_uses){ .keys = { 0 } };
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];
        struct tier_uses found = { .keys = { 0 } };
        double keys, sampled = 0;

        partition_lock(partition);
        keys = sample_partition(partition, tier->partitions->space_count, &found);
        partition_unlock(partition);
        for (int n = 0; n <= USES_MAX; n++)
            sampled += found.keys[n];
        for (int n = 0; n <= USES_MAX && sampled > 0; n++) {
            uses->keys[n] += found.keys[n] * keys / sampled;
            uses->bytes[n] += found.bytes[n] * keys / sampled;
        }
    }
}
