/* Shared by reading and writing of tags files. */
#ifndef KELVIN_TIER_TAGS_PRIVATE_H
#define KELVIN_TIER_TAGS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keyspace/slot.h"

static const char tags_magic[8] = "KTAGS2\n", tags_magic_by_slot[8] = "KTAGS3\n";

/* Bytes of a section's counts by slot. */
static inline size_t tags_slots_size(bool by_slot, uint32_t partition_count)
{
    return by_slot ? SLOT_COUNT / partition_count * sizeof(uint32_t) : 0;
}

#endif
