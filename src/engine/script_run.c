#include "engine/script_run.h"

#include "base/check.h"
#include "engine/access.h"
#include "engine/execute_private.h"
#include "engine/monitor.h"
#include "engine/redirect.h"
#include "engine/role.h"
#include "engine/running_scripts.h"
#include "engine/scripts.h"
#include "engine/transaction.h"
#include "engine/unit_private.h"
#include "script/shebang.h"

#define NO_SCRIPT "NOSCRIPT No matching script. Please use EVAL."
#define NO_FUNCTION "ERR Function not found"
#define WRITES_IN_READ_ONLY_FORM "ERR Can not execute a script with write flag using *_ro command."

/* One run of a script; on the stack of its handler. */
struct script_context {
    struct unit *unit;
    struct client client;           /* as which its commands run: SELECT in a script does not change the database of its client */
    struct script_start *start;
    bool has_written;               /* a command that writes was called */
    int slot;                       /* of the keys that it has declared or used; -1: none yet */
    enum script_replication replication;
};

/* "eval" and "evalsha" name a source, the others a function. */
static bool names_function(const struct call *call)
{
    return call->command->name[0] == 'f';
}

static bool is_read_only(const struct call *call)
{
    return call->command->flags & COMMAND_READONLY;
}

static bool find_function(struct call *call, struct registry_view *view, struct script_start *start)
{
    start->function = library_set_function(view->libraries, call->args[1]);
    if (start->function == NULL) {
        reply_errorf(call, NO_FUNCTION);
        return false;
    }
    start->library = library_hold((struct library *)start->function->library);
    start->flags = start->function->flags;
    return true;
}

static bool find_source(struct call *call, struct registry_view *view, struct script_start *start)
{
    struct buffer error = { 0 };
    char sha[SCRIPT_SHA_SIZE];

    if (strncmp(call->command->name, "evalsha", 7) == 0) {
        if (source_read_sha(call->args[1], sha))
            start->source = registry_view_source(view, sha);
        if (start->source == NULL)
            reply_errorf(call, NO_SCRIPT);
    } else {
        start->source = registry_view_add(view, call->args[1], SOURCE_OF_EVAL, &error);
        if (start->source == NULL) {
            call->failed = true;
            reply_error_text(call->reply, buffer_bytes(&error));
        }
        buffer_release(&error);
    }
    if (start->source != NULL)
        start->flags = start->source->flags;
    return start->source != NULL;
}

/* The number of keys, at argument 2. */
static bool check_key_count(struct call *call)
{
    int64_t count;

    if (!text_to_int(call->args[2], &count)) {
        reply_errorf(call, names_function(call) ? "ERR Bad number of keys provided" : "ERR value is not an integer or out of range");
        return false;
    }
    if (count > call->arg_count - 3) {
        reply_errorf(call, "ERR Number of keys can't be greater than number of args");
        return false;
    }
    if (count < 0) {
        reply_errorf(call, "ERR Number of keys can't be negative");
        return false;
    }
    return true;
}

static bool has_no_sha(const struct call *call)
{
    return strncmp(call->command->name, "evalsha", 7) == 0 && call->args[1].size != SCRIPT_SHA_SIZE;
}

bool script_find(struct call *call, struct script_start *start)
{
    struct registry_view *view = scripts_of(call->requester->worker);

    *start = (struct script_start){ .is_found = true };
    if (names_function(call)) {
        if (!find_function(call, view, start) || !check_key_count(call))
            return false;
    } else if (has_no_sha(call)) {
        reply_errorf(call, NO_SCRIPT);
        return false;
    } else if (!check_key_count(call) || !find_source(call, view, start)) {
        return false;
    }
    start->reads_only = start->flags & SCRIPT_NO_WRITES || (is_read_only(call) && start->flags & SCRIPT_COMPATIBLE);
    return true;
}

