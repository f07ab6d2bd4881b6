/* Tags: the record maps on disk, beside an image. Rebuilt by a scan of the store when the file is missing or bad.
 *
 *   file    = "KTAGS1\n\0" | partitions u32 | section... | end
 *   section = incarnation u32 (not 0) | partition u32 | count u64 | count tags of RECORDMAP_TAG_SIZE bytes
 *   end     = 0 u32 | CRC-64 of all before it u64          (little-endian)
 */
#ifndef KELVIN_TIER_TAGS_H
#define KELVIN_TIER_TAGS_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "tier/tier.h"

/* Checks a whole file and gives each section of it to `section` (NULL: just the check), with its tags: ascending, as recordmap_load
 * wants them; partitions ascend. STATUS_CORRUPT: `problem` (may be NULL) says what is wrong; `section` was not called. */
typedef bool tags_section(void *context, uint32_t incarnation, uint32_t partition, const uint8_t *tags, uint64_t count);
enum status tags_walk(struct bytes file, uint32_t *partition_count, tags_section *section, void *context, const char **problem);
/* A file in memory, for tools: begin, add sections in ascending order of partitions, end. */
void tags_begin(struct buffer *file, uint32_t partition_count);
void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const uint8_t *tags, uint64_t count);
void tags_end(struct buffer *file);
/* The value of a saved tag. */
uint64_t tags_number(const uint8_t *tag);

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
