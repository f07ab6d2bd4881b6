#include "containers/ziplist.h"

#include <stdint.h>

enum {
    ZIPLIST_HEADER_SIZE = 10,
    ZIPLIST_COUNT_UNKNOWN = 65535,
    ZIPMAP_COUNT_UNKNOWN = 254,         /* or more */
    END = 0xff,
    WIDE = 0xfe,                        /* in place of a size: the size follows in four bytes */
};

static uint64_t load_le(const uint8_t *from, size_t size)
{
    uint64_t word = 0;

    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)from[i] << (8 * i);
    return word;
}

static int64_t load_int(const uint8_t *from, size_t size)
{
    unsigned unused = 64 - 8 * (unsigned)size;

    return (int64_t)(load_le(from, size) << unused) >> unused;
}

/* Takes `size` bytes from the front; false if there are not enough. */
static bool take_front(struct bytes *left, size_t size, const uint8_t **taken)
{
    if (size > left->size)
        return false;
    *taken = (const uint8_t *)left->data;
    left->data += size;
    left->size -= size;
    return true;
}

static bool take_bytes(struct bytes *left, size_t size, struct bytes *bytes)
{
    const uint8_t *at;

    if (!take_front(left, size, &at))
        return false;
    *bytes = bytes_of(at, size);
    return true;
}

static bool take_number(struct bytes *left, size_t size, char digits[TEXT_INT_SIZE], struct bytes *bytes)
{
    const uint8_t *at;

    if (!take_front(left, size, &at))
        return false;
    *bytes = bytes_of(digits, text_of_int(load_int(at, size), digits));
    return true;
}

/* One byte, or 0xfe and four bytes. */
static bool take_size(struct bytes *left, size_t *size)
{
    const uint8_t *at;

    if (!take_front(left, 1, &at) || at[0] == END)
        return false;
    *size = at[0];
    if (at[0] != WIDE)
        return true;
    if (!take_front(left, 4, &at))
        return false;
    *size = load_le(at, 4);
    return true;
}

enum status ziplist_read(struct ziplist_reader *reader, struct bytes ziplist)
{
    const uint8_t *raw = (const uint8_t *)ziplist.data;

    if (ziplist.size <= ZIPLIST_HEADER_SIZE || load_le(raw, 4) != ziplist.size || raw[ziplist.size - 1] != END)
        return STATUS_CORRUPT;
    *reader = (struct ziplist_reader){
        .left = bytes_of(raw + ZIPLIST_HEADER_SIZE, ziplist.size - ZIPLIST_HEADER_SIZE),
        .announced = load_le(raw + 8, 2),
        .last_at = load_le(raw + 4, 4),
        .start_at = ZIPLIST_HEADER_SIZE,
    };
    return STATUS_OK;
}

/* Head and data of an element. */
static bool take_element(struct bytes *left, struct bytes *element, char digits[TEXT_INT_SIZE])
{
    const uint8_t *at;
    uint8_t head;
    size_t size;

    if (!take_front(left, 1, &at))
        return false;
    head = at[0];
    switch (head >> 6) {
    case 0: return take_bytes(left, head, element);
    case 1:
        size = (size_t)(head & 0x3f) << 8;
        return take_front(left, 1, &at) && take_bytes(left, size | at[0], element);
    case 2:
        if (!take_front(left, 4, &at))
            return false;
        size = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
        return take_bytes(left, size, element);
    }
    switch (head) {
    case 0xc0: return take_number(left, 2, digits, element);
    case 0xd0: return take_number(left, 4, digits, element);
    case 0xe0: return take_number(left, 8, digits, element);
    case 0xf0: return take_number(left, 3, digits, element);
    case 0xfe: return take_number(left, 1, digits, element);
    }
    if (head < 0xf1 || head > 0xfd)
        return false;
    *element = bytes_of(digits, text_of_int((head & 0x0f) - 1, digits));
    return true;
}

enum status ziplist_next(struct ziplist_reader *reader, struct bytes *element, char digits[TEXT_INT_SIZE])
{
    size_t before, left = reader->left.size;

    if (left == 1) {
        bool counted = reader->announced == ZIPLIST_COUNT_UNKNOWN || reader->announced == reader->count;
        bool last_found = reader->last_at == reader->start_at - reader->size_before;

        return counted && last_found ? STATUS_NOT_FOUND : STATUS_CORRUPT;
    }
    if (!take_size(&reader->left, &before) || before != reader->size_before ||
        !take_element(&reader->left, element, digits) || reader->left.size < 1)
        return STATUS_CORRUPT;
    reader->size_before = left - reader->left.size;
    reader->start_at += reader->size_before;
    reader->count++;
    return STATUS_OK;
}

enum status zipmap_read(struct zipmap_reader *reader, struct bytes zipmap)
{
    const uint8_t *raw = (const uint8_t *)zipmap.data;

    if (zipmap.size < 2 || raw[zipmap.size - 1] != END)
        return STATUS_CORRUPT;
    *reader = (struct zipmap_reader){ .left = bytes_of(raw + 1, zipmap.size - 1), .announced = raw[0] };
    return STATUS_OK;
}

enum status zipmap_next(struct zipmap_reader *reader, struct bytes *key, struct bytes *value)
{
    const uint8_t *unused, *skipped;
    size_t size;

    if (reader->left.size == 1)
        return reader->announced >= ZIPMAP_COUNT_UNKNOWN || reader->announced == reader->count ? STATUS_NOT_FOUND
                                                                                              : STATUS_CORRUPT;
    if (!take_size(&reader->left, &size) || !take_bytes(&reader->left, size, key) || !take_size(&reader->left, &size) ||
        !take_front(&reader->left, 1, &unused) || !take_bytes(&reader->left, size, value) ||
        !take_front(&reader->left, unused[0], &skipped) || reader->left.size < 1)
        return STATUS_CORRUPT;
    reader->count++;
    return STATUS_OK;
}
