#include "acl/acl.h"
#include "acl/acl_log.h"
#include "base/version.h"
#include "call/call.h"
#include "commands/client_name.h"
#include "commands/handlers.h"
#include "engine/access.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/monitor.h"
#include "engine/role.h"
#include "engine/transaction.h"
#include "engine/tracking.h"

#define WRONG_PASSWORD "WRONGPASS invalid username-password pair or user is disabled."

/* A client that has subscribed and speaks RESP2 expects messages only: arrays that begin with a word. */
static void reply_as_message(struct call *call)
{
    reply_array(call->reply, 2);
    reply_bulk_string(call->reply, "pong");
    reply_bulk(call->reply, call->arg_count == 2 ? call->args[1] : BYTES(""));
}

void ping_command(struct call *call)
{
    if (call->arg_count > 2)
        reply_wrong_arity(call);
    else if (call->client->flags & CLIENT_SUBSCRIBED && call->reply->protocol == 2)
        reply_as_message(call);
    else if (call->arg_count == 2)
        reply_bulk(call->reply, call->args[1]);
    else
        reply_status(call->reply, BYTES("PONG"));
}

void echo_command(struct call *call)
{
    reply_bulk(call->reply, call->args[1]);
}

void quit_command(struct call *call)
{
    call->client->flags |= CLIENT_CLOSE_AFTER_REPLY;
    reply_ok(call->reply);
}

static void log_refusal(struct call *call, struct bytes user)
{
    struct engine *engine = call->engine;
    struct buffer line = { 0 };

    if (engine->users.describe_client != NULL)
        engine->users.describe_client(&line, call);
    acl_log_note(engine->users.log, (size_t)config_number(engine->config, CONFIG_ACLLOG_MAX_LEN), &(struct acl_log_event){
        .reason = ACL_LOG_AUTH,
        .context = call->client->flags & CLIENT_MULTI ? ACL_LOG_MULTI : ACL_LOG_TOPLEVEL,
        .object = call->args[0],
        .user = user,
        .client = buffer_bytes(&line),
        .now_ms = call->turn->now_ms,
    });
    buffer_release(&line);
}

/* False: the error was replied, and logged. */
static bool authenticate(struct call *call, struct bytes name, struct bytes password)
{
    struct acl_user *user = acl_authenticate(call->engine->users.acl, name, password);

    if (user == NULL) {
        log_refusal(call, name);
        reply_errorf(call, WRONG_PASSWORD);
        return false;
    }
    access_set_user(call->client, user);
    acl_user_release(user);
    return true;
}

void auth_command(struct call *call)
{
    bool with_user = call->arg_count == 3;

    if (call->arg_count > 3)
        reply_error(call, ERR_SYNTAX);
    else if (!with_user && acl_rules_need_no_password(acl_user_rules(acl_default(call->engine->users.acl))))
        reply_errorf(call, "ERR AUTH <password> called without any password configured for the default user. "
            "Are you sure your configuration is correct?");
    else if (authenticate(call, with_user ? call->args[1] : BYTES("default"), call->args[with_user ? 2 : 1]))
        reply_ok(call->reply);
}

void reset_command(struct call *call)
{
    struct client *client = call->client;

    client->flags &= ~(uint32_t)(CLIENT_REPLY_OFF | CLIENT_REPLY_SKIP | CLIENT_REPLY_SKIP_NEXT | CLIENT_NO_TOUCH | CLIENT_NO_EVICT |
        CLIENT_DEBUGS | CLIENT_READONLY_SLOTS | CLIENT_ASKING);
    client_memory_note_exempt(client);
    transaction_end(client);
    monitor_end(client);
    delivery_unsubscribe_all(client);
    tracking_turn_off(client);
    client->db = 0;
    client->cold_wait.is_bounded = false;
    access_begin(client);
    client_set_text(client, &client->names.name, bytes_of(NULL, 0));
    call->reply->protocol = 2;
    reply_status(call->reply, BYTES("RESET"));
}

struct hello {
    int64_t protocol;               /* 0: unchanged */
    const struct bytes *user, *password, *name;     /* NULL: not given */
};

static bool parse_hello(struct call *call, struct hello *hello)
{
    *hello = (struct hello){ 0 };
    if (call->arg_count < 2)
        return true;
    if (!arg_integer_between(call, 1, INT64_MIN, INT64_MAX, "ERR Protocol version is not an integer or out of range",
        &hello->protocol))
        return false;
    if (hello->protocol != 2 && hello->protocol != 3) {
        reply_errorf(call, "NOPROTO unsupported protocol version");
        return false;
    }
    for (int i = 2; i < call->arg_count; i++) {
        int more = call->arg_count - 1 - i;

        if (arg_is(call, i, "auth") && more >= 2) {
            hello->user = &call->args[i + 1];
            hello->password = &call->args[i + 2];
            i += 2;
        } else if (arg_is(call, i, "setname") && more >= 1) {
            hello->name = &call->args[++i];
            if (!client_name_accept(call, BYTES("Client names"), *hello->name))
                return false;
        } else {
            reply_errorf(call, "ERR Syntax error in HELLO option '%.*s'", (int)call->args[i].size, call->args[i].data);
            return false;
        }
    }
    return true;
}

static void reply_hello(struct call *call)
{
    struct reply *reply = call->reply;

    reply_map(reply, 7);
    reply_bulk_string(reply, "server");
    reply_bulk_string(reply, "redis");
    reply_bulk_string(reply, "version");
    reply_bulk_string(reply, REDIS_VERSION);
    reply_bulk_string(reply, "proto");
    reply_integer(reply, reply->protocol);
    reply_bulk_string(reply, "id");
    reply_integer(reply, (int64_t)call->client->id);
    reply_bulk_string(reply, "mode");
    reply_bulk_string(reply, call->engine->replication.cluster != NULL ? "cluster" : "standalone");
    reply_bulk_string(reply, "role");
    reply_bulk_string(reply, role_is_replica(call->engine) ? "replica" : "master");
    reply_bulk_string(reply, "modules");
    reply_array(reply, 0);
}

void hello_command(struct call *call)
{
    struct hello hello;

    if (!parse_hello(call, &hello))
        return;
    if (hello.user != NULL && !authenticate(call, *hello.user, *hello.password))
        return;
    if (!call->client->authenticated) {
        reply_errorf(call, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> "
            "<pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
        return;
    }
    if (hello.name != NULL)
        client_set_text(call->client, &call->client->names.name, *hello.name);
    if (hello.protocol != 0)
        call->reply->protocol = (int)hello.protocol;
    reply_hello(call);
}
