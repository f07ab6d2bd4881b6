/* XINFO STREAM [FULL], GROUPS, CONSUMERS; and help texts. */
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "commands/stream_range.h"
#include "value/stream.h"
#include "value/stream_group.h"

enum { FULL_COUNT_DEFAULT = 10 };

static bool open_stream(struct call *call, struct key *key)
{
    if (!key_open_as(call, 2, KEY_FOR_READING, VALUE_STREAM, key))
        return false;
    if (key->present)
        return true;
    reply_error(call, ERR_NO_SUCH_KEY);
    return false;
}

static void reply_read(struct call *call, const struct stream *stream, const struct stream_group *group)
{
    int64_t lag;

    reply_bulk_string(call->reply, "entries-read");
    if (group->entries_read == STREAM_ENTRIES_READ_UNKNOWN)
        reply_null(call->reply);
    else
        reply_integer(call->reply, group->entries_read);
    reply_bulk_string(call->reply, "lag");
    if (stream_group_lag(stream, group, &lag))
        reply_integer(call->reply, lag);
    else
        reply_null(call->reply);
}

/* The fields that both forms begin with. Kelvin has no radix tree: reported are the nodes, and how many there would be for them. */
static void reply_head(struct call *call, const struct stream *stream)
{
    struct reply *reply = call->reply;

    reply_bulk_string(reply, "length");
    reply_integer(reply, (int64_t)stream->length);
    reply_bulk_string(reply, "radix-tree-keys");
    reply_integer(reply, (int64_t)stream_node_count(stream));
    reply_bulk_string(reply, "radix-tree-nodes");
    reply_integer(reply, (int64_t)stream_node_count(stream) + 1);
    reply_bulk_string(reply, "last-generated-id");
    reply_stream_id(reply, stream->last_id);
    reply_bulk_string(reply, "max-deleted-entry-id");
    reply_stream_id(reply, stream->max_deleted_id);
    reply_bulk_string(reply, "entries-added");
    reply_integer(reply, (int64_t)stream->entries_added);
    reply_bulk_string(reply, "recorded-first-entry-id");
    reply_stream_id(reply, stream->first_id);
}

/* Replies the first or last entry, or null. */
static void reply_edge(struct call *call, const struct stream *stream, enum stream_direction direction)
{
    struct stream_iterator iterator;
    struct stream_id id;
    size_t pair_count;

    stream_iterate(&iterator, stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, direction);
    if (stream_next(&iterator, &id, &pair_count))
        reply_stream_entry(call, &iterator, id, pair_count);
    else
        reply_null(call->reply);
}

static void reply_short(struct call *call, const struct stream *stream)
{
    reply_map(call->reply, 10);
    reply_head(call, stream);
    reply_bulk_string(call->reply, "groups");
    reply_integer(call->reply, (int64_t)stream->group_count);
    reply_bulk_string(call->reply, "first-entry");
    reply_edge(call, stream, STREAM_UP);
    reply_bulk_string(call->reply, "last-entry");
    reply_edge(call, stream, STREAM_DOWN);
}

/* Replies the pending entries of a group (with their consumers) or of a consumer: at most `count_max`; 0: all. */
static void reply_pending(struct call *call, const struct stream_group *group, const struct stream_consumer *consumer, uint64_t count_max)
{
    const struct idmap *ids = consumer != NULL ? &consumer->pending : &group->pending;
    struct reply_later later = reply_later_begin(call->reply);
    struct idmap_place place;
    size_t count = 0;

    for (bool more = idmap_first(ids, &place); more && (count_max == 0 || count < count_max); more = idmap_next(ids, &place), count++) {
        struct stream_id id = idmap_id(ids, place);
        const struct stream_pending *pending = idmap_find(&group->pending, id);

        reply_array(call->reply, consumer != NULL ? 3 : 4);
        reply_stream_id(call->reply, id);
        if (consumer == NULL)
            reply_bulk(call->reply, pending->consumer->name);
        reply_integer(call->reply, pending->delivered_ms);
        reply_integer(call->reply, (int64_t)pending->deliveries);
    }
    reply_later_array(call->reply, later, count);
}

