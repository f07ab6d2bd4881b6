#include "engine/transaction.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/watch.h"

struct transaction *transaction_of(struct client *client)
{
    if (client->transaction == NULL)
        client->transaction = mem_zalloc(sizeof(*client->transaction));
    return client->transaction;
}

void transaction_begin(struct client *client)
{
    transaction_of(client);
    client->flags |= CLIENT_MULTI;
}

static void append(struct transaction *transaction, struct call *call, uint32_t flags)
{
    struct queued *queued;
    size_t size;

    if (transaction->count == transaction->capacity) {
        transaction->capacity = transaction->capacity > 0 ? transaction->capacity * 2 : 4;
        transaction->queue = mem_realloc(transaction->queue, (size_t)transaction->capacity * sizeof(*transaction->queue));
    }
    queued = &transaction->queue[transaction->count++];
    queued->command = call->command;
    queued->args = mem_copy_array(call->args, call->arg_count, &size);
    queued->arg_count = call->arg_count;
    transaction->size += size + sizeof(*queued);
    transaction->flags |= flags;
    transaction->lacking |= ~flags;
}

void transaction_queue(struct call *call, uint32_t flags)
{
    struct transaction *transaction = call->client->transaction;
    size_t limit = (size_t)config_number(call->engine->config, CONFIG_CLIENT_QUERY_BUFFER_LIMIT);

    if (call->command->flags & COMMAND_NO_MULTI) {
        reply_errorf(call, "ERR Command not allowed inside a transaction");
        transaction->has_failed = true;
    } else if (transaction->size > limit) {
        reply_errorf(call, "ERR the transaction's queue is larger than client-query-buffer-limit");
        transaction->has_failed = true;
    } else {
        if (!transaction->has_failed)           /* it will be discarded: no need to keep what follows */
            append(transaction, call, flags);
        reply_status(call->reply, BYTES("QUEUED"));
    }
}

void transaction_note_refused(struct client *client)
{
    if (client->flags & CLIENT_MULTI)
        client->transaction->has_failed = true;
}

void transaction_end(struct client *client)
{
    struct transaction *transaction = client->transaction;

    client->flags &= ~(uint32_t)CLIENT_MULTI;
    if (transaction == NULL)
        return;
    watch_end(client);
    for (int i = 0; i < transaction->count; i++)
        mem_free(transaction->queue[i].args);
    mem_free(transaction->queue);
    mem_free(transaction);
    client->transaction = NULL;
}
