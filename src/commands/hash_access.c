/* HGETEX, HSETEX, HGETDEL: values and expiry times of fields together.
 *
 * The log gets the effect: HPEXPIREAT or HPERSIST for HGETEX, HSETEX with an absolute time and without a condition, HDEL for
 * fields whose time has passed already, and for HGETDEL.
 */
#include "call/call.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/hash_fields.h"
#include "value/hash.h"

enum times { TIMES_GIVEN, TIMES_KEPT, TIMES_DROPPED };

struct options {
    enum times times;
    int64_t when_ms;            /* TIMES_GIVEN */
    enum { ALWAYS, IF_NONE_THERE, IF_ALL_THERE } condition;
    int fields_arg;             /* argument: FIELDS */
};

/* EX, PX, EXAT or PXAT at `arg`; sets *is_one if it is one of these. False: the error was replied. */
static bool parse_time_option(struct call *call, int arg, struct options *options, bool *is_one)
{
    static const struct { const char *word; uint32_t form; } forms[] = {
        { "ex", HASH_TIME_SECONDS }, { "px", 0 }, { "exat", HASH_TIME_SECONDS | HASH_TIME_ABSOLUTE }, { "pxat", HASH_TIME_ABSOLUTE },
    };

    *is_one = false;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (!arg_is(call, arg, forms[i].word))
            continue;
        *is_one = true;
        options->times = TIMES_GIVEN;
        return hash_time_argument(call, arg + 1, forms[i].form, &options->when_ms);
    }
    return true;
}

/* Replies the values of the fields as they are now. */
static void reply_values(struct call *call, const struct key *key, const struct hash_fields *fields, struct bytes **live,
    int *live_count)
{
    char digits[TEXT_INT_SIZE];
    struct bytes value;

    *live = arena_alloc(call->arena, (size_t)fields->count * sizeof(struct bytes));
    *live_count = 0;
    reply_array(call->reply, (size_t)fields->count);
    for (int i = 0; i < fields->count; i++) {
        if (key->present && hash_get(&key->value, fields->list[i], &value, digits)) {
            reply_bulk(call->reply, value);
            (*live)[(*live_count)++] = fields->list[i];
        } else {
            reply_null(call->reply);
        }
    }
}

/* Deletes those that still exist: a field may have been named twice. The key is removed with its last field. */
static void delete_fields(struct call *call, struct key *key, const struct bytes *fields, int count)
{
    const struct bytes head[] = { BYTES("HDEL"), key->name };
    struct hash_log log;

    hash_log_begin(&log, call, HASH_LOG_PLAIN, head, 2, count);
    for (int i = 0; i < count; i++) {
        if (hash_delete(&key->value, fields[i]))
            hash_log_add(&log, fields[i]);
    }
    hash_log_store(&log, key, EVENT_HDEL);
}

static void set_times(struct call *call, struct key *key, const struct options *options, const struct bytes *fields, int count)
{
    const struct bytes expire[] = { BYTES("HPEXPIREAT"), key->name, call_integer(call, options->when_ms) };
    const struct bytes persist[] = { BYTES("HPERSIST"), key->name };
    bool drops = options->times == TIMES_DROPPED;
    struct hash_log log;

    hash_log_begin(&log, call, HASH_LOG_FIELDS, drops ? persist : expire, drops ? 2 : 3, count);
    for (int i = 0; i < count; i++) {
        if (drops && hash_time(&key->value, fields[i]) < 0)
            continue;
        hash_set_time(&key->value, &call->turn->limits, fields[i], drops ? HASH_NO_TIME : options->when_ms);
        hash_log_add(&log, fields[i]);
    }
    hash_log_store(&log, key, drops ? EVENT_HPERSIST : EVENT_HEXPIRE);
}