static void reply_full_consumer(struct call *call, const struct stream_group *group, const struct stream_consumer *consumer, uint64_t count_max)
{
    reply_map(call->reply, 5);
    reply_bulk_string(call->reply, "name");
    reply_bulk(call->reply, consumer->name);
    reply_bulk_string(call->reply, "seen-time");
    reply_integer(call->reply, consumer->seen_ms);
    reply_bulk_string(call->reply, "active-time");
    reply_integer(call->reply, consumer->active_ms);
    reply_bulk_string(call->reply, "pel-count");
    reply_integer(call->reply, (int64_t)consumer->pending.count);
    reply_bulk_string(call->reply, "pending");
    reply_pending(call, group, consumer, count_max);
}

static void reply_full_group(struct call *call, const struct stream *stream, const struct stream_group *group, uint64_t count_max)
{
    reply_map(call->reply, 7);
    reply_bulk_string(call->reply, "name");
    reply_bulk(call->reply, group->name);
    reply_bulk_string(call->reply, "last-delivered-id");
    reply_stream_id(call->reply, group->last_id);
    reply_read(call, stream, group);
    reply_bulk_string(call->reply, "pel-count");
    reply_integer(call->reply, (int64_t)group->pending.count);
    reply_bulk_string(call->reply, "pending");
    reply_pending(call, group, NULL, count_max);
    reply_bulk_string(call->reply, "consumers");
    reply_array(call->reply, group->consumer_count);
    for (uint32_t i = 0; i < group->consumer_count; i++)
        reply_full_consumer(call, group, group->consumers[i], count_max);
}

static void reply_full(struct call *call, const struct stream *stream, uint64_t count_max)
{
    reply_map(call->reply, 9);
    reply_head(call, stream);
    reply_bulk_string(call->reply, "entries");
    reply_stream_range(call, stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, count_max, STREAM_UP);
    reply_bulk_string(call->reply, "groups");
    reply_array(call->reply, stream->group_count);
    for (uint32_t i = 0; i < stream->group_count; i++)
        reply_full_group(call, stream, stream->groups[i], count_max);
}

