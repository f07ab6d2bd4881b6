/* What Kelvin does: demotion by uses, with the server's own ghost and census. See src/keyspace/uses.h and src/tier/demotion.c. */
#include "base/mem.h"
#include "keyspace/uses.h"
#include "policy.h"
#include "sweep.h"
#include "tier/census.h"
#include "tier/ghost.h"

enum { AGE_TURNOVERS = 3, AGE_GAP_SHARE = 16, SHARE_ONE = 1 << 20, PARTITIONS = 256, HASH_BITS = 56 };

struct kelvin {
    struct sweep sweep;
    struct entry *entries;
    struct ghost ghosts[PARTITIONS];
    struct census census;
    struct random random;
    uint64_t taken;                 /* keys demoted since uses were halved */
    uint32_t looked_at;             /* keys since the census began */
    uint32_t to_age;                /* keys whose uses are still to be halved */
};

static void *kelvin_create(const struct room *room)
{
    struct kelvin *kelvin = mem_zalloc(sizeof(*kelvin));

    sweep_init(&kelvin->sweep, room);
    kelvin->entries = mem_zalloc(room->key_count * sizeof(struct entry));
    random_init(&kelvin->random, 3);
    return kelvin;
}

static void kelvin_destroy(void *state)
{
    struct kelvin *kelvin = state;

    sweep_release(&kelvin->sweep);
    mem_free(kelvin->entries);
    for (int i = 0; i < PARTITIONS; i++)
        ghost_release(&kelvin->ghosts[i]);
    mem_free(kelvin);
}

static struct ghost *ghost_of(struct kelvin *kelvin, uint32_t key)
{
    return &kelvin->ghosts[(uint64_t)key * PARTITIONS / kelvin->sweep.room->key_count];
}

static uint64_t hash_of(uint32_t key)
{
    struct random random;

    random_init(&random, key);
    return random_next(&random) >> (64 - HASH_BITS);
}

static void demote(struct kelvin *kelvin, uint32_t key)
{
    struct entry *entry = &kelvin->entries[key];

    ghost_note(ghost_of(kelvin, key), hash_of(key), uses_all(entry), kelvin->sweep.count / PARTITIONS);
    sweep_remove(&kelvin->sweep, key);
    kelvin->taken++;
}

static void age_if_due(struct kelvin *kelvin, const uint32_t *counts, uint32_t count, uint32_t share)
{
    struct census_limit limit = census_limit(&kelvin->census, share, SHARE_ONE, counts, count, true);
    bool is_high = kelvin->census.last_total > 0 && limit.rank >= USES_RANKS / 2;

    if (kelvin->taken < (uint64_t)AGE_TURNOVERS * kelvin->sweep.count &&
        !(is_high && kelvin->taken > kelvin->sweep.count / AGE_GAP_SHARE))
        return;
    kelvin->taken = 0;
    kelvin->census = (struct census){ 0 };
    kelvin->to_age = kelvin->sweep.count;
    for (int i = 0; i < PARTITIONS; i++)
        ghost_age(&kelvin->ghosts[i], kelvin->sweep.count / PARTITIONS);
}

/* The server's windows come from all partitions in turn, the simulator's from one end to the other: a census takes the whole way. */
static void kelvin_window(void *state, const uint32_t *keys, int count, int quota)
{
    struct kelvin *kelvin = state;
    uint32_t counts[CENSUS_RANKS] = { 0 }, share = (uint32_t)((uint64_t)quota * SHARE_ONE / (uint64_t)(count > 0 ? count : 1));
    struct census_limit limit;

    for (int i = 0; i < count && kelvin->to_age > 0; i++, kelvin->to_age--)
        kelvin->entries[keys[i]].uses >>= 1;
    for (int i = 0; i < count; i++)
        counts[uses_rank(&kelvin->entries[keys[i]])]++;
    census_add(&kelvin->census, counts, (uint32_t)count);
    limit = census_limit(&kelvin->census, share, SHARE_ONE, counts, (uint32_t)count, true);
    for (int i = 0; i < count; i++) {
        unsigned rank = uses_rank(&kelvin->entries[keys[i]]);

        if (rank < limit.rank || (rank == limit.rank && random_below(&kelvin->random, CENSUS_ONE) < limit.chance))
            demote(kelvin, keys[i]);
    }
    kelvin->looked_at += (uint32_t)count;
    if (kelvin->looked_at >= kelvin->sweep.count) {
        kelvin->looked_at = 0;
        census_turn(&kelvin->census);
        age_if_due(kelvin, counts, (uint32_t)count, share);
    }
}

static bool kelvin_request(void *state, const struct request *request)
{
    struct kelvin *kelvin = state;
    struct entry *entry = &kelvin->entries[request->key];

    if (sweep_has(&kelvin->sweep, request->key)) {
        entry->uses = uses_touched(entry->uses, entry->flags & ENTRY_PROBATION) & USES_MAX;
        entry->flags = 0;
        return true;
    }
    sweep_add(&kelvin->sweep, request->key);
    *entry = (struct entry){ .flags = ENTRY_PROBATION, .uses = ghost_take(ghost_of(kelvin, request->key), hash_of(request->key)) & USES_MAX };
    sweep_run(&kelvin->sweep, kelvin_window, kelvin);
    return false;
}

const struct policy_kind policy_kelvin = { "kelvin", kelvin_create, kelvin_destroy, kelvin_request };