bool script_was_missing(struct bytes reply)
{
    return bytes_equal(reply, BYTES("-" NO_SCRIPT "\r\n")) || bytes_equal(reply, BYTES("-" NO_FUNCTION "\r\n")) ||
           bytes_equal(reply, BYTES("-" UNIT_NO_STACK "\r\n"));
}

void script_start_release(struct script_start *start)
{
    source_release(start->source);
    library_release(start->library);
    *start = (struct script_start){ .source = NULL };
}

static bool has_room(struct call *call, struct worker *worker, struct script_start *start)
{
    if (start->reads_only || call->client->loads.waits != NULL)
        return true;
    if (!(start->flags & SCRIPT_COMPATIBLE) && !execute_disks_allow(call, COMMAND_WRITE | (start->flags & SCRIPT_ALLOW_OOM ? 0 : COMMAND_DENYOOM)))
        return false;
    if (start->flags & SCRIPT_ALLOW_OOM || execute_pass_memory_gate(call, worker, call->command->flags | COMMAND_WRITE | COMMAND_DENYOOM))
        return true;
    if (call->parked || !(start->flags & SCRIPT_COMPATIBLE))
        return false;
    execute_take_back(call);
    start->lacks_memory = true;
    return true;
}

/* A script with a #! line is checked before it starts; without one, each of its commands is checked. */
static const char *role_refusal(const struct engine *engine, const struct client *client, const struct script_start *start)
{
    const char *error = NULL;

    if (client->caller & TRAIT_UNGATED)
        return NULL;
    if (engine->redirect != NULL && !(start->flags & SCRIPT_COMPATIBLE) && start->flags & SCRIPT_NO_CLUSTER)
        return "ERR Can not run script on cluster, 'no-cluster' flag is set.";
    if (!(start->flags & (SCRIPT_COMPATIBLE | SCRIPT_NO_WRITES)))
        error = execute_write_refusal(engine);
    if (error == NULL && role_bits(engine) & ROLE_STALE && !(start->flags & SCRIPT_ALLOW_STALE))
        error = execute_stale_error;
    return error;
}

static bool writes_in_read_only_form(const struct call *call, const struct script_start *start)
{
    return is_read_only(call) && !start->reads_only;
}

/* Checks a script that EXEC runs, whose gates were those of EXEC. */
static const char *refusal_in_exec(struct call *call, struct script_start *start)
{
    if (call->client->caller & TRAIT_UNGATED)
        return NULL;
    start->lacks_memory = start->flags & SCRIPT_COMPATIBLE && call->requester->transaction != NULL && call->requester->transaction->lacks_memory;
    return writes_in_read_only_form(call, start) ? WRITES_IN_READ_ONLY_FORM : NULL;
}

bool script_pass_gates(struct call *call, struct worker *worker, struct script_start *start)
{
    const char *error;

    if (call->client->caller & TRAIT_UNGATED)
        return execute_pass_memory_gate(call, worker, call->command->flags | COMMAND_WRITE | COMMAND_DENYOOM);

    if (execute_is_paused(call, start->reads_only ? 0 : COMMAND_WRITE)) {
        parking_add_call(worker, call, PARKED_FOR_PAUSE);
        return false;
    }
    error = role_refusal(call->engine, call->client, start);
    if (error != NULL) {
        reply_errorf(call, "%s", error);
        return false;
    }
    if (!has_room(call, worker, start))
        return false;
    if (!writes_in_read_only_form(call, start))
        return true;
    reply_errorf(call, WRITES_IN_READ_ONLY_FORM);
    return false;
}

/* Why a command may not be called, after what the link and the user allow, in the order of Redis. NULL: it may. */
static const char *refusal_of(struct script_context *context, struct call *call)
{
    const struct script_start *start = context->start;
    uint32_t flags = call->command->flags;
    const char *error = NULL;

    if (flags & (COMMAND_WRITE | COMMAND_MAY_REPLICATE) && start->reads_only)
        return "ERR Write commands are not allowed from read-only scripts.";
    if (call->client->caller & TRAIT_UNGATED || context->has_written)
        return NULL;
    if (flags & COMMAND_WRITE)
        error = execute_write_refusal(call->engine);
    if (error == NULL && flags & COMMAND_DENYOOM && start->lacks_memory)
        error = "OOM command not allowed when used memory > 'maxmemory'.";
    return error;
}

