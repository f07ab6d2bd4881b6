#include "engine/role.h"

#include "base/clock.h"

enum { ROLE_FACTS = ROLE_REPLICA | ROLE_LINK_UP | ROLE_SYNCING };

static bool is_on(const struct engine *engine, enum config_id id)
{
    return config_number(engine->config, id) != 0;
}

static uint32_t derive_of_replica(const struct engine *engine, uint32_t facts)
{
    uint32_t bits = 0;

    if (is_on(engine, CONFIG_REPLICA_READ_ONLY))
        bits |= ROLE_READ_ONLY;
    if (!(facts & ROLE_LINK_UP) && !is_on(engine, CONFIG_REPLICA_SERVE_STALE_DATA))
        bits |= ROLE_STALE;
    if (is_on(engine, CONFIG_REPLICA_IGNORE_DISK_WRITE_ERRORS))
        bits |= ROLE_IGNORES_DISKS;
    return bits;
}

static uint32_t derive_of_primary(const struct engine *engine)
{
    int64_t wanted = config_number(engine->config, CONFIG_MIN_REPLICAS_TO_WRITE);
    bool has_few = wanted > 0 && is_on(engine, CONFIG_MIN_REPLICAS_MAX_LAG) && engine->role.good_replicas < wanted;

    return (has_few ? ROLE_FEW_REPLICAS : 0) | (engine->role.lease_end_us != ROLE_LEASE_FREE ? ROLE_LEASED : 0);
}

/* A thread that derives from an old configuration may come last; the next cron corrects that. */
static void change_facts(struct engine *engine, uint32_t clear, uint32_t set)
{
    uint32_t before = engine->role.bits, facts;

    do {
        facts = (before & ROLE_FACTS & ~clear) | set;
    } while (!atomic_compare_exchange_weak(&engine->role.bits, &before,
        facts | (facts & ROLE_REPLICA ? derive_of_replica(engine, facts) : derive_of_primary(engine))));
}

void role_set_replica(struct engine *engine, bool is_replica)
{
    engine->role.link_down_ms = 0;
    change_facts(engine, ROLE_FACTS, is_replica ? ROLE_REPLICA : 0);
    waiting_bump(&engine->waiting);
    if (is_replica && engine->tier != NULL)
        tier_set_expiry(engine->tier, false);       /* on again in a tick of the cron */
}

void role_set_link(struct engine *engine, bool is_up)
{
    if (is_up)
        engine->role.link_down_ms = 0;
    else if (role_link_is_up(engine))
        engine->role.link_down_ms = clock_mono_us() / 1000;
    change_facts(engine, ROLE_LINK_UP, is_up ? ROLE_LINK_UP : 0);
}

void role_set_syncing(struct engine *engine, bool is_syncing)
{
    change_facts(engine, ROLE_SYNCING, is_syncing ? ROLE_SYNCING : 0);
}

void role_set_good_replicas(struct engine *engine, int count)
{
    if (engine->role.good_replicas == count)
        return;
    engine->role.good_replicas = count;
    role_refresh(engine);
}

void role_set_lease(struct engine *engine, int64_t end_us)
{
    engine->role.lease_end_us = end_us;
    role_refresh(engine);
}

void role_need_lease(struct engine *engine)
{
    int64_t free = ROLE_LEASE_FREE;

    if (atomic_compare_exchange_strong(&engine->role.lease_end_us, &free, ROLE_LEASE_NONE))
        role_refresh(engine);
}

bool role_lease_has_ended(const struct engine *engine)
{
    return clock_mono_us() >= engine->role.lease_end_us;
}

void role_refresh(struct engine *engine)
{
    change_facts(engine, 0, 0);
}

int64_t role_link_down_s(const struct engine *engine)
{
    int64_t since_ms = engine->role.link_down_ms, now_ms = clock_mono_us() / 1000;

    if (since_ms == 0)
        return -1;
    return now_ms > since_ms ? (now_ms - since_ms) / 1000 : 0;
}
