/* Tags: the record maps on disk, beside an image. Rebuilt from the store when the file is missing or bad (tier/tags_rebuild.h).
 * docs/formats/tags.md has the format. */
#ifndef KELVIN_TIER_TAGS_H
#define KELVIN_TIER_TAGS_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "tier/recordmap.h"
#include "tier/tier.h"

/* The records of one incarnation in one partition. */
struct tags_section {
    uint32_t incarnation, partition;
    uint64_t count;             /* records, twins included */
    struct bytes slots;         /* a u32 for each slot of the partition, its records, in the order of hashes. Empty: hashes are not by slot */
    /* For tags_section_map. */
    struct bytes body;
    const char *dir;
    uint64_t base, base_size, base_sum;
};
/* A map with the section's records, which have been checked; the caller destroys it. NULL: its map file can't be read any more. */
struct recordmap *tags_section_map(const struct tags_section *section);

/* A segment, and the sum of the weights of its live records (store/segments.h). */
struct tags_weight {
    uint64_t sequence, weight;
    uint32_t slot, zero;
};
/* All segments that have live records. */
struct tags_weights {
    struct tags_weight *list;   /* freed with mem_free */
    uint32_t count;
    bool is_known;              /* false: the file does not say it */
};

/* A file that was mapped or read. It begins at an address that is a multiple of 8. */
struct tags_file {
    struct bytes bytes;
    const char *dir;            /* the image, which has map files; NULL: there are none */
    void (*passed)(struct bytes part);      /* called with each part of some MiB when it was read (mapped_forget), several times; or NULL */
};

/* Checks a whole file and gives each section of it to `found` (NULL: just the check); partitions ascend. STATUS_CORRUPT, or STATUS_VERSION (a
 * newer Kelvin's: every version ends with its checksum): `problem` (may be NULL) says what is wrong; `found` was not called. STATUS_INVALID: `found` returned false. */
typedef bool tags_found(void *context, const struct tags_section *section);
enum status tags_walk_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem);
/* The same for one in memory, without map files. */
enum status tags_walk(struct bytes file, uint32_t *partition_count, tags_found *found, void *context, const char **problem);
/* The same, but the sections' records are not checked: they can't be read. */
enum status tags_list_file(const struct tags_file *file, uint32_t *partition_count, tags_found *found, void *context, const char **problem);
/* The list of segments of a file that was walked. */
void tags_weights_of(struct bytes file, struct tags_weights *weights);

/* A file in memory, for tools: begin, add sections in ascending order of partitions, then of incarnations, end. `slots` is empty unless hashes are by slot. */
void tags_begin(struct buffer *file, uint32_t partition_count, bool by_slot);
void tags_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap *map, struct bytes slots);
void tags_end(struct buffer *file);

/* By the writer, which changes no map meanwhile. Synced. Large maps are written as map files in the store's directory, with hard links in `dir`; as long
 * as little has changed since, the next images get a link and the changes. STATUS_CORRUPT: a record is at PLACE_NOWHERE. */
enum status tags_save(struct tier *tier, const char *dir);
/* Removes the map files of an image whose tags have none any more. */
void tags_remove_maps(const char *image);
/* After tags_load: the image's map files are linked into the store's directory, so that the next images can have them. */
void tags_adopt_maps(struct tier *tier, const char *image);

/* Into empty partitions, before anything runs. Keyspaces are created for what is found; incarnations that no database has are passed
 * over. Up to four threads, as many as there are CPUs; `meter` counts their memory. STATUS_CORRUPT, STATUS_VERSION, STATUS_NOT_FOUND: nothing was
 * loaded. */
enum status tags_load(struct partitions *partitions, const char *dir, struct meter *meter, struct tags_weights *weights);

#endif
