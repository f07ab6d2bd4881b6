/* Errors for calls that are refused. */
#include "engine/execute_private.h"

#include <errno.h>

#include "engine/delivery.h"
#include "engine/job.h"
#include "engine/role.h"

enum { ARGS_SHOWN_MAX = 128 };

static void reply_unknown_command(struct call *call)
{
    struct buffer text = { 0 };
    size_t begin;

    buffer_append_format(&text, "ERR unknown command '%.*s', with args beginning with: ",
        (int)(call->args[0].size < ARGS_SHOWN_MAX ? call->args[0].size : ARGS_SHOWN_MAX), call->args[0].data);
    begin = text.size;
    for (int i = 1; i < call->arg_count && text.size - begin < ARGS_SHOWN_MAX; i++) {
        int left = ARGS_SHOWN_MAX - (int)(text.size - begin);

        buffer_append_format(&text, "'%.*s' ", (int)call->args[i].size < left ? (int)call->args[i].size : left, call->args[i].data);
    }
    call->failed = true;
    reply_error_text(call->reply, buffer_bytes(&text));
    buffer_release(&text);
}

static void reply_unknown_child(struct call *call)
{
    struct bytes name = call_upper_name(call);

    reply_errorf(call, "ERR unknown subcommand '%.128s'. Try %.*s HELP.",
        call_format(call, "%.*s", (int)call->args[1].size, call->args[1].data).data, (int)name.size, name.data);
}

void execute_reply_unknown(struct call *call)
{
    const struct command_table *commands = call->engine->commands;
    const struct command *container = call->client->caller & TRAIT_LOGGED_NAMES ? command_find_logged(commands, call->args[0])
        : command_find(commands, call->args[0]);

    if (container != NULL)
        reply_unknown_child(call);
    else
        reply_unknown_command(call);
}

void execute_reply_busy(struct call *call, bool is_function)
{
    reply_errorf(call, "BUSY Redis is busy running a script. You can only call %s KILL or SHUTDOWN NOSAVE.", is_function ? "FUNCTION" : "SCRIPT");
}

/* All of them get what was sent before the call, so that it is not after the call's reply. */
bool execute_allows_listener(struct call *call)
{
    struct client *client = call->client;
    uint32_t flags = call->command->flags;

    if (client->flags & CLIENT_LISTENS) {
        delivery_catch_up(client);
        call->reply_start = client->reply.out.size;
    }
    if (client->flags & CLIENT_SUBSCRIBED && client->reply.protocol == 2 && !(flags & COMMAND_SUBSCRIBED)) {
        reply_errorf(call, "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
            call->command->name);
        return false;
    }
    if (client->flags & (CLIENT_MONITOR | CLIENT_REPLICA) && flags & (COMMAND_READONLY | COMMAND_WRITE | COMMAND_MAY_REPLICATE)) {
        reply_errorf(call, "ERR Replica can't interact with the keyspace");     /* as Redis says it: a monitor is a kind of replica there */
        return false;
    }
    return true;
}

bool engine_disks_fail(struct engine *engine, int *number)
{
    struct aof *aof = engine->aof;

    *number = 0;
    if (engine->save_failed && engine->upper.denies_writes != NULL && engine->upper.denies_writes(engine))
        return true;
    if (aof == NULL || aof_error(aof) == STATUS_OK)
        return false;
    *number = aof_error_number(aof);
    return true;
}

/* A dump or the log cannot be written: writes are refused, and so is PING, so that monitoring notices. While the disk is full those writes are
 * admitted that free memory or take none, also if a dump has failed: the log has them, and only they make room for the next dump. */
bool execute_disks_allow(struct call *call, uint32_t flags)
{
    bool is_ping = strcmp(call->command->name, "ping") == 0, is_full = engine_disk_refuses_growth(call->engine);
    int number;
    bool fails;

    if (!(flags & COMMAND_WRITE) && !is_ping)
        return true;
    fails = engine_disks_fail(call->engine, &number);
    if (is_full && number == 0) {
        if (!(flags & COMMAND_DENYOOM) && !is_ping)
            return true;
        number = ENOSPC;
    } else if (!fails) {
        return true;
    }
    if (number != 0)
        reply_errorf(call, "MISCONF Errors writing to the AOF file: %s", strerror(number));
    else
        reply_errorf(call, "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. "
            "Commands that may modify the data set are disabled, because this instance is configured to report errors during "
            "writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details "
            "about the RDB error.");
    return false;
}

const char execute_stale_error[] = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

const char execute_readonly_error[] = "READONLY You can't write against a read only replica.";

const char *execute_write_refusal(const struct engine *engine)
{
    uint32_t bits = role_bits(engine);

    if (bits & ROLE_LEASED && role_lease_has_ended(engine))
        return "CLUSTERDOWN master lease expired";
    if (bits & ROLE_FEW_REPLICAS)
        return "NOREPLICAS Not enough good replicas to write.";
    return bits & ROLE_READ_ONLY ? execute_readonly_error : NULL;
}

static bool has_only_reply_left(struct call *call)
{
    const struct job *done = call_job(call);

    return done != NULL && done->has_only_reply_left;
}

/* In Redis' order. */
bool execute_role_allows(struct call *call, uint32_t any_flags, uint32_t common_flags)
{
    uint32_t bits = role_bits(call->engine);
    const char *error = any_flags & COMMAND_WRITE ? execute_write_refusal(call->engine) : NULL;

    /* Held back by FAILOVER, which may still be undone: it waits on. The role is looked at again under the locks. */
    if (any_flags & COMMAND_WRITE && call->client->paused && call->engine->holds_writes)
        return true;
    if (!execute_disks_allow(call, any_flags))
        return false;
    if (error == NULL && bits & ROLE_STALE && !(common_flags & COMMAND_STALE))
        error = execute_stale_error;
    if (error != NULL)
        reply_errorf(call, "%s", error);
    else if (bits & ROLE_SYNCING && !(common_flags & (COMMAND_LOADING | COMMAND_SYNCING)) && !has_only_reply_left(call))
        reply_error(call, ERR_NOT_LOADED);
    return !call->failed;
}