void hgetex_command(struct call *call)
{
    struct options options = { .times = TIMES_KEPT, .fields_arg = 2 };
    struct hash_fields fields;
    struct bytes *live;
    int live_count;
    struct key key;
    bool has_time, is_past;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, &key) || !parse_time_option(call, 2, &options, &has_time))
        return;
    if (has_time) {
        options.fields_arg = 4;
    } else if (arg_is(call, 2, "persist")) {
        options.times = TIMES_DROPPED;
        options.fields_arg = 3;
    }
    if (!hash_fields_argument(call, options.fields_arg, "Number of fields must be a positive integer", &fields))
        return;
    is_past = options.times == TIMES_GIVEN && hash_time_is_past(call, options.when_ms);
    if (options.times != TIMES_KEPT && !hash_fields_ready(&key, fields.list, fields.count, 1, options.times == TIMES_GIVEN && !is_past ? options.when_ms : HASH_NO_TIME))
        return;
    reply_values(call, &key, &fields, &live, &live_count);
    if (live_count == 0 || options.times == TIMES_KEPT)
        return;
    if (is_past)
        delete_fields(call, &key, live, live_count);
    else
        set_times(call, &key, &options, live, live_count);
}

void hgetdel_command(struct call *call)
{
    struct hash_fields fields;
    struct key key;
    char digits[TEXT_INT_SIZE];
    const struct bytes head[] = { BYTES("HDEL"), call->args[1] };
    struct hash_log log;
    struct bytes value;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, &key) ||
        !hash_fields_argument(call, 2, "Number of fields must be a positive integer", &fields))
        return;
    if (!hash_fields_ready(&key, fields.list, fields.count, 1, HASH_NO_TIME))
        return;
    hash_log_begin(&log, call, HASH_LOG_PLAIN, head, 2, fields.count);
    reply_array(call->reply, (size_t)fields.count);
    /* One by one: a field that is named twice exists once. */
    for (int i = 0; i < fields.count; i++) {
        if (!key.present || !hash_get(&key.value, fields.list[i], &value, digits)) {
            reply_null(call->reply);
            continue;
        }
        reply_bulk(call->reply, value);
        hash_delete(&key.value, fields.list[i]);
        hash_log_add(&log, fields.list[i]);
    }
    hash_log_store(&log, &key, EVENT_HDEL);
}

/* [FNX|FXX] [EX s|PX ms|EXAT s|PXAT ms|KEEPTTL] in any order, up to FIELDS. */
static bool parse_set_options(struct call *call, struct options *options)
{
    bool has_times = false;

    *options = (struct options){ .times = TIMES_DROPPED };
    for (int arg = 2; arg < call->arg_count; arg++) {
        bool is_time = arg_is(call, arg, "ex") || arg_is(call, arg, "px") || arg_is(call, arg, "exat") || arg_is(call, arg, "pxat");
        bool is_keep = arg_is(call, arg, "keepttl"), is_condition = arg_is(call, arg, "fnx") || arg_is(call, arg, "fxx");

        if (arg_is(call, arg, "fields")) {
            options->fields_arg = arg;
            return true;
        }
        if ((is_time || is_keep) && has_times) {
            reply_errorf(call, "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified");
            return false;
        }
        if (is_condition && options->condition != ALWAYS) {
            reply_errorf(call, "ERR Only one of FXX or FNX arguments can be specified");
            return false;
        }
        if (is_time) {
            if (arg + 1 >= call->arg_count) {
                reply_errorf(call, "ERR missing expire time");
                return false;
            }
            if (!parse_time_option(call, arg, options, &is_time))
                return false;
            arg++;
            has_times = true;
        } else if (is_keep) {
            options->times = TIMES_KEPT;
            has_times = true;
        } else if (is_condition) {
            options->condition = arg_is(call, arg, "fnx") ? IF_NONE_THERE : IF_ALL_THERE;
        } else {
            reply_errorf(call, "ERR unknown argument: %.*s", (int)(call->args[arg].size < 128 ? call->args[arg].size : 128),
                call->args[arg].data);
            return false;
        }
    }
    reply_errorf(call, "ERR Mandatory argument FIELDS is missing or not at the right position");
    return false;
}

