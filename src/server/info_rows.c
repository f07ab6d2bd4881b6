#include "server/info_rows.h"

#include <stddef.h>

#include "engine/engine.h"
#include "engine/memory.h"
#include "stats/rates.h"

static const struct info_section sections[] = {
    { "Server", INFO_BY_DEFAULT, info_server },
    { "Clients", INFO_BY_DEFAULT, info_clients },
    { "Memory", INFO_BY_DEFAULT, info_memory },
    { "Persistence", INFO_BY_DEFAULT, info_persistence },
    { "Stats", INFO_BY_DEFAULT, info_stats },
    { "Replication", INFO_BY_DEFAULT, info_replication },
    { "CPU", INFO_BY_DEFAULT, info_cpu },
    { "Modules", INFO_BY_DEFAULT, info_modules },
    { "Commandstats", INFO_WHEN_ASKED, info_command_stats },
    { "Errorstats", INFO_BY_DEFAULT, info_error_stats },
    { "Latencystats", INFO_WHEN_ASKED, info_latency_stats },
    { "Cluster", INFO_BY_DEFAULT, info_cluster },
    { "Tiering", INFO_BY_DEFAULT, info_tiering },
    { "Keyspace", INFO_BY_DEFAULT, info_keyspace },
    { NULL, INFO_WHEN_ASKED, NULL },
};

void info_start(struct engine *engine)
{
    engine->stats.rates = rates_create();
    engine->stats.info = sections;
    engine->memory.startup = memory_used(engine);
}

void info_stop(struct engine *engine)
{
    rates_destroy(engine->stats.rates);
    engine->stats.rates = NULL;
}
