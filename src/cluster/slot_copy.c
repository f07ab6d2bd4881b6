#include "cluster/slot_copy.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "call/command_keys.h"
#include "call/command_table.h"
#include "engine/job.h"
#include "replication/applier_feed.h"
#include "replication/migrate_link.h"
#include "replication/primary.h"
#include "tier/tier.h"
#include "value/codec.h"

enum {
    PAGE_KEYS = 64,
    PAGE_BYTES = 1 << 20,           /* a page with more is read again with fewer keys, down to one */
    SENT_BYTES = 256 << 10,         /* at a time */
    READS_AT_ONCE = 64,
    WAIT_MS = 1,                    /* for the log to write what was changed */
    WAITS_MAX = 10000,
    COMMAND_KEYS = 256,
};

struct slot_copy {
    struct engine *engine;
    struct slots slots;
    slot_copy_send *send;
    void *context;
    struct feed feed;
    bool is_open;                   /* the feed */
    struct tier_bulk *bulk;         /* NULL: no tier */
    struct claim claim;
    unsigned slot;                  /* keys of smaller slots were sent; SLOT_COUNT: all */
    uint64_t next;                  /* and those of this slot with a smaller hash */
    size_t page_keys;
    struct bytes *stale;            /* names that belong to it */
    size_t stale_count, stale_room;
    struct call_key *keys;          /* of the command that is looked at */
    int key_room;
    struct buffer out, page;
    uint64_t out_count, page_count, key_count;
};

static bool fail(struct message *message, const char *text)
{
    message_set(message, "%s", text);
    return false;
}

static bool flush(struct slot_copy *copy)
{
    bool goes_on = copy->out_count == 0 || copy->send(copy->context, buffer_bytes(&copy->out), copy->out_count);

    copy->out.size = 0;
    copy->out_count = 0;
    if (copy->out.capacity > 4 * SENT_BYTES)
        buffer_release(&copy->out);
    return goes_on;
}

/* --- The history --- */

static bool is_sent(const struct slot_copy *copy, uint64_t hash)
{
    unsigned slot = slot_of_hash(hash);

    return slots_has(&copy->slots, slot) && (slot < copy->slot || (slot == copy->slot && hash < copy->next));
}

static bool is_stale(const struct slot_copy *copy, struct bytes name)
{
    for (size_t i = 0; i < copy->stale_count; i++) {
        if (bytes_equal(copy->stale[i], name))
            return true;
    }
    return false;
}

static void add_stale(struct slot_copy *copy, struct bytes name)
{
    if (is_stale(copy, name))
        return;
    if (copy->stale_count == copy->stale_room) {
        copy->stale_room = copy->stale_room * 2 + 16;
        copy->stale = mem_realloc(copy->stale, copy->stale_room * sizeof(*copy->stale));
    }
    copy->stale[copy->stale_count++] = bytes_of(mem_string(name), name.size);
}

static int find_keys(struct slot_copy *copy, const struct command *command, const struct bytes *args, int arg_count)
{
    int count = command_keys(command, args, arg_count, copy->keys, copy->key_room);

    if (count > copy->key_room) {
        copy->key_room = count;
        copy->keys = mem_realloc(copy->keys, (size_t)count * sizeof(*copy->keys));
        count = command_keys(command, args, arg_count, copy->keys, count);
    }
    for (int i = 0; i < count; i++)
        copy->keys[i].hash = key_hash(&copy->engine->partitions->seed, args[copy->keys[i].arg]);
    return count;
}

