/* The stream that replicas are sent: its backlog, and the workers that have replicas. */
#include "replication/primary_private.h"

/* Memory for what a connected replica lacks, before it goes to the disk: bytes, and at most this share of maxmemory. */
enum { READER_MEMORY = 16 << 20, READER_MEMORY_SHARE = 64 };

void primary_ring(struct primary *primary)
{
    struct engine *engine = primary->engine;

    for (int i = 0; i < engine->worker_count; i++) {
        if (primary->by_worker[i % 64] > 0)
            mailbox_ring(&engine->workers[i]->mailbox);
    }
}

enum replica_fill primary_drop(struct replica *replica, const char *what)
{
    log_write(replica->primary->engine->log, LOG_LEVEL_WARNING, "Closing the connection to replica %s: %s", replica->client->address, what);
    return REPLICA_FILL_CLOSE;
}

void primary_open_backlog(struct engine *engine)
{
    uint64_t share = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY) / READER_MEMORY_SHARE;
    struct backlog_options options = {
        .memory_size = (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_SIZE),
        .disk_size = (uint64_t)config_number(engine->config, CONFIG_REPL_BACKLOG_DISK_SIZE),
        .reader_memory = share > 0 && share < READER_MEMORY ? share : READER_MEMORY,
        .dir = ".",
        .closer = engine->closer,
    };

    engine->replication.primary->seen_ms = primary_now_ms();
    history_open_backlog(&engine->history, &options);
}

void primary_need_backlog(struct engine *engine)
{
    if (history_backlog(&engine->history) == NULL)
        primary_open_backlog(engine);
}
