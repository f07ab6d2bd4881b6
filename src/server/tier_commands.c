#include "server/tier_commands.h"

#include <stdlib.h>

#include "base/mem.h"
#include "commands/admin.h"
#include "engine/access.h"
#include "engine/engine.h"
#include "keyspace/uses.h"
#include "lifecycle/backups.h"
#include "server/advice.h"
#include "server/info_rows.h"
#include "server/tier_rules.h"

enum { DEMOTE_ATTEMPTS = 3 };

/* BACKUP, on a thread of its own. */
struct backup_job {
    struct job job;
    struct backup_done done;
};

/* DEMOTE, WHERE, HEAT and USES wait for the writer or the disk, so they are jobs. */
struct tier_job {
    struct job job;
    int db;
    struct bytes *keys;             /* in `text`, sorted, without duplicates */
    size_t key_count;
    char *text;
    /* Results. */
    uint64_t cold, failed;
    enum tier_place place;
    uint64_t histogram[256];
};

static void release_job(struct job *base)
{
    struct tier_job *job = (struct tier_job *)base;

    mem_free(job->keys);
    mem_free(job->text);
    mem_free(job);
}

static int compare_keys(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static void copy_keys(struct tier_job *job, const struct bytes *keys, size_t count)
{
    size_t size = 0, kept = 0;
    char *next;

    for (size_t i = 0; i < count; i++)
        size += keys[i].size;
    next = job->text = mem_alloc(size + 1);
    job->keys = mem_alloc((count + 1) * sizeof(*job->keys));
    for (size_t i = 0; i < count; i++) {
        memcpy(next, keys[i].data, keys[i].size);
        job->keys[i] = bytes_of(next, keys[i].size);
        next += keys[i].size;
    }
    qsort(job->keys, count, sizeof(*job->keys), compare_keys);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !bytes_equal(job->keys[kept - 1], job->keys[i]))
            job->keys[kept++] = job->keys[i];
    }
    job->key_count = kept;
}

bool tier_commands_may_run(struct call *call)
{
    if (call->engine->tier != NULL)
        return true;
    reply_errorf(call, "ERR the cold tier is disabled (tier-enabled no)");
    return false;
}

/* The finished job, or NULL: then a reply was given, or the call waits for the job. */
static struct tier_job *job_of(struct call *call, void (*run)(struct job *job, struct engine *engine))
{
    struct tier_job *job = call_job(call);

    if (job == NULL && !tier_commands_may_run(call))
        return NULL;
    if (job != NULL)
        return job;
    job = mem_zalloc(sizeof(*job));
    job->job.run = run;
    job->job.release = release_job;
    job->db = call->db;
    copy_keys(job, call->args + 2, (size_t)call->arg_count - 2);
    call_start_job(call, &job->job);
    return NULL;
}

/* Keys that were busy, because a client waited for them or changed them just then, are worth another attempt. */
static void run_demote(struct job *base, struct engine *engine)
{
    struct tier_job *job = (struct tier_job *)base;
    enum tier_move *moves = mem_alloc((job->key_count + 1) * sizeof(*moves));

    for (int attempt = 0; attempt < DEMOTE_ATTEMPTS && job->key_count > 0; attempt++) {
        size_t busy = 0;

        tier_demote_many(engine->tier, job->db, job->keys, job->key_count, moves);
        for (size_t i = 0; i < job->key_count; i++) {
            if (moves[i] == TIER_BUSY)
                job->keys[busy++] = job->keys[i];
            else if (moves[i] == TIER_MOVE_FAILED)
                job->failed++;
            else if (moves[i] == TIER_MOVED || tier_where(engine->tier, job->db, job->keys[i]) == TIER_COLD)
                job->cold++;
        }
        job->key_count = busy;
    }
    mem_free(moves);
}

static void tier_demote_command(struct call *call)
{
    const struct tier_job *done;

    /* If the tier was disabled at run time, it still returns cold keys, but accepts no more. */
    if (!config_number(call->engine->config, CONFIG_TIER_ENABLED)) {
        reply_errorf(call, "ERR the cold tier is disabled (tier-enabled no)");
        return;
    }
    if (!access_allows_arguments(call, 2))
        return;
    done = job_of(call, run_demote);
    if (done == NULL)
        return;
    if (done->failed > 0)
        reply_errorf(call, "ERR %llu of the keys could not be written to the store: see tier_status and tier_last_error in INFO tiering",
            (unsigned long long)done->failed);
    else
        reply_integer(call->reply, (int64_t)done->cold);
}