/* A command of the history. False: the keys that were sent are not what they were. */
static bool pass_command(struct slot_copy *copy, const struct bytes *args, int arg_count, struct bytes text)
{
    const struct command *command = command_find_logged_call(copy->engine->commands, args, arg_count);
    int key_count, clean = 0, sent = 0;

    if (command == NULL)
        return false;
    if (command->flags & COMMAND_EXCLUSIVE && command->flags & COMMAND_WRITE)
        return false;
    if (!(command->flags & COMMAND_WRITE) || command->keys == NULL)
        return true;
    key_count = find_keys(copy, command, args, arg_count);
    for (int i = 0; i < key_count; i++) {
        if (!is_sent(copy, copy->keys[i].hash))
            continue;
        sent++;
        clean += copy->stale_count == 0 || !is_stale(copy, args[copy->keys[i].arg]);
    }
    if (sent > 0 && clean == key_count) {
        buffer_append_bytes(&copy->out, text);
        copy->out_count++;
        return true;
    }
    for (int i = 0; i < key_count && clean > 0; i++) {
        if (is_sent(copy, copy->keys[i].hash))
            add_stale(copy, args[copy->keys[i].arg]);
    }
    return true;
}

/* Reads on, and waits for it if `may_wait`. */
static enum feed_result read_history(struct slot_copy *copy, bool may_wait)
{
    struct waiting *waiting = &copy->engine->waiting;

    copy->feed.keep = copy->feed.at;
    for (int i = 0; i < WAITS_MAX && !job_must_end(copy->engine); i++) {
        uint32_t version = waiting_version(waiting);
        enum feed_result result;

        if (copy->engine->aof == NULL)
            history_drain(&copy->engine->history);
        result = feed_read(&copy->feed);
        if (result != FEED_MORE || !may_wait)
            return result;
        waiting_wait(waiting, version, WAIT_MS);
    }
    return FEED_MORE;
}

/* Up to `lsn`, which is where a command ends. */
static bool pass_history(struct slot_copy *copy, uint64_t lsn, bool may_wait, struct message *message)
{
    while (feed_position(&copy->feed) < lsn) {
        size_t size;
        enum feed_result result = feed_next(&copy->feed, &size);

        if (result == FEED_COMMAND) {
            const struct request_parser *parser = &copy->feed.parser;

            if (!pass_command(copy, parser->args, parser->arg_count, bytes_of(copy->feed.text.data + copy->feed.at, size)))
                return fail(message, "a command has changed all keys, or can't be run by another server");
            feed_pass(&copy->feed, size);
            if (copy->out.size >= SENT_BYTES && !flush(copy))
                return false;
            continue;
        }
        if (result == FEED_MORE)
            result = read_history(copy, may_wait);
        if (result == FEED_BAD)
            return fail(message, copy->feed.problem);
        if (result == FEED_MORE)
            return may_wait ? fail(message, "the log is not written") : true;
    }
    return true;
}

/* --- Keys --- */

static void append_restore(struct slot_copy *copy, struct bytes name, const struct entry *entry)
{
    struct value value = entry_value(entry);
    struct buffer payload = { 0 };
    char digits[TEXT_INT_SIZE];
    int64_t expire_ms = entry->flags & ENTRY_EXPIRES ? entry_expire_ms(entry) : 0;

    codec_dump(&value, &payload);
    migrate_link_append(&copy->page, (struct bytes[]){ BYTES("RESTORE"), name, bytes_of(digits, text_of_int(expire_ms, digits)), buffer_bytes(&payload),
        BYTES("REPLACE"), BYTES("ABSTTL") }, 6);
    buffer_release(&payload);
    copy->page_count++;
}

/* Reads a key, of which the partition is owned. A stale one that is gone is deleted there. */
static bool add_key(struct slot_copy *copy, struct bytes name, bool was_sent, struct message *message)
{
    struct engine *engine = copy->engine;
    struct partitions *all = engine->partitions;
    uint64_t hash = key_hash(&all->seed, name);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    enum status status = STATUS_OK;
    struct keyspace *keyspace;
    uint32_t handle = 0;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, 0);
    if (keyspace != NULL) {
        keyspace_assert_locked(keyspace);
        handle = keyspace_find(keyspace, hash, name);
        if (handle == 0 && engine->tier != NULL) {
            status = tier_load_in_place(engine->tier, keyspace, hash, name);
            handle = keyspace_find(keyspace, hash, name);
        }
    }
    if (handle != 0)
        append_restore(copy, name, keyspace_entry(keyspace, handle));
    else if (status == STATUS_OK && was_sent) {
        migrate_link_append(&copy->page, (struct bytes[]){ BYTES("DEL"), name }, 2);
        copy->page_count++;
    }
    partition_unlock(partition);
    return status == STATUS_OK || fail(message, "a cold key can't be read");
}

