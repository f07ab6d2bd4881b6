/* XDELEX and XACKDEL: remove entries, with a word about what groups still need of them. They are logged as XDEL and XACK. */
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "commands/stream_refs.h"
#include "value/stream.h"
#include "value/stream_group.h"

enum outcome { NOT_THERE = -1, DELETED = 1, NEEDED = 2 };

struct removal {
    enum stream_refs refs;
    const struct stream_id *ids;
    size_t id_count;
    struct stream_id *deleted, *acked;      /* as many as were deleted, acknowledged */
    size_t deleted_count, acked_count;
};

/* IDS numids id ..., from `*arg`, which is left on the last ID. */
static bool read_ids(struct call *call, int *arg, struct removal *removal)
{
    int64_t count;

    if (!arg_integer_between(call, *arg + 1, 1, INT32_MAX, "ERR Number of IDs must be a positive integer", &count))
        return false;
    if (count > call->arg_count - *arg - 2) {
        reply_errorf(call, "ERR The `numids` parameter must match the number of arguments");
        return false;
    }
    removal->ids = arg_stream_ids(call, *arg + 2, (int)count);
    removal->id_count = (size_t)count;
    *arg += 1 + (int)count;
    return removal->ids != NULL;
}

/* [KEEPREF|DELREF|ACKED] IDS numids id ..., from argument `arg` on, in any order. */
static bool read_removal(struct call *call, int arg, struct removal *removal)
{
    bool has_refs = false;

    *removal = (struct removal){ .refs = REFS_KEPT };
    for (; arg < call->arg_count; arg++) {
        if (!has_refs && arg_stream_refs(call, arg, &removal->refs)) {
            has_refs = true;
        } else if (removal->ids == NULL && arg_is(call, arg, "ids") && arg + 1 < call->arg_count) {
            if (!read_ids(call, &arg, removal))
                return false;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (removal->ids == NULL) {
        reply_error(call, ERR_SYNTAX);
        return false;
    }
    removal->deleted = arena_alloc(call->arena, removal->id_count * sizeof(*removal->deleted));
    removal->acked = arena_alloc(call->arena, removal->id_count * sizeof(*removal->acked));
    return true;
}

static void reply_nothing_there(struct call *call, const struct removal *removal)
{
    reply_array(call->reply, removal->id_count);
    for (size_t i = 0; i < removal->id_count; i++)
        reply_integer(call->reply, NOT_THERE);
}

/* An entry of a stream without groups counts as needed: none has acknowledged it. */
static enum outcome delete_entry(struct stream *stream, struct stream_id id, struct removal *removal)
{
    if (removal->refs == REFS_RESPECTED && stream_has(stream, id) && (stream->group_count == 0 || stream_entry_is_needed(stream, id)))
        return NEEDED;
    if (!stream_delete(stream, id))
        return NOT_THERE;
    removal->deleted[removal->deleted_count++] = id;
    return DELETED;
}

/* Logs and reports what was removed; `refs` are the references that went. */
static void end_removal(struct call *call, struct key *key, const struct removal *removal, size_t refs)
{
    const struct bytes head[] = { BYTES("XDEL"), call->args[1] };
    uint64_t changes = removal->deleted_count + removal->acked_count + refs;

    if (changes == 0)
        return;
    log_stream_ids(call, head, 2, removal->deleted, removal->deleted_count);
    key_changed(key, removal->deleted_count > 0 ? EVENT_XDEL : EVENT_DELIVERED);
    call->change_count += changes - 1;
}

void xdelex_command(struct call *call)
{
    struct removal removal;
    struct stream *stream;
    size_t refs = 0;
    struct key key;

    if (!read_removal(call, 2, &removal) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    if (!key.present) {
        reply_nothing_there(call, &removal);
        return;
    }
    stream = stream_of(&key.value);
    if (!stream_has_ids(stream, removal.ids, removal.id_count)) {
        key_ask(&key);
        return;
    }
    reply_array(call->reply, removal.id_count);
    for (size_t i = 0; i < removal.id_count; i++)
        reply_integer(call->reply, delete_entry(stream, removal.ids[i], &removal));
    if (removal.refs == REFS_REMOVED)
        refs = stream_refs_remove(call, 1, stream, removal.ids, removal.id_count);
    end_removal(call, &key, &removal, refs);
}

/* Entries that are not pending in the group are left alone. */
static enum outcome acknowledge_and_delete(struct stream *stream, struct stream_group *group, struct stream_id id, struct removal *removal)
{
    if (!stream_pending_remove(group, id))
        return NOT_THERE;
    removal->acked[removal->acked_count++] = id;
    return delete_entry(stream, id, removal);
}

void xackdel_command(struct call *call)
{
    struct stream_group *group = NULL;
    struct removal removal;
    struct stream *stream;
    size_t refs = 0;
    struct key key;

    if (!read_removal(call, 3, &removal) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    key_count_read(&key);
    if (key.present)
        group = stream_group_find(stream_of(&key.value), call->args[2]);
    if (group == NULL) {
        reply_nothing_there(call, &removal);
        return;
    }
    stream = stream_of(&key.value);
    if (!stream_has_ids(stream, removal.ids, removal.id_count)) {
        key_ask(&key);
        return;
    }
    reply_array(call->reply, removal.id_count);
    for (size_t i = 0; i < removal.id_count; i++)
        reply_integer(call->reply, acknowledge_and_delete(stream, group, removal.ids[i], &removal));
    log_stream_ids(call, (struct bytes[]){ BYTES("XACK"), call->args[1], group->name }, 3, removal.acked, removal.acked_count);
    if (removal.refs == REFS_REMOVED)
        refs = stream_refs_remove(call, 1, stream, removal.acked, removal.acked_count);
    end_removal(call, &key, &removal, refs);
}
