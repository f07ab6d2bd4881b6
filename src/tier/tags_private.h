/* Shared by reading and writing of tags files. */
#ifndef KELVIN_TIER_TAGS_PRIVATE_H
#define KELVIN_TIER_TAGS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keyspace/slot.h"
#include "tier/tags.h"

static const char tags_magic[8] = "KTAGS5\n", tags_magic_before[8] = "KTAGS4\n";    /* before, no map had a tag shift */

enum {
    TAGS_END_SIZE = 12,
    TAGS_HEAD_MIN = 12,                     /* of all versions: the magic, partitions u32 */
};

/* Words are in the byte order of the machine that wrote the file, and `layout` says which one that is. */
struct tags_head {
    char magic[8];
    uint32_t partition_count, flags;
    uint64_t layout;
    uint32_t weight_count, zero;
};
enum { TAGS_BY_SLOT = 1, TAGS_HAS_WEIGHTS = 2 };
#define TAGS_LAYOUT 0x0807060504030201ull

struct tags_section_head {
    uint32_t incarnation, partition;
    uint64_t count, size;                   /* size: bytes that follow, a multiple of 8 */
    uint64_t base;                          /* the number of the map file beside it (0: the whole map follows the counts by slot), of which */
    uint64_t base_size, base_sum;           /* bytes and CRC-64 are these; what has changed since follows */
};

/* A map file: a section's map as it was at an earlier image. */
struct tags_map_head {
    char magic[8];
    uint64_t layout;
    uint32_t incarnation, partition;
    uint64_t number, size;                  /* size: bytes of the map, after which there is the CRC-64 of all before it, u64 */
};
static const char tags_map_magic[8] = "KMAP1\n";
#define TAGS_MAP_NUMBER_MAX (1ull << 62)    /* the next ones have to fit, too */
#define TAGS_MAP_NAME "%s/%08llu.map"       /* directory, number */

/* Bytes of a section's counts by slot. */
static inline size_t tags_slots_size(bool by_slot, uint32_t partition_count)
{
    return by_slot ? SLOT_COUNT / partition_count * sizeof(uint32_t) : 0;
}

static inline size_t tags_padded(size_t size)
{
    return (size + 7) / 8 * 8;
}

/* Reads one section. Sets `*problem` to what is wrong, or NULL. */
typedef void tags_section_reader(void *context, const struct tags_section *section, const char **problem);
/* Checks the file, and passes each section of it to `read`, which checks what is in it. */
enum status tags_read(const struct tags_file *file, tags_section_reader *read, void *context);
/* Whether the file has the partitions of this server, and counts by slot if its hashes are by slot. Otherwise the store says what it does. */
bool tags_is_of(const struct partitions *partitions, struct bytes file);
/* Into an empty map. With `watches` it is watched from then on if it has a base. NULL, or what is wrong. */
const char *tags_load_map(const struct tags_section *section, struct recordmap *map, bool watches);
/* The same into no map. */
const char *tags_check_section(const struct tags_section *section);

#endif
