#include "store/segment_record.h"

#include <stdbool.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/varint.h"

enum { MAGIC_SIZE = 8, VERSION_AT = 4, HEAD_CRC_AT = 20, CRC_SIZE = 4, FOOTER_NUMBERS = 24, FOOTER_NUMBERS_2 = 16, KIND_MASK = (1 << SEGMENT_KIND_BITS) - 1,
    FOOTER_PLAIN = 0, FOOTER_AFTER_USES = 1 };      /* kinds of a footer */

static const char magic[] = "KSEG3\n\0", magic_2[] = "KSEG2\n\0";
static const char uses_key[] = "uses";

static uint64_t rounded(uint64_t size)
{
    return (size + SEGMENT_UNIT - 1) / SEGMENT_UNIT * SEGMENT_UNIT;
}

/* The numbers before key and value, which may be wrong as long as the checksum was not compared. */
struct head {
    uint32_t crc;
    unsigned kind;
    uint32_t incarnation;
    uint64_t size, key_size, value_size;
};

static void append_zeros(struct buffer *out, size_t count)
{
    memset(buffer_reserve(out, count), 0, count);
    out->size += count;
}

uint64_t segment_record_size(uint32_t incarnation, unsigned kind, size_t key_size, size_t value_size)
{
    return rounded(CRC_SIZE + varint_size((uint64_t)value_size << SEGMENT_KIND_BITS | kind) + varint_size(incarnation) + varint_size(key_size) +
        key_size + value_size);
}

uint64_t segment_record_append(struct buffer *out, uint32_t incarnation, unsigned kind, struct bytes key, struct bytes value)
{
    size_t begin = out->size, size;
    uint32_t crc = 0;

    buffer_reserve(out, SEGMENT_RECORD_HEAD_MAX + key.size + value.size + SEGMENT_UNIT);
    buffer_append(out, &crc, CRC_SIZE);
    varint_append(out, (uint64_t)value.size << SEGMENT_KIND_BITS | kind);
    varint_append(out, incarnation);
    varint_append(out, key.size);
    buffer_append_bytes(out, key);
    buffer_append_bytes(out, value);
    size = out->size - begin;
    crc = crc32c(0, out->data + begin + CRC_SIZE, size - CRC_SIZE);
    memcpy(out->data + begin, &crc, CRC_SIZE);
    append_zeros(out, rounded(size) - size);
    return rounded(size);
}

/* STATUS_TRUNCATED: `data` ends before. */
static enum status parse_head(struct bytes data, struct head *head)
{
    const char *at = data.data + CRC_SIZE, *end = data.data + data.size;
    uint64_t numbers[3];

    if (data.size < CRC_SIZE)
        return STATUS_TRUNCATED;
    memcpy(&head->crc, data.data, CRC_SIZE);
    for (int i = 0; i < 3; i++) {
        if (!varint_take(&at, end, &numbers[i]))
            return data.size < SEGMENT_RECORD_HEAD_MAX ? STATUS_TRUNCATED : STATUS_CORRUPT;
    }
    head->kind = (unsigned)numbers[0] & KIND_MASK;
    head->value_size = numbers[0] >> SEGMENT_KIND_BITS;
    head->incarnation = (uint32_t)numbers[1];
    head->key_size = numbers[2];
    head->size = (uint64_t)(at - data.data);
    return numbers[1] <= UINT32_MAX && numbers[2] <= UINT32_MAX ? STATUS_OK : STATUS_CORRUPT;
}

enum status segment_record_parse(struct bytes data, struct segment_record *record, uint64_t *size)
{
    struct head head;
    enum status status = parse_head(data, &head);
    uint64_t end;

    *size = SEGMENT_RECORD_HEAD_MAX;
    if (status != STATUS_OK)
        return status;
    if (head.value_size > INT64_MAX / 2)
        return STATUS_CORRUPT;
    end = head.size + head.key_size + head.value_size;
    *size = rounded(end);
    if (data.size < end)
        return STATUS_TRUNCATED;
    if (crc32c(0, data.data + CRC_SIZE, (size_t)end - CRC_SIZE) != head.crc)
        return STATUS_CORRUPT;
    *record = (struct segment_record){
        .incarnation = head.incarnation,
        .kind = head.kind,
        .key = bytes_of(data.data + head.size, (size_t)head.key_size),
        .value = bytes_of(data.data + head.size + head.key_size, (size_t)head.value_size),
    };
    return STATUS_OK;
}

enum status segment_record_parse_at(uint64_t offset, struct bytes data, struct segment_record *record, uint64_t *size)
{
    bool may_be_huge = offset == SEGMENT_HEAD_SIZE;
    enum status status;

    if (!may_be_huge && data.size > SEGMENT_RECORD_MAX)
        data.size = SEGMENT_RECORD_MAX;
    status = segment_record_parse(data, record, size);
    return !may_be_huge && status == STATUS_TRUNCATED && *size > SEGMENT_RECORD_MAX ? STATUS_CORRUPT : status;
}

bool segment_record_guess(struct bytes data, struct segment_record *record)
{
    struct head head;
    uint64_t left;

    if (parse_head(data, &head) != STATUS_OK)
        return false;
    left = data.size - head.size;
    *record = (struct segment_record){
        .incarnation = head.incarnation,
        .kind = head.kind,
        .key = bytes_of(data.data + head.size, (size_t)(head.key_size < left ? head.key_size : left)),
        .value = bytes_of("", 0),
    };
    return true;
}