static bool wrong_usage(struct call *call)
{
    struct bytes sub = call->args[1];

    reply_errorf(call, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try XINFO HELP.", (int)sub.size, sub.data);
    return false;
}

static bool read_full_options(struct call *call, int64_t *count)
{
    *count = FULL_COUNT_DEFAULT;
    if ((call->arg_count != 4 && call->arg_count != 6) || !arg_is(call, 3, "full"))
        return wrong_usage(call);
    if (call->arg_count == 4)
        return true;
    if (!arg_is(call, 4, "count"))
        return wrong_usage(call);
    if (!arg_integer(call, 5, count))
        return false;
    if (*count < 0)
        *count = FULL_COUNT_DEFAULT;
    return true;
}

static bool has_entries(const struct stream *stream, bool is_full, uint64_t count)
{
    const struct stream_id first = { 0, 0 };

    if (is_full)
        return stream_has_range(stream, first, STREAM_ID_MAX, count, STREAM_UP);
    return stream_has_range(stream, first, STREAM_ID_MAX, 1, STREAM_UP) && stream_has_range(stream, first, STREAM_ID_MAX, 1, STREAM_DOWN);
}

void xinfo_stream_command(struct call *call)
{
    int64_t count = 0;
    struct key key;

    if (!open_stream(call, &key))
        return;
    if (call->arg_count > 3 && !read_full_options(call, &count))
        return;
    if (!has_entries(stream_of(&key.value), call->arg_count > 3, (uint64_t)count))
        key_ask(&key);
    else if (call->arg_count == 3)
        reply_short(call, stream_of(&key.value));
    else
        reply_full(call, stream_of(&key.value), (uint64_t)count);
}

void xinfo_groups_command(struct call *call)
{
    const struct stream *stream;
    struct key key;

    if (!open_stream(call, &key))
        return;
    stream = stream_of(&key.value);
    reply_array(call->reply, stream->group_count);
    for (uint32_t i = 0; i < stream->group_count; i++) {
        const struct stream_group *group = stream->groups[i];

        reply_map(call->reply, 6);
        reply_bulk_string(call->reply, "name");
        reply_bulk(call->reply, group->name);
        reply_bulk_string(call->reply, "consumers");
        reply_integer(call->reply, (int64_t)group->consumer_count);
        reply_bulk_string(call->reply, "pending");
        reply_integer(call->reply, (int64_t)group->pending.count);
        reply_bulk_string(call->reply, "last-delivered-id");
        reply_stream_id(call->reply, group->last_id);
        reply_read(call, stream, group);
    }
}

static int64_t ms_since(const struct call *call, int64_t ms)
{
    return call->turn->now_ms > ms ? call->turn->now_ms - ms : 0;
}

void xinfo_consumers_command(struct call *call)
{
    const struct stream_group *group;
    struct bytes name = call->args[3], key_name = call->args[2];
    struct key key;

    if (!open_stream(call, &key))
        return;
    group = stream_group_find(stream_of(&key.value), name);
    if (group == NULL) {
        reply_errorf(call, "NOGROUP No such consumer group '%.*s' for key name '%.*s'", (int)name.size, name.data, (int)key_name.size,
            key_name.data);
        return;
    }
    reply_array(call->reply, group->consumer_count);
    for (uint32_t i = 0; i < group->consumer_count; i++) {
        const struct stream_consumer *consumer = group->consumers[i];

        reply_map(call->reply, 4);
        reply_bulk_string(call->reply, "name");
        reply_bulk(call->reply, consumer->name);
        reply_bulk_string(call->reply, "pending");
        reply_integer(call->reply, (int64_t)consumer->pending.count);
        reply_bulk_string(call->reply, "idle");
        reply_integer(call->reply, ms_since(call, consumer->seen_ms));
        reply_bulk_string(call->reply, "inactive");
        reply_integer(call->reply, consumer->active_ms < 0 ? -1 : ms_since(call, consumer->active_ms));
    }
}

static void reply_lines(struct call *call, const char *const *lines, size_t count)
{
    reply_array(call->reply, count);
    for (size_t i = 0; i < count; i++)
        reply_status(call->reply, bytes_of_string(lines[i]));
}

void xinfo_help_command(struct call *call)
{
    static const char *const lines[] = {
        "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CONSUMERS <key> <groupname>",
        "    Returns the consumers of a group: their pending entries, and how long they have been idle.",
        "GROUPS <key>",
        "    Returns the consumer groups of a stream, with the last entry delivered to each.",
        "STREAM <key> [FULL [COUNT <count>]]",
        "    Returns information about a stream; FULL: with its entries, groups and consumers.",
        "HELP",
        "    Returns this text.",
    };

    reply_lines(call, lines, sizeof(lines) / sizeof(lines[0]));
}

void xgroup_help_command(struct call *call)
{
    static const char *const lines[] = {
        "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CREATE <key> <groupname> <id|$> [MKSTREAM] [ENTRIESREAD <count>]",
        "    Creates a group that receives the entries after the ID.",
        "    MKSTREAM: creates the stream if it does not exist.",
        "    ENTRIESREAD: how many entries the group has read, for its lag.",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Creates a consumer.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Removes a consumer and its pending entries.",
        "DESTROY <key> <groupname>",
        "    Removes a group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD <count>]",
        "    Sets the ID of the last entry delivered to the group.",
        "HELP",
        "    Returns this text.",
    };

    reply_lines(call, lines, sizeof(lines) / sizeof(lines[0]));
}
