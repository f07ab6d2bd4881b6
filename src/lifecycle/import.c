#include "lifecycle/import.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/progress.h"
#include "base/text.h"
#include "engine/delete_key.h"
#include "engine/engine.h"
#include "engine/evict.h"
#include "engine/memory.h"
#include "engine/role.h"
#include "engine/scripts.h"
#include "keyspace/pages.h"
#include "lifecycle/import_rest.h"
#include "persist/rdb_format.h"
#include "persist/rdb_reader.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/list.h"
#include "value/set.h"
#include "value/stream.h"
#include "value/string.h"
#include "value/zset.h"

enum {
    NAME_SHOWN_MAX = 80,
    LOOK_KEYS = 64,                     /* so often for memory, the clock and whether to go on */
    LOOK_BYTES = 1 << 20,
    WAIT_US_MAX = 5000000,              /* without hope for room */
    LOCKED_LOOK_MS = 1,
    PROGRESS_LOG_MS = 2000,
    REPL_ID_SIZE = 40,
    EMPTY_PAGE = 128,                   /* bytes of a page that is yet to be filled, about */
    STRING_SHARE = 4,                   /* of maxmemory: longer strings are not kept in one piece */
    EMPTY_SHARE = 16,                   /* of maxmemory for those of one value; what needs more pages splits them as it grows */
    UNPACKED_TIMES = 4,                 /* what is left of the file may become so much larger, if that is not known */
};

struct import {
    struct engine *engine;
    struct worker worker;
    struct rdb_reader *reader;
    struct scripts_load functions;
    const struct import_rules *rules;
    aof_import_progress *progress;
    void *context;
    struct import_result *result;
    struct import_position position;    /* as found so far */
    struct buffer scratch;
    struct import_rest rest;
    int open_db;                        /* of the key of which more parts are to come; -1: there is none */
    struct buffer open;                 /* its name */
    bool drops_rest;                    /* of the value that is being read in parts */
    bool may_expire;                    /* the key of that */
    uint64_t keys_looked, bytes_looked; /* as of the last look */
    struct message *message;
};

__attribute__((format(printf, 3, 4)))
static enum status fail_import(struct import *import, enum status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message_set_args(import->message, format, args);
    va_end(args);
    return status;
}

static int shown(struct bytes name)
{
    return (int)(name.size < NAME_SHOWN_MAX ? name.size : NAME_SHOWN_MAX);
}

static enum status may_go_on(struct import *import)
{
    if (import->engine->state == ENGINE_STOPPING)
        return fail_import(import, STATUS_CLOSED, "The server is to end");
    if (import->rules->cancel != NULL && *import->rules->cancel)
        return fail_import(import, STATUS_CANCELLED, "The load was cancelled after %" PRIu64 " keys", import->result->keys);
    return STATUS_OK;
}

/* Whether the import goes on although no room can be made. While the store can be written it does, as a replay: what takes the memory is not keys, and
 * those that come can be demoted. Without the tier a replica takes what its primary has (replica-ignore-maxmemory no evicts afterwards), and a reload
 * what was there before. */
static bool may_exceed(const struct import *import)
{
    struct engine *engine = import->engine;

    if (engine->tier == NULL || !tier_settings(engine->tier)->enabled)
        return role_is_replica(engine) || import->rules->is_reload;
    return !tier_is_blocked(engine->tier);
}

/* EVICTION_LATER: some keys may have gone. */
static enum eviction evict_some(struct import *import)
{
    enum eviction eviction = evict_keys(import->engine, &import->worker);

    if (eviction != EVICTION_NOTHING) {
        import->result->has_evicted = true;
        import->engine->imported_in_part = true;
    }
    return eviction;
}

/* Waits until the tier has made room. Demotion may pause; only a long pause means that no room can be made. No key is evicted as long as the tier can make some. */
static enum status wait_for_room(struct import *import)
{
    struct engine *engine = import->engine;
    bool is_off = engine->tier == NULL || !tier_settings(engine->tier)->enabled;
    int64_t hopeless_us = 0;        /* since when there is no hope; 0: there is some */

