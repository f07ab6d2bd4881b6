/* The flags of a script's request: what it may do, as far as the script says so, before it is run. */
#include "engine/engine.h"
#include "engine/script_run.h"
#include "engine/scripts.h"
#include "script/shebang.h"

/* SCRIPT_COMPATIBLE: it is not known, or says nothing. */
static uint32_t said_by_script(const struct call *call)
{
    struct registry_view *view = scripts_of(call->requester->worker);
    struct buffer error = { 0 };
    uint32_t said = SCRIPT_COMPATIBLE;
    size_t body;

    if (call->command->name[0] == 'f') {
        const struct library_function *function = library_set_function(view->libraries, call->args[1]);

        return function != NULL ? function->flags : SCRIPT_COMPATIBLE;
    }
    if (strncmp(call->command->name, "evalsha", 7) == 0) {
        char sha[SCRIPT_SHA_SIZE];
        struct source *source = source_read_sha(call->args[1], sha) ? registry_view_source(view, sha) : NULL;

        if (source != NULL)
            said = source->flags;
        source_release(source);
        return said;
    }
    if (!shebang_of_script(call->args[1], &body, &said, &error))
        said = SCRIPT_COMPATIBLE;
    buffer_release(&error);
    return said;
}

uint32_t script_call_flags(const struct call *call)
{
    uint32_t flags = call->command->flags, said = said_by_script(call);

    if (said & SCRIPT_COMPATIBLE)
        return flags;
    if (said & SCRIPT_NO_WRITES)
        flags &= ~(uint32_t)COMMAND_MAY_REPLICATE;
    else
        flags |= COMMAND_WRITE | (said & SCRIPT_ALLOW_OOM ? 0 : COMMAND_DENYOOM);
    return said & SCRIPT_ALLOW_STALE ? flags : flags & ~(uint32_t)COMMAND_STALE;
}
