#include "engine/client_pause.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "engine/engine.h"

struct client_pause {
    struct mutex lock;
    int64_t until_ms;               /* lock: CLIENT PAUSE's; 0: none */
    bool writes_only;               /* lock */
    bool is_held;                   /* lock */
};

struct client_pause *client_pause_create(void)
{
    struct client_pause *pause = mem_zalloc(sizeof(*pause));

    mutex_init(&pause->lock);
    return pause;
}

void client_pause_destroy(struct client_pause *pause)
{
    if (pause == NULL)
        return;
    mutex_release(&pause->lock);
    mem_free(pause);
}

static void publish(struct engine *engine) REQUIRES(engine->client_pause->lock);
static void publish(struct engine *engine)
{
    const struct client_pause *pause = engine->client_pause;

    engine->pause_writes_only = pause->until_ms == 0 || pause->writes_only;
    engine->pause_until_ms = pause->is_held ? INT64_MAX : pause->until_ms;
    engine->writes_are_held = pause->is_held;
}

/* Paused clients are in the queue of those that wait for memory. */
static void let_clients_look(struct engine *engine)
{
    for (int i = 0; i < engine->worker_count; i++)
        mailbox_note_memory(&engine->workers[i]->mailbox);
}

void client_pause_until(struct engine *engine, int64_t now_ms, int64_t until_ms, bool writes_only)
{
    struct client_pause *pause = engine->client_pause;

    mutex_lock(&pause->lock);
    pause->writes_only = writes_only && (pause->until_ms <= now_ms || pause->writes_only);
    if (until_ms > now_ms && until_ms > pause->until_ms)
        pause->until_ms = until_ms;
    publish(engine);
    mutex_unlock(&pause->lock);
}

void client_pause_end(struct engine *engine)
{
    mutex_lock(&engine->client_pause->lock);
    engine->client_pause->until_ms = 0;
    publish(engine);
    mutex_unlock(&engine->client_pause->lock);
    let_clients_look(engine);
}

void client_pause_hold(struct engine *engine, bool is_held)
{
    mutex_lock(&engine->client_pause->lock);
    engine->client_pause->is_held = is_held;
    publish(engine);
    mutex_unlock(&engine->client_pause->lock);
    let_clients_look(engine);
}

void client_pause_tick(struct engine *engine, int64_t now_ms)
{
    struct client_pause *pause = engine->client_pause;

    if (engine->pause_until_ms == 0)
        return;
    mutex_lock(&pause->lock);
    if (pause->until_ms != 0 && now_ms >= pause->until_ms) {
        pause->until_ms = 0;
        publish(engine);
    }
    mutex_unlock(&pause->lock);
}
