/* XPENDING, XCLAIM and XAUTOCLAIM: pending entries of groups. */
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "commands/stream_log.h"
#include "commands/stream_range.h"
#include "value/stream.h"
#include "value/stream_group.h"

/* "NOGROUP No such key '%s' or consumer group '%s'", with the call's arguments. */
static void reply_no_group(struct call *call, int key_arg, int group_arg)
{
    struct bytes key = call->args[key_arg], group = call->args[group_arg];

    reply_errorf(call, "NOGROUP No such key '%.*s' or consumer group '%.*s'", (int)key.size, key.data, (int)group.size, group.data);
}

/* Opens the key at argument 1 and its group, named by argument 2. False: NOGROUP or WRONGTYPE was replied. */
static bool open_group(struct call *call, enum key_access access, struct key *key, struct stream_group **group)
{
    if (!key_open_as(call, 1, access, VALUE_STREAM, key))
        return false;
    *group = key->present ? stream_group_find(stream_of(&key->value), call->args[2]) : NULL;
    if (*group != NULL)
        return true;
    reply_no_group(call, 1, 2);
    return false;
}

/* XCLAIM and XAUTOCLAIM read the key, too, before they look at their arguments and its type, as in Redis. */
static void count_read(struct call *call)
{
    struct key key;

    key_open(call, 1, KEY_FOR_WRITING, &key);
    key_count_read(&key);
}

static void reply_summary(struct call *call, const struct stream_group *group)
{
    struct idmap_place place;
    size_t count = 0;

    reply_array(call->reply, 4);
    reply_integer(call->reply, (int64_t)group->pending.count);
    if (!idmap_first(&group->pending, &place)) {
        reply_null(call->reply);
        reply_null(call->reply);
        reply_null_array(call->reply);
        return;
    }
    reply_stream_id(call->reply, idmap_id(&group->pending, place));
    idmap_last(&group->pending, &place);
    reply_stream_id(call->reply, idmap_id(&group->pending, place));
    for (uint32_t i = 0; i < group->consumer_count; i++)
        count += group->consumers[i]->pending.count > 0;
    reply_array(call->reply, count);
    for (uint32_t i = 0; i < group->consumer_count; i++) {
        const struct stream_consumer *consumer = group->consumers[i];

        if (consumer->pending.count > 0) {
            reply_array(call->reply, 2);
            reply_bulk(call->reply, consumer->name);
            reply_bulk_integer(call->reply, (int64_t)consumer->pending.count);
        }
    }
}

struct pending_query {
    struct stream_id start, end;
    int64_t count, idle_min_ms;
    int consumer_arg;           /* 0: of all consumers */
};