    for (;;) {
        uint32_t version = waiting_version(&engine->waiting);
        enum status status = may_go_on(import);
        enum memory_state state = memory_state(engine);

        if (status != STATUS_OK || state == MEMORY_ENOUGH)
            return status;
        if (state == MEMORY_COMES) {
            hopeless_us = 0;
        } else if (!is_off && may_exceed(import)) {
            return STATUS_OK;
        } else if (evict_some(import) == EVICTION_DONE) {
            continue;
        } else if (may_exceed(import)) {
            return STATUS_OK;
        } else if (hopeless_us == 0 && (!is_off || import->result->has_evicted)) {          /* the memory of what was evicted comes later */
            hopeless_us = clock_mono_us();
        } else if (hopeless_us == 0 || clock_mono_us() - hopeless_us >= WAIT_US_MAX) {
            return fail_import(import, STATUS_NO_SPACE, "The data set does not fit into maxmemory after %" PRIu64 " keys, and nothing can be moved "
                "to the store: raise maxmemory, or see why the tier is off, full or in error", import->result->keys);
        }
        memory_await_change(engine, version);
        worker_begin_turn(&import->worker);
    }
}

static enum status look(struct import *import)
{
    uint64_t at = rdb_reader_offset(import->reader);

    if (import->result->keys - import->keys_looked < LOOK_KEYS && at - import->bytes_looked < LOOK_BYTES)
        return STATUS_OK;
    import->keys_looked = import->result->keys;
    import->bytes_looked = at;
    worker_begin_turn(&import->worker);
    if (import->progress != NULL)
        import->progress(import->context, at);
    return wait_for_room(import);
}

static void set_heat(const struct import *import, struct entry *entry, const struct rdb_part *part)
{
    if (part->freq >= 0)
        entry->heat = (uint8_t)part->freq;
    if (part->idle_s >= 0)
        entry->heat_minutes = heat_minutes_before(import->worker.turn.minutes, part->idle_s);
}

