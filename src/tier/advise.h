/* Advise: what the hit ratio would be with more or less memory.
 *
 * Of all keys, those whose hashes are below a limit are sampled, so each sampled key is seen with all its uses (SHARDS: Waldspurger, Park,
 * Garthwaite, Ahmad, FAST 2015). For each of ADVISE_SIZES sizes of memory a model (tier/model.h) runs the server's own policy over the sampled keys,
 * with its share of that memory (miniature simulation: Waldspurger, Saemundsson, Ahmad, Park, USENIX ATC 2017). The limit begins at one key
 * in 128 and is halved when ADVISE_KEYS_MAX keys are sampled.
 *
 * What is estimated is the number of misses, the sampled ones divided by the share of keys that is sampled; all uses are counted exactly, by
 * the workers. So it hardly matters whether the hottest key of all is in the sample.
 *
 * Sums halve in ADVISE_HALF_LIFE_S. They begin again when maxmemory changes, and by CONFIG RESETSTAT; the models go on.
 *
 * Lock: its own, a leaf; uses are counted under a partition's lock. Memory: 42 bytes for each slot, of which a quarter is free at least,
 * and 2 to 4 for each resident of a model in its ghost: 2.5 MB at most, and 3.8 MB while tables are made again.
 */
#ifndef KELVIN_TIER_ADVISE_H
#define KELVIN_TIER_ADVISE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/status.h"

struct buffer;

enum {
    ADVISE_SIZES = 16, ADVISE_OCTAVE = 3,       /* sizes are 2^(1/3) apart */
    ADVISE_PRESENT = 7,                         /* the size that is maxmemory: they are 0.2 to 6.3 times that */
    ADVISE_KEYS_MAX = 24576,
    ADVISE_HALF_LIFE_S = 6 * 3600,
};
static const uint32_t ADVISE_LIMIT_MAX = UINT32_C(1) << 25;     /* of the lower 32 bits of a hash */

enum advise_kind {
    ADVISE_USE,             /* its value was needed */
    ADVISE_OVERWRITE,       /* it was not, but the key was in RAM */
    ADVISE_CREATE,          /* the key has got an entry that it did not have */
};

/* A use of a sampled key, before it is counted in the entry. */
struct advise_use {
    enum advise_kind kind;
    uint64_t hash;
    uint32_t incarnation;   /* of its database */
    uint32_t size, outside; /* bytes in RAM; of these, outside the entry */
    uint8_t uses;           /* keyspace/uses.h */
    bool on_probation;
    bool is_cold;           /* it had, or may have had, to be loaded */
};

/* The result. Counts are as of the last tick. */
struct advise_estimate {
    double seconds;                         /* that count */
    double uses;                            /* of existing keys, in these; blind writes included */
    double unknown;                         /* of these, the sampled share of uses of keys that were not in the sample yet */
    double hit_ratio[ADVISE_SIZES];         /* 0 .. 1; those of hits and misses of uses that are neither a blind write nor unknown */
    double misses[ADVISE_SIZES];            /* reads of the store */
    uint32_t sampled_keys;
    double sampled_share;                   /* of all keys; about this share of the uses was sampled */
};

/* Measures of the server, for the tick. */
struct advise_measures {
    int64_t now_us;                         /* monotonic */
    uint64_t resets;                        /* of the next three, by CONFIG RESETSTAT: read before them */
    uint64_t hot_hits, cold_hits, blind_writes;     /* ever growing otherwise */
    uint64_t memory_max, memory_used;       /* bytes; used: as demotion counts it */
    uint32_t high_percent, low_percent;     /* watermarks */
    uint64_t write_buffer;                  /* bytes: of memory_used at maxmemory, what grows with it (up to a limit) ... */
    uint64_t write_buffer_max;              /* ... which is this */
    double record_size;                     /* bytes of RAM for the record of a cold key */
    uint64_t hot_keys, hot_bytes;           /* entries, and the bytes of these with their tables */
};

struct advise;

struct advise *advise_create(uint64_t seed);
void advise_destroy(struct advise *advise);     /* NULL is fine */

/* Hashes with lower halves below this are sampled: for ADVISE_LIMIT_MAX, one in 128. Any thread, at any time. */
static inline bool advise_samples(const _Atomic uint32_t *limit, uint64_t hash)
{
    return (uint32_t)hash < atomic_load_explicit(limit, memory_order_relaxed);
}

/* By threads that hold a partition or none. `limit` is where the caller keeps the limit; 0: off, and it stays so until advise_tick. */
void advise_use(struct advise *advise, const struct advise_use *use, _Atomic uint32_t *limit);
void advise_remove(struct advise *advise, uint64_t hash, uint32_t incarnation);     /* it was deleted */
void advise_forget(struct advise *advise);                      /* some database was flushed: advise_sweep is due */

/* The last tick was a second ago or more. */
bool advise_is_due(struct advise *advise, int64_t now_us);
/* About once a second, by one thread: takes sums over, and adapts the models' marks. It turns sampling on. */
void advise_tick(struct advise *advise, const struct advise_measures *measures, _Atomic uint32_t *limit);
/* After advise_forget: keys of other incarnations than these `count`, which are sorted, go. True: it was due. */
bool advise_sweep_is_due(struct advise *advise);
void advise_sweep(struct advise *advise, const uint32_t *incarnations, size_t count);
void advise_clear(struct advise *advise, _Atomic uint32_t *limit);  /* off: all is forgotten */
void advise_reset(struct advise *advise);                       /* the sums begin again */

void advise_look(struct advise *advise, struct advise_estimate *estimate);
/* The size in units of maxmemory: 2^((index - ADVISE_PRESENT) / ADVISE_OCTAVE). */
double advise_factor(double index);
/* Between two sizes, linear in the logarithm of the size. */
double advise_between(const double values[ADVISE_SIZES], double index);

/* Bytes that it had, for a file beside the image: see docs/formats/aof.md. The ghosts are not in them. */
void advise_encode(struct advise *advise, struct buffer *out);
/* STATUS_VERSION, STATUS_CORRUPT: nothing was changed. Before there are uses. `limit`, as for advise_use, is set, so that deletes are reported;
 * uses do not count before the next tick. */
enum status advise_decode(struct advise *advise, struct bytes text, _Atomic uint32_t *limit);

size_t advise_memory(struct advise *advise);                    /* bytes that it has */

#endif
