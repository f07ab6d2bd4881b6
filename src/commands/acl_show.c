/* ACL LIST, USERS, GETUSER and LOG. */
#include "acl/acl.h"
#include "acl/acl_log.h"
#include "acl/describe.h"
#include "base/mem.h"
#include "commands/acl.h"
#include "commands/handlers.h"
#include "engine/engine.h"

enum { LOG_ENTRIES_BY_DEFAULT = 10 };

enum form { NAMES, LINES };

static void reply_users(struct call *call, enum form form)
{
    struct buffer line = { 0 };
    size_t count;
    struct acl_user **users = acl_users(call->engine->users.acl, &count);

    reply_array(call->reply, count);
    for (size_t i = 0; i < count; i++) {
        line.size = 0;
        if (form == LINES)
            acl_describe(&line, users[i]);
        reply_bulk(call->reply, form == LINES ? buffer_bytes(&line) : acl_user_name(users[i]));
        acl_user_release(users[i]);
    }
    buffer_release(&line);
    mem_free(users);
}

void acl_list_command(struct call *call)
{
    reply_users(call, LINES);
}

void acl_users_command(struct call *call)
{
    reply_users(call, NAMES);
}

/* ---- GETUSER */

typedef void describe(struct buffer *out, const struct acl_rules *rules, size_t selector);

static void reply_described(struct call *call, const char *name, describe *print, const struct acl_rules *rules, size_t selector)
{
    struct buffer text = { 0 };

    print(&text, rules, selector);
    reply_bulk_string(call->reply, name);
    reply_bulk(call->reply, buffer_bytes(&text));
    buffer_release(&text);
}

static void reply_selector(struct call *call, const struct acl_rules *rules, size_t selector)
{
    reply_described(call, "commands", acl_describe_commands, rules, selector);
    reply_described(call, "keys", acl_describe_keys, rules, selector);
    reply_described(call, "channels", acl_describe_channels, rules, selector);
}

static void reply_rules(struct call *call, const struct acl_rules *rules)
{
    const char *flags[ACL_FLAG_COUNT];
    size_t flag_count = acl_describe_flags(rules, flags), password_count = acl_password_count(rules);
    char hex[SHA256_HEX_SIZE];

    reply_map(call->reply, 6);
    reply_bulk_string(call->reply, "flags");
    reply_set(call->reply, flag_count);
    for (size_t i = 0; i < flag_count; i++)
        reply_bulk_string(call->reply, flags[i]);
    reply_bulk_string(call->reply, "passwords");
    reply_array(call->reply, password_count);
    for (size_t i = 0; i < password_count; i++) {
        acl_password_hash(rules, i, hex);
        reply_bulk(call->reply, bytes_of(hex, sizeof(hex)));
    }
    reply_selector(call, rules, 0);
    reply_bulk_string(call->reply, "selectors");
    reply_array(call->reply, acl_selector_count(rules) - 1);
    for (size_t i = 1; i < acl_selector_count(rules); i++) {
        reply_map(call->reply, 3);
        reply_selector(call, rules, i);
    }
}

void acl_getuser_command(struct call *call)
{
    struct acl_user *user = acl_find(call->engine->users.acl, call->args[2]);

    if (user == NULL)
        reply_null(call->reply);
    else
        reply_rules(call, acl_user_rules(user));
    acl_user_release(user);
}

/* ---- LOG */

static void reply_text(struct reply *reply, const char *name, struct bytes text)
{
    reply_bulk_string(reply, name);
    reply_bulk(reply, text);
}

static void reply_number(struct reply *reply, const char *name, int64_t number)
{
    reply_bulk_string(reply, name);
    reply_integer(reply, number);
}

static void reply_entry(void *context, const struct acl_log_entry *entry)
{
    struct call *call = context;
    struct reply *reply = call->reply;
    const struct acl_log_event *last = &entry->last;

    reply_map(reply, 10);
    reply_number(reply, "count", (int64_t)entry->count);
    reply_text(reply, "reason", bytes_of_string(acl_log_reason_name(last->reason)));
    reply_text(reply, "context", bytes_of_string(acl_log_context_name(last->context)));
    reply_text(reply, "object", last->object);
    reply_text(reply, "username", last->user);
    reply_bulk_string(reply, "age-seconds");
    reply_double(reply, (double)(call->turn->now_ms - entry->created_ms) / 1000);
    reply_text(reply, "client-info", last->client);
    reply_number(reply, "entry-id", (int64_t)entry->id);
    reply_number(reply, "timestamp-created", entry->created_ms);
    reply_number(reply, "timestamp-last-updated", last->now_ms);
}

/* ACL LOG [count|RESET] */
void acl_log_command(struct call *call)
{
    int64_t count = LOG_ENTRIES_BY_DEFAULT;
    struct reply_later later;

    if (call->arg_count > 3) {
        acl_reply_usage(call);
        return;
    }
    if (call->arg_count == 3 && arg_is(call, 2, "reset")) {
        acl_log_reset(call->engine->users.log);
        reply_ok(call->reply);
        return;
    }
    if (call->arg_count == 3 && !arg_integer(call, 2, &count))
        return;
    later = reply_later_begin(call->reply);
    reply_later_array(call->reply, later,
        acl_log_each(call->engine->users.log, count < 0 ? 0 : (size_t)count, reply_entry, call));
}
