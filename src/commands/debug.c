/* DEBUG: for tests and development. Its subcommands have no rows of their own, as in Redis. */
#include "commands/debug.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "commands/admin.h"
#include "commands/handlers.h"
#include "engine/engine.h"
#include "keyspace/entry.h"
#include "keyspace/partition.h"

enum { STRINGMATCH_LENGTH_MAX = 1 << 24 };

/* An argument with a NUL. */
static const char *text_of(struct call *call, int arg)
{
    return call_format(call, "%.*s", (int)call->args[arg].size, call->args[arg].data).data;
}

struct sleep_mail {
    struct mail mail;
    int64_t until_ns;               /* monotonic */
};

static void sleep_until(int64_t until_ns)
{
    for (int64_t left_ns; (left_ns = until_ns - clock_mono_ns()) > 0; ) {
        struct timespec pause = { left_ns / 1000000000, left_ns % 1000000000 };

        nanosleep(&pause, NULL);
    }
}

static void run_sleep(struct mail *base, struct worker *worker)
{
    (void)worker;
    sleep_until(((struct sleep_mail *)base)->until_ns);
    mem_free(base);
}

/* DEBUG SLEEP seconds: no worker does anything meanwhile, as if the server had but one. */
static void debug_sleep(struct call *call)
{
    struct engine *engine = call->engine;
    double seconds = strtod(text_of(call, 2), NULL);

    if (seconds > 0 && seconds < 1e9) {
        int64_t until_ns = clock_mono_ns() + (int64_t)(seconds * 1e9);

        for (int i = 0; i < engine->worker_count; i++) {
            struct sleep_mail *sleep;

            if (engine->workers[i] == call->requester->worker)
                continue;
            sleep = mem_zalloc(sizeof(*sleep));
            *sleep = (struct sleep_mail){ { .run = run_sleep }, until_ns };
            mailbox_post(&engine->workers[i]->mailbox, &sleep->mail);
        }
        sleep_until(until_ns);
    }
    reply_ok(call->reply);
}

/* DEBUG STRINGMATCH-LEN length pattern: whether the pattern matches that many letters "a"; for measuring the time. */
static void debug_stringmatch(struct call *call)
{
    struct buffer text = { 0 };
    int64_t length;

    if (!arg_integer_between(call, 2, 0, STRINGMATCH_LENGTH_MAX, "ERR value is not an integer or out of range", &length))
        return;
    memset(buffer_reserve(&text, (size_t)length + 1), 'a', (size_t)length);
    text.size = (size_t)length;
    reply_integer(call->reply, text_matches(call->args[3], buffer_bytes(&text), TEXT_CASE_EXACT));
    buffer_release(&text);
}

static void debug_log(struct call *call)
{
    log_write(call->engine->log, LOG_LEVEL_WARNING, "DEBUG LOG: %.*s", (int)call->args[2].size, call->args[2].data);
    reply_ok(call->reply);
}

static void debug_error(struct call *call)
{
    call->failed = true;
    reply_error_text(call->reply, call->args[2]);
}

static void debug_active_expire(struct call *call)
{
    engine_set_active_expire(call->engine, strtol(text_of(call, 2), NULL, 10) != 0);
    reply_ok(call->reply);
}

static void debug_pause_cron(struct call *call)
{
    call->engine->debug.cron_is_paused = strtol(text_of(call, 2), NULL, 10) != 0;
    reply_ok(call->reply);
}

static void debug_deny_scripts(struct call *call)
{
    call->engine->debug.scripts_may_test = strtol(text_of(call, 2), NULL, 10) != 0;
    reply_ok(call->reply);
}

static void debug_structsize(struct call *call)
{
    reply_status(call->reply, call_format(call, "bits:%zu entry:%zu keyspace:%zu partition:%zu value:%zu client:%zu", sizeof(void *) * 8,
        sizeof(struct entry), sizeof(struct keyspace), sizeof(struct partition), sizeof(struct value), sizeof(struct client)));
}

/* The following subcommands end the process. */

static void debug_segfault(struct call *call)
{
    (void)call;
    raise(SIGSEGV);
}

static void debug_panic(struct call *call)
{
    (void)call;
    check_failed(__FILE__, __LINE__, "DEBUG PANIC");
}

static void debug_assert(struct call *call)
{
    (void)call;
    check_failed(__FILE__, __LINE__, "DEBUG ASSERT");
}

/* As if the system had no more memory. */
static void debug_oom(struct call *call)
{
    mem_free(mem_alloc(SIZE_MAX / 2));
    reply_ok(call->reply);
}