/* Finds the command. NULL: it may be called. */
static const char *find_command(struct call *call)
{
    const struct command *command = command_find_call(call->engine->commands, call->args, call->arg_count);

    if (command == NULL)
        return "ERR Unknown Redis command called from script";
    call->command = command;
    if (!command_takes(command, call->arg_count))
        return "ERR Wrong number of args calling Redis command from script";
    return command->run == NULL ? "ERR Unknown Redis command called from script" : NULL;
}

/* A script runs no other one, and has no connection: those commands stay denied whatever DEBUG says. */
static bool is_denied(const struct engine *engine, uint32_t flags)
{
    return flags & COMMAND_UNIT || (flags & COMMAND_NOSCRIPT && !(flags & COMMAND_SCRIPT_TESTS && engine->debug.scripts_may_test));
}

static void refuse_command(struct call *call, const char *error)
{
    call->failed = true;
    reply_errorf(call, "%s", error);
    if (call->command != NULL)
        execute_count_rejected(call);
    else
        execute_note_error(call);
}

static const char *refusal_by_slot(struct script_context *context, struct call *call)
{
    bool may_cross = context->start->flags & (SCRIPT_COMPATIBLE | SCRIPT_ALLOW_CROSS_SLOT);

    if (call->command->keys != NULL)
        execute_find_keys(call, context->unit->worker);
    return redirect_refuses_in_script(call, may_cross ? NULL : &context->slot);
}

static void host_call(void *opaque, const struct bytes *args, int arg_count, struct reply *reply)
{
    struct script_context *context = opaque;
    struct unit *unit = context->unit;
    struct call call = unit_new_call(unit, &context->client, reply, args, arg_count);
    const char *error = find_command(&call);

    if (error == NULL && is_denied(call.engine, call.command->flags))
        error = "ERR This Redis command is not allowed from script";
    if (error == NULL && !(context->client.caller & TRAIT_UNGATED) && role_bits(call.engine) & ROLE_STALE && !(call.command->flags & COMMAND_STALE))
        error = "ERR Can not execute the command on a stale replica";
    if (error == NULL && access_is_limited(&context->client) && !access_allows(&call, ACCESS_SCRIPT))
        return;
    if (error == NULL)
        error = refusal_of(context, &call);
    if (error == NULL && UNLIKELY(call.engine->redirect != NULL))
        error = refusal_by_slot(context, &call);
    if (error != NULL) {
        refuse_command(&call, error);
        return;
    }
    if (call.command->flags & COMMAND_WRITE) {
        if (!context->has_written && !(context->client.caller & TRAIT_UNGATED) && !execute_disks_allow(&call, call.command->flags))
            return;
        if (!running_script_may_write(unit))
            return;                     /* it was killed, and ends now */
        context->has_written = true;
    }
    if (context->replication == SCRIPT_REPL_NONE)
        call_propagate_nothing(&call);
    if (unit_call(unit, &call) && context->client.lsn.needed > unit->client->lsn.needed)
        unit->client->lsn.needed = context->client.lsn.needed;
}

static bool host_may_go_on(void *opaque)
{
    struct script_context *context = opaque;

    return unit_go_on(context->unit);
}

static void host_log(void *opaque, enum script_log_level level, struct bytes text)
{
    static const enum log_level levels[] = { LOG_LEVEL_DEBUG, LOG_LEVEL_VERBOSE, LOG_LEVEL_NOTICE, LOG_LEVEL_WARNING };
    struct script_context *context = opaque;

    log_write(context->unit->worker->engine->log, levels[level], "%.*s", (int)text.size, text.data);
}

