#include "tier/record.h"

#include "value/codec.h"
#include "value/string.h"

enum { RECORD_FORMAT = 1, RECORD_EXPIRES = 0x80, RECORD_RAW = 0x40, RECORD_TEXT = 0x20, RECORD_DIES = 0x10, RECORD_FLAGS = 0xf0,
    HEAD_SIZE = 4 };

/* Flags of how a value is kept that the payload does not have. */
static uint8_t kept_flags(const struct value *value)
{
    int64_t number;

    if ((value->type == VALUE_SET && value->encoding == SET_LISTPACK) || (value->type == VALUE_LIST && value->encoding == LIST_LISTPACK))
        return RECORD_RAW;
    if (value->type != VALUE_STRING)
        return 0;
    if (value->encoding == STRING_RAW)
        return RECORD_RAW;
    return value->encoding == STRING_EMBEDDED && string_to_int(value, &number) ? RECORD_TEXT : 0;
}

void record_encode(const struct entry *entry, struct buffer *out)
{
    struct value value = entry_value(entry);
    bool expires = entry->flags & ENTRY_EXPIRES;
    int64_t death_ms = entry_has_times(entry) ? hash_last_expiry(&value) : -1;

    buffer_append_u8(out, (uint8_t)(RECORD_FORMAT | (expires ? RECORD_EXPIRES : 0) | (death_ms >= 0 ? RECORD_DIES : 0) |
        kept_flags(&value)));
    buffer_append_u8(out, entry->heat);
    buffer_append(out, &entry->heat_minutes, 2);
    if (expires)
        buffer_append(out, entry->body, 8);
    if (death_ms >= 0)
        buffer_append(out, &death_ms, 8);
    codec_encode(&value, out);
}

/* A time of eight bytes, if the format says that there is one. */
static enum status time_read(struct bytes *bytes, bool is_there, int64_t *time_ms)
{
    *time_ms = -1;
    if (!is_there)
        return STATUS_OK;
    if (bytes->size < 8)
        return STATUS_CORRUPT;
    memcpy(time_ms, bytes->data, 8);
    *bytes = bytes_of(bytes->data + 8, bytes->size - 8);
    return *time_ms < 0 ? STATUS_CORRUPT : STATUS_OK;
}

/* Reads the head and moves past it; `flags` say how the value was kept. */
static enum status head_read(struct bytes *bytes, struct record *record, uint8_t *flags)
{
    enum status status;
    uint8_t format;

    if (bytes->size < HEAD_SIZE)
        return STATUS_CORRUPT;
    format = (uint8_t)bytes->data[0];
    if ((format & ~RECORD_FLAGS) != RECORD_FORMAT)
        return (format & ~RECORD_FLAGS) > RECORD_FORMAT ? STATUS_VERSION : STATUS_CORRUPT;
    *flags = format & (RECORD_RAW | RECORD_TEXT);
    record->heat = (uint8_t)bytes->data[1];
    memcpy(&record->heat_minutes, bytes->data + 2, 2);
    *bytes = bytes_of(bytes->data + HEAD_SIZE, bytes->size - HEAD_SIZE);
    status = time_read(bytes, format & RECORD_EXPIRES, &record->expire_ms);
    return status == STATUS_OK ? time_read(bytes, format & RECORD_DIES, &record->death_ms) : status;
}

/* A string as it was kept: what the codec found to be an integer is text again. A set or a list has been brought into its
 * encoding. */
static enum status restore_kept(struct value *value, uint8_t flags, struct buffer *scratch)
{
    char digits[TEXT_INT_SIZE];
    struct bytes bytes;

    if (value->type == VALUE_SET)
        return value->encoding == SET_LISTPACK && flags == RECORD_RAW ? STATUS_OK : STATUS_CORRUPT;
    if (value->type == VALUE_LIST)
        return value->encoding == LIST_LISTPACK && flags == RECORD_RAW ? STATUS_OK : STATUS_CORRUPT;
    if (value->type != VALUE_STRING)
        return STATUS_CORRUPT;
    if (value->encoding == STRING_BIG)
        return STATUS_OK;
    bytes = string_bytes(value, digits);
    if (bytes.data == digits) {
        buffer_append_bytes(scratch, bytes);
        bytes = bytes_of(scratch->data + scratch->size - bytes.size, bytes.size);
    }
    if (flags & RECORD_RAW)
        *value = string_value_raw(bytes);
    else
        *value = (struct value){ .type = VALUE_STRING, .encoding = STRING_EMBEDDED, .bytes = bytes };
    return STATUS_OK;
}

enum status record_decode(struct bytes bytes, const struct value_limits *limits, struct buffer *scratch, struct record *record)
{
    uint8_t flags;
    struct value_limits exact;
    enum status status = head_read(&bytes, record, &flags);

    if (status != STATUS_OK)
        return status;
    exact = codec_limits_of(bytes, flags & RECORD_RAW ? CODEC_FROM_LISTPACK : CODEC_AS_WRITTEN, limits);
    status = codec_decode(bytes, &exact, scratch, &record->value);
    if (status == STATUS_OK && record->death_ms >= 0 &&
        (record->value.type != VALUE_HASH || hash_last_expiry(&record->value) != record->death_ms)) {
        value_free(&record->value);
        return STATUS_CORRUPT;
    }
    if (status == STATUS_OK && flags != 0) {
        status = restore_kept(&record->value, flags, scratch);
        if (status != STATUS_OK)
            value_free(&record->value);
    }
    return status;
}

enum status record_peek(struct bytes bytes, int64_t *gone_ms, enum value_type *type)
{
    struct record record;
    uint8_t flags;
    enum status status = head_read(&bytes, &record, &flags);

    if (status != STATUS_OK)
        return status;
    *gone_ms = earlier_ms(record.expire_ms, record.death_ms);
    return codec_peek_type(bytes, type);
}

enum status record_split(struct bytes bytes, struct record *record, struct bytes *payload)
{
    uint8_t flags;
    enum status status = head_read(&bytes, record, &flags);

    if (status == STATUS_OK && bytes.size == 0)
        status = STATUS_CORRUPT;
    *payload = bytes;
    return status;
}
