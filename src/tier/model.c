#include "tier/model.h"

#include <string.h>

#include "base/mem.h"
#include "keyspace/uses.h"

enum {
    LIMIT_VISITS = 64,              /* residents looked at by one limit */
    AGE_TURNOVERS = 3, AGE_GAP_SHARE = 16,      /* as in demotion.c */
    AGE_COUNT_MIN = 64,             /* with fewer residents uses are halved as seldom as with this many: each time takes a look at the whole table */
    ROUND_MIN = 8,                  /* residents that go in one round at least, so that the next one that goes is never far */
    WORD = 64,                      /* slots in a word of `residents` */
};

static unsigned uses_of(uint8_t cell)
{
    return cell & MODEL_USES;
}

static unsigned rank_of(uint8_t cell)
{
    return uses_rank_of(uses_of(cell), cell & MODEL_PROBATION);
}

void model_init(struct model *model, uint32_t slot_count, uint64_t seed)
{
    *model = (struct model){
        .cells = mem_zalloc(slot_count), .residents = mem_zalloc(slot_count / WORD * sizeof(uint64_t)), .slot_count = slot_count,
        .mark = UINT64_MAX, .share = MODEL_SHARE_ONE / 32,
    };
    random_init(&model->random, seed);
}

void model_release(struct model *model)
{
    mem_free(model->cells);
    mem_free(model->residents);
    ghost_release(&model->ghost);
}

static uint64_t bit_of(uint32_t slot)
{
    return UINT64_C(1) << slot % WORD;
}

static void count_in(struct model *model, uint32_t slot, uint32_t size)
{
    uint8_t cell = model->cells[slot];

    model->residents[slot / WORD] |= bit_of(slot);
    model->count++;
    model->size += size;
    model->census.last[rank_of(cell)]++;
    model->census.last_total++;
}

static void count_out(struct model *model, uint32_t slot, uint32_t size)
{
    uint8_t cell = model->cells[slot];

    model->residents[slot / WORD] &= ~bit_of(slot);
    model->count--;
    model->size -= size;
    model->census.last[rank_of(cell)]--;
    model->census.last_total--;
}

void model_replace(struct model *model, uint8_t *cells, uint32_t slot_count, const struct model_key *keys)
{
    mem_free(model->cells);
    mem_free(model->residents);
    model->cells = cells;
    model->residents = mem_zalloc(slot_count / WORD * sizeof(uint64_t));
    model->slot_count = slot_count;
    model->cursor = 0;
    model->count = model->size = 0;
    model->census = (struct census){ 0 };
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        if (cells[slot] != 0)
            count_in(model, slot, keys[slot].size);
    }
}

static void set_cell(struct model *model, uint32_t slot, uint8_t cell)
{
    model->census.last[rank_of(model->cells[slot])]--;
    model->census.last[rank_of(cell)]++;
    model->cells[slot] = cell;
}

void model_add(struct model *model, const struct model_key *keys, uint32_t slot, uint8_t cell)
{
    model->cells[slot] = cell;
    count_in(model, slot, keys[slot].size);
    model_make_room(model, keys);
}

bool model_use(struct model *model, const struct model_key *keys, uint32_t slot)
{
    uint8_t cell = model->cells[slot];

    if (cell == 0) {
        model_add(model, keys, slot, (uint8_t)(MODEL_RESIDENT | MODEL_PROBATION | ghost_take(&model->ghost, keys[slot].hash)));
        return false;
    }
    if (cell != (MODEL_RESIDENT | USES_MAX))
        set_cell(model, slot, (uint8_t)(MODEL_RESIDENT | uses_touched(uses_of(cell), cell & MODEL_PROBATION)));
    return true;
}

void model_resize(struct model *model, uint32_t slot, uint32_t from, uint32_t to)
{
    if (model->cells[slot] != 0)
        model->size += (uint64_t)to - from;
}

void model_remove(struct model *model, uint32_t slot, uint32_t size)
{
    if (model->cells[slot] != 0)
        count_out(model, slot, size);
    model->cells[slot] = 0;
}

void model_move(struct model *model, uint32_t from, uint32_t to)
{
    if (model->cells[from] == 0)
        return;
    model->cells[to] = model->cells[from];
    model->residents[to / WORD] |= bit_of(to);
    model->cells[from] = 0;
    model->residents[from / WORD] &= ~bit_of(from);
}

/* The next slot from this one on, in a circle, that has a resident. There is one. */
static uint32_t next_resident(const struct model *model, uint32_t slot)
{
    uint32_t at = slot / WORD, mask = model->slot_count / WORD - 1;
    uint64_t word = model->residents[at] & ~(bit_of(slot) - 1);

    while (word == 0) {
        at = (at + 1) & mask;
        word = model->residents[at];
    }
    return at * WORD + (uint32_t)__builtin_ctzll(word);
}

static uint32_t slot_after(const struct model *model, uint32_t slot)
{
    return (slot + 1) & (model->slot_count - 1);
}

static void halve_uses(struct model *model)
{
    uint32_t slot = 0;

    memset(model->census.last, 0, sizeof(model->census.last));
    for (uint64_t i = 0; i < model->count; i++) {
        uint8_t cell;

        slot = next_resident(model, slot);
        cell = model->cells[slot];
        cell = (uint8_t)((cell & ~MODEL_USES) | uses_of(cell) >> 1);
        model->cells[slot] = cell;
        model->census.last[rank_of(cell)]++;
        slot = slot_after(model, slot);
    }
    ghost_age(&model->ghost, model->count);
    model->taken = 0;
}

static struct census_limit find_limit(const struct model *model, uint32_t share)
{
    static const uint32_t no_counts[CENSUS_RANKS];

    return census_limit(&model->census, share, MODEL_SHARE_ONE, no_counts, 0, true);
}

/* As in demotion.c. */
static void age_if_due(struct model *model)
{
    bool is_high = find_limit(model, model->share).rank >= USES_RANKS / 2;
    uint64_t count = model->count > AGE_COUNT_MIN ? model->count : AGE_COUNT_MIN;

    if (model->taken >= AGE_TURNOVERS * count || (is_high && model->taken > count / AGE_GAP_SHARE))
        halve_uses(model);
}

/* Up to where the next ones go. */
static struct census_limit next_limit(const struct model *model)
{
    uint64_t least = model->count > ROUND_MIN ? ROUND_MIN * MODEL_SHARE_ONE / model->count : MODEL_SHARE_ONE;

    return find_limit(model, model->share > least ? model->share : (uint32_t)least);
}

static bool is_beyond(struct model *model, struct census_limit limit, unsigned rank)
{
    return rank < limit.rank || (rank == limit.rank && random_below(&model->random, CENSUS_ONE) < limit.chance);
}

static void demote(struct model *model, const struct model_key *keys, uint32_t slot)
{
    uint8_t cell = model->cells[slot];

    ghost_note(&model->ghost, keys[slot].hash, uses_in_all(uses_of(cell), cell & MODEL_PROBATION), model->count);
    model_remove(model, slot, keys[slot].size);
    model->taken++;
}

void model_make_room(struct model *model, const struct model_key *keys)
{
    struct census_limit limit;

    if (model->size <= model->mark)
        return;
    age_if_due(model);
    limit = next_limit(model);
    for (uint64_t visits = 1, count = model->count; model->size > model->mark && visits <= count; visits++) {
        uint32_t slot = next_resident(model, model->cursor);

        if (is_beyond(model, limit, rank_of(model->cells[slot])))
            demote(model, keys, slot);
        if (visits % LIMIT_VISITS == 0)
            limit = next_limit(model);
        model->cursor = slot_after(model, slot);
    }
}
