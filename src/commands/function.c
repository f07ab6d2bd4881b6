/* FUNCTION LOAD, RESTORE, DELETE, FLUSH and DUMP: what changes the libraries, and their dump.
 *
 * A library's code is run by a job, before the command claims anything. What it gave is published with all partitions owned and locked, and
 * logged as every write: a checkpoint's cut comes before both or after both.
 */
#include "commands/function.h"

#include "base/mem.h"
#include "call/call.h"
#include "commands/admin.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "engine/scripts.h"
#include "script/library_dump.h"

enum load_kind { LOAD_TEXT, LOAD_DUMP };

struct load_job {
    struct job job;
    enum load_kind kind;
    struct buffer source;           /* a library's text, or a dump */
    size_t text_size_max;
    enum scripts_trust trust;
    struct scripts_load load;
    bool good;
    struct buffer error;
};

static void load_run(struct job *job, struct engine *engine)
{
    struct load_job *work = (struct load_job *)job;
    struct bytes source = buffer_bytes(&work->source);

    scripts_load_init(&work->load, engine, work->trust);
    if (work->kind == LOAD_TEXT)
        work->good = registry_load_text(&work->load.load, source, &work->error);
    else
        work->good = registry_load_dump(&work->load.load, source, work->text_size_max, &work->error);
    scripts_load_end(&work->load);
    buffer_release(&work->source);
}

static void load_release(struct job *job)
{
    struct load_job *work = (struct load_job *)job;

    scripts_load_release(&work->load);
    buffer_release(&work->source);
    buffer_release(&work->error);
    mem_free(work);
}

static struct load_job *make_job(struct call *call, enum load_kind kind, struct bytes source)
{
    struct load_job *work = mem_zalloc(sizeof(*work));

    work->job = (struct job){ .run = load_run, .release = load_release };
    work->kind = kind;
    work->text_size_max = (size_t)call->turn->string_size_max;
    work->trust = call->client->caller & TRAIT_OBEYED ? SCRIPTS_OF_DATA : SCRIPTS_OF_CLIENT;
    buffer_append_bytes(&work->source, source);
    return work;
}

static void reply_problem(struct call *call, const struct buffer *error)
{
    reply_errorf(call, "%.*s", (int)error->size, error->data);
}

/* A cut locks all partitions: it can't come between the change and its record in the log, as these are locked until that is there. */
static void note_change(struct call *call)
{
    partition_assert_locked_debug(&call->partitions->partitions[0]);
    call->change_count++;
}

/* False: an error was replied, and nothing has changed. */
static bool publish_library(struct call *call, struct load_job *work, enum registry_how how)
{
    if (!work->good || !registry_load_publish(&work->load.load, how, &work->error)) {
        reply_problem(call, &work->error);
        return false;
    }
    note_change(call);
    return true;
}

/* The job when it has run; NULL: the call is parked for it. In a transaction it runs while the call waits. The log's replay waits for nothing:
 * its caller releases the job. */
static struct load_job *await_job(struct call *call, enum load_kind kind, struct bytes source)
{
    struct load_job *work = call_job(call);

    if (work != NULL)
        return work;
    work = make_job(call, kind, source);
    if (call->client->caller & TRAIT_WAITS_IN_PLACE) {
        load_run(&work->job, call->engine);
        return work;
    }
    call_start_job(call, &work->job);
    return NULL;
}

static void end_replay(const struct call *call, struct load_job *work)
{
    if (call->client->caller & TRAIT_WAITS_IN_PLACE)
        load_release(&work->job);
}

/* FUNCTION LOAD [REPLACE] code. False: an error was replied. */
static bool parse_load(struct call *call, struct bytes *text, enum registry_how *how)
{
    *text = call->args[call->arg_count - 1];
    *how = REGISTRY_ADDS;
    for (int i = 2; i < call->arg_count - 1; i++) {
        if (!arg_is(call, i, "replace")) {
            reply_errorf(call, "ERR Unknown option given: %.*s", (int)call->args[i].size, call->args[i].data);
            return false;
        }
        *how = REGISTRY_REPLACES;
    }
    return true;
}