/* The number of pairs, which follows FIELDS, and the pairs. */
static bool parse_pairs(struct call *call, int arg, struct hash_fields *pairs)
{
    int64_t count;

    if (arg + 1 >= call->arg_count) {
        reply_wrong_arity(call);
        return false;
    }
    if (!text_to_int(call->args[arg + 1], &count) || count < 1 || count > INT32_MAX) {
        reply_errorf(call, "ERR invalid number of fields");
        return false;
    }
    if (count * 2 != call->arg_count - arg - 2) {
        reply_wrong_arity(call);
        return false;
    }
    *pairs = (struct hash_fields){ call->args + arg + 2, (int)count };
    return true;
}

static bool condition_holds(const struct key *key, const struct options *options, const struct hash_fields *pairs)
{
    if (options->condition == ALWAYS)
        return true;
    for (int i = 0; i < pairs->count; i++) {
        bool is_there = key->present && hash_has(&key->value, pairs->list[i * 2]);

        if (is_there != (options->condition == IF_ALL_THERE))
            return false;
    }
    return true;
}

static void log_set(struct call *call, const struct options *options, const struct hash_fields *pairs)
{
    struct bytes head[4] = { BYTES("HSETEX"), call->args[1] };
    int head_count = 2;
    struct hash_log log;

    if (options->times == TIMES_KEPT)
        head[head_count++] = BYTES("KEEPTTL");
    if (options->times == TIMES_GIVEN) {
        head[head_count++] = BYTES("PXAT");
        head[head_count++] = call_integer(call, options->when_ms);
    }
    hash_log_begin(&log, call, HASH_LOG_PAIRS, head, head_count, pairs->count * 2);
    for (int i = 0; i < pairs->count * 2; i++)
        hash_log_add(&log, pairs->list[i]);
    hash_log_end(&log);
}

static void set_pairs(struct call *call, struct key *key, const struct options *options, const struct hash_fields *pairs)
{
    const struct value_limits *limits = &call->turn->limits;
    uint64_t changes = call->change_count;

    if (!key->present)
        key_replace(key, hash_create());
    for (int i = 0; i < pairs->count; i++) {
        struct bytes field = pairs->list[i * 2], value = pairs->list[i * 2 + 1];

        if (options->times == TIMES_DROPPED)
            hash_set(&key->value, limits, field, value);
        else
            hash_set_keeping(&key->value, limits, field, value);
        if (options->times == TIMES_GIVEN)
            hash_set_time(&key->value, limits, field, options->when_ms);
    }
    key_changed(key, EVENT_HSET);
    if (options->times == TIMES_GIVEN)
        key_event(key, EVENT_HEXPIRE);
    call->change_count = changes + (uint64_t)pairs->count;
    log_set(call, options, pairs);
}

void hsetex_command(struct call *call)
{
    struct options options;
    struct hash_fields pairs;
    struct key key;
    bool is_past;

    if (!key_open_as(call, 1, KEY_FOR_WRITING, VALUE_HASH, &key) || !parse_set_options(call, &options) ||
        !parse_pairs(call, options.fields_arg, &pairs))
        return;
    is_past = options.times == TIMES_GIVEN && hash_time_is_past(call, options.when_ms);
    if (key.present && !hash_has_fields(&key.value, pairs.list, pairs.count * 2, 2)) {
        key_ask(&key);
        return;
    }
    if (!condition_holds(&key, &options, &pairs)) {
        reply_integer(call->reply, 0);
        return;
    }
    if (options.times != TIMES_KEPT &&
        !hash_fields_ready(&key, pairs.list, pairs.count * 2, 2, options.times == TIMES_GIVEN && !is_past ? options.when_ms : HASH_NO_TIME))
        return;
    if (is_past) {
        struct bytes *fields = arena_alloc(call->arena, (size_t)pairs.count * sizeof(struct bytes));

        for (int i = 0; i < pairs.count; i++)
            fields[i] = pairs.list[i * 2];
        if (key.present)
            delete_fields(call, &key, fields, pairs.count);
    } else {
        set_pairs(call, &key, &options, &pairs);
    }
    reply_integer(call->reply, 1);
}
