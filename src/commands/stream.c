/* The stream commands that change entries. */
#include "base/check.h"
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/stream_id.h"
#include "commands/stream_refs.h"
#include "value/stream.h"

/* Options that precede XADD's ID, and all of XTRIM's. */
struct options {
    bool trims, no_create;
    bool has_refs;
    enum stream_refs refs;
    struct stream_trim trim;
    int next;                   /* argument after the options; XADD's ID */
};

enum options_of { OF_XADD, OF_XTRIM };

/* MAXLEN|MINID [=|~] threshold, from `*arg`, which is left on the last of them. */
static bool read_trim(struct call *call, int *arg, struct options *options)
{
    struct stream_trim *trim = &options->trim;
    int64_t length;

    if (options->trims) {
        reply_errorf(call, "ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
        return false;
    }
    options->trims = true;
    trim->by = arg_is(call, *arg, "maxlen") ? TRIM_LENGTH : TRIM_ID;
    trim->approximate = false;
    ++*arg;
    if (call->arg_count - *arg >= 2 && (arg_is(call, *arg, "~") || arg_is(call, *arg, "="))) {
        trim->approximate = arg_is(call, *arg, "~");
        ++*arg;
    }
    if (trim->by == TRIM_ID)
        return arg_stream_id(call, *arg, &trim->min_id);
    if (!arg_integer(call, *arg, &length))
        return false;
    if (length < 0) {
        reply_errorf(call, "ERR The MAXLEN argument must be >= 0.");
        return false;
    }
    trim->length_max = (uint64_t)length;
    return true;
}

/* Without a LIMIT an approximate trim removes at most what a hundred nodes hold. A replayed trim was limited when it was logged,
 * and has no limit. */
static bool settle_limit(struct call *call, struct options *options, bool has_limit, int64_t limit, enum options_of of)
{
    enum { NODES = 100, DEFAULT = 10000, LIMIT_MAX = 1000000 };
    size_t node_entries = call->turn->limits.stream_node_entries_max;
    struct stream_trim *trim = &options->trim;

    trim->limit = (uint64_t)limit;
    if (limit != 0 && !options->trims) {
        reply_errorf(call, "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
        return false;
    }
    if (of == OF_XTRIM && !options->trims) {
        reply_errorf(call, "ERR syntax error, XTRIM must be called with a trimming strategy");
        return false;
    }
    if (call->client->caller & TRAIT_OBEYED) {
        trim->limit = 0;
    } else if (has_limit && !trim->approximate) {
        reply_errorf(call, "ERR syntax error, LIMIT cannot be used without the special ~ option");
        return false;
    } else if (!has_limit && trim->approximate) {
        trim->limit = node_entries == 0 ? DEFAULT : node_entries > LIMIT_MAX / NODES ? LIMIT_MAX : node_entries * NODES;
    }
    return true;
}

static bool read_options(struct call *call, enum options_of of, struct options *options)
{
    bool has_limit = false;
    int64_t limit = 0;
    int arg;

    *options = (struct options){ 0 };
    for (arg = 2; arg < call->arg_count; arg++) {
        bool has_next = arg + 1 < call->arg_count;

        if (of == OF_XADD && bytes_equal(call->args[arg], BYTES("*"))) {
            break;
        } else if (has_next && (arg_is(call, arg, "maxlen") || arg_is(call, arg, "minid"))) {
            if (!read_trim(call, &arg, options))
                return false;
        } else if (has_next && arg_is(call, arg, "limit")) {
            if (!arg_integer(call, ++arg, &limit))
                return false;
            if (limit < 0) {
                reply_errorf(call, "ERR The LIMIT argument must be >= 0.");
                return false;
            }
            has_limit = true;
        } else if (!options->has_refs && arg_stream_refs(call, arg, &options->refs)) {
            options->has_refs = true;
        } else if (of == OF_XADD && arg_is(call, arg, "nomkstream")) {
            options->no_create = true;
        } else if (of == OF_XADD) {
            struct stream_id id;
            bool has_seq;

            if (!arg_stream_id_to_add(call, arg, &id, &has_seq))
                return false;
            break;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    options->next = arg;
    return settle_limit(call, options, has_limit, limit, of);
}

/* The ID for argument `arg`: complete, "ms-*" or "*". False if it is not above the last one, or if there is none above. */
static bool next_id(struct call *call, int arg, struct stream_id last, struct stream_id *id)
{
    bool has_seq = true;

    if (bytes_equal(call->args[arg], BYTES("*"))) {
        id->ms = (uint64_t)call->turn->now_ms;
        id->seq = 0;
        if (id->ms > last.ms)
            return true;
        *id = last;
        return stream_id_increment(id);
    }
    CHECK(arg_stream_id_to_add(call, arg, id, &has_seq));
    if (!has_seq && id->ms == last.ms) {
        if (last.seq == UINT64_MAX)
            return false;
        id->seq = last.seq + 1;
    }
    return stream_id_compare(*id, last) > 0;
}

/* Without groups the option about references has no effect. */
static void forget_refs(struct options *options, const struct stream *stream)
{
    if (stream->group_count == 0)
        options->refs = REFS_KEPT;
}

/* Whether all is there that trimming needs, after `added` entries. */
static bool may_trim(const struct options *options, const struct stream *stream, uint64_t added)
{
    return options->refs == REFS_KEPT ? stream_has_trim(stream, &options->trim, added) : stream_has_all(stream);
}

/* Trims a stream. Changes that the trim entails are logged: XACKs of references, XDELs. A trim of the other kinds is not. */
static uint64_t trim_stream(struct call *call, const struct options *options, struct stream *stream)
{
    switch (options->refs) {
    case REFS_KEPT: break;
    case REFS_REMOVED: return stream_trim_with_refs(call, 1, stream, &options->trim);
    case REFS_RESPECTED: return stream_trim_respecting(call, 1, stream, &options->trim);
    }
    return stream_trim(stream, &options->trim);
}

/* The log gets the ID that was assigned and the length that was left, because clock and limits may differ in a replay. */
static void log_add(struct call *call, const struct options *options, struct stream_id id, uint64_t length)
{
    int pairs = options->next + 1, count = 0;
    struct bytes *words;

    if (call->unlogged)
        return;
    words = arena_alloc(call->arena, (size_t)(call->arg_count - pairs + 6) * sizeof(*words));
    words[count++] = BYTES("XADD");
    words[count++] = call->args[1];
    if (options->trims && options->refs != REFS_RESPECTED) {
        words[count++] = BYTES("MAXLEN");
        words[count++] = BYTES("=");
        words[count++] = call_integer(call, (int64_t)length);
    }
    words[count++] = call_stream_id(call, id);
    for (int arg = pairs; arg < call->arg_count; arg++)
        words[count++] = call->args[arg];
    call_propagate(call, words, count);
}

/* Appends the entry and replies its ID; false if an error was replied. */
static bool append_entry(struct call *call, const struct options *options, struct stream *stream, struct stream_id *id)
{
    int pairs = options->next + 1;

    if (stream->last_id.ms == UINT64_MAX && stream->last_id.seq == UINT64_MAX) {
        reply_errorf(call, "ERR The stream has exhausted the last possible ID, unable to add more items");
        return false;
    }
    if (!next_id(call, options->next, stream->last_id, id)) {
        reply_errorf(call, "ERR The ID specified in XADD is equal or smaller than the target stream top item");
        return false;
    }
    if (!stream_append(stream, &call->turn->limits, *id, call->args + pairs, (size_t)(call->arg_count - pairs) / 2)) {
        reply_errorf(call, "ERR Elements are too large to be stored");
        return false;
    }
    reply_stream_id(call->reply, *id);
    return true;
}

static bool asks_for_zero(struct call *call, int arg)
{
    struct stream_id id;

    return !bytes_equal(call->args[arg], BYTES("*")) && stream_id_parse(call->args[arg], &id) && stream_id_is_zero(id);
}

void xadd_command(struct call *call)
{
    struct options options;
    struct stream_id id;
    struct value value;
    struct key key;
    uint64_t trimmed = 0;
    int pair_words;

    if (!read_options(call, OF_XADD, &options))
        return;
    pair_words = call->arg_count - options.next - 1;
    if (pair_words < 2 || pair_words % 2 != 0) {
        reply_wrong_arity(call);
        return;
    }
    if (asks_for_zero(call, options.next)) {
        reply_errorf(call, "ERR The ID specified in XADD must be greater than 0-0");
        return;
    }
    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    if (!key.present && options.no_create) {
        reply_null(call->reply);
        return;
    }
    value = key.present ? key.value : stream_create();
    forget_refs(&options, stream_of(&value));
    if (!stream_has_append(stream_of(&value), &call->turn->limits, call->args + options.next + 1, (size_t)pair_words / 2) || (options.trims && !may_trim(&options, stream_of(&value), 1))) {
        key_ask(&key);
        return;
    }
    if (!append_entry(call, &options, stream_of(&value), &id)) {
        if (!key.present)
            value_free(&value);
        return;
    }
    if (!key.present)
        key_replace(&key, value);
    if (options.trims)
        trimmed = trim_stream(call, &options, stream_of(&value));
    key_changed(&key, EVENT_XADD);
    if (trimmed > 0)
        key_event(&key, EVENT_XTRIM);
    log_add(call, &options, id, stream_of(&key.value)->length);
}

void xtrim_command(struct call *call)
{
    struct options options;
    uint64_t trimmed;
    struct key key;

    if (!read_options(call, OF_XTRIM, &options) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    if (!key.present) {
        reply_integer(call->reply, 0);
        return;
    }
    forget_refs(&options, stream_of(&key.value));
    if (!may_trim(&options, stream_of(&key.value), 0)) {
        key_ask(&key);
        return;
    }
    trimmed = trim_stream(call, &options, stream_of(&key.value));
    if (trimmed > 0) {
        const struct bytes words[] = {
            BYTES("XTRIM"), call->args[1], BYTES("MAXLEN"), BYTES("="), call_integer(call, (int64_t)stream_of(&key.value)->length)
        };

        key_changed(&key, EVENT_XTRIM);
        call->change_count += trimmed - 1;
        if (options.refs != REFS_RESPECTED && (options.trim.approximate || options.has_refs))
            call_propagate(call, words, 5);
    }
    reply_integer(call->reply, (int64_t)trimmed);
}

void xlen_command(struct call *call)
{
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_READING, VALUE_STREAM, &key))
        return;
    reply_integer(call->reply, key.present ? (int64_t)stream_of(&key.value)->length : 0);
}

void xdel_command(struct call *call)
{
    int id_count = call->arg_count - 2;
    const struct stream_id *ids;
    uint64_t deleted = 0;
    struct key key;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    if (!key.present) {
        reply_integer(call->reply, 0);
        return;
    }
    ids = arg_stream_ids(call, 2, id_count);
    if (ids == NULL)
        return;
    if (!stream_has_ids(stream_of(&key.value), ids, (size_t)id_count)) {
        key_ask(&key);
        return;
    }
    for (int i = 0; i < id_count; i++)
        deleted += stream_delete(stream_of(&key.value), ids[i]);
    if (deleted > 0) {
        key_changed(&key, EVENT_XDEL);
        call->change_count += deleted - 1;
    }
    reply_integer(call->reply, (int64_t)deleted);
}

/* The arguments of XSETID. */
struct state {
    struct stream_id last_id, max_deleted_id;
    int64_t entries_added;      /* -1: not given */
};

static bool read_state(struct call *call, struct state *state)
{
    *state = (struct state){ .entries_added = -1 };
    if (!arg_stream_id(call, 2, &state->last_id))
        return false;
    for (int arg = 3; arg < call->arg_count; arg += 2) {
        bool has_next = arg + 1 < call->arg_count;

        if (has_next && arg_is(call, arg, "entriesadded")) {
            if (!arg_integer(call, arg + 1, &state->entries_added))
                return false;
            if (state->entries_added < 0) {
                reply_errorf(call, "ERR entries_added must be positive");
                return false;
            }
        } else if (has_next && arg_is(call, arg, "maxdeletedid")) {
            if (!arg_stream_id(call, arg + 1, &state->max_deleted_id))
                return false;
            if (stream_id_compare(state->last_id, state->max_deleted_id) < 0) {
                reply_errorf(call, "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id");
                return false;
            }
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Returns the part of the state that does not fit the stream, or NULL. */
static const char *state_misfit(const struct stream *stream, const struct state *state)
{
    /* MAXDELETEDID may have lowered it; the entries in the nodes still count (Redis would break their order there). */
    if (stream_id_compare(state->last_id, stream->max_deleted_id) < 0 ||
        (stream_id_compare(state->last_id, stream_last_kept_id(stream)) < 0 &&
         stream_id_compare(state->last_id, stream_last_live_id(stream)) >= 0))
        return "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
    if (stream->length == 0)
        return NULL;
    if (stream_id_compare(state->last_id, stream_last_live_id(stream)) < 0)
        return "ERR The ID specified in XSETID is smaller than the target stream top item";
    if (state->entries_added != -1 && stream->length > (uint64_t)state->entries_added)
        return "ERR The entries_added specified in XSETID is smaller than the target stream length";
    return NULL;
}

void xsetid_command(struct call *call)
{
    struct state state;
    struct stream *stream;
    const char *misfit;
    struct key key;

    if (!read_state(call, &state) || !key_open_as(call, 1, KEY_FOR_WRITING, VALUE_STREAM, &key))
        return;
    if (!key.present) {
        reply_error(call, ERR_NO_SUCH_KEY);
        return;
    }
    stream = stream_of(&key.value);
    if (!stream_has_range(stream, (struct stream_id){ 0, 0 }, STREAM_ID_MAX, 1, STREAM_DOWN)) {
        key_ask(&key);
        return;
    }
    misfit = state_misfit(stream, &state);
    if (misfit != NULL) {
        reply_errorf(call, "%s", misfit);
        return;
    }
    stream->last_id = state.last_id;
    if (state.entries_added != -1)
        stream->entries_added = (uint64_t)state.entries_added;
    if (!stream_id_is_zero(state.max_deleted_id))
        stream->max_deleted_id = state.max_deleted_id;
    key_changed(&key, EVENT_XSETID);
    reply_ok(call->reply);
}
