/* EVAL, EVALSHA, FCALL, their read-only forms, and how they are ended. */
#include "commands/handlers.h"
#include "engine/running_scripts.h"
#include "engine/script_run.h"

void eval_command(struct call *call)
{
    if (call->requester->flags & CLIENT_DEBUGS)
        reply_errorf(call, "ERR Kelvin has no debugger for scripts. The script did not run, and none will until SCRIPT DEBUG NO");
    else
        script_run(call);
}

void script_kill_command(struct call *call)
{
    running_scripts_kill(call, false);
}

void function_kill_command(struct call *call)
{
    running_scripts_kill(call, true);
}