static bool goes_on(void *context, uint64_t size)
{
    (void)size;
    return !job_must_end(context);
}

/* Reads the cold ones of the page together, as far as they are small. */
static void load_page(struct slot_copy *copy, const struct scan_page *page)
{
    struct tier_wanted *wanted = mem_alloc((page->count + 1) * sizeof(*wanted));

    for (size_t i = 0; i < page->count; i++) {
        wanted[i] = (struct tier_wanted){ .hash = key_hash(&copy->engine->partitions->seed, scan_page_key(page, i)),
            .key_at = (uint32_t)page->keys[i].offset, .key_size = page->keys[i].size };
    }
    tier_bulk_load(copy->bulk, wanted, page->count, page->text.data, PAGE_BYTES, goes_on, copy->engine);
    mem_free(wanted);
}

/* The history up to `lsn`, then the page. */
static bool send_page(struct slot_copy *copy, uint64_t lsn, struct message *message)
{
    if (!pass_history(copy, lsn, true, message))
        return false;
    if (!flush(copy))
        return false;
    if (copy->page_count > 0 && !copy->send(copy->context, buffer_bytes(&copy->page), copy->page_count))
        return false;
    return true;
}

static void begin_page(struct slot_copy *copy, const struct partition_bits *wanted)
{
    copy->page.size = 0;
    copy->page_count = 0;
    if (copy->page.capacity > 4 * PAGE_BYTES)
        buffer_release(&copy->page);
    partitions_own(copy->engine->partitions, &copy->claim, wanted);
}

/* Returns the position of what was read. */
static uint64_t end_page(struct slot_copy *copy)
{
    uint64_t lsn = history_end(&copy->engine->history);

    partitions_give(copy->engine->partitions, &copy->claim, 0);
    return lsn;
}

static bool send_stale(struct slot_copy *copy, struct message *message)
{
    struct partitions *all = copy->engine->partitions;
    struct partition_bits wanted = { { 0 } };
    size_t count = copy->stale_count;
    bool good = true;
    uint64_t lsn;

    for (size_t i = 0; i < count; i++)
        partition_bits_add(&wanted, partition_index(all, key_hash(&all->seed, copy->stale[i])));
    begin_page(copy, &wanted);
    for (size_t i = 0; i < count && good; i++)
        good = add_key(copy, copy->stale[i], true, message);
    lsn = end_page(copy);
    if (!good || !send_page(copy, lsn, message))
        return false;
    for (size_t i = 0; i < count; i++)
        mem_free((char *)copy->stale[i].data);
    copy->stale_count -= count;
    memmove(copy->stale, copy->stale + count, copy->stale_count * sizeof(*copy->stale));
    return true;
}

static void go_to_slot(struct slot_copy *copy, unsigned from)
{
    struct slot_range range;

    copy->slot = slots_next(&copy->slots, from, &range) ? range.first : SLOT_COUNT;
    copy->next = copy->slot < SLOT_COUNT ? slot_first_hash((uint16_t)copy->slot) : 0;
}

static bool is_too_large(const struct slot_copy *copy) { return copy->page.size > PAGE_BYTES && copy->page_keys > 1; }

