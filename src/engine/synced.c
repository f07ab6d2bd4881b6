#include "engine/synced.h"

#include "engine/engine.h"

bool synced_is_here(const struct engine *engine, const struct client *client)
{
    struct aof *aof = engine->aof;

    return aof != NULL && aof_durable(aof) >= client->lsn_written;
}

const char *synced_error(const struct engine *engine, enum call_wait_end end)
{
    if (end < CALL_WAIT_SYNCED_HERE || engine->aof != NULL)
        return NULL;
    return "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
}

void synced_reply(const struct engine *engine, const struct client *client, struct reply *reply)
{
    reply_array(reply, 2);
    reply_integer(reply, synced_is_here(engine, client));
    reply_integer(reply, 0);
}