static bool read_query(struct call *call, struct pending_query *query)
{
    int arg = 3;

    *query = (struct pending_query){ 0 };
    if (call->arg_count < 6 || call->arg_count > 9) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    if (arg_is(call, 3, "idle")) {
        if (!arg_integer(call, 4, &query->idle_min_ms))
            return false;
        if (call->arg_count < 8) {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
        arg = 5;
    }
    if (!arg_integer(call, arg + 2, &query->count) || !arg_stream_range(call, arg, arg + 1, &query->start, &query->end))
        return false;
    if (arg + 3 < call->arg_count)
        query->consumer_arg = arg + 3;
    return true;
}

static void reply_pending(struct call *call, const struct stream_group *group, const struct pending_query *query)
{
    const struct stream_consumer *consumer = NULL;
    const struct idmap *ids = &group->pending;
    struct reply_later later;
    struct idmap_place place;
    int64_t count = 0;

    if (query->consumer_arg != 0) {
        consumer = stream_consumer_find(group, call->args[query->consumer_arg]);
        if (consumer == NULL) {
            reply_array(call->reply, 0);
            return;
        }
        ids = &consumer->pending;
    }
    later = reply_later_begin(call->reply);
    for (bool more = idmap_seek(ids, query->start, &place); more && count < query->count; more = idmap_next(ids, &place)) {
        struct stream_id id = idmap_id(ids, place);
        const struct stream_pending *pending;
        int64_t idle_ms;

        if (stream_id_compare(id, query->end) > 0)
            break;
        pending = consumer == NULL ? idmap_value(ids, place) : idmap_find(&group->pending, id);
        idle_ms = call->turn->now_ms - pending->delivered_ms;
        if (query->idle_min_ms != 0 && idle_ms < query->idle_min_ms)
            continue;
        reply_array(call->reply, 4);
        reply_stream_id(call->reply, id);
        reply_bulk(call->reply, pending->consumer->name);
        reply_integer(call->reply, idle_ms < 0 ? 0 : idle_ms);
        reply_integer(call->reply, (int64_t)pending->deliveries);
        count++;
    }
    reply_later_array(call->reply, later, (size_t)count);
}

void xpending_command(struct call *call)
{
    struct pending_query query;
    struct stream_group *group;
    struct key key;

    if (call->arg_count != 3 && !read_query(call, &query))
        return;
    if (!open_group(call, KEY_FOR_READING, &key, &group))
        return;
    if (call->arg_count == 3)
        reply_summary(call, group);
    else
        reply_pending(call, group, &query);
}

/* The state of one XCLAIM or XAUTOCLAIM. */
struct claiming {
    struct call *call;
    struct key key;
    struct stream *stream;
    struct stream_group *group;
    struct stream_consumer *consumer;
    struct claim_log log;
    bool just_ids, forced;
    int64_t idle_min_ms, delivered_ms, deliveries;      /* deliveries -1: one more, except with just_ids */
    size_t changes, replied;
};

/* Finds the consumer, creating it if needed. */
static void begin_claiming(struct claiming *claim)
{
    struct call *call = claim->call;
    struct bytes name = call->args[3];

    claim->stream = stream_of(&claim->key.value);
    claim->consumer = stream_consumer_find(claim->group, name);
    if (claim->consumer == NULL) {
        claim->consumer = stream_consumer_create(claim->group, name, call->turn->now_ms);
        log_consumer_created(call, 1, claim->group, claim->consumer);
        key_event(&claim->key, EVENT_XGROUP_CREATECONSUMER);
        claim->changes++;
    }
    claim->consumer->seen_ms = call->turn->now_ms;
    claim_log_begin(&claim->log, call, 1, claim->group, claim->consumer);
}

/* Removes a pending entry that was deleted from the stream. */
static void drop_pending(struct claiming *claim, struct stream_id id)
{
    const struct bytes words[] = { BYTES("XACK"), claim->call->args[1], claim->group->name, call_stream_id(claim->call, id) };

    stream_pending_remove(claim->group, id);
    call_propagate(claim->call, words, 4);
    claim->changes++;
}

/* Assigns an entry, which exists, to the consumer. `pending` NULL: it was not pending, and is created (FORCE). */
static void claim_entry(struct claiming *claim, struct stream_id id, struct stream_pending *pending)
{
    struct call *call = claim->call;
    bool is_new = pending == NULL;

    pending = stream_pending_assign(claim->group, id, claim->consumer, claim->delivered_ms);
    if (is_new)
        pending->deliveries = 1;
    if (claim->deliveries >= 0)
        pending->deliveries = (uint64_t)claim->deliveries;
    else if (!claim->just_ids && pending->deliveries < STREAM_DELIVERIES_MAX)
        pending->deliveries++;
    if (claim->just_ids)
        reply_stream_id(call->reply, id);
    else
        reply_stream_entry_of(call, claim->stream, id);
    claim->consumer->active_ms = call->turn->now_ms;
    claim_log_add(&claim->log, id, pending);
    claim->replied++;
    claim->changes++;
}

static void end_claiming(struct claiming *claim)
{
    uint64_t changes = claim->call->change_count;

    claim_log_end(&claim->log);
    if (claim->changes > 0)
        key_changed(&claim->key, EVENT_DELIVERED);
    else
        key_recode(&claim->key);        /* the time at which the consumer was seen */
    claim->call->change_count = changes + claim->changes;
}

/* The options of XCLAIM. */

struct claim_options {
    int id_count;               /* from argument 5 on */
    struct stream_id last_id;
};

static bool read_number(struct call *call, int arg, const char *name, int64_t *number)
{
    if (text_to_int(call->args[arg], number))
        return true;
    reply_errorf(call, "ERR Invalid %s argument for XCLAIM", name);
    return false;
}

static bool read_claim_options(struct call *call, struct claiming *claim, struct claim_options *options)
{
    int64_t now_ms = call->turn->now_ms, ms;
    struct stream_id id;
    int arg = 5;

    *options = (struct claim_options){ .id_count = 0 };
    claim->delivered_ms = now_ms;
    claim->deliveries = -1;
    if (!read_number(call, 4, "min-idle-time", &claim->idle_min_ms))
        return false;
    while (arg < call->arg_count && stream_id_parse(call->args[arg], &id))
        arg++;
    options->id_count = arg - 5;
    for (; arg < call->arg_count; arg++) {
        bool has_next = arg + 1 < call->arg_count;

        if (arg_is(call, arg, "force")) {
            claim->forced = true;
        } else if (arg_is(call, arg, "justid")) {
            claim->just_ids = true;
        } else if (has_next && arg_is(call, arg, "idle")) {
            if (!read_number(call, ++arg, "IDLE option", &ms))
                return false;
            claim->delivered_ms = __builtin_sub_overflow(now_ms, ms, &ms) ? -2 : ms;
        } else if (has_next && arg_is(call, arg, "time")) {
            if (!read_number(call, ++arg, "TIME option", &claim->delivered_ms))
                return false;
        } else if (has_next && arg_is(call, arg, "retrycount")) {
            if (!read_number(call, ++arg, "RETRYCOUNT option", &claim->deliveries))
                return false;
        } else if (has_next && arg_is(call, arg, "lastid")) {
            if (!arg_stream_id(call, ++arg, &options->last_id))
                return false;
        } else {
            reply_errorf(call, "ERR Unrecognized XCLAIM option '%.*s'", (int)call->args[arg].size, call->args[arg].data);
            return false;
        }
    }
    /* A time that is not in the past becomes now. A replayed one is kept: the clock may have been set back. */
    if (claim->delivered_ms < 0 || (claim->delivered_ms > now_ms && !(call->client->caller & TRAIT_OBEYED)))
        claim->delivered_ms = now_ms;
    return true;
}

static void claim_one(struct claiming *claim, struct stream_id id)
{
    struct stream_pending *pending = idmap_find(&claim->group->pending, id);

    if (!stream_has(claim->stream, id)) {
        if (pending != NULL)
            drop_pending(claim, id);
    } else if (pending == NULL ? claim->forced
        : claim->idle_min_ms <= 0 || claim->call->turn->now_ms - pending->delivered_ms >= claim->idle_min_ms) {
        claim_entry(claim, id, pending);
    }
}

/* Whether the entries of the IDs are there. False: the call asks for them (key_ask). */
static bool has_claimed(const struct claiming *claim, const struct stream_id *ids, size_t count)
{
    if (stream_has_ids(stream_of(&claim->key.value), ids, count))
        return true;
    key_ask(&claim->key);
    return false;
}

/* The IDs of the arguments. */
static bool has_named(const struct claiming *claim, int id_count)
{
    struct call *call = claim->call;
    struct stream_id *ids = arena_alloc(call->arena, (size_t)id_count * sizeof(*ids));

    for (int i = 0; i < id_count; i++)
        (void)stream_id_parse(call->args[5 + i], &ids[i]);
    return has_claimed(claim, ids, (size_t)id_count);
}

void xclaim_command(struct call *call)
{
    struct claiming claim = { .call = call };
    struct claim_options options;
    struct reply_later later;

    count_read(call);
    if (!open_group(call, KEY_FOR_WRITING, &claim.key, &claim.group) || !read_claim_options(call, &claim, &options) || !has_named(&claim, options.id_count))
        return;
    begin_claiming(&claim);
    later = reply_later_begin(call->reply);
    if (stream_id_compare(options.last_id, claim.group->last_id) > 0) {
        claim.group->last_id = options.last_id;
        log_group_position(call, 1, claim.group);
        claim.changes++;
    }
    for (int i = 0; i < options.id_count; i++) {
        struct stream_id id;

        if (stream_id_parse(call->args[5 + i], &id))
            claim_one(&claim, id);
    }
    end_claiming(&claim);
    reply_later_array(call->reply, later, claim.replied);
}

enum {
    ATTEMPTS = 10,              /* entries examined for each that may be claimed */
    COUNT_DEFAULT = 100,
};

struct autoclaim_options {
    struct stream_id start;
    int64_t count;
};

static bool read_autoclaim_options(struct call *call, struct claiming *claim, struct autoclaim_options *options)
{
    options->count = COUNT_DEFAULT;
    claim->delivered_ms = call->turn->now_ms;
    claim->deliveries = -1;
    if (!text_to_int(call->args[4], &claim->idle_min_ms)) {
        reply_errorf(call, "ERR Invalid min-idle-time argument for XAUTOCLAIM");
        return false;
    }
    if (!arg_stream_start(call, 5, &options->start))
        return false;
    for (int arg = 6; arg < call->arg_count; arg++) {
        if (arg_is(call, arg, "justid")) {
            claim->just_ids = true;
        } else if (arg_is(call, arg, "count") && arg + 1 < call->arg_count) {
            if (!arg_integer_between(call, ++arg, 1, INT64_MAX / (int64_t)sizeof(struct stream_id), "ERR COUNT must be > 0", &options->count))
                return false;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Returns where the next call is to continue, and copies of the IDs whose entries were deleted. */
static struct stream_id claim_idle(struct claiming *claim, const struct autoclaim_options *options, struct buffer *gone)
{
    struct idmap *all = &claim->group->pending;
    int64_t attempts = options->count * ATTEMPTS, count = options->count;
    struct idmap_place place;
    bool more = idmap_seek(all, options->start, &place);

    while (more && attempts-- > 0 && count > 0) {
        struct stream_id id = idmap_id(all, place);
        struct stream_pending *pending = idmap_value(all, place);

        if (!stream_has(claim->stream, id)) {
            buffer_append(gone, &id, sizeof(id));
            drop_pending(claim, id);
            more = idmap_seek(all, id, &place);
            count--;
            continue;
        }
        if (claim->idle_min_ms <= 0 || claim->call->turn->now_ms - pending->delivered_ms >= claim->idle_min_ms) {
            claim_entry(claim, id, pending);
            count--;
        }
        more = idmap_next(all, &place);
    }
    return more ? idmap_id(all, place) : (struct stream_id){ 0, 0 };
}

/* The entries that claim_idle will look at, if nothing was deleted. */
static bool has_idle(const struct claiming *claim, const struct autoclaim_options *options)
{
    struct idmap *all = &claim->group->pending;
    int64_t attempts = options->count * ATTEMPTS, count = options->count;
    struct buffer ids = { 0 };
    struct idmap_place place;
    bool has;

    if (stream_is_here(stream_of(&claim->key.value)))
        return true;
    for (bool more = idmap_seek(all, options->start, &place); more && attempts-- > 0 && count > 0; more = idmap_next(all, &place)) {
        struct stream_id id = idmap_id(all, place);
        const struct stream_pending *pending = idmap_value(all, place);

        buffer_append(&ids, &id, sizeof(id));
        count -= claim->idle_min_ms <= 0 || claim->call->turn->now_ms - pending->delivered_ms >= claim->idle_min_ms;
    }
    has = has_claimed(claim, (const struct stream_id *)(const void *)ids.data, ids.size / sizeof(struct stream_id));
    buffer_release(&ids);
    return has;
}

/* The cursor comes first in the reply but is known last, so the entries are collected first. */
void xautoclaim_command(struct call *call)
{
    struct claiming claim = { .call = call };
    struct autoclaim_options options;
    struct buffer gone = { 0 };
    struct reply entries, *reply = call->reply;
    struct stream_id next;

    count_read(call);
    if (!read_autoclaim_options(call, &claim, &options) || !open_group(call, KEY_FOR_WRITING, &claim.key, &claim.group) || !has_idle(&claim, &options))
        return;
    begin_claiming(&claim);
    reply_init(&entries, reply->protocol);
    call->reply = &entries;
    next = claim_idle(&claim, &options, &gone);
    call->reply = reply;
    end_claiming(&claim);
    reply_array(reply, 3);
    reply_stream_id(reply, next);
    reply_array(reply, claim.replied);
    buffer_append_bytes(&reply->out, buffer_bytes(&entries.out));
    reply_array(reply, gone.size / sizeof(struct stream_id));
    for (size_t offset = 0; offset < gone.size; offset += sizeof(struct stream_id)) {
        struct stream_id id;

        memcpy(&id, gone.data + offset, sizeof(id));
        reply_stream_id(reply, id);
    }
    buffer_release(&gone);
    reply_release(&entries);
}