static bool send_keys(struct slot_copy *copy, struct message *message)
{
    struct engine *engine = copy->engine;
    struct partitions *all = engine->partitions;
    struct partition_bits wanted = { { 0 } };
    struct scan_page page = { 0 };
    uint64_t until, lsn;
    bool good;
    size_t i = 0;

    partition_bits_add(&wanted, partition_index(all, copy->next));
    begin_page(copy, &wanted);
    until = tier_slot_page(engine->tier, all, &(struct reader){ .as = &copy->claim, .may_block = true }, 0, (uint16_t)copy->slot, copy->next,
        copy->page_keys, &page);
    good = page.status == STATUS_OK || fail(message, "the store can't be read");
    if (good && copy->bulk != NULL)
        load_page(copy, &page);
    for (; i < page.count && good && !is_too_large(copy); i++)
        good = add_key(copy, scan_page_key(&page, i), false, message);
    lsn = end_page(copy);
    if (good && i < page.count) {
        scan_page_release(&page);
        copy->page_keys = i / 2 + 1 < copy->page_keys ? i / 2 + 1 : copy->page_keys / 2;
        return true;
    }
    copy->key_count += page.count;
    scan_page_release(&page);
    if (!good || !send_page(copy, lsn, message))
        return false;
    copy->next = until + 1;
    if (until == slot_last_hash((uint16_t)copy->slot))
        go_to_slot(copy, copy->slot + 1);
    if (copy->page.size < PAGE_BYTES / 8 && copy->page_keys < PAGE_KEYS)
        copy->page_keys *= 2;
    return true;
}

/* --- */

/* At the end of the history, which has to be handed over to the backlog up to there first. */
static bool open_feed(struct slot_copy *copy)
{
    struct history *history = &copy->engine->history;
    struct history_point point;

    history_mark(history, &point);
    for (int i = 0; i < WAITS_MAX && history_handed(history) < point.lsn && !job_must_end(copy->engine); i++) {
        if (copy->engine->aof == NULL)
            history_drain(history);
        else
            waiting_wait(&copy->engine->waiting, waiting_version(&copy->engine->waiting), WAIT_MS);
    }
    copy->is_open = feed_open(&copy->feed, history_backlog(history), point.lsn, UINT64_MAX);
    return copy->is_open;
}

struct slot_copy *slot_copy_create(struct engine *engine, const struct slots *slots, slot_copy_send *send, void *context, struct message *message)
{
    struct slot_copy *copy = mem_zalloc(sizeof(*copy));

    copy->engine = engine;
    copy->slots = *slots;
    copy->send = send;
    copy->context = context;
    copy->page_keys = PAGE_KEYS;
    copy->key_room = COMMAND_KEYS;
    copy->keys = mem_alloc(COMMAND_KEYS * sizeof(*copy->keys));
    go_to_slot(copy, 0);
    primary_keep_backlog(engine);
    if (open_feed(copy)) {
        if (engine->tier != NULL)
            copy->bulk = tier_bulk_create(engine->tier, READS_AT_ONCE);
        return copy;
    }
    (void)fail(message, "the history can't be read: see repl-backlog-size, and whether the log can be written");
    slot_copy_destroy(copy);
    return NULL;
}

void slot_copy_destroy(struct slot_copy *copy)
{
    if (copy == NULL)
        return;
    if (copy->is_open)
        feed_close(&copy->feed);
    primary_release_backlog(copy->engine);
    tier_bulk_destroy(copy->bulk);
    for (size_t i = 0; i < copy->stale_count; i++)
        mem_free((char *)copy->stale[i].data);
    mem_free(copy->stale);
    mem_free(copy->keys);
    buffer_release(&copy->out);
    buffer_release(&copy->page);
    mem_free(copy);
}

bool slot_copy_has_keys_left(const struct slot_copy *copy) { return copy->slot < SLOT_COUNT || copy->stale_count > 0; }

uint64_t slot_copy_lag(const struct slot_copy *copy)
{
    return history_end(&copy->engine->history) - feed_position(&copy->feed);
}

uint64_t slot_copy_key_count(const struct slot_copy *copy) { return copy->key_count; }

bool slot_copy_step(struct slot_copy *copy, struct message *message)
{
    if (copy->stale_count > 0)
        return send_stale(copy, message);
    if (copy->slot < SLOT_COUNT)
        return send_keys(copy, message);
    return pass_history(copy, history_handed(&copy->engine->history), false, message) && flush(copy);
}

bool slot_copy_finish(struct slot_copy *copy, uint64_t lsn, struct message *message)
{
    if (!pass_history(copy, lsn, true, message) || !flush(copy))
        return false;
    return !slot_copy_has_keys_left(copy) || fail(message, "keys are left");
}