static enum script_acl host_acl_check(void *opaque, const struct bytes *args, int arg_count)
{
    struct script_context *context = opaque;
    struct reply reply = { 0 };         /* stays empty */
    struct call call = unit_new_call(context->unit, &context->client, &reply, args, arg_count);
    const struct command *command = command_find_call(call.engine->commands, args, arg_count);

    if (command == NULL)
        return SCRIPT_ACL_UNKNOWN_COMMAND;
    call.command = command;
    return access_would_allow(&call) ? SCRIPT_ACL_ALLOWED : SCRIPT_ACL_DENIED;
}

static void host_set_replication(void *opaque, enum script_replication replication)
{
    struct script_context *context = opaque;

    context->replication = replication;
}

/* One of a script's commands is run as this client. */
static struct client client_of_script(const struct call *call)
{
    return (struct client){
        .id = call->requester->id,
        .worker = call->requester->worker,
        .flags = call->client->flags & (CLIENT_NO_TOUCH | CLIENT_READONLY_SLOTS | CLIENT_ASKING | CLIENT_TLS),
        .caller = call->client->caller | CALLER_SCRIPT,
        .db = call->client->db,
        .authenticated = true,
        .user = call->client->user,
        .address = "lua",
        .fd = -1,
    };
}

static void reply_killed(struct call *call)
{
    reply_errorf(call, names_function(call) ? "ERR Error running script: Script killed by user with FUNCTION KILL." :
        "ERR Error running script: Script killed by user with SCRIPT KILL.");
}

static void run_script(struct call *call, struct script_start *start)
{
    struct unit *unit = call->unit;
    struct script_context context = { .unit = unit, .client = client_of_script(call), .start = start, .replication = SCRIPT_REPL_ALL };
    const struct script_host host = { &context, host_call, host_may_go_on, host_log, host_acl_check, host_set_replication };
    int64_t key_count = 0;
    struct script_run run = {
        .source = start->source != NULL ? &start->source->script : NULL,
        .library = start->library != NULL ? &start->library->script : NULL,
        .function = start->function != NULL ? start->function->name : (struct bytes){ 0 },
        .host = &host,
        .random_start = unit->command->flags & COMMAND_RUNS_QUEUE ? NULL : &unit->script_random,
    };

    CHECK(text_to_int(call->args[2], &key_count));
    run.keys = call->args + 3;
    run.key_count = (int)key_count;
    context.slot = run.key_count > 0 ? slot_of_key(run.keys[0]) : -1;
    run.args = run.keys + key_count;
    run.arg_count = call->arg_count - 3 - (int)key_count;
    switch (interpreter_run(unit->worker->scripts.view->interpreter, &run, call->reply)) {
    case SCRIPT_OK:
    case SCRIPT_STOPPED:
        break;
    case SCRIPT_ERROR:
        call->failed = true;
        break;
    case SCRIPT_ERROR_COUNTED:
        call->failed = call->error_counted = true;
        break;
    case SCRIPT_NO_FUNCTION:
        reply_errorf(call, NO_FUNCTION);
        break;
    }
}

void script_run(struct call *call)
{
    struct unit *unit = call->unit;
    struct script_start start = { .source = NULL };
    struct running_script running;
    const char *error;

    if (unit->start.is_found) {
        start = unit->start;
        unit->start = (struct script_start){ .source = NULL };
    } else if (!script_find(call, &start)) {
        script_start_release(&start);
        return;
    }
    error = role_refusal(call->engine, call->client, &start);
    if (error == NULL && unit->command->flags & COMMAND_RUNS_QUEUE)
        error = refusal_in_exec(call, &start);
    if (error != NULL) {
        reply_errorf(call, "%s", error);
        script_start_release(&start);
        return;
    }
    monitor_send(call, unit->worker);
    running_script_begin(unit, call, &start, &running);
    run_script(call, &start);
    running_script_end(unit, &running);
    if (unit->stop == UNIT_KILLED) {
        unit->stop = UNIT_GOES_ON;          /* a transaction goes on after it */
        reply_truncate(call->reply, call->reply_start);
        reply_killed(call);
    }
    script_start_release(&start);
}
