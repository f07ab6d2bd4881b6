/* The bytes of an archive, for archive.c and archive_receiver.c. Little-endian; sums are CRC-64 (base/crc64.h).
 *
 *     head    "KELVINIM" | version u32 | partitions u32 | databases u32 | files u32 | size of all u64 | sum of these u64
 *     file    'F' | size of the name u8 | name | size u64 | sum of these u64 | bytes | sum of the bytes u64
 *     end     'E' | 0 | files u32 | sum of these u64
 */
#ifndef KELVIN_PERSIST_ARCHIVE_FORMAT_H
#define KELVIN_PERSIST_ARCHIVE_FORMAT_H

#include <stdint.h>
#include <string.h>

#define ARCHIVE_MAGIC "KELVINIM"

enum {
    ARCHIVE_TAG_SIZE = 2,
    ARCHIVE_SUM_SIZE = 8,
    ARCHIVE_FILE_REST = 8 + ARCHIVE_SUM_SIZE,   /* of a file's head, after its name */
    ARCHIVE_END_REST = 4 + ARCHIVE_SUM_SIZE,
    ARCHIVE_TAG_FILE = 'F',
    ARCHIVE_TAG_END = 'E',
};

static inline uint32_t archive_u32(const char *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof(number));
    return number;
}

static inline uint64_t archive_u64(const char *bytes)
{
    uint64_t number;

    memcpy(&number, bytes, sizeof(number));
    return number;
}

#endif