/* STATUS_LOCKED: the entry's value is being written to the store, and must not change; it is to be tried again. */
static enum status remove_twin(struct import *import, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
    REQUIRES(keyspace->partition->lock);
static enum status remove_twin(struct import *import, struct keyspace *keyspace, uint64_t hash, uint32_t handle)
{
    if (entry_is_held(keyspace, keyspace_entry(keyspace, handle)))
        return STATUS_LOCKED;
    delete_key(import->engine, keyspace, hash, handle, EVENT_DEL);
    return STATUS_OK;
}

/* Whether the key is there already, hot or cold. The record map says no for nearly all; else the store is read, under the lock (tier rule
 * 8), as a key that is there twice must not pass for one. */
static enum status look_for_twin(struct import *import, struct keyspace *keyspace, uint64_t hash, const struct rdb_part *part)
    REQUIRES(keyspace->partition->lock);
static enum status look_for_twin(struct import *import, struct keyspace *keyspace, uint64_t hash, const struct rdb_part *part)
{
    struct tier *tier = import->engine->tier;
    uint32_t handle = keyspace_find(keyspace, hash, part->name);

    if (handle == 0 && tier != NULL) {
        enum status status = tier_load_in_place(tier, keyspace, hash, part->name);

        if (status != STATUS_OK)
            return fail_import(import, status, "The store can't be read while importing the key '%.*s': %s", shown(part->name),
                part->name.data, status_name(status));
        handle = keyspace_find(keyspace, hash, part->name);
    }
    if (handle == 0)
        return STATUS_OK;
    if (import->rules->twins == IMPORT_REPLACES_TWINS)
        return remove_twin(import, keyspace, hash, handle);
    return fail_import(import, STATUS_CORRUPT, "The key '%.*s' is there twice, the second time at offset %" PRIu64, shown(part->name),
        part->name.data, part->offset);
}

static uint64_t element_count(const struct value *value)
{
    switch (value->type) {
    case VALUE_HASH: return hash_count(value);
    case VALUE_SET: return set_count(value);
    case VALUE_LIST: return list_count(value);
    case VALUE_STREAM: return stream_node_count(stream_of(value));
    case VALUE_STRING: return string_size(value);
    default: return zset_count(value);
    }
}

/* The size of a value of which this is the first part: by the mean size of its elements. */
static struct paged_plan plan_of(const struct rdb_part *part, const struct value *value)
{
    uint64_t count = element_count(value);
    double size = (double)part->size / (double)(count > 0 ? count : 1) * (double)part->elements, most = (double)part->size + (double)part->left * UNPACKED_TIMES;

    return (struct paged_plan){ part->elements, (uint64_t)(size < most ? size : most) };
}

/* How much of it gets pages at once. */
static struct paged_plan limit_plan(const struct import *import, struct paged_plan plan)
{
    uint64_t most = (uint64_t)config_number(import->engine->config, CONFIG_MAXMEMORY) / EMPTY_SHARE / EMPTY_PAGE;
    uint64_t pages = plan.size / import->worker.turn.limits.page_size;

    if (most == 0 || pages <= most)
        return plan;
    return (struct paged_plan){ (uint64_t)((double)plan.count * (double)most / (double)pages), most * import->worker.turn.limits.page_size };
}

/* Whether a string that is said to have `size` bytes goes into blocks though it is not known to be used in parts: one piece of it would fill memory. */
static bool goes_into_blocks(const struct import *import, uint64_t size)
{
    uint64_t memory = (uint64_t)config_number(import->engine->config, CONFIG_MAXMEMORY);

    return memory > 0 && size > memory / STRING_SHARE && pages_takes_string(size, &import->worker.turn.limits);
}

/* As pages_take, for a string, which is large. */
static void take_string(const struct import *import, struct pages_access *access, struct keyspace *keyspace, uint64_t hash, struct value *value, struct value *table)
    REQUIRES(keyspace->partition->lock);
static void take_string(const struct import *import, struct pages_access *access, struct keyspace *keyspace, uint64_t hash, struct value *value, struct value *table)
{
    const struct turn *turn = &import->worker.turn;
    char digits[TEXT_INT_SIZE];
    struct value blocks;

    if (!pages_take_string(access, keyspace, hash, &turn->limits, turn->now_ms, string_bytes(value, digits), NULL, string_size(value), &blocks))
        return;
    *table = *value;
    *value = blocks;
}

/* A new entry, as key_changed makes them. `plan`: NULL, or for how many pages. The value's object is the entry's afterwards, or still the caller's on failure. */
static enum status put_in(struct import *import, const struct rdb_part *part, const struct paged_plan *plan, struct value *value)
{
    struct partitions *all = import->engine->partitions;
    struct keyspace_watch *watch = &all->watch;
    uint64_t hash = key_hash(&all->seed, part->name);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    enum record_state record = RECORD_NONE;
    const struct turn *turn = &import->worker.turn;
    struct pages_access access;
    struct value table = { 0 };
    struct keyspace *keyspace;
    enum status status;
    uint32_t handle;

    partition_lock(partition);
    keyspace = partition_keyspace(partition, (int)part->db);
    keyspace_assert_locked(keyspace);
    status = look_for_twin(import, keyspace, hash, part);
    if (status == STATUS_OK) {
        if (watch->record_of_new != NULL)
            record = watch->record_of_new(watch->context, keyspace, hash, part->name);
        if (value->type == VALUE_STRING && goes_into_blocks(import, part->elements))
            take_string(import, &access, keyspace, hash, value, &table);
        else
            (void)pages_take_planned(&access, keyspace, hash, &turn->limits, turn->now_ms, plan, value, &table);
        handle = keyspace_insert(keyspace, hash, part->name, value, part->expire_ms, record, turn->now_ms);
        CHECK(handle != 0);
        set_heat(import, keyspace_entry(keyspace, handle), part);
    }
    partition_unlock(partition);
    if (value_is_object(&table))
        value_free(&table);
    return status;
}

/* Collections without an element: old versions of Redis could write such keys, and newer ones leave them out when they load. (Empty
 * intsets and zipmaps are damage to Redis, too.) */
static bool is_empty(struct bytes payload)
{
    struct bytes body = bytes_of(payload.data + 1, payload.size - 1);
    uint64_t count;
    bool is_special;

    switch ((uint8_t)payload.data[0]) {
    case RDB_TYPE_LIST:
    case RDB_TYPE_SET:
    case RDB_TYPE_ZSET:
    case RDB_TYPE_HASH:
    case RDB_TYPE_ZSET_2:
    case RDB_TYPE_LIST_QUICKLIST:
    case RDB_TYPE_LIST_QUICKLIST_2:
        return codec_read_length(&body, &count, &is_special) == STATUS_OK && count == 0 && !is_special;
    case RDB_TYPE_LIST_ZIPLIST:
    case RDB_TYPE_ZSET_ZIPLIST:
    case RDB_TYPE_HASH_ZIPLIST:
        return bytes_equal(body, BYTES("\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff"));
    case RDB_TYPE_HASH_LISTPACK:
    case RDB_TYPE_ZSET_LISTPACK:
    case RDB_TYPE_SET_LISTPACK:
        return bytes_equal(body, BYTES("\x07\x07\0\0\0\0\0\xff"));
    }
    return false;
}

static bool is_whole(const struct import_position *position)
{
    return position->repl_id[0] != '\0' && position->offset >= 0;
}

/* Returns whether commands come after the file, in a log or in a stream: they may be about keys that have expired. */
static bool history_goes_on(const struct import *import)
{
    return import->engine->aof != NULL || history_is_on(&import->engine->history) || is_whole(&import->position);
}

static bool has_expired(const struct import *import, const struct rdb_part *part)
{
    return part->expire_ms >= 0 && part->expire_ms <= import->worker.turn.now_ms;
}

static enum status fail_value(struct import *import, const struct rdb_part *part)
{
    return fail_import(import, STATUS_CORRUPT, "The value of the key '%.*s' is damaged (RDB type %u, at offset %" PRIu64 ")", shown(part->name), part->name.data,
        part->type, part->offset);
}

static enum status wait_in_value(void *context)
{
    struct import *import = context;

    worker_begin_turn(&import->worker);
    return wait_for_room(import);
}

static struct rest_key rest_key_of(const struct import *import, const struct rdb_part *part)
{
    enum value_type type = VALUE_STRING;

    (void)codec_peek_type(bytes_of(&part->type, 1), &type);

    return (struct rest_key){ (int)part->db, part->name, key_hash(&import->engine->partitions->seed, part->name), type, part->type == RDB_TYPE_HASH_EXPIRES };
}

/* Judges what became of a value that comes in parts. */
static enum status judge_rest(struct import *import, const struct rdb_part *part, enum status status)
{
    bool may_evict = config_number(import->engine->config, CONFIG_MAXMEMORY_POLICY) != CONFIG_POLICY_NOEVICTION;

    if (status == STATUS_NOT_FOUND && (may_evict || import->may_expire)) {
        import->result->has_evicted |= may_evict;
        import->drops_rest = true;
        import->open_db = -1;
        return STATUS_OK;
    }
    if (status == STATUS_INVALID)
        return fail_value(import, part);
    if (status != STATUS_OK && message_is_empty(import->message))
        return fail_import(import, status, "More elements of the key '%.*s' can't be imported: %s", shown(part->name), part->name.data, status_name(status));
    return status;
}

/* After the first part. */
static enum status begin_rest(struct import *import, const struct rdb_part *part, const struct paged_plan *plan)
{
    struct rest_key key = rest_key_of(import, part);

    import->open_db = key.db;
    import->open.size = 0;
    buffer_append_bytes(&import->open, key.name);
    return judge_rest(import, part, import_rest_begin(&import->rest, &key, plan->size));
}

static bool is_stream_part(const struct rdb_part *part)
{
    enum value_type type;

    return (part->elements > 0 || part->is_rest) && codec_peek_type(bytes_of(&part->type, 1), &type) == STATUS_OK && type == VALUE_STREAM;
}

/* `*payload`: what follows the nodes of a stream's last part. */
static enum status decode_part(struct import *import, const struct rdb_part *part, struct bytes *payload, struct value *value)
{
    enum status status;

    import->scratch.size = 0;
    *payload = part->payload;
    if (!is_stream_part(part))
        return codec_decode(part->payload, &import->worker.turn.limits, &import->scratch, value);
    status = codec_read_stream_part(payload, &import->scratch, value);
    if (status != STATUS_OK || payload->size == 0 || part->is_last)
        return status;
    value_free(value);
    return STATUS_CORRUPT;
}

/* More elements of the key that was put in last. */
static enum status take_rest(struct import *import, const struct rdb_part *part)
{
    struct rest_key key = rest_key_of(import, part);
    struct bytes payload;
    struct value value;
    enum status status;

    if (import->drops_rest)
        return STATUS_OK;
    if (decode_part(import, part, &payload, &value) != STATUS_OK)
        return fail_value(import, part);
    status = import_rest_add(&import->rest, &key, &value);
    value_free(&value);
    if (status == STATUS_OK && part->is_last)
        status = key.type == VALUE_STREAM ? import_rest_end_stream(&import->rest, &key, part->type, payload) : import_rest_end(&import->rest, &key);
    if (status == STATUS_OK && part->is_last)
        import->open_db = -1;
    return judge_rest(import, part, status);
}

/* After a failure: a value of which only some parts have come is not to be used (the parts of a sorted set in pages may not agree), so its key goes. */
static void discard_open(struct import *import)
{
    struct partitions *all = import->engine->partitions;
    struct waiting *waiting = &import->engine->waiting;
    struct bytes name = buffer_bytes(&import->open);
    uint64_t hash = key_hash(&all->seed, name);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    enum status status = STATUS_OK, read = STATUS_OK;

    do {
        uint32_t version = waiting_version(waiting), handle;
        struct keyspace *keyspace;

        if (status == STATUS_LOCKED)
            waiting_wait(waiting, version, LOCKED_LOOK_MS);
        partition_lock(partition);
        keyspace = partition_keyspace(partition, import->open_db);
        keyspace_assert_locked(keyspace);
        if (import->engine->tier != NULL)
            read = tier_load_in_place(import->engine->tier, keyspace, hash, name);
        handle = keyspace_find(keyspace, hash, name);
        status = handle != 0 ? remove_twin(import, keyspace, hash, handle) : STATUS_OK;
        partition_unlock(partition);
    } while (status == STATUS_LOCKED);
    if (read != STATUS_OK)
        log_write(import->engine->log, LOG_LEVEL_WARNING, "The key '%.*s', of which only a part was loaded, can't be read and so not deleted: %s", shown(name), name.data, status_name(read));
}

/* A key's value, or the first part of it. */
static enum status take_key(struct import *import, const struct rdb_part *part)
{
    struct waiting *waiting = &import->engine->waiting;
    struct paged_plan plan, at_once;
    struct bytes payload;
    struct value value;
    uint32_t version;
    enum status status;

    if (part->db >= (uint64_t)import->engine->partitions->db_count)
        return fail_import(import, STATUS_INVALID, "The RDB file has keys in database %" PRIu64 ", the configuration has only %d databases",
            part->db, import->engine->partitions->db_count);
    if (part->payload.size == 0)
        return fail_import(import, STATUS_VERSION, "The key '%.*s' in database %" PRIu64 " is a %s (RDB type %u, at offset %" PRIu64 "), which "
            "this version of Kelvin does not have", shown(part->name), part->name.data, part->db, rdb_type_name(part->type), part->type, part->offset);
    import->may_expire = part->expire_ms >= 0 || part->type == RDB_TYPE_HASH_EXPIRES;
    import->drops_rest = has_expired(import, part) && !history_goes_on(import);
    if (import->drops_rest) {
        import->result->expired++;
        return STATUS_OK;
    }
    if (is_empty(part->payload)) {
        import->result->empty++;
        return STATUS_OK;
    }
    status = decode_part(import, part, &payload, &value);
    if (status != STATUS_OK)
        return fail_value(import, part);
    if (part->elements > 0) {
        plan = plan_of(part, &value);
        at_once = limit_plan(import, plan);
    }
    for (;;) {
        version = waiting_version(waiting);
        status = put_in(import, part, part->elements > 0 ? &at_once : NULL, &value);
        if (status != STATUS_LOCKED)
            break;
        waiting_wait(waiting, version, LOCKED_LOOK_MS);     /* the tier ends it, if that holds the key; an owner of the partition does not */
    }
    if (status != STATUS_OK && value_is_object(&value))
        value_free(&value);
    if (status == STATUS_OK)
        import->result->keys++;
    buffer_shrink(&import->scratch, LOOK_BYTES);
    return status == STATUS_OK && part->elements > 0 ? begin_rest(import, part, &plan) : status;
}

static bool is_repl_id(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (!isxdigit((unsigned char)text.data[i]))
            return false;
    }
    return text.size == REPL_ID_SIZE;
}