void segment_head_append(struct buffer *out, uint64_t sequence, uint32_t slot)
{
    size_t begin = out->size;
    uint32_t crc;

    buffer_append(out, magic, MAGIC_SIZE);
    buffer_append(out, &sequence, 8);
    buffer_append(out, &slot, 4);
    crc = crc32c(0, out->data + begin, HEAD_CRC_AT);
    buffer_append(out, &crc, 4);
    append_zeros(out, SEGMENT_HEAD_SIZE - HEAD_CRC_AT - 4);
}

enum status segment_head_parse(struct bytes data, struct segment_head *head)
{
    uint32_t crc;

    if (data.size < SEGMENT_HEAD_SIZE)
        return STATUS_TRUNCATED;
    memcpy(&crc, data.data + HEAD_CRC_AT, 4);
    if (memcmp(data.data, magic, VERSION_AT) != 0 || crc32c(0, data.data, HEAD_CRC_AT) != crc)
        return STATUS_CORRUPT;
    if (memcmp(data.data, magic, MAGIC_SIZE) != 0 && memcmp(data.data, magic_2, MAGIC_SIZE) != 0)
        return STATUS_VERSION;
    memcpy(&head->sequence, data.data + 8, 8);
    memcpy(&head->slot, data.data + 16, 4);
    return STATUS_OK;
}

void segment_mark_append(struct buffer *out, uint64_t stamp)
{
    (void)segment_record_append(out, 0, 0, bytes_of("", 0), bytes_of((const char *)&stamp, sizeof(stamp)));
}

static bool is_note(const struct segment_record *record)
{
    return record->incarnation == 0 && record->key.size == 0;
}

bool segment_mark_parse(const struct segment_record *record, uint64_t *stamp)
{
    if (!is_note(record) || record->value.size != sizeof(*stamp))
        return false;
    memcpy(stamp, record->value.data, sizeof(*stamp));
    return true;
}

void segment_footer_append(struct buffer *out, const struct segment_footer *footer, const struct segment_uses *uses)
{
    uint64_t numbers[3] = { footer->weight, footer->count, footer->stamp };
    bool has_uses = uses != NULL && uses->are_known;

    if (has_uses)
        (void)segment_record_append(out, 0, 0, bytes_of_string(uses_key), bytes_of((const char *)uses->numbers, sizeof(uses->numbers)));
    (void)segment_record_append(out, 0, has_uses ? FOOTER_AFTER_USES : FOOTER_PLAIN, bytes_of("", 0), bytes_of((const char *)numbers, FOOTER_NUMBERS));
}

uint64_t segment_footer_size(void)
{
    return segment_record_size(0, 0, 0, FOOTER_NUMBERS);
}

bool segment_footer_parse(const struct segment_record *record, struct segment_footer *footer)
{
    uint64_t numbers[3] = { 0 };

    if (!is_note(record) || (record->value.size != FOOTER_NUMBERS && record->value.size != FOOTER_NUMBERS_2))
        return false;
    memcpy(numbers, record->value.data, record->value.size);
    *footer = (struct segment_footer){ numbers[0], numbers[1], numbers[2] };
    return true;
}

/* --- uses --- */

uint64_t segment_uses_size(void)
{
    return segment_record_size(0, 0, strlen(uses_key), SEGMENT_USES_MAX * sizeof(uint32_t));
}

bool segment_is_uses(const struct segment_record *record)
{
    return record->incarnation == 0 && bytes_is(record->key, uses_key) && record->value.size == SEGMENT_USES_MAX * sizeof(uint32_t);
}

void segment_uses_parse(struct bytes end, struct segment_uses *uses)
{
    uint64_t uses_size = segment_uses_size(), size;
    struct segment_record record;
    struct segment_footer footer;

    *uses = (struct segment_uses){ .are_known = false };
    if (end.size != uses_size + segment_footer_size())
        return;
    /* The footer says that it is one: a value may have any bytes. */
    if (segment_record_parse(bytes_of(end.data + uses_size, end.size - uses_size), &record, &size) != STATUS_OK ||
        !segment_footer_parse(&record, &footer) || record.kind != FOOTER_AFTER_USES)
        return;
    if (segment_record_parse(bytes_of(end.data, uses_size), &record, &size) != STATUS_OK || size != uses_size || !segment_is_uses(&record))
        return;
    memcpy(uses->numbers, record.value.data, sizeof(uses->numbers));
    uses->are_known = true;
}

void segment_uses_add(struct segment_uses *uses, uint32_t number)
{
    for (int i = 0; i < SEGMENT_USES_MAX && number != 0; i++) {
        if (uses->numbers[i] == 0)
            uses->numbers[i] = number;
        if (uses->numbers[i] == number)
            return;
    }
    if (number != 0)
        uses->are_known = false;
}

bool segment_uses_have(const struct segment_uses *uses, uint32_t number)
{
    for (int i = 0; i < SEGMENT_USES_MAX && uses->are_known; i++) {
        if (uses->numbers[i] == number)
            return true;
    }
    return !uses->are_known;
}
