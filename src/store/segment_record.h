/* The bytes of a segment (docs/formats/segment.md): a head, then records, each at a multiple of SEGMENT_UNIT, the last one the footer.
 *
 *   head   = "KSEG3\n\0\0" | sequence u64 | slot u32 | CRC-32C of the 20 bytes before it u32 | zeros
 *   record = crc u32 | kind and value size varint | incarnation varint | key size varint | key | value | zeros
 *   mark   = a record of incarnation 0 without a key: stamp u64
 *   uses   = a record of incarnation 0 with the key "uses": SEGMENT_USES_MAX numbers of dictionaries u32, 0: none
 *   footer = the same as a mark: weight u64 | count u64 | stamp u64; of kind 1 if the record before it is `uses`
 *
 * Several segments are written at a time. Stamps say in which order their records were written: a record's stamp is that of the mark before it in
 * its file, or the file's sequence; sequences and the stamps of marks are of one ascending count.
 *
 * Little-endian; varint: base/varint.h. `crc` is the CRC-32C of what follows it, up to the end of the value. The kind has the lowest 3 bits of its
 * number.
 */
#ifndef KELVIN_STORE_SEGMENT_RECORD_H
#define KELVIN_STORE_SEGMENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

enum {
    SEGMENT_UNIT = 16,
    SEGMENT_HEAD_SIZE = 32,
    SEGMENT_MARK_SIZE = SEGMENT_UNIT,
    SEGMENT_RECORD_HEAD_MAX = 32,   /* bytes before the key */
    SEGMENT_KIND_BITS = 3,
    SEGMENT_RECORD_MAX = 2 << 20,   /* bytes of a record that is not huge */
    SEGMENT_USES_MAX = 16,
};

/* The dictionaries that records of a segment need, dead ones too. */
struct segment_uses {
    uint32_t numbers[SEGMENT_USES_MAX];         /* 0: none, from there on */
    bool are_known;                             /* else any dictionary may be needed */
};

struct segment_head {
    uint64_t sequence;
    uint32_t slot;
};

struct segment_footer {
    uint64_t weight, count;         /* of the records */
    uint64_t stamp;                 /* of the last one; version 2: 0, all have the file's sequence */
};

struct segment_record {
    uint32_t incarnation;           /* 0: a mark, uses, or the footer */
    unsigned kind;                  /* the caller's, of SEGMENT_KIND_BITS: the type of the value */
    struct bytes key, value;        /* in the bytes that were parsed */
};

/* Appends a record. Returns the bytes that it takes. */
uint64_t segment_record_append(struct buffer *out, uint32_t incarnation, unsigned kind, struct bytes key, struct bytes value);
/* The same without appending it. */
uint64_t segment_record_size(uint32_t incarnation, unsigned kind, size_t key_size, size_t value_size);

/* A record at the beginning of `data`. `*size` is set to the bytes that it takes. STATUS_TRUNCATED: `data` ends before the record does;
 * `*size` is the least number of bytes that are needed to know more. STATUS_CORRUPT: this is no record. */
enum status segment_record_parse(struct bytes data, struct segment_record *record, uint64_t *size);

/* The same for what may be a record at `offset` of a file. A huge one is only at the beginning: otherwise a search for the records after damaged bytes,
 * each of which may say any size, would read the rest of the file again and again. */
enum status segment_record_parse_at(uint64_t offset, struct bytes data, struct segment_record *record, uint64_t *size);

/* Reads incarnation and key of a record from damaged bytes; they may be wrong. False: they can't be read. */
bool segment_record_guess(struct bytes data, struct segment_record *record);

void segment_head_append(struct buffer *out, uint64_t sequence, uint32_t slot);
/* STATUS_VERSION: a newer Kelvin's; the checksum is at the same place in all versions. */
enum status segment_head_parse(struct bytes data, struct segment_head *head);

void segment_mark_append(struct buffer *out, uint64_t stamp);
/* Whether a record is a mark. */
bool segment_mark_parse(const struct segment_record *record, uint64_t *stamp);

/* `uses` NULL, or not known: without them. */
void segment_footer_append(struct buffer *out, const struct segment_footer *footer, const struct segment_uses *uses);
uint64_t segment_footer_size(void);          /* bytes that it takes, in both versions, without uses */
uint64_t segment_uses_size(void);
/* The end of a file: segment_uses_size bytes and the footer. Not known if there are none. */
void segment_uses_parse(struct bytes end, struct segment_uses *uses);
bool segment_is_uses(const struct segment_record *record);
/* Adds a dictionary, unless its number is 0. */
void segment_uses_add(struct segment_uses *uses, uint32_t number);
bool segment_uses_have(const struct segment_uses *uses, uint32_t number);        /* may have */
/* Whether a record is a footer. */
bool segment_footer_parse(const struct segment_record *record, struct segment_footer *footer);

#ifdef __cplusplus
}
#endif
#endif