static void note_position(struct import_position *position, const struct rdb_part *part)
{
    int64_t number = -1;

    if (bytes_is(part->name, "repl-id") && is_repl_id(part->value))
        memcpy(position->repl_id, part->value.data, REPL_ID_SIZE);
    if (!text_to_int(part->value, &number) || number < 0)
        return;
    if (bytes_is(part->name, "repl-offset") && number <= HISTORY_OFFSET_MAX)
        position->offset = number;
    if (bytes_is(part->name, "repl-stream-db"))
        position->db = number;
}

/* A half of it is none. */
static struct import_position whole_position(const struct import *import)
{
    static const struct import_position none = { .offset = -1, .db = -1 };
    const struct import_result *result = import->result;

    return is_whole(&import->position) && result->expired == 0 && !result->has_evicted ? import->position : none;
}

static void note_aux(struct import *import, const struct rdb_part *part)
{
    int64_t ctime_s;

    note_position(&import->position, part);
    if (bytes_is(part->name, "redis-ver"))
        log_write(import->engine->log, LOG_LEVEL_NOTICE, "Loading RDB produced by version %.*s", (int)part->value.size, part->value.data);
    if (bytes_is(part->name, "ctime") && text_to_int(part->value, &ctime_s))
        log_write(import->engine->log, LOG_LEVEL_NOTICE, "RDB age %" PRId64 " seconds",
            (int64_t)((uint64_t)import->worker.turn.now_ms / 1000 - (uint64_t)ctime_s));
}

