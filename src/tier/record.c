#include "tier/record.h"

#include "value/codec.h"
#include "value/string.h"

enum { RECORD_FORMAT = 1, RECORD_EXPIRES = 0x80, RECORD_RAW = 0x40, RECORD_FLAGS = 0xc0, HEAD_SIZE = 4 };

void record_encode(const struct entry *entry, struct buffer *out)
{
    struct value value = entry_value(entry);
    bool expires = entry->flags & ENTRY_EXPIRES;
    bool raw = value.type == VALUE_STRING && value.encoding == STRING_RAW;

    buffer_append_u8(out, (uint8_t)(RECORD_FORMAT | (expires ? RECORD_EXPIRES : 0) | (raw ? RECORD_RAW : 0)));
    buffer_append_u8(out, entry->heat);
    buffer_append(out, &entry->heat_minutes, 2);
    if (expires)
        buffer_append(out, entry->body, 8);
    codec_encode(&value, out);
}

/* Reads the head and moves past it. */
static enum status head_read(struct bytes *bytes, struct record *record, bool *raw)
{
    uint8_t format;

    if (bytes->size < HEAD_SIZE)
        return STATUS_CORRUPT;
    format = (uint8_t)bytes->data[0];
    if ((format & ~RECORD_FLAGS) != RECORD_FORMAT)
        return (format & ~RECORD_FLAGS) > RECORD_FORMAT ? STATUS_VERSION : STATUS_CORRUPT;
    *raw = format & RECORD_RAW;
    record->heat = (uint8_t)bytes->data[1];
    memcpy(&record->heat_minutes, bytes->data + 2, 2);
    record->expire_ms = -1;
    *bytes = bytes_of(bytes->data + HEAD_SIZE, bytes->size - HEAD_SIZE);
    if (!(format & RECORD_EXPIRES))
        return STATUS_OK;
    if (bytes->size < 8)
        return STATUS_CORRUPT;
    memcpy(&record->expire_ms, bytes->data, 8);
    *bytes = bytes_of(bytes->data + 8, bytes->size - 8);
    return record->expire_ms < 0 ? STATUS_CORRUPT : STATUS_OK;
}

/* The payload does not tell how a string was kept. */
static enum status make_raw(struct value *value, struct buffer *scratch)
{
    char digits[TEXT_INT_SIZE];
    struct bytes bytes;

    if (value->type != VALUE_STRING)
        return STATUS_CORRUPT;
    if (value->encoding == STRING_BIG)
        return STATUS_OK;
    bytes = string_bytes(value, digits);
    if (bytes.data == digits) {
        buffer_append_bytes(scratch, bytes);
        bytes = bytes_of(scratch->data + scratch->size - bytes.size, bytes.size);
    }
    *value = string_value_raw(bytes);
    return STATUS_OK;
}

enum status record_decode(struct bytes bytes, const struct value_limits *limits, struct buffer *scratch, struct record *record)
{
    bool raw;
    enum status status = head_read(&bytes, record, &raw);

    if (status == STATUS_OK)
        status = codec_decode(bytes, limits, scratch, &record->value);
    if (status == STATUS_OK && raw)
        status = make_raw(&record->value, scratch);
    return status;
}

enum status record_peek(struct bytes bytes, int64_t *expire_ms, enum value_type *type)
{
    struct record record;
    bool raw;
    enum status status = head_read(&bytes, &record, &raw);

    if (status != STATUS_OK)
        return status;
    *expire_ms = record.expire_ms;
    return codec_peek_type(bytes, type);
}