static void tier_promote_command(struct call *call)
{
    int64_t hot = 0;

    if (!tier_commands_may_run(call))
        return;
    for (int i = 2; i < call->arg_count; i++) {
        struct key key;

        hot += key_open(call, i, KEY_FOR_LOOKING, &key);
    }
    reply_integer(call->reply, hot);
}

static void run_where(struct job *base, struct engine *engine)
{
    struct tier_job *job = (struct tier_job *)base;

    job->place = tier_where(engine->tier, job->db, job->keys[0]);
}

static void tier_where_command(struct call *call)
{
    const struct tier_job *done;

    if (!access_allows_arguments(call, 2))
        return;
    done = job_of(call, run_where);
    if (done == NULL)
        return;
    if (done->place == TIER_UNREADABLE)
        reply_error(call, ERR_TIER_READ);
    else if (done->place == TIER_NOWHERE)
        reply_null(call->reply);
    else
        reply_bulk_string(call->reply, done->place == TIER_HOT ? "hot" : "cold");
}

static void run_heat(struct job *base, struct engine *engine)
{
    struct tier_job *job = (struct tier_job *)base;

    tier_histogram(engine->tier, job->db, TIER_BY_HEAT, job->histogram);
}

static void run_uses(struct job *base, struct engine *engine)
{
    struct tier_job *job = (struct tier_job *)base;

    tier_histogram(engine->tier, job->db, TIER_BY_USES, job->histogram);
}

static void tier_heat_command(struct call *call)
{
    const struct tier_job *done = job_of(call, run_heat);
    struct reply_later later;
    size_t count = 0;

    if (done == NULL)
        return;
    later = reply_later_begin(call->reply);
    for (int heat = 0; heat < 256; heat++) {
        if (done->histogram[heat] == 0)
            continue;
        reply_array(call->reply, 2);
        reply_integer(call->reply, heat);
        reply_integer(call->reply, (int64_t)done->histogram[heat]);
        count++;
    }
    reply_later_array(call->reply, later, count);
}

static void tier_uses_command(struct call *call)
{
    const struct tier_job *done = job_of(call, run_uses);
    struct reply_later later;
    size_t count = 0;

    if (done == NULL)
        return;
    later = reply_later_begin(call->reply);
    for (int uses = 0; uses <= USES_MAX; uses++) {
        uint64_t proven = done->histogram[2 * uses], on_probation = done->histogram[2 * uses + 1];

        if (proven + on_probation == 0)
            continue;
        reply_array(call->reply, 3);
        reply_integer(call->reply, uses);
        reply_integer(call->reply, (int64_t)(proven + on_probation));
        reply_integer(call->reply, (int64_t)on_probation);
        count++;
    }
    reply_later_array(call->reply, later, count);
}

static void reply_backup(struct call *call, const struct backup_result *result)
{
    reply_map(call->reply, 5);
    reply_bulk_string(call->reply, "id");
    reply_bulk_string(call->reply, result->id);
    reply_bulk_string(call->reply, "keys");
    reply_integer(call->reply, (int64_t)result->keys);
    reply_bulk_string(call->reply, "files");
    reply_integer(call->reply, (int64_t)result->files);
    reply_bulk_string(call->reply, "bytes");
    reply_integer(call->reply, (int64_t)result->bytes);
    reply_bulk_string(call->reply, "copied_bytes");
    reply_integer(call->reply, (int64_t)result->copied_bytes);
}

/* Like CONFIG SET of a protected directive. */
static enum backups_place backup_place(const struct call *call)
{
    int64_t permission = config_number(call->engine->config, CONFIG_ENABLE_PROTECTED_CONFIGS);

    return permission == CONFIG_PERMISSION_YES || (permission == CONFIG_PERMISSION_LOCAL && admin_is_local(call)) ? BACKUPS_ANYWHERE
                                                                                                        : BACKUPS_GUARDED;
}

