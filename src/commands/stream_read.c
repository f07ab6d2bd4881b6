/* XREAD and XREADGROUP: entries of several streams after given IDs. For a group: entries that were not delivered yet, which then
 * are pending for the consumer; or, with an ID, the consumer's pending entries. With CLAIM, entries that are pending for too long come
 * before the new ones. */
#include "base/check.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "commands/stream_idle.h"
#include "commands/stream_log.h"
#include "commands/stream_range.h"
#include "value/stream.h"
#include "value/stream_group.h"

enum read_kind { OF_ANYONE, OF_GROUP };

struct read {
    enum read_kind kind;
    bool no_ack, blocks, claims;
    int64_t idle_min_ms;        /* if it claims */
    int64_t retry_ms;           /* when an entry may be idle at the earliest; INT64_MAX: it does not claim */
    int64_t deadline_us;        /* if it blocks */
    uint64_t count_max;         /* 0: no limit */
    int group_arg;              /* the next argument is the consumer's name */
    int keys, stream_count;     /* argument: the first key; the IDs follow the keys */
    struct stream_id *after;    /* for each stream: entries after this ID are returned. A full history begins after 0-0 */
    bool *is_new;               /* for each stream: ">" was given, or the highest ID */
    bool *is_last;              /* for each stream: "+" was given: the last entry, whatever its ID is */
};

static bool read_streams(struct call *call, int arg, struct read *read)
{
    int count = call->arg_count - arg;

    read->keys = arg;
    read->stream_count = count / 2;
    if (count % 2 == 0)
        return true;
    reply_errorf(call, "ERR Unbalanced '%s' list of streams: for each stream key an ID or '%s' must be specified.", call->command->name,
        read->kind == OF_GROUP ? ">" : "$");
    return false;
}

static bool only_of_groups(struct call *call, const struct read *read, const char *option)
{
    if (read->kind == OF_GROUP)
        return true;
    reply_errorf(call, "ERR The %s option is only supported by XREADGROUP. You called XREAD instead.", option);
    return false;
}

/* Other commands that block do not in a script. */
static bool may_block(struct call *call, const struct read *read)
{
    if (!(call->client->caller & TRAIT_IN_SCRIPT))
        return true;
    reply_errorf(call, "ERR %s command is not allowed with BLOCK option from scripts",
        call_format(call, "%.*s", (int)call->args[0].size, call->args[0].data).data);
    return false;
}