static enum status take_function(struct import *import, const struct rdb_part *part)
{
    struct buffer error = { 0 };
    enum status status = STATUS_OK;

    if (!registry_load_text(&import->functions.load, part->value, &error)) {
        status = fail_import(import, STATUS_CORRUPT, "The library of functions at offset %" PRIu64 " can't be loaded: %.*s", part->offset,
            (int)error.size, error.data);
    }
    buffer_release(&error);
    return status;
}

/* All at once: a library may use names that another one has only as long as that one is not there. */
static enum status publish_functions(struct import *import)
{
    enum registry_how how = import->rules->twins == IMPORT_REPLACES_TWINS ? REGISTRY_REPLACES : REGISTRY_ADDS;
    struct buffer error = { 0 };
    enum status status = STATUS_OK;

    if (import->functions.load.count > 0 && !registry_load_publish(&import->functions.load, how, &error))
        status = fail_import(import, STATUS_CORRUPT, "The RDB file's functions can't be loaded: %.*s", (int)error.size, error.data);
    buffer_release(&error);
    return status;
}

static enum status take_part(struct import *import, const struct rdb_part *part)
{
    switch (part->kind) {
    case RDB_PART_AUX:
        note_aux(import, part);
        break;
    case RDB_PART_KEY:
        return part->is_rest ? take_rest(import, part) : take_key(import, part);
    case RDB_PART_FUNCTION:
        return take_function(import, part);
    case RDB_PART_DB:
    case RDB_PART_RESIZE:
    case RDB_PART_END:
        break;
    }
    return STATUS_OK;
}

