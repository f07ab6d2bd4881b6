/* CONFIG: config/config.h does the work. */
#include "acl/acl_log.h"
#include "base/message.h"
#include "commands/admin.h"
#include "commands/handlers.h"
#include "commands/users.h"
#include "config/config.h"
#include "engine/engine.h"
#include "stats/error_stats.h"
#include "stats/waits.h"

struct found {
    struct call *call;
    size_t count;
};

static void reply_found(void *context, const char *name, struct bytes value)
{
    struct found *found = context;

    reply_bulk_string(found->call->reply, name);
    reply_bulk(found->call->reply, value);
    found->count++;
}

/* CONFIG GET pattern [pattern ...] */
void config_get_command(struct call *call)
{
    struct found found = { call, 0 };
    struct reply_later later = reply_later_begin(call->reply);

    config_get(call->engine->config, call->args + 2, call->arg_count - 2, reply_found, &found);
    reply_later_map(call->reply, later, found.count);
}

/* CONFIG SET name value [name value ...] */
void config_set_command(struct call *call)
{
    struct config *config = call->engine->config;
    int count = (call->arg_count - 2) / 2;
    struct bytes *names, *values;
    struct message message = { "" };
    bool is_set;

    if (call->arg_count % 2 != 0) {
        reply_error(call, ERR_SYNTAX);
        return;
    }
    names = arena_alloc(call->arena, (size_t)count * sizeof(*names));
    values = arena_alloc(call->arena, (size_t)count * sizeof(*values));
    for (int i = 0; i < count; i++) {
        names[i] = call->args[2 + 2 * i];
        values[i] = call->args[3 + 2 * i];
    }
    if (admin_is_local(call))
        is_set = config_set_local(config, names, values, count, &message);
    else
        is_set = config_set(config, names, values, count, &message);
    if (is_set)
        reply_ok(call->reply);
    else
        reply_errorf(call, "ERR %s", message.text);
}

/* CONFIG RESETSTAT */
void config_resetstat_command(struct call *call)
{
    engine_reset_stats(call->engine);
    error_stats_reset(call->engine->stats.errors);
    acl_log_reset_totals(call->engine->users.log);
    waits_reset(call->engine->stats.waits);
    reply_ok(call->reply);
}

static bool rewrite_config(struct engine *engine, struct message *message)
{
    return config_rewrite(engine->config, message);
}

/* CONFIG REWRITE syncs a file, so it is a job. */
void config_rewrite_command(struct call *call)
{
    users_note(call->engine);
    admin_errand(call, rewrite_config);
}

void config_help_command(struct call *call)
{
    static const char *const lines[] = {
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Returns the parameters whose names match one of the patterns, with their values.",
        "SET <parameter> <value> [<parameter> <value> ...]",
        "    Sets parameters: all of them, or none if one is refused.",
        "RESETSTAT",
        "    Resets the counters of INFO to zero.",
        "REWRITE",
        "    Writes the current values to the configuration file.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
