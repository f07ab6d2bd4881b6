/* DEBUG OBJECT, LISTPACK, SDSLEN, DIGEST, DIGEST-VALUE: what keys hold. */
#include "commands/debug.h"

#include <inttypes.h>

#include "base/mem.h"
#include "base/text.h"
#include "engine/probe.h"
#include "engine/unit.h"
#include "value/codec.h"
#include "value/hash.h"
#include "value/list.h"
#include "value/set.h"
#include "value/string.h"
#include "value/zset.h"

enum { LRU_CLOCK_MASK = 0xffffff };

static void reply_status_of(struct call *call, enum status status)
{
    if (status == STATUS_NOT_FOUND)
        reply_error(call, ERR_NO_SUCH_KEY);
    else
        reply_error(call, ERR_TIER_READ);
}

void debug_object(struct call *call)
{
    struct buffer payload = { 0 };
    struct probe probe;
    enum status status = probe_open(call->engine, call->db, call->args[2], &probe);
    int64_t idle_s;

    if (status != STATUS_OK) {
        reply_status_of(call, status);
        return;
    }
    codec_encode(&probe.value, &payload);
    idle_s = (int64_t)heat_idle(probe.entry->heat_minutes, call->turn->minutes) * 60;
    reply_status(call->reply, call_format(call,
        "Value at:%p refcount:1 encoding:%s serializedlength:%zu lru:%" PRId64 " lru_seconds_idle:%" PRId64, (const void *)probe.entry,
        value_encoding_name(&probe.value), payload.size - 1, (call->turn->now_ms / 1000 - idle_s) & LRU_CLOCK_MASK, idle_s));
    probe_close(&probe);
    buffer_release(&payload);
}

static void add_element(struct buffer *text, size_t *count, struct bytes element)
{
    buffer_append_format(text, " {%.*s}", (int)element.size, element.data);
    ++*count;
}

static size_t add_hash(struct buffer *text, const struct value *hash)
{
    struct hash_iterator iterator;
    struct bytes field, value;
    size_t count = 0;

    for (hash_iterate(&iterator, hash); hash_next(&iterator, &field, &value);) {
        add_element(text, &count, field);
        add_element(text, &count, value);
    }
    return count;
}

static size_t add_set(struct buffer *text, const struct value *set)
{
    struct set_iterator iterator;
    struct bytes member;
    size_t count = 0;

    for (set_iterate(&iterator, set); set_next(&iterator, &member);)
        add_element(text, &count, member);
    return count;
}

static size_t add_list(struct buffer *text, const struct value *list)
{
    struct list_iterator iterator;
    char digits[TEXT_INT_SIZE];
    size_t count = 0;

    list_iterate(&iterator, list, 0, LIST_TAIL);
    while (list_step(&iterator))
        add_element(text, &count, list_element(&iterator, digits));
    list_iterate_end(&iterator);
    return count;
}

static size_t add_zset(struct buffer *text, const struct value *zset)
{
    struct zset_iterator iterator;
    struct bytes member;
    size_t count = 0;
    double score;

    for (zset_iterate(&iterator, zset, 0, ZSET_UP); zset_next(&iterator, &member, &score); count++) {
        add_element(text, &count, member);
        buffer_append_format(text, " {%.17g}", score);
    }
    return count;
}

static size_t add_elements(struct buffer *text, const struct value *value)
{
    switch (value->type) {
    case VALUE_HASH: return add_hash(text, value);
    case VALUE_SET: return add_set(text, value);
    case VALUE_LIST: return add_list(text, value);
    case VALUE_ZSET: return add_zset(text, value);
    }
    return 0;
}

void debug_listpack(struct call *call)
{
    struct buffer text = { 0 };
    struct probe probe;
    enum status status = probe_open(call->engine, call->db, call->args[2], &probe);
    bool is_listpack;
    size_t count = 0;

    if (status != STATUS_OK) {
        reply_status_of(call, status);
        return;
    }
    is_listpack = strcmp(value_encoding_name(&probe.value), "listpack") == 0;
    if (is_listpack)
        count = add_elements(&text, &probe.value);
    probe_close(&probe);
    if (is_listpack) {
        log_write(call->engine->log, LOG_LEVEL_WARNING, "DEBUG LISTPACK of %zu elements:%.*s", count, (int)text.size, text.data);
        reply_status(call->reply, BYTES("The elements of the listpack were written to the server's log"));
    } else {
        reply_errorf(call, "ERR Not a listpack encoded object.");
    }
    buffer_release(&text);
}

/* Kelvin has no reserve in strings: what is available is always 0. The memory is that of the entry, which key and short values share. */
void debug_sdslen(struct call *call)
{
    struct probe probe;
    enum status status = probe_open(call->engine, call->db, call->args[2], &probe);

    if (status != STATUS_OK) {
        reply_status_of(call, status);
        return;
    }
    if (probe.value.type == VALUE_STRING && probe.value.encoding != STRING_INT) {
        size_t size = string_size(&probe.value);

        reply_status(call->reply, call_format(call, "key_sds_len:%zu, key_sds_avail:0, key_zmalloc: %zu, val_sds_len:%zu, val_sds_avail:0, "
            "val_zmalloc: %zu", call->args[2].size, (size_t)entry_block_size(probe.entry), size, value_memory(&probe.value, 0)));
    } else {
        reply_errorf(call, "ERR Not an sds encoded string.");
    }
    probe_close(&probe);
}

static struct bytes hex_of(struct call *call, const uint8_t digest[PROBE_DIGEST_SIZE])
{
    char *text = arena_alloc(call->arena, PROBE_DIGEST_SIZE * 2);

    text_of_bytes(digest, PROBE_DIGEST_SIZE, text);
    return bytes_of(text, PROBE_DIGEST_SIZE * 2);
}

struct digest_job {
    struct job job;
    const struct claim *as;         /* the claim of the call's unit, which owns all partitions; or NULL */
    enum status status;
    uint8_t digest[PROBE_DIGEST_SIZE];
};

static void run_digest(struct job *base, struct engine *engine)
{
    struct digest_job *job = (struct digest_job *)base;

    job->status = probe_digest_all(engine, job->as, job->digest);
}

void debug_digest(struct call *call)
{
    struct digest_job *done = call_job(call);

    if (done == NULL) {
        done = mem_zalloc(sizeof(*done));
        done->job = (struct job){ .run = run_digest };
        done->as = call->unit != NULL ? &call->unit->claim : NULL;
        call_start_job(call, &done->job);
    } else if (done->status != STATUS_OK) {
        reply_error(call, ERR_TIER_READ);
    } else {
        reply_status(call->reply, hex_of(call, done->digest));
    }
}

void debug_digest_value(struct call *call)
{
    int count = call->arg_count - 2;
    uint8_t (*digests)[PROBE_DIGEST_SIZE] = arena_alloc(call->arena, (size_t)(count + 1) * PROBE_DIGEST_SIZE);

    for (int i = 0; i < count; i++) {
        if (probe_digest_value(call->engine, call->db, call->args[i + 2], digests[i]) != STATUS_OK) {
            reply_error(call, ERR_TIER_READ);
            return;
        }
    }
    reply_array(call->reply, (size_t)count);
    for (int i = 0; i < count; i++)
        reply_status(call->reply, hex_of(call, digests[i]));
}
