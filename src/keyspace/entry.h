/* Entry: a key with its value, in one block of its keyspace's heap.
 *
 *   entry  = header (8) | expire_ms i64, if ENTRY_EXPIRES | key | value
 *   header = type:4 encoding:4 | flags u8 | heat u8 | key_size u8 | heat_minutes u16 | value_size:13 uses:3
 *   key    = key_size bytes; key_size 255: size u32, then the bytes, or a pointer to them over ENTRY_KEY_INLINE_MAX
 *   value  = inline strings: value_size bytes; integers: i64; everything else: a pointer (8 bytes, unaligned)
 *
 * Blocks are multiples of 8 bytes, at least 16. A free block has ENTRY_FREE or ENTRY_FILLER in its first byte (see
 * heap.c), so a segment can be read block by block from its start. Compaction moves blocks: a pointer to one is not
 * valid after the partition's lock was released, except to a pinned entry.
 *
 * Owner: the partition's lock.
 */
#ifndef KELVIN_KEYSPACE_ENTRY_H
#define KELVIN_KEYSPACE_ENTRY_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "value/hash.h"
#include "value/value.h"

enum {
    ENTRY_EXPIRES   = 1 << 0,
    ENTRY_RECORD    = 3 << 1,   /* enum record_state, two bits */
    ENTRY_WRITING   = 1 << 3,   /* its bytes are in the batch that is being written; any change clears the flag (tier rule 6) */
    ENTRY_PROBATION = 1 << 4,   /* has not been touched since it was created or promoted: that use is not in `uses` yet */
    ENTRY_PINNED    = 1 << 5,   /* a client waits for it: neither freed nor demoted (tier rule 5) */
    ENTRY_EPOCH     = 1 << 7,   /* equals the partitions' parity: created, changed or sealed since the last cut */
    ENTRY_LATCHED   = 1 << 6,   /* its object is being encoded without the lock: may be read, but not changed or freed (tier rule 9) */
};

/* The knowledge of an entry about its record in the store (tier rule 2). */
enum record_state {
    RECORD_NONE = 0,    /* there is no record */
    RECORD_UNKNOWN = 1, /* there may be one: a maybe-cold key was overwritten blindly */
    RECORD_STALE = 2,   /* there is one, older than the entry */
    RECORD_CLEAN = 3,   /* there is one, equal to the entry */
};

enum {
    ENTRY_UNIT = 8,
    ENTRY_BLOCK_MIN = 16,
    ENTRY_FREE = 0xff,      /* first byte of a free block */
    ENTRY_FILLER = 0xfe,    /* first byte of 8 unusable bytes */
    ENTRY_KEY_EXTENDED = 255,
    ENTRY_KEY_INLINE_MAX = 2048,
};

struct entry {
    uint8_t type_encoding;
    uint8_t flags;
    uint8_t heat;
    uint8_t key_size;
    uint16_t heat_minutes;
    uint16_t value_size : 13, uses : 3;     /* keyspace/uses.h */
    char body[];
};

static_assert(sizeof(struct entry) == 8 && STRING_INLINE_MAX < 1 << 13, "a header of 8 bytes");

static inline uint8_t entry_type(const struct entry *entry) { return entry->type_encoding & 15; }
static inline uint8_t entry_encoding(const struct entry *entry) { return entry->type_encoding >> 4; }

static inline enum record_state entry_record(const struct entry *entry)
{
    return (enum record_state)((entry->flags & ENTRY_RECORD) >> 1);
}

static inline bool entry_is_inline(const struct entry *entry)
{
    return entry->type_encoding == (VALUE_STRING | STRING_EMBEDDED << 4) ||
           entry->type_encoding == (VALUE_STRING | STRING_RAW << 4);
}

static inline size_t entry_value_space(const struct entry *entry)
{
    return entry_is_inline(entry) ? entry->value_size : 8;
}

static inline const char *entry_key_at(const struct entry *entry)
{
    return entry->body + (entry->flags & ENTRY_EXPIRES ? 8 : 0);
}

