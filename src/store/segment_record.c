#include "store/segment_record.h"

#include <stdbool.h>
#include <string.h>

#include "base/crc32c.h"

enum { VERSION_AT = 4, HEAD_CRC_AT = 20, LONG_SIZE = 8, FOOTER_NUMBERS = 16 };

static const char magic[8] = "KSEG1\n";
static const uint32_t size_is_long = UINT32_MAX >> SEGMENT_KIND_BITS;

static uint64_t rounded(uint64_t size)
{
    return (size + SEGMENT_UNIT - 1) / SEGMENT_UNIT * SEGMENT_UNIT;
}

static uint64_t head_size(uint64_t value_size)
{
    return SEGMENT_RECORD_HEAD + (value_size >= size_is_long ? LONG_SIZE : 0);
}

uint64_t segment_record_size(size_t key_size, size_t value_size)
{
    return rounded(head_size(value_size) + key_size + value_size);
}

static void append_zeros(struct buffer *out, size_t count)
{
    memset(buffer_reserve(out, count), 0, count);
    out->size += count;
}

void segment_record_append(struct buffer *out, uint32_t incarnation, uint64_t hash, unsigned kind, struct bytes key, struct bytes value)
{
    size_t begin = out->size, size;
    bool is_long = value.size >= size_is_long;
    uint32_t crc = 0, key_size = (uint32_t)key.size;
    uint32_t short_size = (uint32_t)kind << (32 - SEGMENT_KIND_BITS) | (is_long ? size_is_long : (uint32_t)value.size);
    uint64_t long_size = value.size;

    buffer_reserve(out, segment_record_size(key.size, value.size));
    buffer_append(out, &crc, 4);
    buffer_append(out, &incarnation, 4);
    buffer_append(out, &hash, 8);
    buffer_append(out, &key_size, 4);
    buffer_append(out, &short_size, 4);
    if (is_long)
        buffer_append(out, &long_size, LONG_SIZE);
    buffer_append_bytes(out, key);
    buffer_append_bytes(out, value);
    size = out->size - begin;
    crc = crc32c(0, out->data + begin + 4, size - 4);
    memcpy(out->data + begin, &crc, 4);
    append_zeros(out, rounded(size) - size);
}

enum status segment_record_parse(struct bytes data, struct segment_record *record, uint64_t *size)
{
    uint32_t crc, key_size, short_size;
    uint64_t value_size, head = SEGMENT_RECORD_HEAD;

    *size = SEGMENT_RECORD_HEAD + LONG_SIZE;
    if (data.size < SEGMENT_RECORD_HEAD)
        return STATUS_TRUNCATED;
    memcpy(&crc, data.data, 4);
    memcpy(&record->incarnation, data.data + 4, 4);
    memcpy(&record->hash, data.data + 8, 8);
    memcpy(&key_size, data.data + 16, 4);
    memcpy(&short_size, data.data + 20, 4);
    record->kind = short_size >> (32 - SEGMENT_KIND_BITS);
    value_size = short_size & size_is_long;
    if (value_size == size_is_long) {
        head += LONG_SIZE;
        if (data.size < head)
            return STATUS_TRUNCATED;
        memcpy(&value_size, data.data + SEGMENT_RECORD_HEAD, LONG_SIZE);
        if (value_size > INT64_MAX / 2)
            return STATUS_CORRUPT;
    }
    *size = rounded(head + key_size + value_size);
    if (data.size < head + key_size + value_size)
        return STATUS_TRUNCATED;
    if (crc32c(0, data.data + 4, (size_t)(head + key_size + value_size) - 4) != crc)
        return STATUS_CORRUPT;
    record->key = bytes_of(data.data + head, key_size);
    record->value = bytes_of(data.data + head + key_size, (size_t)value_size);
    return STATUS_OK;
}

bool segment_record_guess(struct bytes data, struct segment_record *record)
{
    uint32_t key_size, short_size;
    uint64_t head;

    if (data.size < SEGMENT_RECORD_HEAD + LONG_SIZE)
        return false;
    memcpy(&record->incarnation, data.data + 4, 4);
    memcpy(&record->hash, data.data + 8, 8);
    memcpy(&key_size, data.data + 16, 4);
    memcpy(&short_size, data.data + 20, 4);
    head = head_size(short_size & size_is_long);
    record->kind = short_size >> (32 - SEGMENT_KIND_BITS);
    record->key = bytes_of(data.data + head, key_size < data.size - head ? key_size : data.size - head);
    record->value = bytes_of("", 0);
    return true;
}

void segment_head_append(struct buffer *out, uint64_t sequence, uint32_t slot)
{
    size_t begin = out->size;
    uint32_t crc;

    buffer_append(out, magic, sizeof(magic));
    buffer_append(out, &sequence, 8);
    buffer_append(out, &slot, 4);
    crc = crc32c(0, out->data + begin, HEAD_CRC_AT);
    buffer_append(out, &crc, 4);
    append_zeros(out, SEGMENT_HEAD_SIZE - HEAD_CRC_AT - 4);
}

enum status segment_head_parse(struct bytes data, uint64_t *sequence, uint32_t *slot)
{
    uint32_t crc;

    if (data.size < SEGMENT_HEAD_SIZE)
        return STATUS_TRUNCATED;
    memcpy(&crc, data.data + HEAD_CRC_AT, 4);
    if (memcmp(data.data, magic, VERSION_AT) != 0 || crc32c(0, data.data, HEAD_CRC_AT) != crc)
        return STATUS_CORRUPT;
    if (memcmp(data.data, magic, sizeof(magic)) != 0)
        return STATUS_VERSION;
    memcpy(sequence, data.data + 8, 8);
    memcpy(slot, data.data + 16, 4);
    return STATUS_OK;
}

void segment_footer_append(struct buffer *out, uint64_t weight, uint64_t count)
{
    uint64_t numbers[2] = { weight, count };

    segment_record_append(out, 0, 0, 0, bytes_of("", 0), bytes_of((const char *)numbers, FOOTER_NUMBERS));
}

enum status segment_footer_parse(const struct segment_record *record, uint64_t *weight, uint64_t *count)
{
    if (record->incarnation != 0 || record->key.size != 0 || record->value.size != FOOTER_NUMBERS)
        return STATUS_CORRUPT;
    memcpy(weight, record->value.data, 8);
    memcpy(count, record->value.data + 8, 8);
    return STATUS_OK;
}
