/* DEBUG: for tests and development. Its subcommands have no rows of their own, as in Redis. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "commands/admin.h"
#include "commands/handlers.h"
#include "engine/probe.h"
#include "value/codec.h"
#include "value/hash.h"

enum { LRU_CLOCK_MASK = 0xffffff, STRINGMATCH_LENGTH_MAX = 1 << 24 };

static void reply_status_of(struct call *call, enum status status)
{
    if (status == STATUS_NOT_FOUND)
        reply_error(call, ERR_NO_SUCH_KEY);
    else
        reply_error(call, ERR_TIER_READ);
}

/* DEBUG SLEEP seconds: this worker does nothing meanwhile; other workers continue. */
static void debug_sleep(struct call *call)
{
    double seconds = strtod(call_format(call, "%.*s", (int)call->args[2].size, call->args[2].data).data, NULL);
    struct timespec pause;

    if (seconds > 0 && seconds < 1e9) {
        pause.tv_sec = (time_t)seconds;
        pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
        nanosleep(&pause, NULL);
    }
    reply_ok(call->reply);
}

/* DEBUG OBJECT key */
static void debug_object(struct call *call)
{
    struct buffer payload = { 0 };
    struct probe probe;
    enum status status = probe_open(call->engine, call->db, call->args[2], &probe);
    int64_t idle_s;

    if (status != STATUS_OK) {
        reply_status_of(call, status);
        return;
    }
    codec_encode(&probe.value, &payload);
    idle_s = (int64_t)(uint16_t)(call->turn->minutes - probe.entry->heat_minutes) * 60;
    reply_status(call->reply, call_format(call,
        "Value at:%p refcount:1 encoding:%s serializedlength:%zu lru:%" PRId64 " lru_seconds_idle:%" PRId64, (const void *)probe.entry,
        value_encoding_name(&probe.value), payload.size - 1, (call->turn->now_ms / 1000 - idle_s) & LRU_CLOCK_MASK, idle_s));
    probe_close(&probe);
    buffer_release(&payload);
}

/* DEBUG LISTPACK key: written to the server's log, as it may be long. */
static void debug_listpack(struct call *call)
{
    struct hash_iterator iterator;
    struct bytes field, value;
    struct probe probe;
    enum status status = probe_open(call->engine, call->db, call->args[2], &probe);

    if (status != STATUS_OK) {
        reply_status_of(call, status);
        return;
    }
    if (probe.value.type != VALUE_HASH || probe.value.encoding != HASH_LISTPACK) {
        reply_errorf(call, "ERR Not a listpack encoded object.");
    } else {
        struct buffer text = { 0 };

        for (hash_iterate(&iterator, &probe.value); hash_next(&iterator, &field, &value);)
            buffer_append_format(&text, " {%.*s} {%.*s}", (int)field.size, field.data, (int)value.size, value.data);
        log_write(call->engine->log, LOG_LEVEL_WARNING, "DEBUG LISTPACK of %zu elements:%.*s", hash_count(&probe.value) * 2,
            (int)text.size, text.data);
        buffer_release(&text);
        reply_status(call->reply, BYTES("The elements of the listpack were written to the server's log"));
    }
    probe_close(&probe);
}

static struct bytes hex_of(struct call *call, const uint8_t digest[PROBE_DIGEST_SIZE])
{
    char *text = arena_alloc(call->arena, PROBE_DIGEST_SIZE * 2);

