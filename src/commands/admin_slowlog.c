/* SLOWLOG: stats/slowlog.h does the work. */
#include "commands/admin.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "stats/slowlog.h"

enum { ENTRIES_BY_DEFAULT = 10 };

static void reply_entry(void *context, const struct slowlog_entry *entry)
{
    struct call *call = context;

    reply_array(call->reply, 6);
    reply_integer(call->reply, (int64_t)entry->id);
    reply_integer(call->reply, entry->time_s);
    reply_integer(call->reply, entry->us);
    reply_array(call->reply, (size_t)entry->arg_count);
    for (int i = 0; i < entry->arg_count; i++)
        reply_bulk(call->reply, entry->args[i]);
    reply_bulk(call->reply, entry->address);
    reply_bulk(call->reply, entry->name);
}

/* SLOWLOG GET [count] */
void slowlog_get_command(struct call *call)
{
    int64_t count = ENTRIES_BY_DEFAULT;
    struct reply_later later;

    if (call->arg_count > 3) {
        admin_reply_usage(call, "SLOWLOG");
        return;
    }
    if (call->arg_count == 3 &&
        !arg_integer_between(call, 2, -1, INT64_MAX, "ERR count should be greater than or equal to -1", &count))
        return;
    later = reply_later_begin(call->reply);
    reply_later_array(call->reply, later,
        slowlog_each(call->engine->stats.slowlog, count < 0 ? SIZE_MAX : (size_t)count, reply_entry, call));
}

void slowlog_len_command(struct call *call)
{
    reply_integer(call->reply, (int64_t)slowlog_count(call->engine->stats.slowlog));
}

void slowlog_reset_command(struct call *call)
{
    slowlog_reset(call->engine->stats.slowlog);
    reply_ok(call->reply);
}

void slowlog_help_command(struct call *call)
{
    static const char *const lines[] = {
        "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET [<count>]",
        "    Returns the newest entries (10 by default, all with -1), each with",
        "    its ID, its time, its duration in microseconds, its arguments, and the client's address and name.",
        "LEN",
        "    Returns the number of entries.",
        "RESET",
        "    Removes all entries.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}
