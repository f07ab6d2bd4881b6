/* MULTI, EXEC, DISCARD, WATCH, UNWATCH. */
#include "engine/transaction.h"

#include "commands/handlers.h"
#include "engine/access.h"
#include "engine/unit.h"
#include "engine/watch.h"

void multi_command(struct call *call)
{
    if (call->client->flags & CLIENT_MULTI) {
        reply_errorf(call, "ERR MULTI calls can not be nested");
        return;
    }
    transaction_begin(call->client);
    reply_ok(call->reply);
}

void discard_command(struct call *call)
{
    if (!(call->client->flags & CLIENT_MULTI)) {
        reply_errorf(call, "ERR DISCARD without MULTI");
        return;
    }
    transaction_end(call->client);
    reply_ok(call->reply);
}

void watch_command(struct call *call)
{
    if (call->client->flags & CLIENT_MULTI) {
        reply_errorf(call, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    for (int i = 1; i < call->arg_count; i++) {
        struct key key;

        key_open(call, i, KEY_FOR_LOOKING, &key);
        watch_add(call, transaction_of(call->client), &key);
    }
    reply_ok(call->reply);
}

/* The partitions of the keys are not locked here: UNWATCH's row names no keys. */
void unwatch_command(struct call *call)
{
    watch_end(call->client);
    reply_ok(call->reply);
}

/* Drops what was replied after CLIENT REPLY OFF; what was replied before it is sent. */
static void drop_unwanted_reply(struct call *exec, const struct call *call, bool was_off)
{
    if (!(exec->client->flags & CLIENT_REPLY_OFF) || was_off)
        return;
    reply_truncate(exec->reply, call->reply_start);
    exec->unit->keeps_reply = true;
}

static bool run_queued(struct call *exec, const struct queued *queued, bool was_off)
{
    struct call call = unit_new_call(exec->unit, exec->client, exec->reply, queued->args, queued->arg_count);
    bool goes_on = true;

    call.command = queued->command;
    if (access_is_limited(exec->client) && !access_allows(&call, ACCESS_EXEC))
        return true;
    if (call.command->flags & COMMAND_UNIT)
        unit_run_inner(exec->unit, &call);
    else
        goes_on = unit_call(exec->unit, &call);
    drop_unwanted_reply(exec, &call, was_off);
    return goes_on;
}

/* Runs as a unit, which owns the partitions of all keys that the commands name, and of the watched keys. */
void exec_command(struct call *call)
{
    struct client *client = call->client;
    struct transaction *transaction = client->transaction;
    bool was_off = client->flags & CLIENT_REPLY_OFF;

    if (watch_is_broken(client, call->unit->now_ms)) {
        reply_null_array(call->reply);
        transaction_end(client);
        return;
    }
    watch_end(client);
    client->flags &= ~(uint32_t)CLIENT_MULTI;
    reply_array(call->reply, (size_t)transaction->count);
    for (int i = 0; i < transaction->count; i++) {
        if (!run_queued(call, &transaction->queue[i], was_off))
            break;
    }
    transaction_end(client);
}
