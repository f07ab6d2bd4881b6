/* Codec: values to bytes and back. One payload format, that of RDB, for DUMP, RDB files and the store's records.
 *
 *   payload = RDB type u8 | body as in an RDB file
 *   DUMP    = payload | RDB version u16 | CRC-64 (Jones) of everything before, u64      (little-endian)
 *
 * Written: strings raw or as RDB integers (never LZF); lists as chunks that are listpacks (LZF where the list has compressed them);
 * hashes as listpack or as field/value pairs; sets as intset or member by member, for Redis 7.0 knows no listpacks of members;
 * sorted sets as listpack, or member by member with scores of eight bytes; streams as their nodes lie in memory.
 * Of streams, records say when each consumer was last active (type 21); dumps do not (type 19), for Redis 7.0 knows no 21.
 * Read: these, and what Redis 7.2 and older write for the types Kelvin has (LZF, ziplists, zipmaps).
 *
 * The version is the oldest that knows all that is written: 10, which Redis 7.0, 7.2 and later all restore; 12 for hashes whose
 * fields have times, which Redis 7.4 restores. What needs 11 (a type that is yet to come) will have to say 11. Read is up to 12.
 *
 * Decoding trusts nothing: any bytes give a value or STATUS_CORRUPT, in time and memory bounded by their size (memory
 * is at most some hundred times as much, where LZF was used, which reaches 1 : 88). A size that LZF claims is checked before memory
 * is asked for: it must be what the input gives, at most LISTPACK_SIZE_MAX for a listpack and its like, and at most
 * `string_unpacked_max` of the limits for a string. Files and records set no such limit: a string in them was allowed when it came,
 * whatever proto-max-bulk-len is now, and Redis loads it, too.
 *
 * A payload does not tell how a string was kept: it comes back in its best encoding. Who must know that one was
 * STRING_RAW remembers it beside the payload and gives the bytes to string_value_raw. Nor does it tell a set in a listpack from
 * a table: who must know remembers it, for codec_limits_of.
 */
#ifndef KELVIN_VALUE_CODEC_H
#define KELVIN_VALUE_CODEC_H

#include "base/text.h"
#include "value/value.h"

enum {
    CODEC_RDB_VERSION = 10,         /* written */
    CODEC_RDB_VERSION_TIMES = 12,   /* written, if fields of a hash have times */
    CODEC_RDB_VERSION_MAX = 12,     /* read */
    CODEC_DUMP_FOOTER_SIZE = 10,
};

/* The types of values in RDB that are known here. */
enum codec_rdb_type {
    CODEC_RDB_STRING = 0,
    CODEC_RDB_LIST = 1,
    CODEC_RDB_SET = 2,
    CODEC_RDB_ZSET = 3,
    CODEC_RDB_HASH = 4,
    CODEC_RDB_ZSET_2 = 5,
    CODEC_RDB_HASH_ZIPMAP = 9,
    CODEC_RDB_LIST_ZIPLIST = 10,
    CODEC_RDB_SET_INTSET = 11,
    CODEC_RDB_ZSET_ZIPLIST = 12,
    CODEC_RDB_HASH_ZIPLIST = 13,
    CODEC_RDB_LIST_QUICKLIST = 14,
    CODEC_RDB_STREAM = 15,
    CODEC_RDB_HASH_LISTPACK = 16,
    CODEC_RDB_ZSET_LISTPACK = 17,
    CODEC_RDB_LIST_QUICKLIST_2 = 18,
    CODEC_RDB_STREAM_2 = 19,
    CODEC_RDB_SET_LISTPACK = 20,
    CODEC_RDB_HASH_TIMES_OLD = 22,
    CODEC_RDB_HASH_LISTPACK_TIMES_OLD = 23,
    CODEC_RDB_HASH_TIMES = 24,
    CODEC_RDB_HASH_LISTPACK_TIMES = 25,
    CODEC_RDB_STREAM_3 = 21,
};

/* Appends the payload, as records have it. Only reads the value. */
void codec_encode(const struct value *value, struct buffer *out);

/* A payload that codec_decode reads as a dump has it, so that Redis 7.0 reads it: `*dumped` is the same bytes, or others, appended to `room`.
 * STATUS_CORRUPT: it is no whole payload. */
enum status codec_for_dump(struct bytes payload, struct buffer *room, struct bytes *dumped);

/* Decodes exactly all of `payload`. A string value borrows from `payload` or from `scratch` (for LZF, which is
 * appended there) if it is inline; all else is owned by the new value. `scratch` may move: what earlier calls left
 * in it is not to be borrowed from any more, and the caller empties it. `value` is set only if the answer is OK. */
enum status codec_decode(struct bytes payload, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* Limits under which codec_decode gives back the encoding that codec_encode was given: a value comes back from the store as it
 * was, whatever the limits are by now. */
enum codec_form { CODEC_AS_WRITTEN, CODEC_FROM_LISTPACK };     /* the latter: it was a set, or a list, in a listpack */
struct value_limits codec_limits_of(struct bytes payload, enum codec_form form, const struct value_limits *limits);

/* The type of the value a payload holds, by its first byte; nothing else is looked at. */
enum status codec_peek_type(struct bytes payload, enum value_type *type);

/* DUMP and RESTORE. codec_restore: STATUS_INVALID for a bad version or checksum, STATUS_CORRUPT for a bad payload. */
void codec_dump(const struct value *value, struct buffer *out);
enum status codec_restore(struct bytes dump, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* Reads the RDB body of `type` from the front of `*input`, which holds all of it, and moves on; for RDB files. */
enum status codec_read(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* Reads an RDB string of any form from the front of `*input`: borrowed from there, from `digits` or from `scratch`.
 * `unpacked_max` is for one that is compressed, as in struct value_limits. */
enum status codec_read_string(struct bytes *input, size_t unpacked_max, struct buffer *scratch, char digits[TEXT_INT_SIZE],
    struct bytes *string);
/* Writes one, as an integer if it is a canonical one of 32 bits. */
void codec_write_string(struct buffer *out, struct bytes string);

/* RDB's length: 6, 14, 32 or 64 bits. If `*is_special`, `*length` is not a length but the number (0 to 63) of a
 * special form of string. STATUS_CORRUPT if the input ends too early. */
void codec_write_length(struct buffer *out, uint64_t length);
enum status codec_read_length(struct bytes *input, uint64_t *length, bool *is_special);

/* CRC-64, Jones' polynomial, as RDB uses it. Start with 0. */
uint64_t crc64(uint64_t crc, struct bytes bytes);
/* What `count` more bytes of zero make of it; in time that hardly grows with them. */
uint64_t crc64_zeros(uint64_t crc, uint64_t count);

#endif
