/* Record: what the store keeps for a key.
 *
 *   record = format u8 | heat u8 | heat_minutes u16 | [expire_ms i64] | [death_ms i64] | payload        (little-endian)
 *   format = 1, plus 0x80 if there is an expiry, 0x40 if a string was changed in place (OBJECT ENCODING says raw) or a set or
 *            a list is kept in a listpack, 0x20 if a string is kept as text although it is an integer (INCRBYFLOAT's results are),
 *            0x10 if each field of a hash has a time; then `death_ms` is the latest of them: when the key expires as a whole
 *   payload as in value/codec.h
 *
 * A value is decoded into the encoding that it had, whatever the limits are now: moving between tiers is invisible. The flags and the
 * type of the payload say which encoding that is.
 *
 * LevelDB's blocks carry CRC-32C, checked at every read, so a record has no checksum of its own.
 */
#ifndef KELVIN_TIER_RECORD_H
#define KELVIN_TIER_RECORD_H

#include "base/buffer.h"
#include "base/status.h"
#include "keyspace/entry.h"
#include "value/value.h"

struct record {
    uint8_t heat;
    uint16_t heat_minutes;
    int64_t expire_ms;          /* -1: never */
    int64_t death_ms;           /* of the last field of a hash; -1: never */
    struct value value;         /* inline strings borrow from the bytes or the scratch buffer */
};

void record_encode(const struct entry *entry, struct buffer *out);

/* STATUS_CORRUPT for anything that is not a record, STATUS_VERSION for one of a newer format. */
enum status record_decode(struct bytes bytes, const struct value_limits *limits, struct buffer *scratch, struct record *record);
/* Only what is before the value. `type` is its value type; `*gone_ms` is when the key expires, by its own expiry or by that of its last
 * field; -1: never. */
enum status record_peek(struct bytes bytes, int64_t *gone_ms, enum value_type *type);

/* Splits a record into what is before the value, and the value as its payload (value/codec.h): borrowed, not verified. `record->value`
 * stays as it is. For copying values elsewhere. */
enum status record_split(struct bytes bytes, struct record *record, struct bytes *payload);

#endif
