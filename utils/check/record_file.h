/* Record file: one of LevelDB's logs or MANIFESTs, every record's checksum verified without LevelDB.
 *
 *   file   = blocks of 32 KiB; a record does not cross them
 *   record = masked CRC-32C of type and data u32 | size u16 | type u8 (1 full, 2 first, 3 middle, 4 last) | data
 */
#ifndef KELVIN_CHECK_RECORD_FILE_H
#define KELVIN_CHECK_RECORD_FILE_H

#include <stdint.h>

#include "base/bytes.h"

struct record_counts {
    uint64_t records;
    uint64_t torn_bytes;        /* at the end of the file: of a record that was not written completely */
};
/* NULL, or what is wrong at *offset. `found` (may be NULL) is called for each complete record before that. */
typedef void record_found(void *context, struct bytes record);
const char *record_file_check(struct bytes data, record_found *found, void *context, uint64_t *offset, struct record_counts *counts);

#endif