static void debug_help(struct call *call)
{
    static const char *const lines[] = {
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "ASSERT",
        "    Ends the process like a failed assertion.",
        "CLUSTERLINK KILL <to|from|all> <node-id>",
        "    Closes the connections to, from, or to and from that node.",
        "DIGEST",
        "    Returns a digest of all data: equal data have equal digests. It differs from that of Redis.",
        "DIGEST-VALUE [<key> ...]",
        "    Returns a digest of each key's value.",
        "DROP-CLUSTER-PACKET-FILTER <type>",
        "    Messages of other nodes that have this type are dropped; -1: none.",
        "ERROR <text>",
        "    Replies the text as an error.",
        "LISTPACK <key>",
        "    Writes the elements of a small collection to the log.",
        "LOADAOF",
        "    Writes the append only file to the disk, deletes all data and loads the file again.",
        "LOG <text>",
        "    Writes the text to the log.",
        "OBJECT <key>",
        "    Returns how the key's value is stored.",
        "OOM",
        "    Ends the process as if there were no more memory.",
        "PANIC",
        "    Ends the process like a bug that was noticed.",
        "PAUSE-CRON <0|1>",
        "    With 1, regular work stops: active expiry, save points, rewrites, statistics.",
        "POPULATE <count> [<prefix>] [<size>]",
        "    Creates strings with numbered names: <prefix>:<number>, by default key:<number>. Keys that exist stay.",
        "PROTOCOL <type>",
        "    Replies a value of that type: string, integer, double, bignum, null, array, set, map, attrib, push, verbatim, true or false.",
        "RELOAD [<option> ...]",
        "    Saves a dump, deletes all data and loads the dump again. Options, which need appendonly no:",
        "    * NOSAVE: the dump that there is, is loaded.",
        "    * NOFLUSH: nothing is deleted; a key that is also in the dump is an error.",
        "    * MERGE: keys and libraries that are also in the dump are replaced.",
        "SDSLEN <key>",
        "    Returns the sizes of a key and of its string.",
        "SEGFAULT",
        "    Ends the process by a signal, as a wrong access to memory does.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    With 0, expired keys are removed only when they are accessed.",
        "SET-DISABLE-DENY-SCRIPTS <0|1>",
        "    With 1, scripts may call DEBUG, CONFIG, LATENCY and ROLE.",
        "SLEEP <seconds>",
        "    Makes all workers sleep.",
        "STRINGMATCH-LEN <length> <pattern>",
        "    Returns whether the pattern matches that many letters a.",
        "STRUCTSIZE",
        "    Returns the sizes of some structs.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}

/* Subcommands that Redis has and Kelvin does not support: most are about parts that Kelvin does not have. */
static bool is_unsupported(const struct call *call)
{
    static const char *const names[] = {
        "aof-flush-sleep", "change-repl-id", "client-enforce-reply-list", "client-eviction", "config-rewrite-force-all",
        "crash-and-recover", "dict-resizing", "dict-stats", "htstats", "htstats-key", "leak", "mallctl",
        "mallctl-str", "quicklist", "quicklist-packed-threshold", "replicate", "replybuffer", "restart", "script",
        "set-skip-checksum-validation", "stringmatch-test", "ziplist",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (arg_is(call, 1, names[i]))
            return true;
    }
    return false;
}

static const struct {
    const char *name;
    int arg_count;          /* negative: at least that many */
    command_run *run;
} subcommands[] = {
    { "assert", 2, debug_assert },
    { "clusterlink", 5, debug_clusterlink },
    { "digest", 2, debug_digest },
    { "digest-value", -2, debug_digest_value },
    { "drop-cluster-packet-filter", 3, debug_drop_messages },
    { "error", 3, debug_error },
    { "help", 2, debug_help },
    { "listpack", 3, debug_listpack },
    { "loadaof", 2, debug_loadaof },
    { "log", 3, debug_log },
    { "object", -3, debug_object },
    { "oom", 2, debug_oom },
    { "panic", 2, debug_panic },
    { "pause-cron", 3, debug_pause_cron },
    { "populate", -3, debug_populate },
    { "protocol", 3, debug_protocol },
    { "reload", -2, debug_reload },
    { "sdslen", 3, debug_sdslen },
    { "segfault", 2, debug_segfault },
    { "set-active-expire", 3, debug_active_expire },
    { "set-disable-deny-scripts", 3, debug_deny_scripts },
    { "sleep", 3, debug_sleep },
    { "stringmatch-len", 4, debug_stringmatch },
    { "structsize", 2, debug_structsize },
};

static bool is_permitted(const struct call *call)
{
    switch (config_number(call->engine->config, CONFIG_ENABLE_DEBUG_COMMAND)) {
    case CONFIG_PERMISSION_YES:
        return true;
    case CONFIG_PERMISSION_LOCAL:
        return admin_is_local(call);
    default:
        return false;
    }
}

/* DEBUG subcommand ... */
void debug_command(struct call *call)
{
    if (!is_permitted(call)) {
        reply_errorf(call, "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a "
            "local connection, otherwise you need to set this option in the configuration file, and then restart the server.");
        return;
    }
    for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
        int wanted = subcommands[i].arg_count;

        if (arg_is(call, 1, subcommands[i].name) && (wanted < 0 ? call->arg_count >= -wanted : call->arg_count == wanted)) {
            subcommands[i].run(call);
            return;
        }
    }
    if (is_unsupported(call))
        reply_errorf(call, "ERR DEBUG %s is not supported by Kelvin",
            call_format(call, "%.*s", (int)call->args[1].size, call->args[1].data).data);
    else
        admin_reply_usage(call, "DEBUG");
}
