#include "engine/access.h"

#include "acl/acl.h"
#include "acl/acl_log.h"
#include "acl/change.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "engine/barrier.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/execute_private.h"

/* A change on its way through all workers. */
struct publication {
    struct barrier barrier;
    struct acl_change *change;
    uint64_t caller;                /* its client's ID; 0: none waits */
    bool closes_caller;             /* the caller's worker only */
};

static void publication_release(struct job *job)
{
    struct publication *publication = (struct publication *)job;

    acl_change_release(publication->change);
    mem_free(publication);
}

/* The change that the call has published; NULL: none yet. */
static struct publication *published_by(struct call *call)
{
    struct job *job = call_job(call);

    return job != NULL && job->release == publication_release ? (struct publication *)job : NULL;
}

bool access_is_limited(const struct client *client)
{
    return client->user != NULL && !acl_rules_allow_all(acl_user_rules(client->user));
}

static bool default_needs_password(struct acl *acl)
{
    const struct acl_rules *rules = acl_user_rules(acl_default(acl));

    return !acl_rules_need_no_password(rules) || !acl_rules_are_enabled(rules);
}

/* One that connected while the default user needed no password stays authenticated. */
static bool must_authenticate(const struct client *client)
{
    return !client->authenticated && default_needs_password(client->worker->engine->users.acl);
}

static void note_limits(struct client *client)
{
    client->checks_acl = must_authenticate(client) || access_is_limited(client);
}

void access_set_user(struct client *client, struct acl_user *user)
{
    if (user != NULL)
        acl_user_hold(user);
    acl_user_release(client->user);
    client->user = user;
    if (user == NULL)
        return;
    client->authenticated = true;
    note_limits(client);
}

void access_begin(struct client *client)
{
    struct acl *acl = client->worker->engine->users.acl;

    if (acl == NULL) {
        client->authenticated = true;
        return;
    }
    access_set_user(client, acl_default(acl));
    client->authenticated = !default_needs_password(acl);
    note_limits(client);
}

/* Also finds the call's keys, which it needs anyway if it may run. */
static struct acl_request request_of(struct call *call)
{
    if (call->command->keys != NULL && call->keys == NULL)
        execute_find_keys(call, call->requester->worker);
    return (struct acl_request){
        .command = call->command,
        .args = call->args,
        .arg_count = call->arg_count,
        .keys = call->keys,
        .key_count = call->key_count,
    };
}

static const char *reason_at_exec(enum acl_verdict verdict)
{
    switch (verdict) {
    case ACL_DENIED_COMMAND:
        return "no permission to execute the command or subcommand";
    case ACL_DENIED_KEY:
        return "no permission to touch the specified keys";
    default:
        return "no permission to access one of the channels used as arguments to the command";
    }
}

static void reply_denied(struct call *call, const struct acl_request *request, enum acl_verdict verdict, int argument,
    enum access_context context)
{
    struct buffer text = { 0 };

    acl_denial_text(&text, acl_user_name(call->client->user), request, verdict, argument, ACL_DENIAL_BRIEF);
    if (context == ACCESS_EXEC)
        reply_errorf(call, "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "
            "This command is no longer allowed for the following reason: %s", reason_at_exec(verdict));
    else
        reply_errorf(call, "%s%.*s", context == ACCESS_SCRIPT ? "ERR ACL failure in script: " : "NOPERM ", (int)text.size, text.data);
    buffer_release(&text);
}

static enum acl_log_context log_context(const struct call *call, enum access_context context)
{
    if (context == ACCESS_SCRIPT)
        return ACL_LOG_LUA;
    return context == ACCESS_EXEC || call->client->flags & CLIENT_MULTI ? ACL_LOG_MULTI : ACL_LOG_TOPLEVEL;
}

static enum acl_log_reason log_reason(enum acl_verdict verdict)
{
    return verdict == ACL_DENIED_COMMAND ? ACL_LOG_COMMAND : verdict == ACL_DENIED_KEY ? ACL_LOG_KEY : ACL_LOG_CHANNEL;
}

static void log_denied(struct call *call, enum acl_verdict verdict, int argument, enum access_context context)
{
    struct engine *engine = call->engine;
    struct buffer line = { 0 };

    if (engine->users.describe_client != NULL)
        engine->users.describe_client(&line, call);
    acl_log_note(engine->users.log, (size_t)config_number(engine->config, CONFIG_ACLLOG_MAX_LEN), &(struct acl_log_event){
        .reason = log_reason(verdict),
        .context = log_context(call, context),
        .object = verdict == ACL_DENIED_COMMAND ? bytes_of_string(call->command->name) : call->args[argument],
        .user = acl_user_name(call->client->user),
        .client = buffer_bytes(&line),
        .now_ms = call->turn->now_ms,
    });
    buffer_release(&line);
}

