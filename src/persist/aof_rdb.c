#include "persist/aof_rdb.h"

#include <string.h>

enum {
    RDB_AUX = 0xfa,
    RDB_RESIZE_DB = 0xfb,
    RDB_SELECT_DB = 0xfe,
    RDB_EOF = 0xff,
    RDB_HEADER_SIZE = 9,        /* REDIS and four digits */
    RDB_LENGTH_ENCODED = -2,    /* of length_take: the low six bits say how */
};

struct cursor {
    const uint8_t *at, *end;
};

bool aof_rdb_is_one(struct bytes head)
{
    return head.size >= 5 && memcmp(head.data, "REDIS", 5) == 0;
}

uint64_t aof_rdb_crc(struct bytes bytes)
{
    uint64_t crc = 0;

    for (size_t i = 0; i < bytes.size; i++) {
        crc ^= (uint8_t)bytes.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT64_C(0x95ac9329ac4bc9b5) : crc >> 1;
    }
    return crc;
}

static bool skip(struct cursor *cursor, uint64_t size)
{
    if ((uint64_t)(cursor->end - cursor->at) < size)
        return false;
    cursor->at += size;
    return true;
}

/* A length: 0 or more, -1 when the bytes end, RDB_LENGTH_ENCODED with the form in *form. */
static int64_t length_take(struct cursor *cursor, int *form)
{
    int wide = 0;
    uint64_t length = 0;
    uint8_t first;

    if (cursor->at == cursor->end)
        return -1;
    first = *cursor->at++;
    switch (first >> 6) {
    case 0: return first & 63;
    case 1:
        if (cursor->at == cursor->end)
            return -1;
        return (first & 63) << 8 | *cursor->at++;
    case 2:
        wide = first == 0x80 ? 4 : first == 0x81 ? 8 : 0;
        if (wide == 0 || cursor->end - cursor->at < wide)
            return -1;
        for (int i = 0; i < wide; i++)
            length = length << 8 | *cursor->at++;
        return length > INT64_MAX ? -1 : (int64_t)length;
    default:
        *form = first & 63;
        return RDB_LENGTH_ENCODED;
    }
}

static bool string_skip(struct cursor *cursor)
{
    int form = 0;
    int64_t length = length_take(cursor, &form), compressed;

    if (length >= 0)
        return skip(cursor, (uint64_t)length);
    if (length != RDB_LENGTH_ENCODED)
        return false;
    if (form < 3)
        return skip(cursor, (uint64_t)1 << form);       /* an integer of 1, 2 or 4 bytes */
    if (form != 3)
        return false;
    compressed = length_take(cursor, &form);            /* LZF: both sizes, then the bytes */
    return compressed >= 0 && length_take(cursor, &form) >= 0 && skip(cursor, (uint64_t)compressed);
}

static bool crc_matches(struct bytes covered, const uint8_t *stored)
{
    uint64_t crc = 0;

    for (int i = 7; i >= 0; i--)
        crc = crc << 8 | stored[i];
    return crc == 0 || crc == aof_rdb_crc(covered);     /* 0: written with rdbchecksum no */
}

enum status aof_rdb_skip_empty(struct bytes head, size_t *size)
{
    struct cursor cursor = { (const uint8_t *)head.data, (const uint8_t *)head.data + head.size };
    int form = 0;

    if (!aof_rdb_is_one(head) || !skip(&cursor, RDB_HEADER_SIZE))
        return STATUS_CORRUPT;
    for (int i = 5; i < RDB_HEADER_SIZE; i++)
        if (head.data[i] < '0' || head.data[i] > '9')
            return STATUS_CORRUPT;
    while (cursor.at < cursor.end) {
        bool good;

        switch (*cursor.at++) {
        case RDB_AUX: good = string_skip(&cursor) && string_skip(&cursor); break;
        case RDB_SELECT_DB: good = length_take(&cursor, &form) >= 0; break;
        case RDB_RESIZE_DB: good = length_take(&cursor, &form) >= 0 && length_take(&cursor, &form) >= 0; break;
        case RDB_EOF:
            *size = (size_t)(cursor.at - (const uint8_t *)head.data) + 8;
            if (!skip(&cursor, 8) || !crc_matches(bytes_of(head.data, *size - 8), cursor.at - 8))
                return STATUS_CORRUPT;
            return STATUS_OK;
        default: return STATUS_VERSION;
        }
        if (!good)
            break;
    }
    return head.size >= AOF_RDB_HEAD_SIZE ? STATUS_VERSION : STATUS_CORRUPT;
}
