#include "commands/admin.h"

#include "base/mem.h"
#include "base/message.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "engine/monitor.h"
#include "lifecycle/shutdown.h"
#include "stats/info.h"

void admin_reply_usage(struct call *call, const char *command)
{
    reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.",
        call_format(call, "%.*s", (int)call->args[1].size, call->args[1].data).data, command);
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool admin_is_local(const struct call *call)
{
    const char *address = call->requester->address;

    if (call->requester->flags & CLIENT_UNIX_SOCKET)
        return true;
    return begins_with(address, "127.0.0.1:") || begins_with(address, "[::1]:") || begins_with(address, "::1:");
}

struct errand {
    struct job job;
    bool (*run)(struct engine *engine, struct message *message);
    bool went_well;
    struct message message;
};

static void run_errand(struct job *job, struct engine *engine)
{
    struct errand *errand = (struct errand *)job;

    errand->went_well = errand->run(engine, &errand->message);
}

void admin_errand(struct call *call, bool (*run)(struct engine *engine, struct message *message))
{
    struct errand *errand = call_job(call);

    if (errand == NULL) {
        errand = mem_zalloc(sizeof(*errand));
        errand->job = (struct job){ .run = run_errand };
        errand->run = run;
        call_start_job(call, &errand->job);
    } else if (errand->went_well) {
        reply_ok(call->reply);
    } else {
        reply_errorf(call, "ERR %s", errand->message.text);
    }
}

/* INFO [section ...] */
void info_command(struct call *call)
{
    struct buffer text = { 0 };

    info_write(call->engine->stats.info, call->args + 1, call->arg_count - 1, call->engine, &text);
    reply_verbatim(call->reply, "txt", buffer_bytes(&text));
    buffer_release(&text);
}

/* A monitor that sends MONITOR again gets no reply, and a replica neither, as in Redis. */
void monitor_command(struct call *call)
{
    if (call->client->flags & (CLIENT_MONITOR | CLIENT_REPLICA))
        return;
    if (!call_may_wait(call)) {
        reply_errorf(call, "ERR MONITOR isn't allowed for DENY BLOCKING client");
        return;
    }
    monitor_begin(call->client);
    reply_ok(call->reply);
}

/* SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]. No reply if it succeeds: the connection ends. */
void shutdown_command(struct call *call)
{
    struct shutdown *shutdown = call->engine->lifecycle.shutdown;
    struct job *wait;
    bool abort = false;
    int flags = 0;

    for (int i = 1; i < call->arg_count; i++) {
        if (arg_is(call, i, "nosave"))
            flags |= CONFIG_SHUTDOWN_NOSAVE;
        else if (arg_is(call, i, "save"))
            flags |= CONFIG_SHUTDOWN_SAVE;
        else if (arg_is(call, i, "now"))
            flags |= CONFIG_SHUTDOWN_NOW;
        else if (arg_is(call, i, "force"))
            flags |= CONFIG_SHUTDOWN_FORCE;
        else if (arg_is(call, i, "abort"))
            abort = true;
        else
            flags = -1;
        if (flags < 0)
            break;
    }
    if (call_job(call) != NULL) {
        reply_errorf(call, "ERR Errors trying to SHUTDOWN. Check logs.");
    } else if (flags < 0 || (abort && flags != 0) || (flags & CONFIG_SHUTDOWN_SAVE && flags & CONFIG_SHUTDOWN_NOSAVE)) {
        reply_error(call, ERR_SYNTAX);
    } else if (abort && shutdown_abort(shutdown)) {
        reply_ok(call->reply);
    } else if (abort) {
        reply_errorf(call, "ERR No shutdown in progress.");
    } else {
        wait = mem_zalloc(sizeof(*wait));
        call_wait_job(call, wait);
        shutdown_ask(shutdown, flags, wait);
    }
}
