#include "lifecycle/dump_image.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tree.h"
#include "engine/engine.h"
#include "engine/memory.h"

enum { FOLDER_SIZE = 4096 };

/* "temp-", digits, and the end. */
static bool is_temporary(const char *name, const char *end)
{
    size_t digits;

    if (strncmp(name, "temp-", 5) != 0)
        return false;
    digits = strspn(name + 5, "0123456789");
    return digits > 0 && strcmp(name + 5 + digits, end) == 0;
}

/* Returns whether a name is that of a dump's temporary file, or of what a kill leaves of files that have no name right after they were
 * created: those of full synchronizations, and of backlogs. */
static bool is_temporary_file(const char *name)
{
    static const char *const ends[] = { ".rdb", ".reload", ".sync.rdb", ".link.rdb", ".backlog", ".inbox" };

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (is_temporary(name, ends[i]))
            return true;
    }
    return false;
}

/* Returns whether a name is that of a temporary directory: of dumps and of full synchronizations, here and from a primary. */
static bool is_temporary_directory(const char *name)
{
    return is_temporary(name, ".image") || is_temporary(name, ".sync") || is_temporary(name, ".link");
}

static void clean_folder(struct engine *engine, const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[FOLDER_SIZE + 300];

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (is_temporary_directory(entry->d_name))
            tree_remove(path);
        else if (is_temporary_file(entry->d_name))
            unlink(path);
        else
            continue;
        log_write(engine->log, LOG_LEVEL_NOTICE, "Removed '%s', which a save that did not end has left", path);
    }
    if (list != NULL)
        closedir(list);
}

void dump_image_clean(struct engine *engine)
{
    char *folder = config_string(engine->config, CONFIG_TIER_DIR);

    clean_folder(engine, ".");
    clean_folder(engine, folder);
    mem_free(folder);
}

/* Without the store there is no image: what is wrong with it says more than what the image's taker saw. */
static void explain(struct engine *engine, enum status status, struct message *message)
{
    struct tier_stats stats;

    tier_stats(engine->tier, &stats);
    if (stats.state == TIER_ERROR)
        message_set(message, "the store of cold keys is in error: %.120s", stats.last_error);
    else if (message_is_empty(message))
        message_set(message, "%s", status_name(status));
}

void dump_image_path(struct engine *engine, uint64_t number, const char *end, char path[DUMP_IMAGE_PATH_SIZE])
{
    char *folder = config_string(engine->config, CONFIG_TIER_DIR);

    snprintf(path, DUMP_IMAGE_PATH_SIZE, "%.4000s/temp-%" PRIu64 "%.30s", folder, number, end);
    mem_free(folder);
}

enum status dump_image_take(struct engine *engine, const struct checkpoint_data *data, const char *end, char path[DUMP_IMAGE_PATH_SIZE],
    struct message *message)
{
    enum status status;

    message->text[0] = '\0';
    dump_image_path(engine, (uint64_t)getpid(), end, path);
    status = checkpoint_image(data, path, message);
    if (status != STATUS_OK)
        explain(engine, status, message);
    return status;
}

static bool policy_is_lfu(const struct config *config)
{
    int64_t policy = config_number(config, CONFIG_MAXMEMORY_POLICY);

    return policy == CONFIG_POLICY_ALLKEYS_LFU || policy == CONFIG_POLICY_VOLATILE_LFU;
}

struct rdb_save_options dump_image_options(struct engine *engine, const char *image)
{
    const struct config *config = engine->config;

    return (struct rdb_save_options){
        .image = image,
        .fd = -1,
        .used_memory = memory_used(engine),
        .with_freq = policy_is_lfu(config),
        .lfu_decay_minutes = (uint32_t)config_number(config, CONFIG_LFU_DECAY_TIME),
        .without_checksum = !config_number(config, CONFIG_RDBCHECKSUM),
        .compress = config_number(config, CONFIG_RDBCOMPRESSION) != 0,
        .key_delay_us = config_number(config, CONFIG_RDB_KEY_SAVE_DELAY),
    };
}
