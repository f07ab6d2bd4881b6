/* The subcommands of CLIENT that concern the caller's connection or the whole server. */
#include "commands/client_line.h"
#include "commands/client_name.h"
#include "commands/handlers.h"
#include "engine/blocking.h"
#include "engine/barrier.h"
#include "engine/engine.h"

void client_id_command(struct call *call)
{
    reply_integer(call->reply, (int64_t)call->client->id);
}

void client_getname_command(struct call *call)
{
    if (call->client->names.name == NULL)
        reply_null(call->reply);
    else
        reply_bulk_string(call->reply, call->client->names.name);
}

void client_setname_command(struct call *call)
{
    if (!client_name_accept(call, BYTES("Client names"), call->args[2]))
        return;
    client_set_text(call->client, &call->client->names.name, call->args[2]);
    reply_ok(call->reply);
}

void client_setinfo_command(struct call *call)
{
    struct bytes option = call->args[2];
    char **field;

    if (arg_is(call, 2, "lib-name")) {
        field = &call->client->names.lib_name;
    } else if (arg_is(call, 2, "lib-ver")) {
        field = &call->client->names.lib_version;
    } else {
        reply_errorf(call, "ERR Unrecognized option '%.*s'", (int)option.size, option.data);
        return;
    }
    if (!client_name_accept(call, option, call->args[3]))
        return;
    client_set_text(call->client, field, call->args[3]);
    reply_ok(call->reply);
}

void client_info_command(struct call *call)
{
    struct line_caller caller = line_caller_of(call);
    struct buffer line = { 0 };

    client_line(&line, call->client, &caller, call->turn->now_us);
    reply_verbatim(call->reply, "txt", buffer_bytes(&line));
    buffer_release(&line);
}

static void switch_flag(struct call *call, uint32_t flag)
{
    if (arg_is(call, 2, "on")) {
        call->client->flags |= flag;
    } else if (arg_is(call, 2, "off")) {
        call->client->flags &= ~flag;
    } else {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    reply_ok(call->reply);
}

void client_noevict_command(struct call *call)
{
    switch_flag(call, CLIENT_NO_EVICT);
    client_memory_note_exempt(call->client);
}

void client_notouch_command(struct call *call)
{
    switch_flag(call, CLIENT_NO_TOUCH);
}

/* -1: as long as it takes. */
void client_tierwait_command(struct call *call)
{
    struct client_cold_wait *wait = &call->client->cold_wait;
    int64_t ms;

    if (!arg_integer_between(call, 2, -1, INT32_MAX, "ERR the time is a number of milliseconds, or -1: as long as it takes", &ms))
        return;
    wait->is_bounded = ms >= 0;
    wait->max_ms = ms;
    reply_ok(call->reply);
}

/* OFF and SKIP get no reply. */
void client_reply_command(struct call *call)
{
    struct client *client = call->client;

    if (arg_is(call, 2, "on")) {
        client->flags &= ~(uint32_t)(CLIENT_REPLY_OFF | CLIENT_REPLY_SKIP);
        reply_ok(call->reply);
    } else if (arg_is(call, 2, "off")) {
        client->flags |= CLIENT_REPLY_OFF;
    } else if (arg_is(call, 2, "skip")) {
        if (!(client->flags & CLIENT_REPLY_OFF))
            client->flags |= CLIENT_REPLY_SKIP_NEXT;
    } else {
        reply_error(call, ERR_SYNTAX);
    }
}

static void reply_too_many(struct call *call)
{
    reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try CLIENT HELP.", (int)call->args[1].size,
        call->args[1].data);
}

/* An active pause may be made longer and stricter, but not shorter or weaker. The command is exclusive: when it replies nothing that the pause
 * concerns is still running. */
