/* Record: what the store keeps for a key.
 *
 *   record = format u8 | heat u8 | heat_minutes u16 | [expire_ms i64] | [death_ms i64] | payload        (little-endian)
 *   format = 1, plus 0x80 if there is an expiry, 0x40 if a string was changed in place (OBJECT ENCODING says raw) or a set or
 *            a list is kept in a listpack, 0x20 if a string is kept as text although it is an integer (INCRBYFLOAT's results are),
 *            0x10 if each field of a hash has a time; then `death_ms` is the latest of them: when the key expires as a whole,
 *            0x08 if the payload is packed
 *            Of a value in pages: 2 in place of 1, and of the others 0x80 and 0x10 at most
 *   payload as in value/codec.h; of a value in pages: type u8 (enum value_type) | ID u64 | root
 *   root    = of a hash, set or sorted set: root of containers/paged_table.h, of a hash whose fields expire then: bounds of the times i64, i64; of these and of sorted sets then: root of containers/page_tree.h
 *           | of a list: bytes u64 | root of containers/page_tree.h; if some of its elements are with the root: bytes u64, the highest bit set | size u32 | root of containers/page_tree.h | size u32 | listpack of
 *             those at its head | listpack of those at its tail; either may have no bytes
 *           | of a stream: bytes u64 | size u32 | root of containers/page_tree.h | what a payload has after the nodes; if its last node is with the root: bytes u64, the highest bit set | size u32
 *             | root of containers/page_tree.h | size u32 | page of value/stream_nodes.h | what a payload has after the nodes
 *           | of a string: bytes u64 | length u64 | bytes of a block u32
 *   packed  = RDB type u8 | codec u8 (1: zstd, 2: LZ4) | dictionary varint (0: none) | size varint | frame of base/compress.h: the payload's `size` bytes
 *             after its type
 *
 * A value is decoded into the encoding that it had, whatever the limits are now: moving between tiers is invisible. The flags and the
 * type of the payload say which encoding that is.
 *
 * Records in segments have a CRC-32C, checked at every read, so a record has no checksum of its own.
 */
#ifndef KELVIN_TIER_RECORD_H
#define KELVIN_TIER_RECORD_H

#include "base/buffer.h"
#include "base/compress.h"
#include "base/status.h"
#include "keyspace/entry.h"
#include "value/value.h"

struct dictionary;
struct page_tree_root;
struct paged_root;
struct paged_extent;
struct dictionaries;

/* The sizes of payloads that are packed: smaller ones do not get smaller, larger ones would take long under a lock. */
enum { RECORD_PACK_MIN = 64, RECORD_PACK_MAX = 64 * 1024 };
/* The largest size that a packed payload may have when it is read: 16 times RECORD_PACK_MAX, so that later versions may pack larger ones. */
enum { RECORD_UNPACKED_MAX = 1 << 20 };

struct record {
    uint8_t heat;
    uint16_t heat_minutes;
    int64_t expire_ms;          /* -1: never */
    int64_t death_ms;           /* of the last field of a hash; -1: never */
    struct value value;         /* inline strings borrow from the bytes or the scratch buffer */
};

void record_encode(const struct entry *entry, struct buffer *out);

/* Packs the payload of a record that record_encode has made, which is all that `record` has, if the result is smaller by RECORD_PACK_GAIN bytes and by a
 * sixteenth at least. `dictionary` NULL: none. False: the record is as it was. `room` is used, and emptied. */
enum { RECORD_PACK_GAIN = 16 };
static inline size_t record_pack_gain(size_t size)
{
    return size / 16 > RECORD_PACK_GAIN ? size / 16 : RECORD_PACK_GAIN;
}
bool record_pack(struct buffer *record, enum compress_codec codec, struct compressor *compressor, const struct dictionary *dictionary,
    struct buffer *room);
/* The payload of a record that is not packed, as in value/codec.h; empty otherwise. */
struct bytes record_payload(struct bytes bytes);
bool record_is_packed(struct bytes bytes);
/* The number of the dictionary that a packed record needs; 0: none, or it is not packed. */
uint32_t record_dictionary(struct bytes bytes);
/* The same if it can't be used; 0: it can, or none is needed. */
uint32_t record_lacks_dictionary(struct bytes bytes, struct dictionaries *dictionaries);

/* STATUS_CORRUPT for anything that is not a record, or needs a dictionary that is not there; STATUS_VERSION for one of a newer format. `dictionaries` NULL: packed
 * records are read if they need none. */
enum status record_decode(struct bytes bytes, struct dictionaries *dictionaries, const struct value_limits *limits, struct buffer *scratch,
    struct record *record);
/* Only what is before the value. `type` is its value type; `*gone_ms` is when the key expires, by its own expiry or by that of its last
 * field; -1: never. */
enum status record_peek(struct bytes bytes, int64_t *gone_ms, enum value_type *type);
/* The same, and the expiry of its own; -1: none. */
enum status record_peek_times(struct bytes bytes, int64_t *gone_ms, int64_t *expire_ms);

/* The pages of a value in pages, by its record. False: it is another one, or damaged. `root`, that of its table, may be NULL. */
bool record_peek_pages(struct bytes bytes, struct paged_extent *extent, struct paged_root *root);
/* The bound of the first time of a hash in pages (value/paged_times.h). False: it is no record of such a hash, or it has none. */
bool record_peek_first_time(struct bytes bytes, int64_t *first_ms);
/* The length of a string in blocks and the size of these (value/paged_string.h). False: it is no such record. */
bool record_peek_string(struct bytes bytes, uint64_t *length, uint32_t *block);
/* The ends of a list in pages as listpacks, each empty if it has no elements; borrowed. False: it is no such record, or they are damaged. */
bool record_peek_ends(struct bytes bytes, struct bytes ends[2]);
/* The last node of a stream in pages as a page (value/stream_nodes.h), empty if it is in a page; likewise. */
bool record_peek_tail(struct bytes bytes, struct bytes *tail);
/* The tree of a sorted set in pages, which is the caller's to release. False: it is no such record. */
bool record_peek_tree(struct bytes bytes, struct page_tree_root *tree);

/* Splits a record into what is before the value, and the value as its payload (value/codec.h): borrowed from `bytes` or, if it was packed, from
 * `scratch`; not verified. `record->value` stays as it is. For copying values elsewhere. Not of a value in pages: STATUS_INVALID. */
enum status record_split(struct bytes bytes, struct dictionaries *dictionaries, struct buffer *scratch, struct record *record, struct bytes *payload);

#endif
