/* Hot: which keys were in RAM when an image was made, and how hot; a file beside it, for the warm-up after a restart (tier/warm.h).
 *
 *   file    = "KHOT2\n\0\0" | partitions u32 | section... | end
 *   section = incarnation u32 (not 0) | partition u32 | groups u32 | groups times (rank u16 | count u32 | size u32) | the groups' bytes
 *   group   = for each key, in ascending order: what its hash is beyond that of the one before (the first: beyond the partition's
 *             first), in base 128, lowest 7 bits first, 0x80: more follow
 *   end     = 0 u32 | CRC-64 of all before it u64          (little-endian)
 *
 * So a key is found in the record map without the store's index. (Version 1 had the upper 48 bits, and is not read.) Rank: the heat, decayed to when the file was
 * written, plus 256 unless the key was on probation. (Demotion has another order, that of the uses, keyspace/uses.h, which
 * are not in the file.) Groups come by rank, hottest first. It is a hint: it may name keys that are gone, and leave some out that came or moved while it was written.
 */
#ifndef KELVIN_TIER_HOT_H
#define KELVIN_TIER_HOT_H

#include "tier/tier.h"

enum { HOT_RANKS = 512 };

struct hot_group {
    uint16_t rank;
    uint32_t count;             /* keys */
    uint32_t size;
    uint64_t at;                /* in the file */
};

struct hot_section {
    uint32_t incarnation, partition;
    uint32_t group_count;
    struct hot_group *groups;   /* by rank, hottest first */
};

/* Immutable once open; any thread may read groups. */
struct hot_file {
    int fd;
    uint32_t partition_count;
    struct hot_section *sections;   /* by incarnation, then partition */
    size_t section_count;
    uint64_t key_count;
};

/* The file of an earlier image whose keys are being loaded: those with ranks below `*below` are not back yet. `file` NULL: there is none. */
struct hot_pending {
    const struct hot_file *file;
    const _Atomic int *below;
};

/* Writes `dir`/hot, synced; the directory is the caller's to sync. What is pending is written, too, so that an image that is made during the
 * warm-up contains it. Not on a worker; holds each partition for some dozen buckets at a time. On failure there is no file. */
enum status hot_save(struct tier *tier, const char *dir, struct hot_pending pending);

/* STATUS_NOT_FOUND: there is none. STATUS_VERSION: it is of another version. STATUS_CORRUPT: it is damaged, or for another number of partitions. Nothing in it is trusted: what
 * memory it costs follows from its size. */
enum status hot_open(const char *dir, uint32_t partition_count, struct hot_file *file);
void hot_close(struct hot_file *file);

/* Hashes, ascending; `hashes` has group->count of them. */
enum status hot_read(const struct hot_file *file, const struct hot_section *section, const struct hot_group *group, uint64_t *hashes);

#endif
