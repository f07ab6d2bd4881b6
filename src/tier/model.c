#include "tier/model.h"

#include <string.h>

#include "base/mem.h"
#include "keyspace/uses.h"

enum {
    LIMIT_VISITS = 64,              /* residents looked at by one limit */
    AGE_TURNOVERS = 3, AGE_GAP_SHARE = 16,      /* as in demotion.c */
    STEP = 8,                       /* slots that are passed over at a time, if none has a resident */
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
    *model = (struct model){ .cells = mem_zalloc(slot_count), .slot_count = slot_count, .mark = UINT64_MAX, .share = MODEL_SHARE_ONE / 32 };
    random_init(&model->random, seed);
}

void model_release(struct model *model)
{
    mem_free(model->cells);
    ghost_release(&model->ghost);
}

static void count_in(struct model *model, uint8_t cell, uint32_t size)
{
    model->count++;
    model->size += size;
    model->census.last[rank_of(cell)]++;
    model->census.last_total++;
}

static void count_out(struct model *model, uint8_t cell, uint32_t size)
{
    model->count--;
    model->size -= size;
    model->census.last[rank_of(cell)]--;
    model->census.last_total--;
}

void model_replace(struct model *model, uint8_t *cells, uint32_t slot_count, const struct model_key *keys)
{
    mem_free(model->cells);
    model->cells = cells;
    model->slot_count = slot_count;
    model->cursor = 0;
    model->count = model->size = 0;
    model->census = (struct census){ 0 };
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        if (cells[slot] != 0)
            count_in(model, cells[slot], keys[slot].size);
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
    count_in(model, cell, keys[slot].size);
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
        count_out(model, model->cells[slot], size);
    model->cells[slot] = 0;
}

void model_move(struct model *model, uint32_t from, uint32_t to)
{
    model->cells[to] = model->cells[from];
    model->cells[from] = 0;
}

static void halve_uses(struct model *model)
{
    memset(model->census.last, 0, sizeof(model->census.last));
    for (uint32_t slot = 0; slot < model->slot_count; slot++) {
        uint8_t cell = model->cells[slot];

        if (cell == 0)
            continue;
        cell = (uint8_t)((cell & ~MODEL_USES) | uses_of(cell) >> 1);
        model->cells[slot] = cell;
        model->census.last[rank_of(cell)]++;
    }
    ghost_age(&model->ghost, model->count);
    model->taken = 0;
}

static struct census_limit find_limit(const struct model *model)
{
    static const uint32_t no_counts[CENSUS_RANKS];

    return census_limit(&model->census, model->share, MODEL_SHARE_ONE, no_counts, 0);
}

/* As in demotion.c. */
static void age_if_due(struct model *model)
{
    bool is_high = find_limit(model).rank >= USES_RANKS / 2;

    if (model->taken >= AGE_TURNOVERS * model->count || (is_high && model->taken > model->count / AGE_GAP_SHARE))
        halve_uses(model);
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

/* Returns the next slot that has a resident, or the one after `budget` slots. */
static uint32_t next_resident(const struct model *model, uint32_t slot, uint32_t *budget)
{
    while (*budget > 0 && model->cells[slot] == 0) {
        uint32_t step = 1;
        uint64_t cells;

        if (slot % STEP == 0) {
            memcpy(&cells, model->cells + slot, sizeof(cells));
            step = cells == 0 ? STEP : 1;
        }
        slot = (slot + step) & (model->slot_count - 1);
        *budget -= step < *budget ? step : *budget;
    }
    return slot;
}

void model_make_room(struct model *model, const struct model_key *keys)
{
    uint32_t budget = model->slot_count;
    struct census_limit limit;

    if (model->size <= model->mark)
        return;
    age_if_due(model);
    limit = find_limit(model);
    for (int visits = 1; model->size > model->mark && budget > 0; visits++) {
        uint32_t slot = next_resident(model, model->cursor, &budget);

        if (budget == 0)
            break;
        if (is_beyond(model, limit, rank_of(model->cells[slot])))
            demote(model, keys, slot);
        if (visits % LIMIT_VISITS == 0)
            limit = find_limit(model);
        model->cursor = (slot + 1) & (model->slot_count - 1);
        budget--;
    }
}
