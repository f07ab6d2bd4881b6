/* Tags of version 2, as Kelvin wrote them before: for tests that read them. docs/formats/tags.md has the format. */
#ifndef KELVIN_TESTS_SUPPORT_TAGS_OLD_H
#define KELVIN_TESTS_SUPPORT_TAGS_OLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "tier/recordmap.h"

/* Begin, add sections in ascending order of partitions, end. The records are in the order of a walk. */
void tags_old_begin(struct buffer *file, uint32_t partition_count, bool by_slot);
void tags_old_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, uint64_t count,
    struct bytes slots);
void tags_old_end(struct buffer *file);

#endif
