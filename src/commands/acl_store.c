/* ACL LOAD and SAVE. A thread of the job pool reads, checks and writes the file. */
#include <string.h>

#include "acl/acl_file.h"
#include "acl/change.h"
#include "base/mem.h"
#include "commands/acl.h"
#include "commands/handlers.h"
#include "engine/access.h"
#include "engine/engine.h"

struct store_job {
    struct job job;
    char *path;
    bool channels_by_default;
    struct acl_change *change;      /* of LOAD: what is to be published; NULL: see `error` */
    struct buffer text;             /* of SAVE */
    struct buffer error;            /* empty: none */
};

static void job_release(struct job *job)
{
    struct store_job *work = (struct store_job *)job;

    acl_change_release(work->change);
    buffer_release(&work->text);
    buffer_release(&work->error);
    mem_free(work->path);
    mem_free(work);
}

/* NULL: there is no file, and the error was replied. */
static struct store_job *make_job(struct call *call, void (*run)(struct job *job, struct engine *engine))
{
    char *path = config_string(call->engine->config, CONFIG_ACLFILE);
    struct store_job *work;

    if (path[0] == '\0') {
        mem_free(path);
        reply_errorf(call, "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL "
            "SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
            "users in the Redis configuration.");
        return NULL;
    }
    work = mem_zalloc(sizeof(*work));
    work->job = (struct job){ .run = run, .release = job_release };
    work->path = path;
    work->channels_by_default = acl_channels_by_default(call);
    return work;
}

/* ---- LOAD */

static void run_load(struct job *job, struct engine *engine)
{
    struct store_job *work = (struct store_job *)job;

    work->change = acl_change_load_file(engine->users.acl, work->path, work->channels_by_default, &work->error);
}

/* The job that has read the file, and not the one that the call waits for after publishing. */
static struct store_job *finished_load(struct call *call)
{
    struct job *job = call_job(call);

    return job != NULL && job->run == run_load ? (struct store_job *)job : NULL;
}

bool acl_load_prepare(struct call *call)
{
    struct store_job *work;

    if (call_job(call) != NULL)
        return true;
    work = make_job(call, run_load);
    if (work != NULL)
        call_start_job(call, &work->job);
    return false;
}

void acl_load_command(struct call *call)
{
    struct store_job *work = finished_load(call);
    struct acl_change *change;

    if (work == NULL) {
        if (access_is_published(call))
            reply_ok(call->reply);
        else
            acl_load_prepare(call);
        return;
    }
    if (work->change == NULL) {
        reply_errorf(call, "ERR %.*s", (int)work->error.size, work->error.data);
        return;
    }
    change = work->change;
    work->change = NULL;
    job_forget(call->engine->jobs, call->requester);
    access_publish(call, change);
}

/* ---- SAVE */

static void run_save(struct job *job, struct engine *engine)
{
    struct store_job *work = (struct store_job *)job;
    int error = acl_file_write(work->path, buffer_bytes(&work->text));

    if (error == 0)
        return;
    buffer_append_string(&work->error, strerror(error));
    log_write(engine->log, LOG_LEVEL_WARNING, "The ACL file %s can't be written: %s", work->path, strerror(error));
}

void acl_save_command(struct call *call)
{
    struct store_job *work = call_job(call);

    if (work == NULL) {
        work = make_job(call, run_save);
        if (work == NULL)
            return;
        acl_file_print(&work->text, call->engine->users.acl);
        call_start_job(call, &work->job);
    } else if (work->error.size > 0) {
        reply_errorf(call, "ERR There was an error trying to save the ACLs. Please check the server logs for more information");
    } else {
        reply_ok(call->reply);
    }
}
