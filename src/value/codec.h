/* Codec: values to bytes and back. One payload format, that of RDB, for DUMP, RDB files and the store's records.
 *
 *   payload = RDB type u8 | body as in RDB version 11
 *   DUMP    = payload | RDB version u16 | CRC-64 (Jones) of everything before, u64      (little-endian)
 *
 * Written: strings raw or as RDB integers (never LZF); hashes as listpack or as field/value pairs.
 * Read: these, and what Redis 7.2 and older write for the types Kelvin has (LZF, ziplists, zipmaps).
 *
 * Decoding trusts nothing: any bytes give a value or STATUS_CORRUPT, in time and memory bounded by their size.
 */
#ifndef KELVIN_VALUE_CODEC_H
#define KELVIN_VALUE_CODEC_H

#include "value/value.h"

enum { CODEC_RDB_VERSION = 11 };

void codec_encode(const struct value *value, struct buffer *out);

/* Decodes exactly all of `payload`. A string value borrows from `payload` or from `scratch` (for LZF, which is
 * appended there) if it is inline; all else is owned by the new value. */
enum status codec_decode(struct bytes payload, const struct value_limits *limits, struct buffer *scratch, struct value *value);

/* DUMP and RESTORE. codec_restore: STATUS_INVALID for a bad version or checksum, STATUS_CORRUPT for a bad payload. */
void codec_dump(const struct value *value, struct buffer *out);
enum status codec_restore(struct bytes dump, const struct value_limits *limits, struct buffer *scratch, struct value *value);

/* Reads the RDB body of `type` from the front of `*input` and moves it on; for RDB files. */
enum status codec_read(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* RDB's length: 6, 14, 32 or 64 bits. */
void codec_write_length(struct buffer *out, uint64_t length);
enum status codec_read_length(struct bytes *input, uint64_t *length, bool *is_special);

/* CRC-64, Jones' polynomial, as RDB uses it. Start with 0. */
uint64_t crc64(uint64_t crc, struct bytes bytes);

#endif