enum status import_rdb(struct engine *engine, int fd, const struct import_rules *rules, aof_import_progress *progress, void *context,
    struct import_result *result, struct message *message)
{
    struct import import = { .engine = engine, .rules = rules, .progress = progress, .context = context, .result = result, .message = message, .open_db = -1 };
    struct rdb_part part;
    enum status status;

    *result = (struct import_result){ 0 };
    import.position.offset = import.position.db = -1;
    worker_init(&import.worker, engine, -1);
    worker_begin_turn(&import.worker);
    import.reader = rdb_reader_create_file(fd);
    if (import.worker.turn.limits.page_threshold > 0)
        rdb_reader_split(import.reader);
    import.rest = (struct import_rest){ .engine = engine, .turn = &import.worker.turn, .wait = wait_in_value, .context = &import };
    scripts_load_init(&import.functions, engine, SCRIPTS_OF_DATA);
    do {
        status = rdb_read(import.reader, &part, message);
        if (status == STATUS_OK)
            status = take_part(&import, &part);
        if (status == STATUS_OK)
            status = look(&import);
    } while (status == STATUS_OK && part.kind != RDB_PART_END);
    if (status == STATUS_OK)
        status = publish_functions(&import);
    if (status != STATUS_OK && import.open_db >= 0)
        discard_open(&import);
    buffer_release(&import.open);
    scripts_load_release(&import.functions);
    result->size = rdb_reader_offset(import.reader);
    result->position = whole_position(&import);
    import_rest_release(&import.rest);
    rdb_reader_destroy(import.reader);
    buffer_release(&import.scratch);
    worker_release(&import.worker);
    engine->imported_keys += result->keys;
    engine->imported_expired += result->expired;
    if (status == STATUS_OK)
        log_write(engine->log, LOG_LEVEL_NOTICE, "Done loading RDB, keys loaded: %" PRIu64 ", keys expired: %" PRIu64
            ", empty keys skipped: %" PRIu64 ".", result->keys, result->expired, result->empty);
    return status;
}

