#include "cluster/slot_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "call/command_keys.h"
#include "call/command_table.h"
#include "engine/job.h"
#include "keyspace/pages.h"
#include "replication/applier_feed.h"
#include "replication/migrate_link.h"
#include "replication/primary.h"
#include "tier/tier.h"
#include "value/codec.h"

enum {
    PAGE_KEYS = 64,
    PAGE_BYTES = 1 << 20,           /* a page ends with the key by which it has more */
    SENT_BYTES = 256 << 10,         /* at a time */
    READS_AT_ONCE = 64,
    WAIT_MS = 1,                    /* for the log to write what was changed */
    WAITS_MAX = 10000,
    COMMAND_KEYS = 256,
};

/* Commands that are sent together. */
struct commands {
    struct buffer text;
    uint64_t count;
    int db;                         /* selected at its end; -1: none yet */
};

/* A key of a command, or one that is stale. */
struct copied_key {
    int db;
    struct bytes name;
    uint64_t hash;
};

/* Keys before it were sent: of smaller slots, and of this one those of smaller databases, and of this one those with a smaller hash. */
struct place {
    unsigned slot;                  /* SLOT_COUNT: all were sent */
    int db;
    uint64_t next;
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
    struct place place;
    struct copied_key *stale;       /* their names belong to it */
    size_t stale_count, stale_room;
    struct call_key *found;         /* of the command that is looked at */
    struct copied_key *keys;
    int key_room;
    int history_db;                 /* selected where the history is read; -1: none yet */
    struct commands out, page;
    uint64_t key_count;
};

static bool fail(struct message *message, const char *text)
{
    message_set(message, "%s", text);
    return false;
}

/* Has later commands run in this database. With one database there is nothing to select. */
static void select_db(const struct slot_copy *copy, struct commands *commands, int db)
{
    char digits[TEXT_INT_SIZE];

    if (commands->db == db || copy->engine->partitions->db_count == 1)
        return;
    migrate_link_append(&commands->text, (struct bytes[]){ BYTES("SELECT"), bytes_of(digits, text_of_int(db, digits)) }, 2);
    commands->count++;
    commands->db = db;
}

static bool flush(struct slot_copy *copy)
{
    struct commands *out = &copy->out;
    bool goes_on = out->count == 0 || copy->send(copy->context, buffer_bytes(&out->text), out->count);

    out->text.size = 0;
    out->count = 0;
    if (out->text.capacity > 4 * SENT_BYTES)
        buffer_release(&out->text);
    return goes_on;
}

/* --- The history --- */

static bool is_sent(const struct slot_copy *copy, const struct copied_key *key)
{
    const struct place *place = &copy->place;
    unsigned slot = slot_of_hash(key->hash);

    if (!slots_has(&copy->slots, slot))
        return false;
    if (slot != place->slot)
        return slot < place->slot;
    return key->db < place->db || (key->db == place->db && key->hash < place->next);
}

static bool is_stale(const struct slot_copy *copy, const struct copied_key *key)
{
    for (size_t i = 0; i < copy->stale_count; i++) {
        if (copy->stale[i].db == key->db && bytes_equal(copy->stale[i].name, key->name))
            return true;
    }
    return false;
}

static void add_stale(struct slot_copy *copy, const struct copied_key *key)
{
    if (is_stale(copy, key))
        return;
    if (copy->stale_count == copy->stale_room) {
        copy->stale_room = copy->stale_room * 2 + 16;
        copy->stale = mem_realloc(copy->stale, copy->stale_room * sizeof(*copy->stale));
    }
    copy->stale[copy->stale_count] = *key;
    copy->stale[copy->stale_count++].name = bytes_of(mem_string(key->name), key->name.size);
}

static void reserve_keys(struct slot_copy *copy, int count)
{
    copy->key_room = count;
    copy->found = mem_realloc(copy->found, (size_t)count * sizeof(*copy->found));
    copy->keys = mem_realloc(copy->keys, ((size_t)count + 1) * sizeof(*copy->keys));
}

static int find_keys(struct slot_copy *copy, const struct command *command, const struct bytes *args, int arg_count)
{
    int count = command_keys(command, args, arg_count, copy->found, copy->key_room), named_db = command_named_db(command, args, arg_count);

    if (count > copy->key_room) {
        reserve_keys(copy, count);
        count = command_keys(command, args, arg_count, copy->found, count);
    }
    for (int i = 0; i < count; i++) {
        struct bytes name = args[copy->found[i].arg];

        copy->keys[i] = (struct copied_key){ copy->history_db, name, key_hash(&copy->engine->partitions->seed, name) };
    }
    if (named_db >= 0 && count == 1)
        copy->keys[count++] = copy->keys[0];            /* MOVE */
    if (named_db >= 0 && count > 1)
        copy->keys[1].db = named_db;
    return count;
}

