#include "support/tags_old.h"

#include <string.h>

#include "base/crc64.h"

enum { SIZE_AT = 16, HEAD_SIZE = 28 };

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static void put_number(struct buffer *out, uint64_t number)
{
    for (; number >= 128; number >>= 7)
        buffer_append_u8(out, (uint8_t)(number | 128));
    buffer_append_u8(out, (uint8_t)number);
}

void tags_old_begin(struct buffer *file, uint32_t partition_count, bool by_slot)
{
    buffer_append(file, by_slot ? "KTAGS3\n" : "KTAGS2\n", 8);
    buffer_append(file, &partition_count, 4);
}

void tags_old_add(struct buffer *file, uint32_t incarnation, uint32_t partition, const struct recordmap_record *records, uint64_t count,
    struct bytes slots)
{
    uint64_t last = UINT64_MAX, places = 0, size = 0;
    size_t begin = file->size;
    uint32_t place_size;

    for (uint64_t i = 0; i < count; i++)
        places |= records[i].place;
    place_size = (tagrun_bits_of(places) + 7) / 8;
    buffer_append(file, &incarnation, 4);
    buffer_append(file, &partition, 4);
    buffer_append(file, &count, 8);
    buffer_append(file, &size, 8);
    buffer_append(file, &place_size, 4);
    buffer_append_bytes(file, slots);
    for (uint64_t i = 0; i < count; i++) {
        put_number(file, records[i].tag - last);
        buffer_append(file, &records[i].place, place_size);
        if (records[i].is_twin) {
            put_number(file, records[i].key.size + 1);
            buffer_append_bytes(file, records[i].key);
        }
        last = records[i].tag;
    }
    size = file->size - begin - HEAD_SIZE;
    memcpy(file->data + begin + SIZE_AT, &size, 8);
}

void tags_old_end(struct buffer *file)
{
    uint64_t crc = crc64(0, buffer_bytes(file));
    uint32_t end = 0;

    buffer_append(file, &end, 4);
    buffer_append(file, &crc, 8);
}
