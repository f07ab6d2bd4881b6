/* RENAME, RENAMENX, MOVE and COPY.
 *
 * A value that moves is not copied: its object is detached from one key and put into the other. Opening a key may remove it (it
 * has expired) and invalidate what is borrowed from others; hence the order of the steps.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/database.h"
#include "commands/handlers.h"

/* Parts that move with a key. */
struct baggage {
    struct value value;
    int64_t expire_ms;
    uint8_t heat;
};

static struct baggage baggage_take(struct key *source, int db)
{
    struct baggage baggage = { .expire_ms = source->expire_ms, .heat = key_heat(source) };

    baggage.value = key_detach(source, db);
    return baggage;
}

/* A target that exists is removed first, so it is new in any case. */
static void report_new(const struct key *target)
{
    if (target->present)
        key_event(target, EVENT_NEW);       /* otherwise key_changed does */
}

/* The caller reports the events. */
static void baggage_put(struct key *target, const struct baggage *baggage)
{
    report_new(target);
    key_replace(target, baggage->value);
    target->expire_ms = baggage->expire_ms;
    key_changed(target, EVENT_SILENT);
    key_set_heat(target, baggage->heat);
}

/* Renames argument 1, which is present, to argument 2. */
static void rename_key(struct call *call, struct key *source)
{
    struct baggage baggage = baggage_take(source, call->db);
    struct key target;

    key_open(call, 2, KEY_FOR_OVERWRITING, &target);
    baggage_put(&target, &baggage);
    key_event(source, EVENT_RENAME_FROM);
    key_event(&target, EVENT_RENAME_TO);
}

void rename_command(struct call *call)
{
    struct key source;

    if (!key_open(call, 1, KEY_FOR_WRITING, &source)) {
        reply_error(call, ERR_NO_SUCH_KEY);
        return;
    }
    if (!bytes_equal(call->args[1], call->args[2]))
        rename_key(call, &source);
    reply_ok(call->reply);
}

void renamenx_command(struct call *call)
{
    struct key source, target;

    if (!key_open(call, 1, KEY_FOR_WRITING, &source)) {
        reply_error(call, ERR_NO_SUCH_KEY);
        return;
    }
    if (bytes_equal(call->args[1], call->args[2]) || key_open(call, 2, KEY_FOR_LOOKING, &target)) {
        reply_integer(call->reply, 0);
        return;
    }
    key_open(call, 1, KEY_FOR_LOOKING, &source);    /* the target may have expired just now */
    rename_key(call, &source);
    reply_integer(call->reply, 1);
}

/* Whether the key is missing. False, too, if this cannot be determined: an error was replied. */
static bool is_free(struct call *call, int db, int arg)
{
    struct key target;

    return !key_open_in(call, db, arg, KEY_FOR_LOOKING, &target) && !call->failed;
}

void move_command(struct call *call)
{
    struct key source, target;
    struct baggage baggage;
    int db;

    if (database_is_refused(call, "MOVE") || !database_argument(call, 2, &db))
        return;
    if (db == call->db) {
        reply_error(call, ERR_SAME_OBJECT);
        return;
    }
    if (!key_open(call, 1, KEY_FOR_WRITING, &source) || !is_free(call, db, 1)) {
        if (!call->failed)
            reply_integer(call->reply, 0);
        return;
    }
    key_open(call, 1, KEY_FOR_LOOKING, &source);
    baggage = baggage_take(&source, db);
    key_open_in(call, db, 1, KEY_FOR_OVERWRITING, &target);
    baggage_put(&target, &baggage);
    key_event(&source, EVENT_MOVE_FROM);
    key_event(&target, EVENT_MOVE_TO);
    reply_integer(call->reply, 1);
}

struct copy_options {
    int db;
    bool replace;
};

/* [DB n] [REPLACE] from argument 3 on. */
static bool parse_copy_options(struct call *call, struct copy_options *options)
{
    *options = (struct copy_options){ .db = call->db };
    for (int arg = 3; arg < call->arg_count; arg++) {
        if (arg_is(call, arg, "replace")) {
            options->replace = true;
        } else if (arg_is(call, arg, "db") && arg + 1 < call->arg_count) {
            if (!database_argument(call, ++arg, &options->db))
                return false;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    if (options->db != call->db || !bytes_equal(call->args[1], call->args[2]))
        return true;
    reply_error(call, ERR_SAME_OBJECT);
    return false;
}

void copy_command(struct call *call)
{
    struct copy_options options;
    struct key source, target;
    struct value copy;

    if (!parse_copy_options(call, &options))
        return;
    if (!key_open(call, 1, KEY_FOR_READING, &source) || (!options.replace && !is_free(call, options.db, 2))) {
        if (!call->failed)
            reply_integer(call->reply, 0);
        return;
    }
    key_open_in(call, options.db, 2, KEY_FOR_OVERWRITING, &target);
    key_open(call, 1, KEY_FOR_LOOKING, &source);    /* the target may have expired, or been loaded, just now */
    if (!key_copy_value(&source, &target, &copy))
        return;
    report_new(&target);
    key_replace(&target, copy);
    target.expire_ms = source.expire_ms;
    key_changed(&target, EVENT_COPY_TO);
    reply_integer(call->reply, 1);
}