/* A dump. */

struct dump {
    struct engine *engine;
    int64_t told_ms;
    struct progress progress;
};

static void dump_progress(void *context, uint64_t done)
{
    struct dump *dump = context;
    struct engine *engine = dump->engine;
    int64_t now = clock_mono_us() / 1000;
    struct buffer rest = { 0 };

    engine->loading_done = done;
    if (now - dump->told_ms < PROGRESS_LOG_MS)
        return;
    dump->told_ms = now;
    progress_note(&dump->progress, done, now * 1000);
    progress_rest(&dump->progress, &rest);
    log_write(engine->log, LOG_LEVEL_NOTICE, "Loading the dump: %.1f %% of %.1f MB%.*s",
        engine->loading_total > 0 ? 100.0 * (double)done / (double)engine->loading_total : 100.0, (double)engine->loading_total / 1e6,
        (int)rest.size, rest.size > 0 ? rest.data : "");
    buffer_release(&rest);
}

enum status import_dump(struct engine *engine, const char *path, struct import_result *result, struct message *message)
{
    static const struct import_rules rules = { .twins = IMPORT_REFUSES_TWINS };
    struct dump dump = { .engine = engine, .told_ms = clock_mono_us() / 1000 };
    enum status status;
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    *result = (struct import_result){ .position = { .offset = -1, .db = -1 } };
    if (fd < 0) {
        message_set(message, "Can't open the dump '%.150s': %s", path, strerror(errno));
        return status_of_errno(errno);
    }
    engine->loading_total = fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0;
    engine->loading_done = 0;
    engine->loading_since_ms = clock_wall_ms();
    engine->loading_since_us = clock_mono_us();
    progress_begin(&dump.progress, PROGRESS_BYTES, engine->loading_total, engine->loading_since_us);
    status = import_rdb(engine, fd, &rules, dump_progress, &dump, result, message);
    engine->loading_done = result->size;
    close(fd);
    return status;
}

enum status import_again(struct engine *engine, const char *path, const struct import_rules *rules, struct message *message)
{
    struct import_result result;
    enum status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        message_set(message, "Can't open '%.150s': %s", path, strerror(errno));
        return status_of_errno(errno);
    }
    status = import_rdb(engine, fd, rules, NULL, NULL, &result, message);
    close(fd);
    return status;
}

/* Notes the position of a base that was a dump. */
static void note_base(struct engine *engine, const struct import_position *position)
{
    struct history_point point;

    if (position->repl_id[0] == '\0' || position->db > INT32_MAX)
        return;
    history_point_make(&point, position->repl_id, position->offset, (int)position->db);
    aof_set_base_point(engine->aof, &point);
}

enum status import_base(void *engine, int fd, aof_import_progress *progress, void *context, uint64_t *size, struct message *message)
{
    static const struct import_rules rules = { .twins = IMPORT_REFUSES_TWINS };
    struct import_result result = { 0 };
    enum status status = import_rdb(engine, fd, &rules, progress, context, &result, message);

    *size = result.size;
    if (status == STATUS_OK)
        note_base(engine, &result.position);
    return status;
}
