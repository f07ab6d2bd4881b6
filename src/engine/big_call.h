/* The big-call token: of the calls that need very many cold keys at once, one runs at a time (tier rule 7). A client holds it from the
 * moment its call starts to load keys until the call has run or the client is gone.
 */
#ifndef KELVIN_ENGINE_BIG_CALL_H
#define KELVIN_ENGINE_BIG_CALL_H

#include "engine/engine.h"

/* False: another client holds it; this one waits for memory, and is resumed when the token is free. Any lock. */
static inline bool big_call_take(struct engine *engine, struct client *client)
{
    struct client *nobody = NULL;

    return engine->big_client == client || atomic_compare_exchange_strong(&engine->big_client, &nobody, client);
}

/* Wakes those that wait for the token. */
void big_call_release(struct engine *engine);

/* Gives the token back, if the client holds it. */
static inline void big_call_end(struct engine *engine, const struct client *client)
{
    if (__builtin_expect(engine->big_client == client, 0))
        big_call_release(engine);
}

#endif
