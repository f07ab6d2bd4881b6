#include "lifecycle/opening.h"

#include <libgen.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/progress_report.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "engine/scripts.h"
#include "lifecycle/aof_switch.h"
#include "lifecycle/image_import.h"
#include "lifecycle/kept_log.h"
#include "persist/backup.h"
#include "persist/checkpoint.h"
#include "script/library_dump.h"
#include "store/store.h"

enum { LOCK_WAIT_MS = 5000, LOCK_LOOK_MS = 50 };

/* A server that is ending holds its locks until it has closed its last file; another one that serves the data does so for longer. False:
 * it has been waited for. `*began_ms` is 0 at first. */
static bool wait_for_lock(struct engine *engine, const char *dir, int64_t *began_ms)
{
    struct timespec pause = { 0, LOCK_LOOK_MS * 1000000l };
    int64_t now_ms = clock_mono_us() / 1000;

    if (*began_ms == 0) {
        *began_ms = now_ms;
        log_write(engine->log, LOG_LEVEL_NOTICE, "'%s' is in use by another process: waiting %d seconds for its end", dir, LOCK_WAIT_MS / 1000);
    }
    if (now_ms - *began_ms >= LOCK_WAIT_MS)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

enum { TIER_RESERVE = 64 << 20 };

/* `dir`, or where it is going to be created. Freed with mem_free. */
static char *existing_directory(const char *dir)
{
    char *copy = mem_string(bytes_of_string(dir)), *parent;

    if (access(dir, F_OK) == 0)
        return copy;
    parent = mem_string(bytes_of_string(dirname(copy)));
    mem_free(copy);
    return parent;
}

bool opening_log_fits(struct config *config, struct message *message)
{
    char *store = config_string(config, CONFIG_TIER_DIR), *log = config_string(config, CONFIG_APPENDDIRNAME);
    char *store_place = existing_directory(store), *log_place = existing_directory(log);
    bool is_one = tree_is_one_mount(store_place, log_place), fits = is_one && tree_has_links(store_place);

    if (is_one && !fits)
        message_set(message, "the file system of tier-dir '%.60s' has no hard links: checkpoints would copy the whole store. Set dir and tier-dir to "
            "directories on one that has", store);
    else if (!fits)
        message_set(message, "tier-dir '%.60s' is not on the file system of '%.30s': checkpoints would copy the whole store. Set tier-dir to a "
            "directory on that file system", store, log);
    mem_free(store);
    mem_free(log);
    mem_free(store_place);
    mem_free(log_place);
    return fits;
}

bool opening_check_places(struct engine *engine)
{
    struct message message = { "" };

    if (!config_number(engine->config, CONFIG_APPENDONLY) || opening_log_fits(engine->config, &message))
        return true;
    log_write(engine->log, LOG_LEVEL_WARNING, "%s. Nothing was changed.", message.text);
    return false;
}

bool opening_tier(struct opening *opening, const struct opening_tier *needs, struct key_seed *seed)
{
    struct engine *engine = opening->engine;
    struct config *config = engine->config;
    char *dir = config_string(config, CONFIG_TIER_DIR), *images = config_string(config, CONFIG_APPENDDIRNAME);
    struct message message = { "" };
    int64_t began_ms = 0;
    struct tier_options options = {
        .dir = dir,
        .image = opening->image,
        .holds_merges = opening->image != NULL,
        .images = images,
        .write_buffer_size = needs->write_buffer_size,
        .block_cache_size = (size_t)config_number(config, CONFIG_TIER_BLOCK_CACHE),
        .compression = config_number(config, CONFIG_TIER_COMPRESSION),
        .by_slot = config_number(config, CONFIG_CLUSTER_ENABLED),
        .reserve_size = TIER_RESERVE,
        .segment_size = (uint64_t)config_number(config, CONFIG_TIER_SEGMENT_SIZE),
        .descriptors_max = needs->descriptors_max,
        .loader_count = (int)config_number(config, CONFIG_TIER_LOAD_THREADS),
        .hooks = needs->hooks,
    };

    while (store_is_locked(dir) && wait_for_lock(engine, dir, &began_ms))
        ;
    engine->tier = tier_open(&options, &message);
    if (engine->tier != NULL)
        backup_clean(dir);          /* not before: it may be another server's */
    mem_free(images);
    if (engine->tier == NULL) {
        log_write(engine->log, LOG_LEVEL_WARNING, "Can't open the cold tier's store '%s': %s", dir, message.text);
        mem_free(dir);
        return false;
    }
    *seed = tier_seed(engine->tier);
    mem_free(dir);
    return true;
}

static enum aof_fsync fsync_policy(const struct config *config)
{
    switch (config_number(config, CONFIG_APPENDFSYNC)) {
    case CONFIG_FSYNC_ALWAYS: return AOF_FSYNC_ALWAYS;
    case CONFIG_FSYNC_NO: return AOF_FSYNC_NO;
    default: return AOF_FSYNC_EVERYSEC;
    }
}

/* The log begins with an image, or with nothing. */
static void find_image(struct opening *opening, const char *dir)
{
    const char *base = aof_base(opening->engine->aof);
    struct history_point point;
    struct buffer path = { 0 };
    char *image;

    checkpoint_clean(dir, base);
    if (base == NULL)
        return;
    buffer_append_format(&path, "%s/%s", dir, base);
    image = mem_string(buffer_bytes(&path));
    if (checkpoint_point(image, &point))
        aof_set_base_point(opening->engine->aof, &point);
    if (checkpoint_is_by_slot(image) == (config_number(opening->engine->config, CONFIG_CLUSTER_ENABLED) != 0))
        opening->image = image;
    else
        opening->other_image = image;
    buffer_release(&path);
}

bool opening_restore_functions(struct engine *engine, const char *image)
{
    struct buffer dump = { 0 }, error = { 0 };
    struct message message = { "" };
    struct scripts_load load;
    bool good = checkpoint_functions(image, &dump, &message) == STATUS_OK;

    if (!good) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The functions of the image can't be restored: %s", message.text);
        return false;
    }
    if (library_dump_is_newer(buffer_bytes(&dump))) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The functions of the image '%s' were written by a newer Kelvin", image);
        buffer_release(&dump);
        return false;
    }
    scripts_load_init(&load, engine, SCRIPTS_OF_DATA);
    if (dump.size > 0)
        good = registry_load_dump(&load.load, buffer_bytes(&dump), SIZE_MAX, &error) && registry_load_publish(&load.load, REGISTRY_REPLACES_ALL, &error);
    if (!good)
        log_write(engine->log, LOG_LEVEL_WARNING, "The functions of the image '%s' can't be restored: %.*s", image, (int)error.size, error.data);
    scripts_load_release(&load);
    buffer_release(&dump);
    buffer_release(&error);
    return good;
}

