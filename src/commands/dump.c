/* DUMP and RESTORE. value/codec.h has the format. */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/keys.h"
#include "commands/string_access.h"
#include "value/codec.h"

void dump_command(struct call *call)
{
    struct buffer dump = { 0 };
    struct key key;

    if (!key_open(call, 1, KEY_FOR_READING, &key)) {
        reply_null(call->reply);
        return;
    }
    codec_dump(&key.value, &dump);
    reply_bulk(call->reply, buffer_bytes(&dump));
    buffer_release(&dump);
}

struct restore {
    bool replace, absolute;
    int64_t idle_s, heat;           /* -1: not given */
    int64_t expire_ms;              /* -1: never */
    struct value value;
};

/* REPLACE, ABSTTL, IDLETIME s, FREQ n from argument 4 on. */
static bool parse_options(struct call *call, struct restore *restore)
{
    for (int arg = 4; arg < call->arg_count; arg++) {
        bool has_value = arg + 1 < call->arg_count;

        if (arg_is(call, arg, "replace")) {
            restore->replace = true;
        } else if (arg_is(call, arg, "absttl")) {
            restore->absolute = true;
        } else if (has_value && arg_is(call, arg, "idletime") && restore->heat < 0) {
            if (!arg_integer(call, ++arg, &restore->idle_s))
                return false;
            if (restore->idle_s < 0) {
                reply_errorf(call, "ERR Invalid IDLETIME value, must be >= 0");
                return false;
            }
        } else if (has_value && arg_is(call, arg, "freq") && restore->idle_s < 0) {
            if (!arg_integer(call, ++arg, &restore->heat))
                return false;
            if (restore->heat < 0 || restore->heat > 255) {
                reply_errorf(call, "ERR Invalid FREQ value, must be >= 0 and <= 255");
                return false;
            }
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Argument 2; 0 means never. */
static bool parse_ttl(struct call *call, struct restore *restore)
{
    int64_t ttl;

    if (!arg_integer(call, 2, &ttl))
        return false;
    if (ttl < 0) {
        reply_errorf(call, "ERR Invalid TTL value, must be >= 0");
        return false;
    }
    restore->expire_ms = ttl == 0 ? -1 : ttl;
    /* A sum that overflows is a time long past in Redis, too: the key does not exist afterwards. */
    if (ttl > 0 && !restore->absolute && __builtin_add_overflow(ttl, call->turn->now_ms, &restore->expire_ms))
        restore->expire_ms = 0;
    return true;
}

static bool parse_payload(struct call *call, struct buffer *scratch, struct restore *restore)
{
    struct value_limits limits = call->turn->limits;
    enum status status;

    limits.string_unpacked_max = (size_t)string_size_max(call);
    status = codec_restore(call->args[3], &limits, scratch, &restore->value);
    if (status == STATUS_INVALID)
        reply_errorf(call, "ERR DUMP payload version or checksum are wrong");
    else if (status != STATUS_OK)
        reply_errorf(call, "ERR Bad data format");
    return status == STATUS_OK;
}

/* The log gets the time at which the key expires instead of its time to live. */
static void propagate_restore(struct call *call, const struct restore *restore)
{
    struct bytes *args;
    int count = call->arg_count;

    if (restore->expire_ms < 0 || restore->absolute)
        return;
    args = arena_alloc(call->arena, ((size_t)count + 1) * sizeof(struct bytes));
    memcpy(args, call->args, (size_t)count * sizeof(struct bytes));
    args[2] = call_integer(call, restore->expire_ms);
    args[count] = BYTES("ABSTTL");
    call_propagate(call, args, count + 1);
}

/* The value to be restored has expired already: nothing is created, but the old key is removed. */
static void remove_old(struct call *call, struct restore *restore)
{
    struct key key;

    value_free(&restore->value);
    if (restore->replace && key_open_in(call, call->db, 1, KEY_FOR_LOOKING, &key)) {
        call_propagate(call, (struct bytes[]){ BYTES("DEL"), call->args[1] }, 2);
        key_remove(&key, keys_removal(call, CONFIG_LAZYFREE_LAZY_EXPIRE), EVENT_DEL);
    }
}

static void put_new(struct call *call, const struct restore *restore)
{
    struct key key;

    key_open(call, 1, KEY_FOR_OVERWRITING, &key);
    if (key.present)
        key_event(&key, EVENT_NEW);         /* the old one was removed first */
    key_replace(&key, restore->value);
    key.expire_ms = restore->expire_ms;
    key_changed(&key, EVENT_RESTORE);
    /* Kelvin measures heat under every maxmemory-policy, so both options work under every one. */
    if (restore->heat >= 0)
        key_set_heat(&key, (uint8_t)restore->heat);
    if (restore->idle_s >= 0)
        key_set_idle(&key, restore->idle_s);
    propagate_restore(call, restore);
}

void restore_command(struct call *call)
{
    struct restore restore = { .idle_s = -1, .heat = -1 };
    struct buffer scratch = { 0 };
    struct key key;

    if (!parse_options(call, &restore))
        return;
    if (!restore.replace && key_open_in(call, call->db, 1, KEY_FOR_LOOKING, &key)) {
        reply_error(call, ERR_BUSY_KEY);
        return;
    }
    if (call->failed)
        return;
    if (parse_ttl(call, &restore) && parse_payload(call, &scratch, &restore)) {
        if (restore.expire_ms >= 0 && restore.expire_ms <= call->turn->now_ms && !call->turn->clock_stopped)
            remove_old(call, &restore);
        else
            put_new(call, &restore);
        if (!call->failed)
            reply_ok(call->reply);
    }
    buffer_release(&scratch);
}
