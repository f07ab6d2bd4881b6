#include "engine/big_call.h"

#include "engine/worker.h"

void big_call_release(struct engine *engine)
{
    engine->big_client = NULL;
    parking_notify(engine, PARKED_FOR_BIG_CALL);
}
