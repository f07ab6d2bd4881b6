#include "engine/big_call.h"

#include "engine/worker.h"

void big_call_release(struct engine *engine)
{
    engine->big_client = NULL;
    for (int i = 0; i < engine->worker_count; i++)
        mailbox_note_memory(&engine->workers[i]->mailbox);
}
