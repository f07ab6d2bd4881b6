/* SCRIPT: the sources of EVAL. script/registry.h has them. */
#include "call/call.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "engine/scripts.h"

/* Bytes that the sources of SCRIPT LOAD may take before the next one is refused: a share of maxmemory, or some that any server has room for. */
enum { KEPT_SHARE = 8, KEPT_MIN = 1 << 20 };

static bool may_keep(struct call *call)
{
    uint64_t memory = (uint64_t)config_number(call->engine->config, CONFIG_MAXMEMORY);
    struct registry_stats stats;

    registry_stats(call->engine->scripts, &stats);
    return memory == 0 || stats.kept_bytes <= KEPT_MIN || stats.kept_bytes <= memory / KEPT_SHARE;
}

/* SCRIPT LOAD source */
void script_load_command(struct call *call)
{
    struct registry_view *view = scripts_of(call->client->worker);
    struct buffer error = { 0 };
    struct source *source;

    if (!may_keep(call)) {
        reply_errorf(call, "OOM the scripts of SCRIPT LOAD take more than an eighth of maxmemory. SCRIPT FLUSH drops them.");
        return;
    }
    source = registry_view_add(view, call->args[2], SOURCE_OF_LOAD, &error);
    scripts_measure(call->client->worker);
    if (source != NULL)
        reply_bulk(call->reply, bytes_of(source->script.sha, SCRIPT_SHA_SIZE));
    else
        reply_errorf(call, "%.*s", (int)error.size, error.data);
    source_release(source);
    buffer_release(&error);
}

/* SCRIPT EXISTS sha ... */
void script_exists_command(struct call *call)
{
    reply_array(call->reply, (size_t)call->arg_count - 2);
    for (int i = 2; i < call->arg_count; i++) {
        struct source *source = NULL;
        char sha[SCRIPT_SHA_SIZE];

        if (source_read_sha(call->args[i], sha))
            source = registry_find_source(call->engine->scripts, sha);
        reply_integer(call->reply, source != NULL);
        source_release(source);
    }
}

/* SCRIPT FLUSH [ASYNC|SYNC]. Both do the same: what no run holds is freed, which is quick. */
void script_flush_command(struct call *call)
{
    if (call->arg_count > 3 || (call->arg_count == 3 && !arg_is(call, 2, "sync") && !arg_is(call, 2, "async"))) {
        reply_errorf(call, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    registry_flush_sources(call->engine->scripts);
    reply_ok(call->reply);
}

/* SCRIPT DEBUG YES|SYNC|NO. There is no debugger that could be switched on. redis-cli --ldb does not look at the reply: eval_command refuses
 * the script, which would change data. */
void script_debug_command(struct call *call)
{
    if (arg_is(call, 2, "no")) {
        call->requester->flags &= ~(uint32_t)CLIENT_DEBUGS;
        reply_ok(call->reply);
    } else if (arg_is(call, 2, "yes") || arg_is(call, 2, "sync")) {
        call->requester->flags |= CLIENT_DEBUGS;
        reply_errorf(call, "ERR Kelvin has no debugger for scripts");
    } else {
        reply_errorf(call, "ERR Use SCRIPT DEBUG YES/SYNC/NO");
    }
}

void script_help_command(struct call *call)
{
    static const char *const lines[] = {
        "SCRIPT <subcommand> [<argument> ...]. Subcommands are:",
        "DEBUG (YES|SYNC|NO)",
        "    There is no debugger: only NO is accepted.",
        "EXISTS <sha1> [<sha1> ...]",
        "    Returns for each script whether EVALSHA would find it.",
        "FLUSH [ASYNC|SYNC]",
        "    Forgets all scripts.",
        "KILL",
        "    Ends the script that runs, if it has changed nothing yet.",
        "LOAD <script>",
        "    Compiles a script for EVALSHA and returns its SHA1, without running it.",
        "HELP",
        "    Prints this help.",
        NULL,
    };

    reply_help(call, lines);
}