static __attribute__((noinline)) bool deny(struct call *call, const struct acl_request *request, enum acl_verdict verdict, int argument,
    enum access_context context)
{
    log_denied(call, verdict, argument, context);
    reply_denied(call, request, verdict, argument, context);
    if (context != ACCESS_TOP)
        execute_count_rejected(call);
    return false;
}

bool access_allows(struct call *call, enum access_context context)
{
    struct client *client = call->client;
    struct acl_request request;
    enum acl_verdict verdict;
    int argument;

    if (UNLIKELY(!client->authenticated) && context == ACCESS_TOP && must_authenticate(client) && !(call->command->flags & COMMAND_NO_AUTH)) {
        reply_errorf(call, "NOAUTH Authentication required.");
        return false;
    }
    if (client->user == NULL)
        return true;
    request = request_of(call);
    verdict = acl_check(acl_user_rules(client->user), &request, &argument);
    if (LIKELY(verdict == ACL_ALLOWED) || published_by(call) != NULL)
        return true;            /* what has published a change was allowed: now it gets its reply, whatever it has done to its own user */
    return deny(call, &request, verdict, argument, context);
}

bool access_would_allow(struct call *call)
{
    struct acl_request request = request_of(call);
    int argument;

    return call->client->user == NULL || acl_check(acl_user_rules(call->client->user), &request, &argument) == ACL_ALLOWED;
}

bool access_reads_every_key(struct call *call)
{
    struct acl_request request;

    if (!access_is_limited(call->client))
        return true;
    request = request_of(call);
    return acl_rules_read_every_key(acl_user_rules(call->client->user), &request);
}

bool access_allows_arguments(struct call *call, int first)
{
    int count = call->arg_count - first, argument;
    struct acl_request request = { .command = call->command, .args = call->args, .arg_count = call->arg_count, .key_count = count };
    struct call_key *keys;
    enum acl_verdict verdict;

    if (!access_is_limited(call->client))
        return true;
    keys = arena_alloc(call->arena, (size_t)count * sizeof(*keys));
    for (int i = 0; i < count; i++)
        keys[i] = (struct call_key){ .arg = first + i, .flags = KEY_RO };
    request.keys = keys;
    verdict = acl_check(acl_user_rules(call->client->user), &request, &argument);
    return verdict == ACL_ALLOWED || deny(call, &request, verdict, argument, ACCESS_TOP);
}

static bool may_hear(void *context, enum topic_kind kind, struct bytes name)
{
    return acl_rules_allow_channel(context, name, kind == TOPIC_PATTERN ? ACL_CHANNEL_PATTERN : ACL_CHANNEL);
}

static bool is_to_close(const struct publication *publication, const struct client *client)
{
    return acl_change_closes(publication->change, client->user) ||
        !delivery_all(client, may_hear, (void *)acl_user_rules(client->user));
}

/* The calling client is closed only after the reply: see access_is_published. */
static void look_at_clients(struct barrier *barrier, struct worker *worker)
{
    struct publication *publication = (struct publication *)barrier;
    struct client *next;

    for (struct client *client = worker->clients; client != NULL; client = next) {
        next = client->next;        /* closing removes it from the list */
        if (client->user == NULL)
            continue;
        note_limits(client);
        if (!is_to_close(publication, client))
            continue;
        if (client->id == publication->caller)
            publication->closes_caller = true;
        else
            worker->host.close(client);
    }
}

static void close_caller(const struct publication *publication, struct client *caller)
{
    if (publication->closes_caller)
        caller->flags |= CLIENT_CLOSE_AFTER_REPLY;
}

static struct publication *publish_change(struct acl_change *change)
{
    struct publication *publication = mem_zalloc(sizeof(*publication));

    publication->barrier.job.release = publication_release;
    publication->barrier.visit = look_at_clients;
    publication->change = change;
    acl_change_publish(change);
    return publication;
}

bool access_is_published(struct call *call)
{
    struct publication *publication = published_by(call);

    if (publication == NULL)
        return false;
    close_caller(publication, call->requester);
    return true;
}

const struct acl_change *access_change(struct call *call)
{
    return published_by(call)->change;
}

/* The caller's worker gets mail as well: the command has all partitions locked, and to close a client may need one of them. */
void access_publish(struct call *call, struct acl_change *change)
{
    struct publication *publication = publish_change(change);

    publication->caller = call->requester->id;
    call_wait_job(call, &publication->barrier.job);
    barrier_post(call->engine, &publication->barrier);
}

void access_publish_soon(struct engine *engine, struct acl_change *change)
{
    barrier_post(engine, &publish_change(change)->barrier);
}