static bool pass_select(struct slot_copy *copy, const struct bytes *args, int arg_count)
{
    int64_t db;

    if (arg_count != 2 || !text_to_int(args[1], &db) || db < 0 || db >= copy->engine->partitions->db_count)
        return false;
    copy->history_db = (int)db;
    return true;
}

/* A command of the history. False: the keys that were sent are not what they were. */
static bool pass_command(struct slot_copy *copy, const struct bytes *args, int arg_count, struct bytes text)
{
    const struct command *command = command_find_logged_call(copy->engine->commands, args, arg_count);
    int key_count, clean = 0, sent = 0;

    if (command == NULL)
        return false;
    if (strcmp(command->name, "select") == 0)
        return pass_select(copy, args, arg_count);
    if (command->flags & COMMAND_EXCLUSIVE && command->flags & COMMAND_WRITE)
        return false;
    if (!(command->flags & COMMAND_WRITE) || command->keys == NULL)
        return true;
    key_count = find_keys(copy, command, args, arg_count);
    for (int i = 0; i < key_count; i++) {
        if (!is_sent(copy, &copy->keys[i]))
            continue;
        sent++;
        clean += copy->stale_count == 0 || !is_stale(copy, &copy->keys[i]);
    }
    if (sent > 0 && clean == key_count) {
        select_db(copy, &copy->out, copy->history_db);
        buffer_append_bytes(&copy->out.text, text);
        copy->out.count++;
        return true;
    }
    for (int i = 0; i < key_count && clean > 0; i++) {
        if (is_sent(copy, &copy->keys[i]))
            add_stale(copy, &copy->keys[i]);
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
            if (copy->out.text.size >= SENT_BYTES && !flush(copy))
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

static const char unreadable[] = "a cold key can't be read";

/* NULL, or why it can't be sent. */
static const char *append_restore(struct slot_copy *copy, const struct copied_key *key, struct keyspace *keyspace, const struct entry *entry)
    REQUIRES(keyspace->partition->lock);
static const char *append_restore(struct slot_copy *copy, const struct copied_key *key, struct keyspace *keyspace, const struct entry *entry)
{
    struct value value = entry_value(entry);
    struct value_limits limits = { 0 };
    struct pages_access access;
    struct buffer payload = { 0 };
    char digits[TEXT_INT_SIZE];
    int64_t expire_ms = entry->flags & ENTRY_EXPIRES ? entry_expire_ms(entry) : 0;

    if (value_is_paged(&value)) {
        uint64_t size = paged_of(&value)->root.size;
        int64_t memory = config_number(copy->engine->config, CONFIG_MAXMEMORY);

        if (memory > 0 && size > (uint64_t)memory / 2)
            return "a value in pages takes more than half of maxmemory";
        if (pages_are_elsewhere(keyspace, &value))      /* never: a slot is in one partition, and keys are renamed within it */
            return unreadable;
        engine_limits(copy->engine, &limits);
        pages_attach(&access, keyspace, &value, &limits, clock_wall_ms());
        keyspace_assert_locked(access.pages.space);
        if (!pages_bring_all(&access, &value))
            return unreadable;
    }
    codec_dump(&value, &payload);
    select_db(copy, &copy->page, key->db);
    migrate_link_append(&copy->page.text, (struct bytes[]){ BYTES("RESTORE"), key->name, bytes_of(digits, text_of_int(expire_ms, digits)),
        buffer_bytes(&payload), BYTES("REPLACE"), BYTES("ABSTTL") }, 6);
    buffer_release(&payload);
    copy->page.count++;
    return NULL;
}

static void append_del(struct slot_copy *copy, const struct copied_key *key)
{
    select_db(copy, &copy->page, key->db);
    migrate_link_append(&copy->page.text, (struct bytes[]){ BYTES("DEL"), key->name }, 2);
    copy->page.count++;
}

/* Reads a key, of which the partition is owned. A stale one that is gone is deleted there. */
static bool add_key(struct slot_copy *copy, const struct copied_key *key, bool was_sent, struct message *message)
{
    struct engine *engine = copy->engine;
    struct partitions *all = engine->partitions;
    struct partition *partition = &all->partitions[partition_index(all, key->hash)];
    const char *problem = NULL;
    struct keyspace *keyspace;
    uint32_t handle = 0;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, key->db);
    if (keyspace != NULL) {
        keyspace_assert_locked(keyspace);
        handle = keyspace_find(keyspace, key->hash, key->name);
        if (handle == 0 && engine->tier != NULL) {
            if (tier_load_in_place(engine->tier, keyspace, key->hash, key->name) != STATUS_OK)
                problem = unreadable;
            handle = keyspace_find(keyspace, key->hash, key->name);
        }
        if (handle != 0)
            problem = append_restore(copy, key, keyspace, keyspace_entry(keyspace, handle));
    }
    if (handle == 0 && problem == NULL && was_sent)
        append_del(copy, key);
    partition_unlock(partition);
    return problem == NULL || fail(message, problem);
}

static bool goes_on(void *context, uint64_t size)
{
    (void)size;
    return !job_must_end(context);
}

static int compare_hashes(const void *a, const void *b)
{
    const struct tier_wanted *first = a, *second = b;

    return (first->hash > second->hash) - (first->hash < second->hash);
}

/* The keys in the order of their hashes, as a part of them may have to be enough. The caller frees it. */
static struct tier_wanted *sort_keys(const struct slot_copy *copy, int db, const struct scan_page *page)
{
    struct tier_wanted *sorted = mem_alloc((page->count + 1) * sizeof(*sorted));

    for (size_t i = 0; i < page->count; i++) {
        sorted[i] = (struct tier_wanted){ .hash = key_hash(&copy->engine->partitions->seed, scan_page_key(page, i)),
            .key_at = (uint32_t)page->keys[i].offset, .key_size = page->keys[i].size, .db = db };
    }
    qsort(sorted, page->count, sizeof(*sorted), compare_hashes);
    return sorted;
}

/* The history up to `lsn`, then the page. */
static bool send_page(struct slot_copy *copy, uint64_t lsn, struct message *message)
{
    struct commands *page = &copy->page;

    if (!pass_history(copy, lsn, true, message))
        return false;
    if (!flush(copy))
        return false;
    if (page->count == 0)
        return true;
    copy->out.db = page->db;
    return copy->send(copy->context, buffer_bytes(&page->text), page->count);
}

static void begin_page(struct slot_copy *copy, const struct partition_bits *wanted)
{
    struct commands *page = &copy->page;

    page->text.size = 0;
    page->count = 0;
    page->db = -1;                  /* what the history has selected by then is not known yet */
    if (page->text.capacity > 4 * PAGE_BYTES)
        buffer_release(&page->text);
    partitions_own(copy->engine->partitions, &copy->claim, wanted);
}

/* Returns the position of what was read. */
static uint64_t end_page(struct slot_copy *copy)
{
    uint64_t lsn = history_end(&copy->engine->history);

    partitions_give(copy->engine->partitions, &copy->claim, 0);
    return lsn;
}

static bool is_full(const struct slot_copy *copy) { return copy->page.text.size > PAGE_BYTES; }

static bool send_stale(struct slot_copy *copy, struct message *message)
{
    struct partitions *all = copy->engine->partitions;
    struct partition_bits wanted = { { 0 } };
    size_t count = copy->stale_count;
    bool good = true;
    uint64_t lsn;

    for (size_t i = 0; i < count; i++)
        partition_bits_add(&wanted, partition_index(all, copy->stale[i].hash));
    begin_page(copy, &wanted);
    for (size_t i = 0; i < count && good; i++) {
        good = add_key(copy, &copy->stale[i], true, message);
        if (is_full(copy))
            count = i + 1;              /* the others stay stale */
    }
    lsn = end_page(copy);
    if (!good || !send_page(copy, lsn, message))
        return false;
    for (size_t i = 0; i < count; i++)
        mem_free((char *)copy->stale[i].name.data);
    copy->stale_count -= count;
    memmove(copy->stale, copy->stale + count, copy->stale_count * sizeof(*copy->stale));
    return true;
}

static void go_to_slot(struct slot_copy *copy, struct place *place, unsigned from)
{
    struct slot_range range;
    unsigned slot = slots_next(&copy->slots, from, &range) ? range.first : SLOT_COUNT;

    *place = (struct place){ .slot = slot, .next = slot < SLOT_COUNT ? slot_first_hash((uint16_t)slot) : 0 };
}

/* `until`: the last hash of its database that was read. */
static void go_on_after(struct slot_copy *copy, struct place *place, uint64_t until)
{
    bool has_more = until != slot_last_hash((uint16_t)place->slot), is_last = place->db + 1 == copy->engine->partitions->db_count;

    if (has_more)
        place->next = until + 1;
    else if (!is_last)
        *place = (struct place){ .slot = place->slot, .db = place->db + 1, .next = slot_first_hash((uint16_t)place->slot) };
    else
        go_to_slot(copy, place, place->slot + 1);
}

/* A page while it is read. */
struct reading_page {
    struct place place;             /* up to there */
    size_t count;                   /* keys */
};

/* Adds keys until the page is full; those with one hash together. Returns how many; *good false: one can't be read. */
static size_t add_keys(struct slot_copy *copy, const struct tier_wanted *sorted, const struct scan_page *page, bool *good, struct message *message)
{
    size_t i = 0;

    if (copy->bulk != NULL && page->count > 0)          /* the cold ones together, as far as they are small */
        tier_bulk_load(copy->bulk, sorted, page->count, page->text.data, PAGE_BYTES, goes_on, copy->engine);
    while (i < page->count && *good && (i == 0 || !is_full(copy) || sorted[i].hash == sorted[i - 1].hash)) {
        *good = add_key(copy, &(struct copied_key){ sorted[i].db, bytes_of(page->text.data + sorted[i].key_at, sorted[i].key_size), sorted[i].hash },
            false, message);
        i++;
    }
    return i;
}

/* Reads keys of one database. False: it has failed. */
static bool read_keys(struct slot_copy *copy, struct reading_page *reading, struct message *message)
{
    struct reader reader = { .as = &copy->claim, .may_block = true };
    struct scan_page page = { 0 };
    uint64_t until = tier_slot_page(copy->engine->tier, copy->engine->partitions, &reader, reading->place.db, (uint16_t)reading->place.slot,
        reading->place.next, PAGE_KEYS - reading->count, &page);
    struct tier_wanted *sorted = sort_keys(copy, reading->place.db, &page);
    bool good = page.status == STATUS_OK || fail(message, "the store can't be read");
    size_t count = good ? add_keys(copy, sorted, &page, &good, message) : 0;

    if (count < page.count)
        until = sorted[count].hash - 1;
    reading->count += count;
    go_on_after(copy, &reading->place, until);
    mem_free(sorted);
    scan_page_release(&page);
    return good;
}

/* The next keys of the slot, of as many databases as the page has room for. */
static bool send_keys(struct slot_copy *copy, struct message *message)
{
    struct partition_bits wanted = { { 0 } };
    struct reading_page reading = { .place = copy->place };
    bool good = true;
    uint64_t lsn;

    partition_bits_add(&wanted, partition_index(copy->engine->partitions, copy->place.next));
    begin_page(copy, &wanted);
    while (good && reading.count < PAGE_KEYS && reading.place.slot == copy->place.slot && !is_full(copy))
        good = read_keys(copy, &reading, message);
    lsn = end_page(copy);
    if (!good || !send_page(copy, lsn, message))
        return false;
    copy->key_count += reading.count;
    copy->place = reading.place;
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
    copy->history_db = -1;
    reserve_keys(copy, COMMAND_KEYS);
    go_to_slot(copy, &copy->place, 0);
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
        mem_free((char *)copy->stale[i].name.data);
    mem_free(copy->stale);
    mem_free(copy->found);
    mem_free(copy->keys);
    buffer_release(&copy->out.text);
    buffer_release(&copy->page.text);
    mem_free(copy);
}

bool slot_copy_has_keys_left(const struct slot_copy *copy) { return copy->place.slot < SLOT_COUNT || copy->stale_count > 0; }

uint64_t slot_copy_lag(const struct slot_copy *copy)
{
    return history_end(&copy->engine->history) - feed_position(&copy->feed);
}

uint64_t slot_copy_key_count(const struct slot_copy *copy) { return copy->key_count; }

bool slot_copy_step(struct slot_copy *copy, struct message *message)
{
    if (copy->stale_count > 0)
        return send_stale(copy, message);
    if (copy->place.slot < SLOT_COUNT)
        return send_keys(copy, message);
    return pass_history(copy, history_handed(&copy->engine->history), false, message) && flush(copy);
}

bool slot_copy_finish(struct slot_copy *copy, uint64_t lsn, struct message *message)
{
    if (!pass_history(copy, lsn, true, message) || !flush(copy))
        return false;
    return !slot_copy_has_keys_left(copy) || fail(message, "keys are left");
}
