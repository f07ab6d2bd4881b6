#include "commands/stream_log.h"

#include "commands/stream_id.h"

enum { CLAIMS_LOGGED_MAX = 512 };       /* IDs in one logged XCLAIM */

void claim_log_begin(struct claim_log *log, struct call *call, int key_arg, const struct stream_group *group,
    const struct stream_consumer *consumer)
{
    *log = (struct claim_log){
        .call = call,
        .key = call->args[key_arg],
        .group_name = group->name,
        .group = group,
        .consumer = consumer->name,
    };
}

static void claim_log_flush(struct claim_log *log)
{
    struct bytes *words = log->words;
    int count = 5 + log->id_count;

    if (log->id_count == 0)
        return;
    words[0] = BYTES("XCLAIM");
    words[1] = log->key;
    words[2] = log->group_name;
    words[3] = log->consumer;
    words[4] = BYTES("0");
    words[count++] = BYTES("TIME");
    words[count++] = call_integer(log->call, log->delivered_ms);
    words[count++] = BYTES("RETRYCOUNT");
    words[count++] = call_integer(log->call, (int64_t)log->deliveries);
    words[count++] = BYTES("FORCE");
    words[count++] = BYTES("JUSTID");
    words[count++] = BYTES("LASTID");
    words[count++] = call_stream_id(log->call, log->group->last_id);
    call_propagate(log->call, words, count);
    log->id_count = 0;
}

void claim_log_add(struct claim_log *log, struct stream_id id, const struct stream_pending *pending)
{
    if (log->id_count == CLAIMS_LOGGED_MAX || (log->id_count > 0 &&
        (log->delivered_ms != pending->delivered_ms || log->deliveries != pending->deliveries)))
        claim_log_flush(log);
    if (log->words == NULL)
        log->words = arena_alloc(log->call->arena, (CLAIMS_LOGGED_MAX + 13) * sizeof(*log->words));
    log->delivered_ms = pending->delivered_ms;
    log->deliveries = pending->deliveries;
    log->words[5 + log->id_count++] = call_stream_id(log->call, id);
}

void claim_log_end(struct claim_log *log)
{
    claim_log_flush(log);
}

void log_group_position(struct call *call, int key_arg, const struct stream_group *group)
{
    const struct bytes words[] = {
        BYTES("XGROUP"), BYTES("SETID"), call->args[key_arg], group->name, call_stream_id(call, group->last_id), BYTES("ENTRIESREAD"),
        call_integer(call, group->entries_read)
    };

    call_propagate(call, words, 7);
}

void log_consumer_created(struct call *call, int key_arg, const struct stream_group *group, const struct stream_consumer *consumer)
{
    const struct bytes words[] = { BYTES("XGROUP"), BYTES("CREATECONSUMER"), call->args[key_arg], group->name, consumer->name };

    call_propagate(call, words, 5);
}
