/* The room that an image takes on the disk, and whether there is so much. What a checkpoint frees comes after it was written: the log, and the files
 * that only the last one has. */
#include "tier/reserve.h"
#include "tier/tier_private.h"
#include "tier/writing.h"

enum {
    KEPT_PART = 4,                      /* of the room that is left to others: the log goes on during a checkpoint */
    INDEX_SIZE = 80,                    /* bytes of a key in the index, about, until that is merged: in its log, and in a table */
    HOT_SIZE = 8,                       /* bytes of a hot key in an image's file `hot` */
};

/* Where no record was written yet, only what is in the entries is known. */
static uint64_t record_size(struct tier *tier, const struct tier_stats *stats)
{
    uint64_t size = tier_record_size(tier);

    return size > 0 || stats->hot_keys == 0 ? size : stats->hot_bytes / stats->hot_keys;
}

/* Bytes of dirty records and their index, and of the files that every image has. */
static uint64_t image_size(struct tier *tier)
{
    struct tier_stats stats;

    tier_stats(tier, &stats);
    return stats.dirty_keys * (record_size(tier, &stats) + INDEX_SIZE) + stats.graves * INDEX_SIZE + stats.recordmap_bytes +
           stats.hot_keys * HOT_SIZE;
}

int64_t tier_image_spare(struct tier *tier)
{
    uint64_t room = reserve_free_bytes(tier->dir);

    return (int64_t)(room - room / KEPT_PART) - (int64_t)image_size(tier);
}

bool tier_image_has_room(struct tier *tier)
{
    return !tier->writing->disk_is_full || tier_image_spare(tier) >= 0;
}
