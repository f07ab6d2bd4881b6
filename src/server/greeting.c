#include "server/greeting.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/version.h"
#include "engine/engine.h"
#include "stats/info.h"

static void note_unused(void *context, const char *name, struct bytes value)
{
    struct engine *engine = context;

    log_write(engine->log, LOG_LEVEL_WARNING, "The directive '%s %.*s' is known but does nothing in Kelvin yet.", name, (int)value.size, value.data);
}

static bool note_unused_change(void *context, enum config_id id, struct message *message)
{
    struct engine *engine = context;

    log_write(engine->log, LOG_LEVEL_WARNING, "CONFIG SET %s: the directive is known but does nothing in Kelvin.", config_name(id));
    return true;
}

static void log_durability(struct engine *engine)
{
    static const char *const losses[] = {
        [CONFIG_FSYNC_ALWAYS] = "always: a crash loses no acknowledged write",
        [CONFIG_FSYNC_EVERYSEC] = "everysec: a crash of this process loses no acknowledged write, one of the machine those of about the last second",
        [CONFIG_FSYNC_NO] = "no: a crash of this process loses no acknowledged write, one of the machine those that the kernel has not yet written",
    };
    char *points = config_string(engine->config, CONFIG_SAVE);

    if (config_number(engine->config, CONFIG_APPENDONLY))
        log_write(engine->log, LOG_LEVEL_NOTICE, "appendonly yes, appendfsync %s", losses[config_number(engine->config, CONFIG_APPENDFSYNC)]);
    else if (points[0] != '\0')
        log_write(engine->log, LOG_LEVEL_NOTICE, "appendonly no: a crash loses what was written since the last dump (save %s)", points);
    else
        log_write(engine->log, LOG_LEVEL_WARNING,
            "appendonly is no, and there are no save points: the data does not survive the end of this process.");
    mem_free(points);
}

static void log_memory(struct engine *engine)
{
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY), size_max = config_number(engine->config, CONFIG_TIER_MAX_SIZE);
    char *store = config_string(engine->config, CONFIG_TIER_DIR), *policy = config_string(engine->config, CONFIG_MAXMEMORY_POLICY);
    char human[32], most[32];

    info_human((uint64_t)limit, human);
    info_human((uint64_t)size_max, most);
    if (limit == 0)
        log_write(engine->log, LOG_LEVEL_NOTICE, "maxmemory 0: memory has no limit, and no key is ever moved to the disk");
    else if (!config_number(engine->config, CONFIG_TIER_ENABLED))
        log_write(engine->log, LOG_LEVEL_NOTICE, "maxmemory %s, tier-enabled no: no key is moved to the disk; when memory is full, maxmemory-policy %s "
            "decides", human, policy);
    else
        log_write(engine->log, LOG_LEVEL_NOTICE, "maxmemory %s: above %" PRId64 " %% of it the coldest keys are moved to the store '%s'%s%s", human,
            config_number(engine->config, CONFIG_TIER_HIGH_WATERMARK), store, size_max > 0 ? ", up to tier-max-size " : "", size_max > 0 ? most : "");
    mem_free(store);
    mem_free(policy);
}

void greeting_log(struct engine *engine)
{
    const char *file = config_file(engine->config);
    char *dir = config_string(engine->config, CONFIG_DIR);

    log_write(engine->log, LOG_LEVEL_NOTICE, "Kelvin %s (%s build) is starting, pid %d, as Redis %s to its clients", KELVIN_VERSION, KELVIN_BUILD,
        (int)getpid(), REDIS_VERSION);
    if (file != NULL)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Configuration loaded from %s", file);
    log_write(engine->log, LOG_LEVEL_NOTICE, "Data directory: %s", dir);
    config_unused(engine->config, note_unused, engine);
    config_on_change_of_unused(engine->config, note_unused_change, engine);
    log_durability(engine);
    log_memory(engine);
    mem_free(dir);
}