void client_pause_command(struct call *call)
{
    struct engine *engine = call->engine;
    int64_t now_us = call->turn->now_us, timeout_ms, until_us = engine->pause_until_us;
    bool writes_only = false;

    if (barrier_is_passed(call)) {
        reply_ok(call->reply);
        return;
    }
    if (call->arg_count > 4) {
        reply_too_many(call);
        return;
    }
    if (call->arg_count == 4) {
        writes_only = arg_is(call, 3, "write");
        if (!writes_only && !arg_is(call, 3, "all")) {
            reply_errorf(call, "ERR CLIENT PAUSE mode must be WRITE or ALL");
            return;
        }
    }
    if (!arg_integer_between(call, 2, INT64_MIN, INT64_MAX, "ERR timeout is not an integer or out of range", &timeout_ms))
        return;
    if (timeout_ms < 0) {
        reply_errorf(call, "ERR timeout is negative");
        return;
    }
    if (timeout_ms > INT64_MAX - call->turn->now_ms) {
        reply_errorf(call, "ERR timeout is out of range");
        return;
    }
    engine->pause_writes_only = writes_only && (until_us <= now_us || engine->pause_writes_only);
    if (timeout_ms > 0) {
        int64_t end_us = timeout_ms < (INT64_MAX - now_us) / 1000 ? now_us + timeout_ms * 1000 : INT64_MAX;

        if (end_us > until_us)
            engine->pause_until_us = end_us;
    }
    parking_notify(engine, PARKED_FOR_PAUSE);       /* reads that the last pause held back, if its end has not been noticed yet, and this one lets pass */
    barrier_wait(call);
}

void client_unpause_command(struct call *call)
{
    struct engine *engine = call->engine;

    engine->pause_until_us = 0;
    parking_notify(engine, PARKED_FOR_PAUSE);
    reply_ok(call->reply);
}

void client_unblock_command(struct call *call)
{
    int64_t id;

    if (call->arg_count > 4) {
        reply_too_many(call);
    } else if (call->arg_count == 4 && !arg_is(call, 3, "timeout") && !arg_is(call, 3, "error")) {
        reply_errorf(call, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    } else if (arg_integer(call, 2, &id)) {
        reply_integer(call->reply, blocking_unblock(call->client->worker, (uint64_t)id,
            call->arg_count == 4 && arg_is(call, 3, "error") ? BLOCKING_UNBLOCKED : BLOCKING_TIMED_OUT));
    }
}

void client_help_command(struct call *call)
{
    static const char *const lines[] = {
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CACHING (YES|NO)",
        "    Chooses whether the next command's keys are tracked, in OPTIN or OPTOUT mode.",
        "GETNAME",
        "    Returns the name of this connection.",
        "GETREDIR",
        "    Returns the ID of the client that receives this connection's tracking messages.",
        "ID",
        "    Returns the ID of this connection.",
        "INFO",
        "    Returns this connection's line of CLIENT LIST.",
        "KILL <ip:port>",
        "    Closes the connection from that address.",
        "KILL <option> <value> [<option> <value> ...]",
        "    Closes all connections that match all of these options:",
        "    ADDR <ip:port>, LADDR <ip:port>, ID <client-id>, USER <username>, MAXAGE <seconds>: at least that old,",
        "    TYPE (NORMAL|MASTER|REPLICA|PUBSUB), SKIPME (YES|NO): not this connection, which is the default.",
        "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> ...]",
        "    Returns one line for each client.",
        "NO-EVICT (ON|OFF)",
        "    Chooses whether this connection is kept when clients use too much memory.",
        "NO-TOUCH (ON|OFF)",
        "    Chooses whether this connection's commands do not change the heat of keys.",
        "TIER-WAIT <milliseconds>",
        "    A command that needs keys from the disk replies -COLD after that time, and they are loaded meanwhile. -1: it waits.",
        "PAUSE <timeout> [WRITE|ALL]",
        "    Delays all commands, or those that write, for that many milliseconds.",
        "REPLY (ON|OFF|SKIP)",
        "    Turns the replies to this connection on or off, or skips the next one.",
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "    Sets the name or the version of this connection's client library.",
        "SETNAME <name>",
        "    Sets the name of this connection.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]",
        "    Turns messages about changed keys, which the client may have a copy of, on or off.",
        "TRACKINGINFO",
        "    Returns how keys are tracked for this connection.",
        "UNBLOCK <client-id> [TIMEOUT|ERROR]",
        "    Ends the wait of a client in a blocking command.",
        "UNPAUSE",
        "    Ends CLIENT PAUSE.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
