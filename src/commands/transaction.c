/* MULTI, EXEC, DISCARD, WATCH, UNWATCH. */
#include "engine/transaction.h"

#include "commands/handlers.h"
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
        watch_add(call, &key);
    }
    reply_ok(call->reply);
}

/* The partitions of the keys are not locked here: UNWATCH's row names no keys. */
void unwatch_command(struct call *call)
{
    watch_end(call->client);
    reply_ok(call->reply);
}

static bool run_queued(struct call *exec, const struct queued *queued)
{
    struct call call = unit_new_call(exec->unit, exec->client, exec->reply, queued->args, queued->arg_count);

    call.command = queued->command;
    return unit_call(exec->unit, &call);
}

/* Runs as a unit, which owns the partitions of all keys that the commands name, and of the watched keys. */
void exec_command(struct call *call)
{
    struct client *client = call->client;
    struct transaction *transaction = client->transaction;

    if (watch_is_broken(client, call->unit->now_ms)) {
        reply_null_array(call->reply);
        transaction_end(client);
        return;
    }
    watch_end(client);
    client->flags &= ~(uint32_t)CLIENT_MULTI;
    reply_array(call->reply, (size_t)transaction->count);
    for (int i = 0; i < transaction->count; i++) {
        if (!run_queued(call, &transaction->queue[i]))
            break;
    }
    transaction_end(client);
}
