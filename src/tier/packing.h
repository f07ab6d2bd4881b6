/* Packing: which records are written compressed (tier-compression), by which codec, and by which dictionary. The writer only, but for the counters.
 *
 * Each record is packed by itself, as it is encoded: a cold key is still one small read. Values that do not get smaller cost CPU for nothing, so a
 * database in which the last ones did not is tried again with each PACKING_RETRY-th value only. While clients wait for memory nothing is packed: demotion is
 * what they wait for.
 */
#ifndef KELVIN_TIER_PACKING_H
#define KELVIN_TIER_PACKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/compress.h"
#include "keyspace/partition.h"

struct dictionary;
struct tier;

enum {
    PACKING_RETRY = 64,
    PACKING_WORTH_PERCENT = 115,        /* the least ratio at which each value is tried */
    PACKING_WORK = 4, PACKING_WORK_LZ4 = 2,     /* a byte that is packed takes as long as this number of bytes that are only encoded, about */
};

/* tier_settings.compression, in the order of its words; a codec has its own number. */
enum packing_codec { PACKING_NO, PACKING_ZSTD = COMPRESS_ZSTD, PACKING_LZ4 = COMPRESS_LZ4 };

/* Bytes before and after, of values that were tried; halved when there are many, so that it is about the last ones. */
struct packing_ratio {
    uint64_t before, after;
};

struct packing_database {
    struct packing_ratio ratio;
    unsigned passed;                    /* values that were not tried since the last one that was */
    const struct dictionary *dictionary;        /* of the store; NULL: none */
    struct packing_ratio since;         /* of values of TRAINING_VALUE_MAX bytes at most, with that dictionary, tried or not */
    uint32_t expected_permille;         /* the ratio of such values by which `since` is judged; 0: not known yet */
    uint64_t candidate_bytes;           /* training.c: of such values, since a database was last chosen */
    int64_t next_try_s;                 /* seconds since 1970: no dictionary is made for it before */
};

struct packing {
    enum packing_codec codec;           /* the last one that was not PACKING_NO: whose ratios the databases have */
    struct compressor *compressor;      /* NULL: nothing was tried yet */
    struct buffer room;
    struct packing_database *databases; /* by number; `count` of them */
    int count;
    bool is_hurried;                    /* clients wait for memory, or for demotion to make progress */
    /* For INFO: since the start; and of the last 64 MiB of values that have the size for it, tried or not. */
    _Atomic uint64_t records, saved_bytes;
    struct packing_ratio recent;
    _Atomic uint32_t recent_percent;    /* 0: there was none */
};

void packing_release(struct packing *packing);
/* Another store takes the place of the one whose dictionaries were used. */
void packing_forget(struct packing *packing);

/* Packs an encoded record, which is all that the buffer has, of a value of database `db`, if that is worth it. Returns the work that this was,
 * in bytes: what encoding as much would be. A partition may be locked. */
size_t packing_pack(struct tier *tier, int db, struct buffer *record);
/* Any thread. */
double packing_info_ratio(const struct packing *packing);

/* A batch was written, or clean keys were demoted without one. No partition is locked. */
void packing_after_batch(struct tier *tier);

#endif
