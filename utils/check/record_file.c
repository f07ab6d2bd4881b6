#include "record_file.h"

#include <string.h>

#include "base/buffer.h"
#include "masked_crc.h"

enum { BLOCK_SIZE = 32768, HEAD_SIZE = 7, TYPE_FULL = 1, TYPE_FIRST = 2, TYPE_MIDDLE = 3, TYPE_LAST = 4 };

/* Checks a part of a record at data[offset]. *size includes the head; 0: the file ends within the part. Returns NULL, or what is wrong. */
static const char *check_fragment(struct bytes data, size_t offset, size_t left, uint8_t *type, size_t *size)
{
    uint32_t sum;
    uint16_t payload;

    *size = 0;
    if (data.size - offset < HEAD_SIZE)
        return NULL;
    memcpy(&sum, data.data + offset, 4);
    memcpy(&payload, data.data + offset + 4, 2);
    *type = (uint8_t)data.data[offset + 6];
    if ((size_t)HEAD_SIZE + payload > left)
        return "a record's size is invalid";
    if (HEAD_SIZE + (size_t)payload > data.size - offset)
        return NULL;
    if (masked_crc(data.data + offset + 6, (size_t)payload + 1) != sum)
        return "a record's checksum is wrong";
    if (*type < TYPE_FULL || *type > TYPE_LAST)
        return "a record of an unknown type";
    *size = HEAD_SIZE + (size_t)payload;
    return NULL;
}

const char *record_file_check(struct bytes data, record_found *found, void *context, uint64_t *offset, struct record_counts *counts)
{
    struct buffer record = { 0 };
    const char *what = NULL;
    bool inside = false;
    size_t position = 0, begun = 0;

    *counts = (struct record_counts){ 0, 0 };
    while (position < data.size && what == NULL) {
        size_t left = BLOCK_SIZE - position % BLOCK_SIZE, size;
        uint8_t type = 0;

        *offset = position;
        if (left < HEAD_SIZE) {         /* too little for a record: zeros */
            position = data.size - position < left ? data.size : position + left;
            continue;
        }
        what = check_fragment(data, position, left, &type, &size);
        if (what == NULL && size > 0 && (type == TYPE_FULL || type == TYPE_FIRST) == inside)
            what = "a record is out of place";
        if (what != NULL || size == 0)
            break;
        if (!inside) {
            begun = position;
            record.size = 0;
        }
        buffer_append(&record, data.data + position + HEAD_SIZE, size - HEAD_SIZE);
        inside = type == TYPE_FIRST || type == TYPE_MIDDLE;
        position += size;
        if (!inside) {
            counts->records++;
            if (found != NULL)
                found(context, buffer_bytes(&record));
        }
    }
    if (what == NULL && (position < data.size || inside))
        counts->torn_bytes = data.size - (inside ? begun : position);
    buffer_release(&record);
    return what;
}
