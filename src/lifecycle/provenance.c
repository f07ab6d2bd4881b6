#include "lifecycle/provenance.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/message.h"
#include "engine/engine.h"

struct files {
    char *log_dir, *log_name, *dump;
    char dump_id[IDENTITY_SIZE];        /* empty: it has none */
    bool has_dump;
};

static void find_files(struct engine *engine, struct files *files)
{
    struct message message;

    files->log_dir = config_string(engine->config, CONFIG_APPENDDIRNAME);
    files->log_name = config_string(engine->config, CONFIG_APPENDFILENAME);
    files->dump = config_string(engine->config, CONFIG_DBFILENAME);
    files->has_dump = files->dump[0] != '\0' && access(files->dump, F_OK) == 0;
    /* A dump that can't be read has no id: loading it reports the error. */
    if (!files->has_dump || identity_of_dump(files->dump, files->dump_id, &message) != STATUS_OK)
        files->dump_id[0] = '\0';
}

static void forget_files(struct files *files)
{
    mem_free(files->log_dir);
    mem_free(files->log_name);
    mem_free(files->dump);
}

/* The dump is of the log's data set, or one that may be there although it is not. */
static bool belongs(const struct files *files, const struct identity *own)
{
    uint64_t fingerprint;

    if (files->dump_id[0] != '\0' && strcmp(files->dump_id, own->id) == 0)
        return true;
    return own->has_known && identity_fingerprint(files->dump, &fingerprint) == STATUS_OK && fingerprint == own->known_dump;
}

static void refuse_files(struct engine *engine, const struct files *files, const struct identity *own)
{
    log_write(engine->log, LOG_LEVEL_WARNING, "'%s' does not belong to the log in '%s': the log is of data set %s, the dump is %s%s. "
        "With appendonly yes only the log is loaded, and the dump would be passed over, so the server does not start.", files->dump,
        files->log_dir, own->id[0] != '\0' ? own->id : "(no id yet)",
        files->dump_id[0] != '\0' ? "of data set " : "another server's, or of none", files->dump_id);
    log_write(engine->log, LOG_LEVEL_WARNING, "To serve the data of the log, move '%s' away. To load the dump instead, move the directory "
        "'%s' away.", files->dump, files->log_dir);
}

/* A log that is yet to be made, of nothing or of the dump. */
static bool is_fresh(const struct aof *aof, const struct files *files)
{
    const char *adopted = aof_adopted(aof);

    return aof_is_new(aof) || (adopted != NULL && strcmp(adopted, files->dump) == 0);
}

/* The log is the data: is the dump another's? */
static bool check_log(struct engine *engine, const struct files *files, bool has_id)
{
    struct identity *own = &engine->identity;

    if (has_id && (!files->has_dump || belongs(files, own)))
        return true;
    /* Redis leaves a log and a dump side by side, and loads the log, too: so may its directory be taken over. A dump of Kelvin's has a log
     * with an id, which this is not. */
    if (has_id || files->dump_id[0] != '\0') {
        refuse_files(engine, files, own);
        return false;
    }
    identity_make(own->id);
    if (files->has_dump)
        log_write(engine->log, LOG_LEVEL_WARNING, "'%s' is not loaded: the append only file has the data.", files->dump);
    return true;
}

/* Names the data that a dump begins: it goes on under the dump's id. But if there is a log beside that is not in use, its data set and this
 * one part here: the next dump must not pass for the log's. */
static void name_data(struct engine *engine, const struct files *files, bool log_lies_by)
{
    engine->identity = (struct identity){ .id = "" };
    if (files->dump_id[0] != '\0' && !log_lies_by)
        memcpy(engine->identity.id, files->dump_id, IDENTITY_SIZE);
    else
        identity_make(engine->identity.id);
}

static void note_dump(struct identity *own, const struct files *files)
{
    uint64_t fingerprint;

    if (!files->has_dump || strcmp(files->dump_id, own->id) == 0 || identity_fingerprint(files->dump, &fingerprint) != STATUS_OK)
        return;
    own->has_known = true;
    own->known_dump = fingerprint;
}

bool provenance_check(struct engine *engine)
{
    struct message message = { "" };
    struct files files;
    enum status status;
    bool good = true, fresh;

    find_files(engine, &files);
    fresh = engine->aof != NULL && is_fresh(engine->aof, &files);
    if (fresh)
        identity_forget(files.log_dir, files.log_name);     /* of a log that was removed file by file, or a start that was killed */
    status = identity_read(files.log_dir, files.log_name, &engine->identity, &message);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
        good = false;
    } else if (engine->aof == NULL || fresh) {
        name_data(engine, &files, status == STATUS_OK);
    } else {
        good = check_log(engine, &files, status == STATUS_OK);
    }
    if (good)
        note_dump(&engine->identity, &files);
    forget_files(&files);
    return good;
}

bool provenance_keep(struct engine *engine)
{
    char *dir, *name;
    struct message message = { "" };
    bool good;

    if (engine->aof == NULL)
        return true;
    dir = config_string(engine->config, CONFIG_APPENDDIRNAME);
    name = config_string(engine->config, CONFIG_APPENDFILENAME);
    good = identity_keep(dir, name, &engine->identity, &message) == STATUS_OK;
    if (!good)
        log_write(engine->log, LOG_LEVEL_WARNING, "%s", message.text);
    mem_free(dir);
    mem_free(name);
    return good;
}
