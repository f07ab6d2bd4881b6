/* XGROUP and XACK. */
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "value/stream.h"
#include "value/stream_group.h"

static bool wrong_usage(struct call *call)
{
    struct bytes sub = call->args[1];

    reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try XGROUP HELP.", (int)sub.size, sub.data);
    return false;
}

struct group_options {
    bool creates_stream;
    int64_t entries_read;
};

enum group_subcommand { GROUP_CREATE, GROUP_SETID };

static bool read_options(struct call *call, enum group_subcommand subcommand, struct group_options *options)
{
    *options = (struct group_options){ .entries_read = STREAM_ENTRIES_READ_UNKNOWN };
    for (int arg = 5; arg < call->arg_count; arg++) {
        if (subcommand == GROUP_CREATE && arg_is(call, arg, "mkstream")) {
            options->creates_stream = true;
        } else if (arg_is(call, arg, "entriesread") && arg + 1 < call->arg_count) {
            if (!arg_integer(call, ++arg, &options->entries_read))
                return false;
            /* The log has the counter as it was, which may have wrapped around. */
            if (options->entries_read < 0 && options->entries_read != STREAM_ENTRIES_READ_UNKNOWN &&
                !(call->client->caller & TRAIT_OBEYED)) {
                reply_errorf(call, "ERR value for ENTRIESREAD must be positive or -1");
                return false;
            }
        } else {
            return wrong_usage(call);
        }
    }
    return true;
}

static bool open_stream(struct call *call, struct key *key)
{
    if (!key_open_as(call, 2, KEY_FOR_WRITING, VALUE_STREAM, key))
        return false;
    if (key->present)
        return true;
    reply_errorf(call, "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option "
        "to create an empty stream automatically.");
    return false;
}

static bool open_group(struct call *call, struct key *key, struct stream_group **group)
{
    struct bytes name = call->args[3], key_name = call->args[2];

    if (!open_stream(call, key))
        return false;
    *group = stream_group_find(stream_of(&key->value), name);
    if (*group != NULL)
        return true;
    reply_errorf(call, "NOGROUP No such consumer group '%.*s' for key name '%.*s'", (int)name.size, name.data, (int)key_name.size,
        key_name.data);
    return false;
}

/* Argument 4: an ID, or "$", the last one. SETID accepts "-" and "+", too. */
static bool arg_position(struct call *call, const struct key *key, enum group_subcommand subcommand, struct stream_id *id)
{
    if (!bytes_equal(call->args[4], BYTES("$")))
        return subcommand == GROUP_SETID ? arg_stream_id_or_extreme(call, 4, id) : arg_stream_id(call, 4, id);
    *id = key->present ? stream_of(&key->value)->last_id : (struct stream_id){ 0, 0 };
    return true;
}

void xgroup_create_command(struct call *call)
{
    struct group_options options;
    struct stream_id id;
    struct key key;
    bool was_present;

    if (!read_options(call, GROUP_CREATE, &options))
        return;
    if (options.creates_stream ? !key_open_as(call, 2, KEY_FOR_WRITING, VALUE_STREAM, &key) : !open_stream(call, &key))
        return;
    if (call->arg_count > 8) {
        wrong_usage(call);
        return;
    }
    if (!arg_position(call, &key, GROUP_CREATE, &id))
        return;
    was_present = key.present;
    if (!was_present)
        key_replace(&key, stream_create());
    if (stream_group_create(stream_of(&key.value), call->args[3], id, options.entries_read) == NULL) {
        reply_errorf(call, "BUSYGROUP Consumer Group name already exists");
        return;
    }
    key_changed(&key, EVENT_XGROUP_CREATE);
    reply_ok(call->reply);
}

void xgroup_setid_command(struct call *call)
{
    struct group_options options;
    struct stream_group *group;
    struct stream_id id;
    struct key key;

    if (!read_options(call, GROUP_SETID, &options) || !open_group(call, &key, &group))
        return;
    if (call->arg_count != 5 && call->arg_count != 7) {
        wrong_usage(call);
        return;
    }
    if (!arg_position(call, &key, GROUP_SETID, &id))
        return;
    group->last_id = id;
    group->entries_read = options.entries_read;
    key_changed(&key, EVENT_XGROUP_SETID);
    reply_ok(call->reply);
}

void xgroup_destroy_command(struct call *call)
{
    struct key key;

    if (!open_stream(call, &key))
        return;
    if (!stream_group_destroy(stream_of(&key.value), call->args[3])) {
        reply_integer(call->reply, 0);
        return;
    }
    key_changed(&key, EVENT_XGROUP_DESTROY);
    reply_integer(call->reply, 1);
}

void xgroup_createconsumer_command(struct call *call)
{
    struct stream_group *group;
    struct key key;

    if (!open_group(call, &key, &group))
        return;
    if (stream_consumer_create(group, call->args[4], call->turn->now_ms) == NULL) {
        reply_integer(call->reply, 0);
        return;
    }
    key_changed(&key, EVENT_XGROUP_CREATECONSUMER);
    reply_integer(call->reply, 1);
}

void xgroup_delconsumer_command(struct call *call)
{
    struct stream_consumer *consumer;
    struct stream_group *group;
    struct key key;
    size_t pending;

    if (!open_group(call, &key, &group))
        return;
    consumer = stream_consumer_find(group, call->args[4]);
    if (consumer == NULL) {
        reply_integer(call->reply, 0);
        return;
    }
    pending = consumer->pending.count;
    stream_consumer_destroy(group, consumer);
    key_changed(&key, EVENT_XGROUP_DELCONSUMER);
    reply_integer(call->reply, (int64_t)pending);
}

void xack_command(struct call *call)
{
    int id_count = call->arg_count - 3;
    const struct stream_id *ids;
    struct stream_group *group = NULL;
    uint64_t count = 0;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    key_count_read(&key);
    if (key.present)
        group = stream_group_find(stream_of(&key.value), call->args[2]);
    if (group == NULL) {
        reply_integer(call->reply, 0);
        return;
    }
    ids = arg_stream_ids(call, 3, id_count);
    if (ids == NULL)
        return;
    for (int i = 0; i < id_count; i++)
        count += stream_pending_remove(group, ids[i]);
    if (count > 0) {
        key_changed(&key, EVENT_DELIVERED);
        call->change_count += count - 1;
    }
    reply_integer(call->reply, (int64_t)count);
}
