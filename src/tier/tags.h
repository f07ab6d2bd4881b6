/* Tags: the record maps on disk, beside an image. Rebuilt by a scan of the store when the file is missing or bad.
 *
 *   file    = "KTAGS1\n\0" | partitions u32 | section... | end
 *   section = incarnation u32 (not 0) | partition u32 | count u64 | count tags of RECORDMAP_TAG_SIZE bytes
 *   end     = 0 u32 | CRC-64 of all before it u64          (little-endian)
 */
#ifndef KELVIN_TIER_TAGS_H
#define KELVIN_TIER_TAGS_H

#include "tier/tier.h"

/* By the writer, which changes no map meanwhile. Synced. */
enum status tags_save(struct tier *tier, const char *dir);

/* Into empty partitions, before anything runs. Keyspaces are created for what is found; incarnations that no database has are passed
 * over. STATUS_CORRUPT, STATUS_NOT_FOUND: nothing was loaded. */
enum status tags_load(struct tier *tier, struct partitions *partitions, const char *dir);
/* The same from the store itself. */
enum status tags_rebuild(struct tier *tier, struct partitions *partitions);

/* How many records of incarnations[i] there are: counts[i], as the file says, which is not verified. */
enum status tags_counts(const char *dir, const uint32_t *incarnations, int count, uint64_t *counts);

#endif
