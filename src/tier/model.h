/* Model: which of a sample of keys would be hot if there were more or less memory; the policy of tier/demotion.h, in one byte for each key.
 *
 *   cell = resident 0x80 | on probation 0x40 | uses 0..7;  0: the key is not resident
 *
 * The rules of the uses, the limit by census and the ghost are the server's own (keyspace/uses.h, tier/census.h, tier/ghost.h). Two things are
 * simpler: residents leave one window after the other as others come, between the two marks, instead of from above the high mark to the low
 * one; and the census is always exact.
 *
 * Owner: the caller's lock. Memory: nine bits for each slot, and the ghost's.
 */
#ifndef KELVIN_TIER_MODEL_H
#define KELVIN_TIER_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "tier/census.h"
#include "tier/ghost.h"

enum { MODEL_RESIDENT = 0x80, MODEL_PROBATION = 0x40, MODEL_USES = 7, MODEL_SHARE_ONE = 1024 };

/* A key of the sample. `size` 0: the slot is free. */
struct model_key {
    uint64_t hash;
    uint32_t incarnation;
    uint32_t size;              /* bytes in RAM while it is hot */
    uint32_t outside;           /* of these, outside the entry */
};

struct model {
    uint8_t *cells;             /* by slot */
    uint64_t *residents;        /* a bit for each slot: its cell is not 0. Few residents among many slots are found fast */
    uint32_t slot_count;        /* a power of two, at least 64 */
    uint32_t cursor;            /* the slot at which demotion continues */
    uint64_t mark;              /* bytes of residents: more do not stay */
    uint32_t share;             /* of MODEL_SHARE_ONE: how much of the residents goes in one round of the slots; eight at least */
    uint64_t count, size;       /* residents, and their bytes */
    uint64_t taken;             /* demoted since uses were halved */
    struct census census;       /* `last` only */
    struct ghost ghost;
    struct random random;
};

/* Nothing is resident, and the mark is UINT64_MAX. */
void model_init(struct model *model, uint32_t slot_count, uint64_t seed);
void model_release(struct model *model);
/* The keys have moved: `cells`, of `slot_count`, becomes the model's, and the sums are computed again. */
void model_replace(struct model *model, uint8_t *cells, uint32_t slot_count, const struct model_key *keys);

static inline bool model_has(const struct model *model, uint32_t slot) { return model->cells[slot] & MODEL_RESIDENT; }
/* A use of a key. Returns whether it was resident; it is afterwards. */
bool model_use(struct model *model, const struct model_key *keys, uint32_t slot);
/* Becomes resident with this cell, without a use. It was not. */
void model_add(struct model *model, const struct model_key *keys, uint32_t slot, uint8_t cell);
void model_resize(struct model *model, uint32_t slot, uint32_t from, uint32_t to);     /* the key's size */
void model_remove(struct model *model, uint32_t slot, uint32_t size);                  /* it was deleted */
void model_move(struct model *model, uint32_t from, uint32_t to);                      /* to another slot, which is free */
/* Residents leave until they are within the mark, or each was looked at once. */
void model_make_room(struct model *model, const struct model_key *keys);

#endif
