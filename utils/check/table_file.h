/* Table file: a key run (*.run), which is one of LevelDB's tables: every byte that has a meaning is verified without LevelDB.
 *
 *   file   = data blocks, filter block, metaindex block, index block, footer
 *   block  = bytes | compression u8 (0: none) | masked CRC-32C of both, u32
 *   footer = handle of metaindex, handle of index (offset and size as varints), zeros up to 40 bytes, magic u64
 *
 * An index entry is a key, not less than any key of its block and less than all of the next one, and the block's handle.
 */
#ifndef KELVIN_CHECK_TABLE_FILE_H
#define KELVIN_CHECK_TABLE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* A damaged block: where, and which store keys it may have had: those after `first`, up to and including `last`. An empty `first` is the
 * beginning of the table; with `to_the_end` the last key is not known. For blocks that have no keys `has_keys` is false. */
struct table_damage {
    uint64_t offset, size;
    const char *what;
    bool has_keys, to_the_end;
    struct bytes first, last;
};
typedef void table_damaged(void *context, const struct table_damage *damage);

struct table_counts {
    uint64_t blocks, bytes;
};
/* False: there was damage, and `damaged` was called for all of it. `data` is the whole file. */
bool table_file_check(struct bytes data, table_damaged *damaged, void *context, struct table_counts *counts);

#endif
