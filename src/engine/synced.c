#include "engine/synced.h"

#include "engine/engine.h"

static bool is_here(const struct engine *engine, const struct client *client)
{
    struct aof *aof = engine->aof;

    return aof != NULL && aof_durable(aof) >= client->lsn.written;
}

static int64_t count_there(struct engine *engine, const struct client *client, enum call_wait_end end)
{
    return engine->upper.acknowledged != NULL ? engine->upper.acknowledged(engine, client->lsn.written, end == CALL_WAIT_SYNCED) : 0;
}

bool synced_is_reached(struct engine *engine, const struct client *client, const struct synced_aim *aim)
{
    if (aim->here > 0 && !is_here(engine, client))
        return false;
    return aim->there <= 0 || count_there(engine, client, aim->end) >= aim->there;
}

const char *synced_error(const struct engine *engine, const struct synced_aim *aim)
{
    if (aim->end != CALL_WAIT_SYNCED || aim->here == 0 || engine->aof != NULL)
        return NULL;
    return "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
}

void synced_reply(struct engine *engine, const struct client *client, enum call_wait_end end, struct reply *reply)
{
    if (end == CALL_WAIT_SYNCED) {
        reply_array(reply, 2);
        reply_integer(reply, is_here(engine, client));
    }
    reply_integer(reply, count_there(engine, client, end));
}

void synced_ask(struct call *call)
{
    struct engine *engine = call->engine;
    uint64_t lsn = engine->upper.ask_replicas != NULL ? engine->upper.ask_replicas(engine) : 0;

    if (lsn > call->turn->lsn_seen)
        call->turn->lsn_seen = lsn;         /* the turn's end writes the log up to there */
}
