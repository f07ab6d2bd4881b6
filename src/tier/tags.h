/* Tags: the record maps on disk, beside an image. Rebuilt from the store when the file is missing or bad (tier/tags_rebuild.h).
 * docs/formats/tags.md has the format. */
#ifndef KELVIN_TIER_TAGS_H
#define KELVIN_TIER_TAGS_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "tier/recordmap.h"
#include "tier/tier.h"

enum {
    TAGS_HEAD_SIZE = 12,
    TAGS_SECTION_SIZE = 28,         /* of a section's head */
    TAGS_END_SIZE = 12,
};

/* The records of one incarnation in one partition. */
struct tags_section {
    uint32_t incarnation, partition;
    uint64_t count;             /* records, twins included */
    uint64_t size;              /* bytes of the counts by slot and the records, which follow the section's head */
    uint32_t place_size;        /* bytes of a place */
    struct bytes records;       /* where the whole file is in memory */
    struct bytes slots;         /* likewise: a u32 for each slot of the partition, its records, in the order of hashes. Empty: hashes are not by slot */
};

/* For programs that do not read the whole file into memory. */
/* Returns whether the first TAGS_HEAD_SIZE bytes are those of a tags file. */
bool tags_is_head(const void *head);
/* Reads the head of a section. False: there can't be such a section, or it has more than `left` bytes of records. */
bool tags_section_read(const void *head, uint64_t left, struct tags_section *section);

/* Checks a whole file and gives each section of it to `found` (NULL: just the check); partitions ascend. STATUS_CORRUPT, or STATUS_VERSION (a
 * newer Kelvin's: every version ends with its checksum): `problem` (may be NULL) says what is wrong; `found` was not called. STATUS_INVALID: `found` returned false. */
typedef bool tags_found(void *context, const struct tags_section *section);
enum status tags_walk(struct bytes file, uint32_t *partition_count, tags_found *found, void *context, const char **problem);

/* The same for a file that is not to be in memory as a whole. */
struct tags_file {
    struct bytes bytes;
    void (*passed)(struct bytes part);      /* called with each part of some MiB when it was read (mapped_forget), several times; or NULL */
};
enum status tags_walk_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem);

/* Reads the records of a section in the order of recordmap_walk. Keys point into the file. */
struct tags_reader {
    const struct tags_section *section;
    uint64_t at;                /* offset in the records */
    uint64_t index;             /* of the next record */
    uint64_t tag;               /* of the last one; all bits set before the first */
};
void tags_reader_init(struct tags_reader *reader, const struct tags_section *section);
bool tags_read(struct tags_reader *reader, struct recordmap_record *record);    /* false: that was all, or it is damaged */

/* A file in memory, for tools: begin, add sections in ascending order of partitions, end. The records are in the order of a walk; `slots` is
 * empty unless hashes are by slot. */
void tags_begin(struct buffer *file, uint32_t partition_count, bool by_slot);
void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, uint64_t count,
    struct bytes slots);
void tags_end(struct buffer *file);

/* By the writer, which changes no map meanwhile. Synced. */
enum status tags_save(struct tier *tier, const char *dir);

/* Into empty partitions, before anything runs. Keyspaces are created for what is found; incarnations that no database has are passed
 * over. STATUS_CORRUPT, STATUS_VERSION, STATUS_NOT_FOUND: nothing was loaded. */
enum status tags_load(struct partitions *partitions, const char *dir);

#endif