static bool read_options(struct call *call, struct read *read)
{
    int64_t count;

    for (int arg = 1; arg < call->arg_count && read->keys == 0; arg++) {
        int more = call->arg_count - 1 - arg;

        if (more >= 1 && arg_is(call, arg, "block")) {
            if (!may_block(call, read))
                return false;
            read->blocks = true;
            if (!arg_timeout_ms(call, ++arg, &read->deadline_us))
                return false;
        } else if (more >= 1 && arg_is(call, arg, "count")) {
            if (!arg_integer(call, ++arg, &count))
                return false;
            read->count_max = count < 0 ? 0 : (uint64_t)count;
        } else if (more >= 1 && arg_is(call, arg, "streams")) {
            if (!read_streams(call, arg + 1, read))
                return false;
        } else if (more >= 2 && arg_is(call, arg, "group")) {
            if (!only_of_groups(call, read, "GROUP"))
                return false;
            read->group_arg = arg + 1;
            arg += 2;
        } else if (more >= 1 && arg_is(call, arg, "claim")) {
            if (!only_of_groups(call, read, "CLAIM") || !arg_integer_between(call, ++arg, 0, INT64_MAX,
                "ERR min-idle-time must be a positive integer", &read->idle_min_ms))
                return false;
            read->claims = true;
        } else if (arg_is(call, arg, "noack")) {
            if (!only_of_groups(call, read, "NOACK"))
                return false;
            read->no_ack = true;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (read->keys == 0) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (read->kind == OF_ANYONE || read->group_arg != 0)
        return true;
    reply_errorf(call, "ERR Missing GROUP option for XREADGROUP");
    return false;
}

static void reply_meaningless_id(struct call *call, const char *id)
{
    reply_errorf(call, "ERR The %s ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer "
        "by specifying a proper ID, or use the > ID to get new messages. The %s ID would just return an empty result set.", id, id);
}

/* Finds where reading of the i-th stream begins. Its key and, for a group, its group exist. */
static bool read_position(struct call *call, struct read *read, int i)
{
    int key_arg = read->keys + i, id_arg = key_arg + read->stream_count;
    struct key key;

    read->is_new[i] = read->is_last[i] = false;
    if (!key_open_as(call, key_arg, KEY_FOR_READING, VALUE_STREAM, &key))
        return false;
    if (read->kind == OF_GROUP &&
        (!key.present || stream_group_find(stream_of(&key.value), call->args[read->group_arg]) == NULL)) {
        reply_errorf(call, "NOGROUP No such key '%.*s' or consumer group '%.*s' in XREADGROUP with GROUP option",
            (int)call->args[key_arg].size, call->args[key_arg].data, (int)call->args[read->group_arg].size,
            call->args[read->group_arg].data);
        return false;
    }
    if (bytes_equal(call->args[id_arg], BYTES("$"))) {
        read->after[i] = key.present ? stream_of(&key.value)->last_id : (struct stream_id){ 0, 0 };
        if (read->kind == OF_ANYONE)
            return true;
        reply_meaningless_id(call, "$");
        return false;
    }
    if (bytes_equal(call->args[id_arg], BYTES("+"))) {
        read->is_last[i] = true;
        if (read->kind == OF_ANYONE)
            return true;
        reply_meaningless_id(call, "+");
        return false;
    }
    if (bytes_equal(call->args[id_arg], BYTES(">"))) {
        read->is_new[i] = true;
        if (read->kind == OF_GROUP)
            return true;
        reply_errorf(call, "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.");
        return false;
    }
    if (!arg_stream_id(call, id_arg, &read->after[i]))
        return false;
    /* Redis takes the highest ID for ">". */
    read->is_new[i] = read->kind == OF_GROUP && stream_id_compare(read->after[i], STREAM_ID_MAX) == 0;
    return true;
}

/* The reply, which begins with the first stream that has entries. */
struct streams {
    struct reply_later later;
    size_t stream_count;
};

static void begin_stream(struct call *call, struct streams *streams, int key_arg)
{
    if (streams->stream_count++ == 0)
        streams->later = reply_later_begin(call->reply);
    if (call->reply->protocol == 2)
        reply_array(call->reply, 2);
    reply_bulk(call->reply, call->args[key_arg]);
}

/* Reads without a group. */
static void read_stream(struct call *call, const struct read *read, int i, struct streams *streams)
{
    struct stream_id start = read->after[i];
    const struct stream *stream;
    struct key key;

    key_open(call, read->keys + i, KEY_FOR_LOOKING, &key);
    key_count_read(&key);               /* the second time: Redis looks each key up twice */
    if (!key.present)
        return;
    stream = stream_of(&key.value);
    if (stream->length == 0 || (!read->is_last[i] && stream_id_compare(stream_last_live_id(stream), start) <= 0))
        return;
    begin_stream(call, streams, read->keys + i);
    if (read->is_last[i]) {
        reply_stream_range(call, stream, stream_last_live_id(stream), STREAM_ID_MAX, 1, STREAM_UP);
        return;
    }
    stream_id_increment(&start);        /* there are entries after it */
    reply_stream_range(call, stream, start, STREAM_ID_MAX, read->count_max, STREAM_UP);
}

/* Delivers entries that are new to the group, `count_max` at most; 0: all. Returns how many. */
static size_t deliver_new(struct call *call, const struct read *read, int key_arg, struct stream *stream, struct stream_group *group,
    struct stream_consumer *consumer, uint64_t count_max)
{
    struct stream_id start = group->last_id, id;
    struct stream_iterator iterator;
    struct claim_log log;
    size_t pair_count, count = 0;

    stream_id_increment(&start);
    claim_log_begin(&log, call, key_arg, group, consumer);
    stream_iterate(&iterator, stream, start, STREAM_ID_MAX, STREAM_UP);
    while ((count_max == 0 || count < count_max) && stream_next(&iterator, &id, &pair_count)) {
        stream_group_advance(stream, group, id);
        if (read->claims)
            reply_stream_delivery(call, &iterator, id, pair_count, 0, 0);
        else
            reply_stream_entry(call, &iterator, id, pair_count);
        count++;
        if (!read->no_ack) {
            struct stream_pending *pending = stream_pending_assign(group, id, consumer, call->turn->now_ms);

            pending->deliveries = 1;
            claim_log_add(&log, id, pending);
        }
    }
    claim_log_end(&log);
    log_group_position(call, key_arg, group);
    return count;
}

/* Replies idle entries and, unless there are COUNT of them, new ones. */
static void deliver_entries(struct call *call, const struct read *read, int key_arg, struct stream *stream, struct stream_group *group,
    struct stream_consumer *consumer, const struct stream_idle *idle, bool has_news)
{
    struct reply_later later = reply_later_begin(call->reply);
    size_t count = idle->count;

    stream_idle_claim(call, key_arg, stream, group, consumer, idle);
    if (has_news)
        count += deliver_new(call, read, key_arg, stream, group, consumer, read->count_max > 0 ? read->count_max - idle->count : 0);
    consumer->active_ms = call->turn->now_ms;
    reply_later_array(call->reply, later, count);
}

/* Replies the entries pending for the consumer; only the ID of those that were deleted. True if one was delivered again. */
static bool deliver_again(struct call *call, const struct read *read, int i, const struct stream *stream, struct stream_group *group,
    struct stream_consumer *consumer)
{
    struct reply_later later = reply_later_begin(call->reply);
    struct stream_id start = read->after[i];
    struct idmap_place place;
    struct claim_log log;
    size_t count = 0;
    bool more = stream_id_increment(&start) && idmap_seek(&consumer->pending, start, &place), changed = false;

    claim_log_begin(&log, call, read->keys + i, group, consumer);
    for (; more && (read->count_max == 0 || count < read->count_max); more = idmap_next(&consumer->pending, &place), count++) {
        struct stream_id id = idmap_id(&consumer->pending, place);
        struct stream_pending *pending = idmap_find(&group->pending, id);

        if (!reply_stream_entry_of(call, stream, id)) {
            reply_array(call->reply, 2);
            reply_stream_id(call->reply, id);
            reply_null_array(call->reply);
            continue;
        }
        stream_pending_assign(group, id, consumer, call->turn->now_ms);
        if (pending->deliveries < STREAM_DELIVERIES_MAX)
            pending->deliveries++;
        claim_log_add(&log, id, pending);
        changed = true;
    }
    claim_log_end(&log);
    reply_later_array(call->reply, later, count);
    return changed;
}

/* The consumer that reads, created if needed: then `*changed` is set. */
static struct stream_consumer *open_consumer(struct call *call, const struct key *key, int key_arg, struct stream_group *group,
    struct bytes name, bool *changed)
{
    struct stream_consumer *consumer = stream_consumer_find(group, name);

    if (consumer == NULL) {
        consumer = stream_consumer_create(group, name, call->turn->now_ms);
        log_consumer_created(call, key_arg, group, consumer);
        key_event(key, EVENT_XGROUP_CREATECONSUMER);
        *changed = true;
    }
    consumer->seen_ms = call->turn->now_ms;
    return consumer;
}

/* Idle entries, if they are to be claimed. Notes when to look again. */
static struct stream_idle find_idle(struct call *call, struct read *read, int i, const struct stream *stream, struct stream_group *group)
{
    struct stream_idle idle = { .count = 0 };
    int64_t next_ms;

    if (!read->claims || !read->is_new[i])
        return idle;
    idle = stream_idle_find(call, read->keys + i, stream, group, read->idle_min_ms, read->count_max);
    next_ms = stream_idle_next_ms(group, read->idle_min_ms, call->turn->now_ms);
    if (next_ms < read->retry_ms)
        read->retry_ms = next_ms;
    return idle;
}

static void read_for_group(struct call *call, struct read *read, int i, struct streams *streams)
{
    int key_arg = read->keys + i;
    struct stream_consumer *consumer;
    struct stream_group *group;
    struct stream_idle idle;
    struct stream *stream;
    bool changed = false, has_news;
    struct key key;

    CHECK(key_open(call, key_arg, KEY_FOR_WRITING, &key));
    key_count_read(&key);
    stream = stream_of(&key.value);
    group = stream_group_find(stream, call->args[read->group_arg]);
    consumer = open_consumer(call, &key, key_arg, group, call->args[read->group_arg + 1], &changed);
    idle = find_idle(call, read, i, stream, group);
    has_news = read->is_new[i] && stream->length > 0 && stream_id_compare(stream_last_live_id(stream), group->last_id) > 0 &&
               (read->count_max == 0 || idle.count < read->count_max);
    if (has_news || idle.count > 0 || !read->is_new[i])
        begin_stream(call, streams, key_arg);
    if (has_news || idle.count > 0)
        deliver_entries(call, read, key_arg, stream, group, consumer, &idle, has_news);
    else if (!read->is_new[i] && deliver_again(call, read, i, stream, group, consumer))
        changed = true;
    if (changed || has_news || idle.count > 0 || idle.dropped)
        key_changed(&key, EVENT_DELIVERED);
    else
        key_recode(&key);       /* the time at which the consumer was seen */
}

/* The consumer's pending entries that deliver_again will look at. */
static bool has_pending(const struct read *read, int i, const struct stream *stream, const struct stream_group *group, struct bytes name)
{
    const struct stream_consumer *consumer = stream_consumer_find(group, name);
    struct stream_id start = read->after[i];
    struct buffer ids = { 0 };
    struct idmap_place place;
    uint64_t count = 0;
    bool more = consumer != NULL && stream_id_increment(&start) && idmap_seek(&consumer->pending, start, &place), has;

    for (; more && (read->count_max == 0 || count < read->count_max); more = idmap_next(&consumer->pending, &place), count++) {
        struct stream_id id = idmap_id(&consumer->pending, place);

        buffer_append(&ids, &id, sizeof(id));
    }
    has = stream_has_ids(stream, (const struct stream_id *)(const void *)ids.data, count);
    buffer_release(&ids);
    return has;
}

/* How many entries the call delivers to the group at most: COUNT, as many times as it names the stream; 0: all. */
static uint64_t count_in_all(const struct call *call, const struct read *read, int i, const struct stream *stream)
{
    uint64_t each = read->count_max < stream->length ? read->count_max : stream->length, count = 0;

    for (int j = 0; j < read->stream_count; j++)
        count += bytes_equal(call->args[read->keys + i], call->args[read->keys + j]) ? each : 0;
    return count;
}

/* Entries after an ID, and the last one. */
static bool has_after(const struct stream *stream, struct stream_id after, uint64_t count_max)
{
    return stream_has_range(stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 1, STREAM_DOWN) &&
        (!stream_id_increment(&after) || stream_has_range(stream, after, STREAM_ID_MAX, count_max, STREAM_UP));
}

/* Whether all is there that reading of the i-th stream needs. False: the call asks for it (key_ask). */
static bool has_stream(struct call *call, const struct read *read, int i)
{
    const struct stream *stream;
    struct stream_group *group;
    struct key key;
    bool has;

    if (!key_open(call, read->keys + i, KEY_FOR_LOOKING, &key) || stream_is_here(stream_of(&key.value)))
        return true;
    stream = stream_of(&key.value);
    if (read->kind == OF_ANYONE) {
        has = has_after(stream, read->is_last[i] ? STREAM_ID_MAX : read->after[i], read->count_max);
    } else {
        group = stream_group_find(stream, call->args[read->group_arg]);
        if (!read->is_new[i])
            has = has_pending(read, i, stream, group, call->args[read->group_arg + 1]);
        else
            has = has_after(stream, group->last_id, count_in_all(call, read, i, stream)) &&
                (!read->claims || stream_idle_is_here(call, stream, group, read->idle_min_ms, count_in_all(call, read, i, stream)));
    }
    if (!has)
        key_ask(&key);
    return has;
}

/* Waits, with the IDs that "$" stood for, so that entries added meanwhile are returned. Readers of a group are woken when the
 * stream or the group is removed. */
static void wait_for_entries(struct call *call, const struct read *read)
{
    struct bytes *words = arena_alloc(call->arena, (size_t)call->arg_count * sizeof(*words));
    struct call_wait wait = {
        .type = VALUE_STREAM,
        .key_first = read->keys,
        .key_count = read->stream_count,
        .wakes_on_removal = read->kind == OF_GROUP,
        .deadline_us = read->deadline_us,
        .retry_ms = read->retry_ms == INT64_MAX ? 0 : read->retry_ms,
        .args = words,
        .arg_count = call->arg_count,
    };

    memcpy(words, call->args, (size_t)call->arg_count * sizeof(*words));
    if (read->kind == OF_ANYONE) {
        for (int i = 0; i < read->stream_count; i++) {
            if (!read->is_last[i])
                words[read->keys + read->stream_count + i] = call_stream_id(call, read->after[i]);
        }
    }
    call_wait(call, &wait);
}

static void run_read(struct call *call, enum read_kind kind)
{
    struct read read = { .kind = kind, .retry_ms = INT64_MAX };
    struct streams streams = { .stream_count = 0 };

    if (!read_options(call, &read))
        return;
    read.after = arena_alloc(call->arena, (size_t)read.stream_count * sizeof(*read.after));
    read.is_new = arena_alloc(call->arena, (size_t)read.stream_count * sizeof(*read.is_new));
    read.is_last = arena_alloc(call->arena, (size_t)read.stream_count * sizeof(*read.is_last));
    for (int i = 0; i < read.stream_count; i++) {
        if (!read_position(call, &read, i))
            return;
    }
    for (int i = 0; i < read.stream_count; i++) {
        if (!has_stream(call, &read, i))
            return;
    }
    for (int i = 0; i < read.stream_count; i++) {
        if (kind == OF_GROUP)
            read_for_group(call, &read, i, &streams);
        else
            read_stream(call, &read, i, &streams);
    }
    if (streams.stream_count == 0 && read.blocks)
        wait_for_entries(call, &read);
    else if (streams.stream_count == 0)
        reply_null_array(call->reply);
    else if (call->reply->protocol == 2)
        reply_later_array(call->reply, streams.later, streams.stream_count);
    else
        reply_later_map(call->reply, streams.later, streams.stream_count);
}

void xread_command(struct call *call)
{
    run_read(call, OF_ANYONE);
}

void xreadgroup_command(struct call *call)
{
    run_read(call, OF_GROUP);
}
