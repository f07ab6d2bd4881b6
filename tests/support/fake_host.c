#include "support/fake_host.h"

#include "base/digest.h"
#include "resp/reply.h"

static void call(void *context, const struct bytes *args, int arg_count, struct reply *reply)
{
    struct fake_host *fake = context;

    fake->call_count++;
    fake->protocol = reply->protocol;
    if (fake->on_call != NULL)
        fake->on_call(fake);
    if (bytes_is(args[0], "ping") && arg_count == 1)
        reply_status(reply, BYTES("PONG"));
    else if ((bytes_is(args[0], "ping") || bytes_is(args[0], "echo")) && arg_count == 2)
        reply_bulk(reply, args[1]);
    else if (bytes_is(args[0], "raw") && arg_count == 2)
        buffer_append_bytes(&reply->out, args[1]);
    else if (!bytes_is(args[0], "get"))
        reply_error_text(reply, BYTES("ERR Unknown Redis command called from script"));
    else if (arg_count != 2)
        reply_error_text(reply, BYTES("ERR Wrong number of args calling Redis command from script"));
    else if (bytes_is(args[1], "nokey"))
        reply_null(reply);
    else
        reply_bulk(reply, fake->value);
}

static bool may_go_on(void *context)
{
    struct fake_host *fake = context;

    fake->question_count++;
    if (fake->on_question != NULL)
        fake->on_question(fake);
    return fake->questions_max == 0 || fake->question_count < fake->questions_max;
}

static void write_log(void *context, enum script_log_level level, struct bytes text)
{
    struct fake_host *fake = context;

    buffer_append_format(&fake->log, "%d:", (int)level);
    buffer_append_bytes(&fake->log, text);
    buffer_append_string(&fake->log, "\n");
}

static enum script_acl acl_check(void *context, const struct bytes *args, int arg_count)
{
    if (bytes_is(args[0], "get") || bytes_is(args[0], "set"))
        return SCRIPT_ACL_ALLOWED;
    return bytes_is(args[0], "acl") ? SCRIPT_ACL_DENIED : SCRIPT_ACL_UNKNOWN_COMMAND;
}

static void set_replication(void *context, enum script_replication replication)
{
    struct fake_host *fake = context;

    fake->replication = replication;
}

void fake_host_init(struct fake_host *fake)
{
    *fake = (struct fake_host){ .value = BYTES("value"), .replication = SCRIPT_REPL_ALL };
    fake->host = (struct script_host){ fake, call, may_go_on, write_log, acl_check, set_replication };
}

void fake_host_release(struct fake_host *fake)
{
    buffer_release(&fake->log);
}

enum script_result fake_host_eval(struct fake_host *fake, struct interpreter *interpreter, struct bytes code, struct reply *reply)
{
    static const struct bytes keys[] = { { "k1", 2 }, { "k2", 2 } }, args[] = { { "a1", 2 }, { "a2", 2 } };
    struct script_source source = { .code = code };
    struct script_run run = { .source = &source, .keys = keys, .key_count = 2, .args = args, .arg_count = 2, .host = &fake->host };

    digest_sha1_hex(code, source.sha);
    return interpreter_run(interpreter, &run, reply);
}