bool opening_restore_image(struct opening *opening)
{
    struct engine *engine = opening->engine;
    struct message message = { "" };
    uint64_t number = 0;
    enum status status;

    if (opening->image == NULL)
        return true;
    if (checkpoint_dataset(opening->image, engine->partitions, &number, &message) != STATUS_OK) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The image can't be restored: %s", message.text);
        return false;
    }
    if (!message_is_empty(&message))
        log_write(engine->log, LOG_LEVEL_WARNING, "%s. kelvin-check --repair makes a new one; so does the next checkpoint", message.text);
    if (!opening_restore_functions(engine, opening->image))
        return false;
    status = tier_restore(engine->tier, opening->image, number);
    if (status != STATUS_OK) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The image '%s' can't be restored: %s", opening->image, status_name(status));
        return false;
    }
    log_write(engine->log, LOG_LEVEL_NOTICE, "Restored the image '%s'", opening->image);
    return true;
}

enum status opening_convert(const struct opening *opening, struct message *message)
{
    static const struct import_rules rules = { .twins = IMPORT_REFUSES_TWINS };
    struct engine *engine = opening->engine;

    if (opening->other_image == NULL)
        return STATUS_OK;
    log_write(engine->log, LOG_LEVEL_NOTICE, "cluster-enabled is %s, and was not when the image '%s' was written: its keys are put in one by one, under "
        "other hashes", config_number(engine->config, CONFIG_CLUSTER_ENABLED) ? "yes" : "no", opening->other_image);
    return image_import(engine, opening->other_image, &rules, message);
}

/* A dump exists. Without a log it is the data, as with Redis. With a log that is yet to be created it becomes its base (redis-server would
 * start empty, and the data would seem to be lost). With a log that exists the log is the data: provenance_check. */