    for (int i = 0; i < PROBE_DIGEST_SIZE; i++) {
        text[i * 2] = "0123456789abcdef"[digest[i] >> 4];
        text[i * 2 + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    return bytes_of(text, PROBE_DIGEST_SIZE * 2);
}

struct digest_job {
    struct job job;
    enum status status;
    uint8_t digest[PROBE_DIGEST_SIZE];
};

static void run_digest(struct job *base, struct engine *engine)
{
    struct digest_job *job = (struct digest_job *)base;

    job->status = probe_digest_all(engine, job->digest);
}

static void release_digest(struct job *base)
{
    mem_free(base);
}

/* DEBUG DIGEST: iterates over all keys, cold ones included. */
static void debug_digest(struct call *call)
{
    struct digest_job *done = call_job(call);

    if (done == NULL) {
        done = mem_zalloc(sizeof(*done));
        done->job = (struct job){ .run = run_digest, .release = release_digest };
        call_start_job(call, &done->job);
    } else if (done->status != STATUS_OK) {
        reply_error(call, ERR_TIER_READ);
    } else {
        reply_status(call->reply, hex_of(call, done->digest));
    }
}

/* DEBUG DIGEST-VALUE [key ...] */
static void debug_digest_value(struct call *call)
{
    int count = call->arg_count - 2;
    uint8_t (*digests)[PROBE_DIGEST_SIZE] = arena_alloc(call->arena, (size_t)(count + 1) * PROBE_DIGEST_SIZE);

    for (int i = 0; i < count; i++) {
        if (probe_digest_value(call->engine, call->db, call->args[i + 2], digests[i]) != STATUS_OK) {
            reply_error(call, ERR_TIER_READ);
            return;
        }
    }
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++)
        reply_status(call->reply, hex_of(call, digests[i]));
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
    engine_set_active_expire(call->engine,
        strtol(call_format(call, "%.*s", (int)call->args[2].size, call->args[2].data).data, NULL, 10) != 0);
    reply_ok(call->reply);
}

static void protocol_string(struct reply *reply) { reply_bulk(reply, BYTES("Hello World")); }
static void protocol_integer(struct reply *reply) { reply_integer(reply, 12345); }
static void protocol_double(struct reply *reply) { reply_double(reply, 3.141); }
static void protocol_null(struct reply *reply) { reply_null(reply); }
static void protocol_true(struct reply *reply) { reply_bool(reply, true); }
static void protocol_false(struct reply *reply) { reply_bool(reply, false); }
static void protocol_bignum(struct reply *reply) { reply_big_number(reply, BYTES("1234567999999999999999999999999999999")); }
static void protocol_verbatim(struct reply *reply) { reply_verbatim(reply, "txt", BYTES("This is a verbatim\nstring")); }

static void protocol_array(struct reply *reply)
{
    reply_array(reply, 3);
    for (int i = 0; i < 3; i++)
        reply_integer(reply, i);
}

static void protocol_set(struct reply *reply)
{
    reply_set(reply, 3);
    for (int i = 0; i < 3; i++)
        reply_integer(reply, i);
}

static void protocol_map(struct reply *reply)
{
    reply_map(reply, 3);
    for (int i = 0; i < 3; i++) {
        reply_integer(reply, i);
        reply_bool(reply, i == 1);
    }
}

static void protocol_attrib(struct reply *reply)
{
    if (reply->protocol > 2) {
        reply_attribute(reply, 1);
        reply_bulk(reply, BYTES("key-popularity"));
        reply_array(reply, 2);
        reply_bulk(reply, BYTES("key:123"));
        reply_integer(reply, 90);
    }
    reply_bulk(reply, BYTES("Some real reply following the attribute"));
}

static void protocol_push(struct reply *reply)
{
    reply_push(reply, 2);
    reply_bulk(reply, BYTES("server-cpu-usage"));
    reply_integer(reply, 42);
    reply_bulk(reply, BYTES("Some real reply following the push reply"));
}

/* DEBUG PROTOCOL type */
static void debug_protocol(struct call *call)
{
    static const struct {
        const char *name;
        void (*write)(struct reply *reply);
    } types[] = {
        { "string", protocol_string }, { "integer", protocol_integer }, { "double", protocol_double },
        { "bignum", protocol_bignum }, { "null", protocol_null }, { "array", protocol_array }, { "set", protocol_set },
        { "map", protocol_map }, { "attrib", protocol_attrib }, { "push", protocol_push }, { "verbatim", protocol_verbatim },
        { "true", protocol_true }, { "false", protocol_false },
    };

    if (arg_is(call, 2, "push") && call->reply->protocol < 3) {
        reply_errorf(call, "ERR RESP2 is not supported by this command");
        return;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (arg_is(call, 2, types[i].name)) {
            types[i].write(call->reply);
            return;
        }
    }
    reply_errorf(call, "ERR Wrong protocol type name. Please use one of the following: "
        "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false");
}

static void debug_help(struct call *call)
{
    static const char *const lines[] = {
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DIGEST",
        "    Returns a digest of all data: equal data have equal digests. It differs from that of Redis.",
        "DIGEST-VALUE [<key> ...]",
        "    Returns a digest of each key's value.",
        "ERROR <text>",
        "    Replies the text as an error.",
        "LISTPACK <key>",
        "    Writes the elements of a small collection to the log.",
        "LOG <text>",
        "    Writes the text to the log.",
        "OBJECT <key>",
        "    Returns how the key's value is stored.",
        "PROTOCOL <type>",
        "    Replies a value of that type: string, integer, double, bignum, null, array, set, map, attrib, push, verbatim, true or false.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    With 0, expired keys are removed only when they are accessed.",
        "SLEEP <seconds>",
        "    Makes the worker of this client sleep.",
        "STRINGMATCH-LEN <length> <pattern>",
        "    Returns whether the pattern matches that many letters a.",
        "HELP",
        "    Returns this text.",
        NULL,
    };

    reply_help(call, lines);
}

/* Subcommands that Redis has and Kelvin does not support. */
static bool is_unsupported(const struct call *call)
{
    static const char *const names[] = {
        "aof-flush-sleep", "assert", "change-repl-id", "client-enforce-reply-list", "client-eviction", "clusterlink",
        "config-rewrite-force-all", "crash-and-recover", "dict-resizing", "drop-cluster-packet-filter", "htstats", "htstats-key",
        "jmap", "leak", "loadaof", "mallctl", "mallctl-str", "oom", "panic", "pause-cron", "populate", "quicklist",
        "quicklist-packed-threshold", "reload", "replicate", "replybuffer", "restart", "sdslen", "segfault",
        "set-disable-deny-scripts", "set-skip-checksum-validation", "stringmatch-test", "structsize", "ziplist",
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
    { "digest", 2, debug_digest },
    { "digest-value", -2, debug_digest_value },
    { "error", 3, debug_error },
    { "help", 2, debug_help },
    { "listpack", 3, debug_listpack },
    { "log", 3, debug_log },
    { "object", -3, debug_object },
    { "protocol", 3, debug_protocol },
    { "set-active-expire", 3, debug_active_expire },
    { "sleep", 3, debug_sleep },
    { "stringmatch-len", 4, debug_stringmatch },
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