/* Before the code runs, and again before it is published: another client may have been faster. */
static bool may_load(struct call *call, struct bytes text, enum registry_how how)
{
    struct library_set *set = registry_libraries(call->engine->scripts);
    struct library_head head;
    struct buffer error = { 0 };
    bool good = library_head_read(text, &head, &error);

    if (good && how == REGISTRY_ADDS && library_set_find(set, bytes_of_string(head.name)) != NULL) {
        buffer_append_format(&error, "ERR Library '%s' already exists", head.name);
        good = false;
    }
    if (!good)
        reply_problem(call, &error);
    library_head_release(&head);
    library_set_release(set);
    buffer_release(&error);
    return good;
}

bool function_load_prepare(struct call *call)
{
    enum registry_how how;
    struct bytes text;

    return parse_load(call, &text, &how) && may_load(call, text, how) && await_job(call, LOAD_TEXT, text) != NULL;
}

void function_load_command(struct call *call)
{
    struct load_job *work;
    enum registry_how how;
    struct bytes text;

    if (!parse_load(call, &text, &how) || !may_load(call, text, how))
        return;
    work = await_job(call, LOAD_TEXT, text);
    if (work == NULL)
        return;
    if (publish_library(call, work, how))
        reply_bulk(call->reply, work->load.load.libraries[0]->script.name);
    end_replay(call, work);
}

/* FUNCTION RESTORE dump [APPEND|FLUSH|REPLACE]. False: an error was replied. */
static bool parse_restore(struct call *call, enum registry_how *how)
{
    *how = REGISTRY_ADDS;
    if (call->arg_count > 4) {
        admin_reply_usage(call, "FUNCTION");
        return false;
    }
    if (call->arg_count == 4 && arg_is(call, 3, "replace")) {
        *how = REGISTRY_REPLACES;
    } else if (call->arg_count == 4 && arg_is(call, 3, "flush")) {
        *how = REGISTRY_REPLACES_ALL;
    } else if (call->arg_count == 4 && !arg_is(call, 3, "append")) {
        reply_errorf(call, "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
        return false;
    }
    return true;
}

bool function_restore_prepare(struct call *call)
{
    enum registry_how how;

    return parse_restore(call, &how) && await_job(call, LOAD_DUMP, call->args[2]) != NULL;
}

void function_restore_command(struct call *call)
{
    struct load_job *work;
    enum registry_how how;

    if (!parse_restore(call, &how))
        return;
    work = await_job(call, LOAD_DUMP, call->args[2]);
    if (work == NULL)
        return;
    if (publish_library(call, work, how))
        reply_ok(call->reply);
    end_replay(call, work);
}

/* FUNCTION DELETE library */
void function_delete_command(struct call *call)
{
    struct library_set *set = registry_libraries(call->engine->scripts), *next = library_set_without(set, call->args[2]);

    library_set_release(set);
    if (next == NULL) {
        reply_errorf(call, "ERR Library not found");
        return;
    }
    registry_publish(call->engine->scripts, next);
    note_change(call);
    reply_ok(call->reply);
}

/* FUNCTION FLUSH [ASYNC|SYNC]. Both do the same: what no run holds is freed, which is quick. */
void function_flush_command(struct call *call)
{
    if (call->arg_count > 3) {
        admin_reply_usage(call, "FUNCTION");
        return;
    }
    if (call->arg_count == 3 && !arg_is(call, 2, "sync") && !arg_is(call, 2, "async")) {
        reply_errorf(call, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
        return;
    }
    registry_publish(call->engine->scripts, library_set_empty());
    note_change(call);
    reply_ok(call->reply);
}

void function_dump_command(struct call *call)
{
    struct library_set *set = registry_libraries(call->engine->scripts);
    struct buffer dump = { 0 };

    library_dump(set, &dump);
    reply_bulk(call->reply, buffer_bytes(&dump));
    buffer_release(&dump);
    library_set_release(set);
}