static void find_dump(struct opening *opening)
{
    struct engine *engine = opening->engine;
    char *name = config_string(engine->config, CONFIG_DBFILENAME);

    if (name[0] != '\0' && access(name, F_OK) == 0) {
        if (engine->aof == NULL) {
            opening->dump = mem_string(bytes_of_string(name));
        } else if (aof_is_new(engine->aof)) {
            log_write(engine->log, LOG_LEVEL_WARNING, "There is no append only file yet: '%s' is imported, and the log begins with it. "
                "(redis-server would start empty here.)", name);
            aof_adopt(engine->aof, name);
        }
    }
    mem_free(name);
}

/* Settles what a checkpoint has left that was under way when the server died. */
static void settle_kept_log(struct engine *engine, const char *dir)
{
    char kept[TREE_PATH_SIZE];

    if (kept_log_settle(engine->aof, dir, kept))
        log_write(engine->log, LOG_LEVEL_WARNING, "The log before the last checkpoint is kept in '%s': it has values of cold keys that can't be read. "
            "A server that is started with --appenddirname '%s' has them", kept, kept);
}

bool opening_log(struct opening *opening)
{
    struct engine *engine = opening->engine;
    struct config *config = engine->config;
    char *dir = config_string(config, CONFIG_APPENDDIRNAME), *name = config_string(config, CONFIG_APPENDFILENAME);
    struct message message = { "" };
    struct aof_options options = {
        .dir = dir,
        .name = name,
        .fsync = fsync_policy(config),
        .load_truncated = config_number(config, CONFIG_AOF_LOAD_TRUNCATED),
        .history = &engine->history,
        .meter = engine->meter,
        .closer = engine->closer,
    };
    struct aof *aof = NULL;
    bool good = true;

    aof_switch_clean(engine);
    if (config_number(config, CONFIG_APPENDONLY)) {
        enum status status;
        int64_t began_ms = 0;

        do {
            status = aof_open(&options, &aof, &message);
        } while (status == STATUS_LOCKED && wait_for_lock(engine, dir, &began_ms));
        good = status == STATUS_OK;
        engine->aof = aof;
        if (!good)
            log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
    }
    if (good && engine->aof != NULL) {
        settle_kept_log(engine, dir);
        engine_attach_aof(engine, aof);
        aof_on_import(engine->aof, import_base, engine);
        if (aof_adopted(engine->aof) != NULL)
            log_write(engine->log, LOG_LEVEL_NOTICE, "'%s' is of before Redis 7: it is loaded, and goes into the directory '%s'",
                aof_adopted(engine->aof), dir);
    }
    if (good)
        find_dump(opening);
    if (good && engine->aof != NULL)
        find_image(opening, dir);
    mem_free(dir);
    mem_free(name);
    return good;
}

static void log_restored(void *context, const char *line)
{
    log_write(context, LOG_LEVEL_NOTICE, "%s", line);
}

bool opening_restore_backup(struct engine *engine, const char *from)
{
    struct config *config = engine->config;
    char *dir = config_string(config, CONFIG_APPENDDIRNAME), *name = config_string(config, CONFIG_APPENDFILENAME);
    char *store = config_string(config, CONFIG_TIER_DIR), *rdb = config_string(config, CONFIG_DBFILENAME);
    struct message message;
    struct backup_places places = { dir, name, store };
    struct backup_result result;
    struct progress_report report = { .output = progress_report_output(), .say = log_restored, .context = engine->log };
    bool good = false;

    if (!config_number(config, CONFIG_APPENDONLY)) {
        log_write(engine->log, LOG_LEVEL_WARNING, "--restore needs appendonly yes: what was restored would not be served. Nothing was touched.");
    } else if (rdb[0] != '\0' && access(rdb, F_OK) == 0) {
        log_write(engine->log, LOG_LEVEL_WARNING, "--restore: there is data already, in '%s': nothing was touched.", rdb);
    } else if (backup_restore(&places, from, config_database_count(config), &report, &result, &message) != STATUS_OK) {
        log_write(engine->log, LOG_LEVEL_WARNING, "The backup '%s' can't be restored: %s", from, message.text);
    } else {
        log_write(engine->log, LOG_LEVEL_NOTICE, "Restored the backup %s from '%s': %llu keys as of its cut, %llu bytes, %llu of them copied",
            result.id, from, (unsigned long long)result.keys, (unsigned long long)result.bytes, (unsigned long long)result.copied_bytes);
        good = true;
    }
    mem_free(dir);
    mem_free(name);
    mem_free(store);
    mem_free(rdb);
    return good;
}

void opening_release(struct opening *opening)
{
    mem_free(opening->image);
    mem_free(opening->other_image);
    mem_free(opening->dump);
}
