/* Codec: values to bytes and back. One payload format, that of RDB, for DUMP, RDB files and the store's records.
 *
 *   payload = RDB type u8 | body as in an RDB file
 *   DUMP    = payload | RDB version u16 | CRC-64 (Jones) of everything before, u64      (little-endian)
 *
 * Written are strings raw or as RDB integers (never LZF); lists as chunks that are listpacks (LZF if the list has
 * compressed them); hashes as a listpack or as field/value pairs; sets as an intset or member by member, because Redis
 * 7.0 does not read listpacks of members; sorted sets as a listpack, or member by member with scores of eight bytes;
 * streams as their nodes are in memory. Records of streams contain the time at which each consumer was last active
 * (type 21); dumps do not (type 19), because Redis 7.0 does not read type 21. Read are these, and what Redis 7.2 and
 * older write for the types that Kelvin has (LZF, ziplists, zipmaps).
 *
 * The version written is the oldest one that includes all that is written: 10, which Redis 7.0, 7.2 and later restore;
 * 12 for hashes whose fields have expiry times, which Redis 7.4 restores. A future type that needs 11 will have to
 * write 11. Versions up to 12 are read.
 *
 * Decoding trusts nothing: any bytes result in a value or in STATUS_CORRUPT, in time and memory bounded by their size
 * (memory is at most about a hundred times as much if LZF was used, whose ratio is at most 1 : 88). A size announced by
 * LZF is checked before memory is allocated: the input must unpack to it, and it must be at most LISTPACK_SIZE_MAX for
 * a listpack and similar, and at most `string_unpacked_max` of the limits for a string. Files and records set no such
 * limit: a string in them was allowed when it was written, whatever proto-max-bulk-len is now, and Redis loads it, too.
 *
 * A payload does not contain the encoding of a string: it is decoded to its best encoding. A caller that needs
 * STRING_RAW stores that beside the payload and passes the bytes to string_value_raw. Nor does a payload distinguish a
 * set in a listpack from one in a table: a caller that needs this stores it, for codec_limits_of.
 */
#ifndef KELVIN_VALUE_CODEC_H
#define KELVIN_VALUE_CODEC_H

#include "base/text.h"
#include "containers/idmap.h"
#include "value/value.h"

enum {
    CODEC_RDB_VERSION = 10,         /* written */
    CODEC_RDB_VERSION_TIMES = 12,   /* written if fields of a hash have expiry times */
    CODEC_RDB_VERSION_MAX = 12,     /* read */
    CODEC_DUMP_FOOTER_SIZE = 10,
};

/* The RDB types of values that are supported. */
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

/* Appends the payload as for records. Only reads the value. */
void codec_encode(const struct value *value, struct buffer *out);

/* Converts a payload that codec_decode reads into what a dump contains, so that Redis 7.0 reads it: `*dumped` is the
 * same bytes, or others, appended to `room`. STATUS_CORRUPT if the payload is not complete. */
enum status codec_for_dump(struct bytes payload, struct buffer *room, struct bytes *dumped);

/* Whether a payload as for dumps needs CODEC_RDB_VERSION_TIMES. */
bool codec_has_times(struct bytes payload);
/* Converts such a payload into one of the same hash without expiry times, appended to `room`. STATUS_CORRUPT if it is not complete. */
enum status codec_without_times(struct bytes payload, struct buffer *room, struct bytes *plain);

/* Decodes exactly all of `payload`. An inline string value borrows from `payload` or from `scratch` (where LZF is
 * unpacked, by appending); everything else is owned by the new value. `scratch` may move: bytes borrowed from it in
 * earlier calls become invalid, and the caller empties it. `value` is set only if the result is STATUS_OK. */
enum status codec_decode(struct bytes payload, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* The limits under which codec_decode restores the encoding that was given to codec_encode: a value comes back from the
 * store as it was, whatever the limits are now. */
enum codec_form { CODEC_AS_WRITTEN, CODEC_FROM_LISTPACK };     /* CODEC_FROM_LISTPACK: it was a set, or a list, in a listpack */
struct value_limits codec_limits_of(struct bytes payload, enum codec_form form, const struct value_limits *limits);

/* The type of the value in a payload, from its first byte; nothing else is checked. */
enum status codec_peek_type(struct bytes payload, enum value_type *type);

/* DUMP and RESTORE. codec_restore: STATUS_INVALID for a wrong version or checksum, STATUS_CORRUPT for a corrupt payload. */
void codec_dump(const struct value *value, struct buffer *out);
enum status codec_restore(struct bytes dump, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* Reads the RDB body of `rdb_type` from the front of `*input`, which must contain all of it, and advances it; for RDB files. */
enum status codec_read(uint8_t rdb_type, struct bytes *input, const struct value_limits *limits, struct buffer *scratch,
    struct value *value);

/* Reads an RDB string in any form from the front of `*input`: borrowed from there, from `digits` or from `scratch`.
 * `unpacked_max` applies to a compressed one, as in struct value_limits. */
enum status codec_read_string(struct bytes *input, size_t unpacked_max, struct buffer *scratch, char digits[TEXT_INT_SIZE],
    struct bytes *string);
/* Appends a string, as an integer if it is a canonical one of 32 bits. */
void codec_write_string(struct buffer *out, struct bytes string);

/* Appends a page of a list (containers/list_page.h), or a listpack, as a chunk of CODEC_RDB_LIST_QUICKLIST_2. */
void codec_write_list_pack(struct buffer *out, struct bytes pack);
void codec_write_list_page(struct buffer *out, struct bytes page);

/* A node of a stream, as the two strings that a dump has of it. */
void codec_write_stream_node(struct buffer *out, struct stream_id id, struct bytes listpack);
/* Appends what a stream has after the nodes: as in the store's records, and as in dumps. */
void codec_write_stream_rest(const struct value *value, struct buffer *out);
void codec_write_stream_rest_for_dump(const struct value *value, struct buffer *out);
/* Reads type and nodes of a stream, and moves past them; what is missing of the state is as if nothing had been deleted. */
enum status codec_read_stream_part(struct bytes *payload, struct buffer *scratch, struct value *value);
/* Reads what follows the nodes in a payload of this type, all of it, into the stream that has all of them. On failure it is consistent. */
enum status codec_read_stream_end(uint8_t type, struct bytes input, const struct value_limits *limits, struct buffer *scratch, const struct value *value);
/* Reads the former, all of it, into a stream in pages that has only roots. STATUS_CORRUPT: it is to be freed. */
enum status codec_read_stream_rest(struct bytes input, const struct value_limits *limits, struct buffer *scratch, const struct value *value);

/* An RDB length: 6, 14, 32 or 64 bits. If `*is_special`, `*length` is not a length but the number (0 to 63) of a
 * special string form. STATUS_CORRUPT if the input ends too early. */
void codec_write_length(struct buffer *out, uint64_t length);
enum status codec_read_length(struct bytes *input, uint64_t *length, bool *is_special);

#endif