static void tier_backup_command(struct call *call)
{
    struct backup_job *job = call_job(call);
    enum task_start started;
    char *dir;

    if (job == NULL && !tier_commands_may_run(call))
        return;
    if (job != NULL) {
        if (job->done.status == STATUS_OK)
            reply_backup(call, &job->done.result);
        else
            reply_errorf(call, "ERR the backup failed: %s", job->done.message.text);
        return;
    }
    if (call->args[2].size == 0 || memchr(call->args[2].data, 0, call->args[2].size) != NULL) {
        reply_errorf(call, "ERR invalid name of a directory");
        return;
    }
    job = mem_zalloc(sizeof(*job));
    call_wait_job(call, &job->job);
    dir = mem_string(call->args[2]);
    started = backups_start(call->engine->lifecycle.backups, dir, backup_place(call), &job->job, &job->done);
    if (started != TASK_STARTED) {
        call_end_wait(call);
        reply_errorf(call, started == TASK_BUSY ? "ERR a backup is in progress already" : "ERR could not create a thread");
    }
    mem_free(dir);
}

/* A field of INFO is a line "name:value". */
static void reply_field(struct call *call, struct bytes line)
{
    const char *colon = memchr(line.data, ':', line.size);
    struct bytes value = bytes_of(colon + 1, line.size - (size_t)(colon + 1 - line.data));
    int64_t number;

    reply_bulk(call->reply, bytes_of(line.data, (size_t)(colon - line.data)));
    if (text_to_int(value, &number))
        reply_integer(call->reply, number);
    else
        reply_bulk(call->reply, value);
}

static void tier_stats_command(struct call *call)
{
    struct buffer text = { 0 };
    struct reply_later later = reply_later_begin(call->reply);
    size_t count = 0;

    info_tiering(&text, call->engine);
    for (size_t offset = 0; offset < text.size;) {
        const char *end = memchr(text.data + offset, '\r', text.size - offset);

        reply_field(call, bytes_of(text.data + offset, (size_t)(end - text.data) - offset));
        offset = (size_t)(end - text.data) + 2;
        count++;
    }
    reply_later_map(call->reply, later, count);
    buffer_release(&text);
}

static void tier_help_command(struct call *call)
{
    static const char *const lines[] = {
        "TIER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ADVISE",
        "    Returns the hit ratio, reads of the store and latency to be expected at 0.25, 0.5, 1, 2 and 4 times maxmemory.",
        "ADVISE HITRATIO <percent>",
        "    Returns the smallest maxmemory with this hit ratio.",
        "ADVISE COST <RAM price per GB> <SSD price per GB> [<reads per second per GB of SSD>]",
        "    Returns the maxmemory at which RAM and SSD together cost least. A GB of SSD is good for 100 reads a second by default.",
        "BACKUP <dir>",
        "    Creates a consistent copy of all data in a new directory, with hard links, and returns its statistics.",
        "DEMOTE <key> [<key> ...]",
        "    Moves keys to the store, however often they were used. Returns how many of them are now cold.",
        "PIN <key> [<key> ...]",
        "    Loads keys, and keeps them in RAM however rarely they are used, until UNPIN, also over restarts. Returns how many there are.",
        "PINNED",
        "    Returns the names that are pinned in this database.",
        "PROMOTE <key> [<key> ...]",
        "    Loads keys into RAM without counting a use. Returns how many of them are now in RAM.",
        "RULE ADD <pattern> never-cold | cold-first | min-idle <seconds>",
        "    Keys that match stay in RAM, leave it before all others, or stay until they were not used for so long. The first rule that",
        "    matches decides; a pattern that has a rule gets another one. Keys that are cold stay cold until they are asked for.",
        "RULE DEL <pattern>",
        "    Removes a rule. Returns 1, or 0 if there is none.",
        "RULE LIST",
        "    Returns the rules in the order in which they are tried.",
        "UNPIN <key> [<key> ...]",
        "    Lets pinned keys become cold again. Returns how many of them were pinned.",
        "WHERE <key>",
        "    Returns where the key is: hot (in RAM), cold (in the store), or nil.",
        "STATS",
        "    Returns the fields of INFO tiering.",
        "HEAT",
        "    Returns pairs of a heat, 0 (coldest) to 255, and the number of keys in RAM that have it, in this database.",
        "    Heat is for the lfu policies and the warm-up; what is demoted next follows from the uses.",
        "USES",
        "    Returns uses, 0 to 7, the number of keys in RAM that have this many, and how many of these are on probation, in this",
        "    database. Demotion takes the keys with the fewest uses first.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}

const struct command tier_commands[] = {
#define COMMAND COMMAND_ROW
#define CONTAINER CONTAINER_ROW
#include "server/tier_commands.def"
    { .name = NULL },
};