static inline struct bytes entry_key(const struct entry *entry)
{
    const char *at = entry_key_at(entry);
    uint32_t size = entry->key_size;

    if (UNLIKELY(size == ENTRY_KEY_EXTENDED)) {
        memcpy(&size, at, 4);
        at += 4;
        if (size > ENTRY_KEY_INLINE_MAX)
            memcpy(&at, at, 8);
    }
    return bytes_of(at, size);
}

/* The size of a key of `key_size` bytes within an entry. */
static inline size_t entry_key_space(size_t key_size)
{
    if (key_size < ENTRY_KEY_EXTENDED)
        return key_size;
    return 4 + (key_size > ENTRY_KEY_INLINE_MAX ? 8 : key_size);
}

static inline char *entry_value_at(const struct entry *entry)
{
    const char *at = entry_key_at(entry);

    if (UNLIKELY(entry->key_size == ENTRY_KEY_EXTENDED)) {
        uint32_t size;

        memcpy(&size, at, 4);
        return (char *)at + entry_key_space(size);
    }
    return (char *)at + entry->key_size;
}

/* A view: inline bytes are borrowed from the entry, and objects still belong to it. Written in place: a copy of what was just written in
 * smaller pieces makes the CPU wait. */
static inline void entry_read_value(const struct entry *entry, struct value *value)
{
    value->type = entry_type(entry);
    value->encoding = entry_encoding(entry);
    if (entry_is_inline(entry))
        value->bytes = bytes_of(entry_value_at(entry), entry->value_size);
    else
        memcpy(&value->integer, entry_value_at(entry), 8);
}

static inline struct value entry_value(const struct entry *entry)
{
    struct value value = { 0 };

    entry_read_value(entry, &value);
    return value;
}

/* Replaces a value that is not inline by another one that is not; the old one's object, if there is one, is the caller's. */
static inline void entry_replace_value(struct entry *entry, const struct value *value)
{
    entry->type_encoding = (uint8_t)(value->type | value->encoding << 4);
    memcpy(entry_value_at(entry), &value->integer, 8);
}

/* -1: no expiry. */
static inline int64_t entry_expire_ms(const struct entry *entry)
{
    int64_t expire_ms = -1;

    if (entry->flags & ENTRY_EXPIRES)
        memcpy(&expire_ms, entry->body, 8);
    return expire_ms;
}

/* True for a value in pages. */
static inline bool entry_is_paged(const struct entry *entry)
{
    return entry->type_encoding & VALUE_PAGED << 4;
}

/* True for a hash with fields that have expiry times of their own. */
static inline bool entry_has_times(const struct entry *entry)
{
    return (entry->type_encoding & (15 | HASH_LISTPACK_TIMES << 4)) == (VALUE_HASH | HASH_LISTPACK_TIMES << 4);
}

static inline int64_t earlier_ms(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* When the key or the next of its fields expires; -1: never. */
static inline int64_t entry_due_ms(const struct entry *entry)
{
    struct value value = { 0 };

    if (LIKELY(!entry_has_times(entry)))
        return entry_expire_ms(entry);
    value = entry_value(entry);
    return earlier_ms(entry_expire_ms(entry), hash_next_expiry(&value));
}

/* When the key ceases to exist, because it or the last of its fields expires; -1: never. */
static inline int64_t entry_death_ms(const struct entry *entry)
{
    struct value value = { 0 };

    if (LIKELY(!entry_has_times(entry)))
        return entry_expire_ms(entry);
    value = entry_value(entry);
    return earlier_ms(entry_expire_ms(entry), hash_last_expiry(&value));
}

static inline uint32_t entry_block_round(size_t size)
{
    size = (size + ENTRY_UNIT - 1) & ~(size_t)(ENTRY_UNIT - 1);
    return size < ENTRY_BLOCK_MIN ? ENTRY_BLOCK_MIN : (uint32_t)size;
}

static inline uint32_t entry_block_size(const struct entry *entry)
{
    return entry_block_round((size_t)(entry_value_at(entry) - (const char *)entry) + entry_value_space(entry));
}

#endif
