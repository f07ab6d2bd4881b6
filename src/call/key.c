#include "call/key.h"

#include "base/check.h"
#include "base/compiler.h"
#include "call/witness.h"
#include "keyspace/pages.h"
#include "keyspace/uses.h"
#include "resp/request.h"
#include "value/hash.h"
#include "value/paged_times.h"
#include "value/string.h"

enum { DEAD_FIELDS_A_COMMAND = 1000 };

/* Not the key that was expected next. */
static const struct call_key *search_call_key(struct call *call, int arg)
{
    for (int i = 0; i < call->key_count; i++) {
        int index = call->key_next + i;

        if (index >= call->key_count)
            index -= call->key_count;
        if (call->keys[index].arg == arg) {
            call->key_next = index;
            return &call->keys[index];
        }
    }
    return NULL;
}

/* Returns the key that the executor found for an argument. Handlers open their keys in order. */
static inline const struct call_key *find_call_key(struct call *call, int arg)
{
    const struct call_key *next = &call->keys[call->key_next];

    return LIKELY(call->key_next < call->key_count && next->arg == arg) ? next : search_call_key(call, arg);
}

/* A command about an expired or evicted key, logged before the call's own: `word` and the key, with room for more arguments. */
static struct propagation *propagate_expired(struct call *call, int db, struct bytes word, struct bytes name, size_t more)
{
    struct propagation *propagation = arena_alloc(call->arena, sizeof(*propagation));

    *propagation = (struct propagation){ .db = db, .args = arena_alloc(call->arena, (2 + more) * sizeof(struct bytes)), .arg_count = 2 };
    propagation->args[0] = word;
    propagation->args[1] = arena_copy(call->arena, name);
    if (call->expired_last != NULL)
        call->expired_last->next = propagation;
    else
        call->expired = propagation;
    call->expired_last = propagation;
    return propagation;
}

static void mark_absent(struct key *key)
{
    key->handle = 0;
    key->present = false;
    key->expire_ms = -1;
    key->value = (struct value){ 0 };
}

/* Removes the entry from the keyspace; its object, if there is one, becomes the caller's. */
static struct value detach_entry(struct key *key)
{
    struct keyspace_watch *watch = &key->call->partitions->watch;
    enum record_state record;
    struct value value;

    keyspace_assert_locked(key->keyspace);
    partition_changing(key->keyspace, key->hash, key->handle);
    record = entry_record(keyspace_entry(key->keyspace, key->handle));
    keyspace_remove(key->keyspace, key->hash, key->handle, &value);
    if (watch->removed != NULL)
        watch->removed(watch->context, key->keyspace, key->hash, key->name, record);
    key->call->handles_stale = true;
    key->call->grown = NULL;            /* it may have been this value */
    return value;
}

static void free_value(struct call *call, struct value value)
{
    call->turn->hooks->free_later(call->turn->hooks->context, value);
}

/* The same, but the object is freed, now or later. */
static void remove_entry(struct key *key, enum key_removal removal)
{
    struct value value = detach_entry(key);

    keyspace_assert_locked(key->keyspace);
    pages_drop_of(key->keyspace, &value, key->call->turn->now_ms);
    if (value_is_object(&value)) {
        if (removal == KEY_REMOVE_LAZILY)
            free_value(key->call, value);
        else
            value_free(&value);
    }
}

void key_event(const struct key *key, enum event event)
{
    const struct key_hooks *hooks = key->call->turn->hooks;

    if (UNLIKELY(key->keyspace == NULL))
        return;
    hooks->event(hooks->context, key, event);
}

static inline void count_read(const struct key *key)
{
    turn_count(key->call->turn, key->present ? STAT_KEYSPACE_HITS : STAT_KEYSPACE_MISSES, 1);
    key->call->hits += key->present;
    if (__builtin_expect(!key->present, 0))
        key_event(key, EVENT_KEYMISS);
}

void key_count_read(const struct key *key)
{
    count_read(key);
}

static void remove_before_call(struct key *key, enum statistic stat, enum event event)
{
    struct call *call = key->call;

    propagate_expired(call, key->keyspace->db, BYTES("DEL"), key->name, 0);
    remove_entry(key, KEY_REMOVE_LAZILY);
    mark_absent(key);
    turn_count(call->turn, stat, 1);
    key_event(key, event);
}

static void expire_now(struct key *key)
{
    remove_before_call(key, STAT_EXPIRED_KEYS, EVENT_EXPIRED);
}

void key_evict(struct call *call, struct keyspace *keyspace, const struct call_key *found, uint32_t handle)
{
    struct key key = { .call = call, .keyspace = keyspace, .name = call->args[found->arg], .hash = found->hash, .handle = handle, .present = true };

    remove_before_call(&key, STAT_EVICTED_KEYS, EVENT_EVICTED);
}

/* The HDELs of expired fields. */
struct dead_fields {
    struct key *key;
    struct propagation *propagation;    /* the one being filled */
};

static void note_dead(void *context, struct bytes field)
{
    struct dead_fields *dead = context;
    struct call *call = dead->key->call;

    if (dead->propagation == NULL || dead->propagation->arg_count == 2 + DEAD_FIELDS_A_COMMAND)
        dead->propagation = propagate_expired(call, dead->key->keyspace->db, BYTES("HDEL"), dead->key->name, DEAD_FIELDS_A_COMMAND);
    dead->propagation->args[dead->propagation->arg_count++] = arena_copy(call->arena, field);
}

/* A hash whose last field has expired is removed, like an expired key. */
static void remove_dead_hash(struct key *key)
{
    struct call *call = key->call;

    turn_count(call->turn, STAT_EXPIRED_FIELDS, hash_count(&key->value));
    key_event(key, EVENT_HEXPIRED);
    propagate_expired(call, key->keyspace->db, BYTES("DEL"), key->name, 0);
    remove_entry(key, KEY_REMOVE_LAZILY);
    mark_absent(key);
    key_event(key, EVENT_DEL);
}

static void ignore_dead(void *context, struct bytes field)
{
    (void)context;
    (void)field;
}

/* The expired fields have to stay in the hash: the caller reads a copy without them, or, if it is in pages, only does not see them. */
static void hide_dead_fields(struct key *key)
{
    struct call *call = key->call;
    struct call_copy *copy;

    if (value_is_paged(&key->value)) {
        paged_times_hide(&key->value, call->turn->now_ms, arena_alloc(call->arena, sizeof(struct paged_times)), &key->value);
        return;
    }
    copy = arena_alloc(call->arena, sizeof(*copy));
    *copy = (struct call_copy){ .next = call->copies, .value = value_copy(&key->value) };
    hash_remove_expired(&copy->value, call->turn->now_ms, SIZE_MAX, ignore_dead, NULL);
    call->copies = copy;
    key->value = copy->value;
}

/* Whether the call waits for no removal of fields of the hash in pages: it only reads, and they are many, or not all of their pages are there. */
static bool hides_dead_fields(const struct key *key, enum key_access access)
{
    bool has;
    size_t ready;

    if (!value_is_paged(&key->value) || access != KEY_FOR_READING)
        return false;
    has = hash_has_expired(&key->value, key->call->turn->now_ms, HASH_EXPIRED_IN_PAGES + 1, &ready);
    paged_forget_wanted(paged_of(&key->value)->access);
    return !has || ready > HASH_EXPIRED_IN_PAGES;
}

/* The entry and its value are about to change. */
static struct entry *begin_removal(struct key *key)
{
    const struct key_hooks *hooks = key->call->turn->hooks;
    struct entry *entry = keyspace_entry(key->keyspace, key->handle);

    keyspace_assert_locked(key->keyspace);
    if (entry->flags & ENTRY_LATCHED) {     /* the executor did not wait for it, as it did not know */
        hooks->unlatch(hooks->context, key->keyspace, key->hash, key->name);
        key->handle = keyspace_find(key->keyspace, key->hash, key->name);
    }
    partition_changing(key->keyspace, key->hash, key->handle);
    entry = keyspace_entry(key->keyspace, key->handle);
    entry_read_value(entry, &key->value);
    return entry;
}

/* Returns the entry; NULL if the key was removed with its last field. */
static struct entry *remove_some_dead(struct key *key)
{
    struct call *call = key->call;
    struct dead_fields dead = { key, NULL };
    struct entry *entry = begin_removal(key);
    size_t count;

    keyspace_assert_locked(key->keyspace);
    count = hash_remove_expired(&key->value, call->turn->now_ms, SIZE_MAX, note_dead, &dead);
    turn_count(call->turn, STAT_EXPIRED_FIELDS, count);
    if (count > 0)
        keyspace_mark_dirty(key->keyspace, entry);
    key->handle = keyspace_set_value(key->keyspace, key->hash, key->handle, &key->value);
    keyspace_note_times(key->keyspace, key->hash, key->handle, call->turn->now_ms);
    call->handles_stale = true;
    if (count > 0)                      /* else the time was only a bound */
        key_event(key, EVENT_HEXPIRED);
    if (hash_count(&key->value) > 0)
        return keyspace_entry(key->keyspace, key->handle);
    remove_entry(key, KEY_REMOVE_LAZILY);
    mark_absent(key);
    key_event(key, EVENT_DEL);
    return NULL;
}

/* Removes fields that have expired, for a caller that reads or changes the value, or hides them; a caller that does neither leaves them. Returns
 * the entry; NULL if no field is left. */
static struct entry *remove_dead_fields(struct key *key, enum key_access access)
{
    struct call *call = key->call;
    int64_t now_ms = call->turn->now_ms, next_ms = hash_next_expiry(&key->value), last_ms = hash_last_expiry(&key->value);
    struct entry *entry = keyspace_entry(key->keyspace, key->handle);
    bool all_are_dead = last_ms >= 0 && last_ms <= now_ms;

    if (call->turn->clock_stopped || next_ms < 0 || next_ms > now_ms)
        return entry;
    if (!all_are_dead && ((access != KEY_FOR_READING && access != KEY_FOR_WRITING) || key->is_overwritten))
        return entry;
    if (!all_are_dead && !call->keeps_expired && !hides_dead_fields(key, access))
        return remove_some_dead(key);
    if (!all_are_dead) {
        hide_dead_fields(key);
        if (hash_count(&key->value) > 0)
            return entry;
    }
    if (call->keeps_expired) {
        mark_absent(key);
        return NULL;
    }
    (void)begin_removal(key);
    remove_dead_hash(key);
    return NULL;
}

static void touch_entry(struct key *key, struct entry *entry, enum key_access access)
{
    struct call *call = key->call;

    keyspace_assert_locked(key->keyspace);
    if (access == KEY_FOR_LOOKING || call->command->flags & COMMAND_NO_TOUCH)
        return;
    if (entry->flags & ENTRY_PINNED)
        turn_count(call->turn, STAT_COLD_HITS, 1);
    else
        turn_count(call->turn, STAT_HOT_HITS, 1);
    partition_note_use(call->partitions, key->keyspace, key->hash, entry, access == KEY_FOR_OVERWRITING ? KEY_OVERWRITTEN : KEY_USED);
    if (UNLIKELY(call->client->flags & CLIENT_NO_TOUCH) && !(call->command->flags & COMMAND_TOUCHES))
        return;
    if (UNLIKELY(entry->flags & ENTRY_PINNED))
        call->turn->hooks->used(call->turn->hooks->context, key->keyspace, key->hash, key->name);
    heat_touch(&call->turn->heat, entry, call->turn->minutes, &call->turn->random);
    uses_touch(key->keyspace, entry);
}

static struct pages_access *new_access(const struct key *key)
{
    return arena_alloc(key->call->arena, sizeof(struct pages_access));
}

/* The value's elements are in pages. Those of one that is only overwritten may not be locked, and are not looked at. */
static void attach_pages(struct key *key)
{
    struct call *call = key->call;

    keyspace_assert_locked(key->keyspace);
    if (UNLIKELY(pages_are_elsewhere(key->keyspace, &key->value)) && !call_has_locked(call, pages_partition(call->partitions, paged_of(&key->value)->id))) {
        paged_of(&key->value)->access = NULL;
        return;
    }
    pages_attach(new_access(key), key->keyspace, &key->value, &call->turn->limits, call->turn->now_ms);
}

/* A large table that was stored before tier-page-threshold said so goes into pages when it is used. */
static struct entry *take_into_pages(struct key *key)
{
    struct call *call = key->call;
    struct value table = { 0 };

    keyspace_assert_locked(key->keyspace);
    partition_changing(key->keyspace, key->hash, key->handle);
    if (pages_take(new_access(key), key->keyspace, key->hash, &call->turn->limits, call->turn->now_ms, &key->value, &table)) {
        struct entry *entry = keyspace_entry(key->keyspace, key->handle);

        keyspace_mark_dirty(key->keyspace, entry);
        entry_replace_value(entry, &key->value);
        free_value(call, table);
    }
    return keyspace_entry(key->keyspace, key->handle);
}

void key_use_in_parts(struct key *key, uint64_t size)
{
    struct call *call = key->call;
    const struct value_limits *limits = &call->turn->limits;
    char digits[TEXT_INT_SIZE];
    struct bytes bytes = bytes_of("", 0);
    struct blob *consumed = NULL;
    struct value blocks;

    if (LIKELY(limits->page_threshold == 0) || key->keyspace == NULL || (key->present && string_is_in_blocks(&key->value)))
        return;
    keyspace_assert_locked(key->keyspace);
    if (key->present)
        bytes = string_bytes(&key->value, digits);
    if (size < bytes.size)
        size = bytes.size;
    if (!pages_takes_string(size, limits) || (key->present && entry_is_held(key->keyspace, keyspace_entry(key->keyspace, key->handle))))
        return;
    if (key->present)
        partition_changing(key->keyspace, key->hash, key->handle);
    if (!value_is_object(&key->value))
        bytes = arena_copy(call->arena, bytes);             /* pages are entries, too */
    else if (!blob_is_shared(key->value.object))
        consumed = key->value.object;
    if (!pages_take_string(new_access(key), key->keyspace, key->hash, limits, call->turn->now_ms, bytes, consumed, size, &blocks))
        return;
    if (key->present) {
        keyspace_mark_dirty(key->keyspace, keyspace_entry(key->keyspace, key->handle));
        if (value_is_object(&key->value))
            free_value(call, key->value);
        key->handle = keyspace_set_value(key->keyspace, key->hash, key->handle, &blocks);
        call->handles_stale = true;
    }
    key->value = blocks;
}

bool key_copy_value(const struct key *from, const struct key *to, struct value *copy)
{
    struct call *call = from->call;

    if (UNLIKELY(value_is_paged(&from->value)) && to->keyspace != NULL && call->turn->limits.page_threshold > 0) {
        keyspace_assert_locked(to->keyspace);
        switch (pages_copy(new_access(to), to->keyspace, to->hash, &call->turn->limits, call->turn->now_ms, &from->value, copy)) {
        case PAGES_COPIED:
            return true;
        case PAGES_LACKED:
            key_ask(from);
            return false;
        case PAGES_NONE:
            break;
        }
    }
    *copy = value_copy(&from->value);
    if (!value_is_object(copy) && copy->encoding != STRING_INT)
        copy->bytes = arena_copy(call->arena, copy->bytes);
    return true;
}

/* Numbers that are drawn from here on are the same when the call runs again. The worker's generator is there again afterwards. */
static void begin_draws(const struct key *key)
{
    struct client_request *request = &key->call->requester->request;
    struct turn *turn = key->call->turn;

    if (!request->draws_again)
        random_init(&request->random, random_next(&turn->random));
    request->draws_again = false;
    if (key->call->random_before == NULL) {
        key->call->random_before = arena_alloc(key->call->arena, sizeof(struct random));
        *key->call->random_before = turn->random;
    }
    turn->random = request->random;
}

void key_ask(const struct key *key)
{
    key->call->lacks = pages_access_of(&key->value);
    key->call->requester->request.draws_again = key->call->random_before != NULL;
}

static void open_live(struct key *key, struct entry *entry, enum key_access access)
{
    keyspace_assert_locked(key->keyspace);
    key->present = true;
    entry_read_value(entry, &key->value);
    if (UNLIKELY(pages_takes(&key->value, &key->call->turn->limits)) && (access == KEY_FOR_READING || access == KEY_FOR_WRITING) &&
        !(key->call->command->flags & COMMAND_NO_TOUCH) && !entry_is_held(key->keyspace, entry))
        entry = take_into_pages(key);
    else if (UNLIKELY(value_is_paged(&key->value)))
        attach_pages(key);
    if (UNLIKELY(entry_has_times(entry))) {
        entry = remove_dead_fields(key, access);
        if (entry == NULL)
            return;
    }
    touch_entry(key, entry, access);
    if (UNLIKELY(value_is_paged(&key->value)) && key->call->command->need.kind == NEEDS_ASKED && paged_has_table(&key->value))
        begin_draws(key);               /* nothing is drawn from values without a table */
    /* Objects are changed in place before key_changed is called: a checkpoint needs the old value now. */
    if (access == KEY_FOR_WRITING || access == KEY_FOR_OVERWRITING)
        partition_changing(key->keyspace, key->hash, key->handle);
    if (access == KEY_FOR_WRITING)
        witness_note(key);
}

static bool open_found(struct key *key, enum key_access access)
{
    struct call *call = key->call;
    struct entry *entry;

    if (key->handle != 0) {
        entry = keyspace_entry(key->keyspace, key->handle);
        key->expire_ms = entry_expire_ms(entry);
        if (key->expire_ms >= 0 && key->expire_ms <= call->turn->now_ms && !call->turn->clock_stopped) {
            if (call->keeps_expired) {
                mark_absent(key);
            } else if (entry->flags & ENTRY_LATCHED ||
                (entry_is_held(key->keyspace, entry) && (access == KEY_FOR_READING || access == KEY_FOR_LOOKING))) {
                /* No caller sees the key any more, but the thread that encodes it needs its object. The call may depend on its
                 * absence, so replay must not find it either. */
                if (call->command->flags & COMMAND_WRITE)
                    propagate_expired(call, key->keyspace->db, BYTES("DEL"), key->name, 0);
                mark_absent(key);
            } else {
                expire_now(key);
            }
        } else {
            open_live(key, entry, access);
        }
    }
    if (access == KEY_FOR_READING)
        count_read(key);
    if (!key->present && access != KEY_FOR_LOOKING && access != KEY_FOR_OVERWRITING &&
        !(call->command->flags & COMMAND_NO_TOUCH))
        turn_count(call->turn, STAT_TIER_MISSES, 1);
    return key->present;
}

static inline void key_init(struct key *key, struct call *call, int db, const struct call_key *found)
{
    struct partition *partition = &call->partitions->partitions[partition_index(call->partitions, found->hash)];

    ASSERT_LOCKED(partition);
    *key = (struct key){
        .call = call,
        .keyspace = partition_keyspace(partition, db),
        .name = call->args[found->arg],
        .hash = found->hash,
        .is_overwritten = call_key_is_overwritten(found),
        .expire_ms = -1,
    };
}

static bool open_undeclared(struct call *call, int arg, struct key *key)
{
    *key = (struct key){ .call = call, .name = call->args[arg], .expire_ms = -1 };
    call->undeclared = true;
    call->failed = true;
    return false;
}

bool key_open(struct call *call, int arg, enum key_access access, struct key *key)
{
    const struct call_key *found = find_call_key(call, arg);

    if (UNLIKELY(found == NULL))
        return open_undeclared(call, arg, key);
    key_init(key, call, call->db, found);
    key->handle = call->handles_stale ? keyspace_find(key->keyspace, key->hash, key->name) : found->handle;
    return open_found(key, access);
}

bool key_open_in(struct call *call, int db, int arg, enum key_access access, struct key *key)
{
    const struct key_hooks *hooks = call->turn->hooks;
    const struct call_key *found = find_call_key(call, arg);

    if (UNLIKELY(found == NULL))
        return open_undeclared(call, arg, key);
    key_init(key, call, db, found);
    keyspace_assert_locked(key->keyspace);
    key->handle = keyspace_find(key->keyspace, key->hash, key->name);
    if (key->handle == 0 && (access != KEY_FOR_OVERWRITING || pages_may_be_in(key->keyspace)) && hooks->load_in_place != NULL) {
        call->handles_stale = true;
        if (!hooks->load_in_place(hooks->context, key->keyspace, key->hash, key->name)) {
            reply_error(call, ERR_TIER_READ);
            return false;
        }
        key->handle = keyspace_find(key->keyspace, key->hash, key->name);
    }
    if (key->handle != 0 && access != KEY_FOR_READING && access != KEY_FOR_LOOKING &&
        keyspace_entry(key->keyspace, key->handle)->flags & ENTRY_LATCHED) {
        hooks->unlatch(hooks->context, key->keyspace, key->hash, key->name);
        key->handle = keyspace_find(key->keyspace, key->hash, key->name);
    }
    return open_found(key, access);
}

bool key_open_as(struct call *call, int arg, enum key_access access, enum value_type type, struct key *key)
{
    if (!key_open(call, arg, access, key))
        return LIKELY(key->keyspace != NULL);
    if (LIKELY(key->value.type == type))
        return true;
    reply_error(call, ERR_WRONG_TYPE);
    return false;
}

/* A large argument has its own memory, which becomes the value: nothing is copied under the lock. */
void key_set_string(struct key *key, struct bytes bytes)
{
    const struct client *client = key->call->client;
    struct blob *blob = request_large_find(client->large.list, client->large.count, bytes);

    key_leave_value(key);
    if (UNLIKELY(blob != NULL))
        key->value = string_value_of_blob(blob_hold(blob));
    else
        string_set(&key->value, bytes);
}

static void create_entry(struct key *key)
{
    struct call *call = key->call;
    struct keyspace_watch *watch = &call->partitions->watch;
    enum record_state record = RECORD_NONE;

    keyspace_assert_locked(key->keyspace);
    if (watch->record_of_new != NULL)
        record = watch->record_of_new(watch->context, key->keyspace, key->hash, key->name);
    if (record == RECORD_UNKNOWN)
        turn_count(call->turn, STAT_BLIND_WRITES, 1);
    key->handle = keyspace_insert(key->keyspace, key->hash, key->name, &key->value, key->expire_ms, record, call->turn->now_ms);
    CHECK(key->handle != 0);
    if (record != RECORD_NONE)      /* a cold key is overwritten: it is as hot as one that is loaded */
        keyspace_entry(key->keyspace, key->handle)->uses = watch->uses_of_new(watch->context, key->keyspace, key->hash) & USES_MAX;
    partition_note_use(call->partitions, key->keyspace, key->hash, keyspace_entry(key->keyspace, key->handle), KEY_CREATED);
    key_event(key, EVENT_NEW);
}

static inline bool is_inline(const struct value *value)
{
    return value->type == VALUE_STRING && (value->encoding == STRING_EMBEDDED || value->encoding == STRING_RAW);
}

/* Only inline values may need a block of another size, and may be at another place afterwards. Returns the entry. */
static inline struct entry *store_value(struct key *key, struct entry *entry)
{
    keyspace_assert_locked(key->keyspace);
    if (!entry_is_inline(entry) && !is_inline(&key->value)) {
        entry_replace_value(entry, &key->value);
        return entry;
    }
    key->handle = keyspace_set_value(key->keyspace, key->hash, key->handle, &key->value);
    entry = keyspace_entry(key->keyspace, key->handle);
    entry_read_value(entry, &key->value);
    return entry;
}

/* Puts value and expiry into the entry, which is created if needed. */
static void store_entry(struct key *key)
{
    struct call *call = key->call;
    struct value table = { 0 };
    struct entry *entry;

    ASSERT_LOCKED(key->keyspace->partition);
    keyspace_assert_locked(key->keyspace);
    if (UNLIKELY(pages_takes(&key->value, &call->turn->limits)))
        (void)pages_take(new_access(key), key->keyspace, key->hash, &call->turn->limits, call->turn->now_ms, &key->value, &table);
    if (key->handle == 0) {
        create_entry(key);
        entry = keyspace_entry(key->keyspace, key->handle);
        entry_read_value(entry, &key->value);
    } else {
        entry = keyspace_entry(key->keyspace, key->handle);
        partition_changing(key->keyspace, key->hash, key->handle);
        keyspace_mark_dirty(key->keyspace, entry);
        entry = store_value(key, entry);
        if (key->expire_ms != entry_expire_ms(entry)) {
            key->handle = keyspace_set_expire(key->keyspace, key->hash, key->handle, key->expire_ms, call->turn->now_ms);
            entry = keyspace_entry(key->keyspace, key->handle);
            entry_read_value(entry, &key->value);
        }
    }
    if (UNLIKELY(key->replaced)) {
        pages_drop_of(key->keyspace, &key->old, call->turn->now_ms);
        free_value(call, key->old);
        key->replaced = false;
    }
    if (UNLIKELY(value_is_object(&table)))
        free_value(call, table);
    call->grown = NULL;
    if (UNLIKELY(value_is_paged(&key->value))) {
        call->grown = paged_of(&key->value)->access != NULL ? pages_access_of(&key->value) : NULL;
        if (pages_were_renamed(key->hash, &key->value))
            call->partitions->has_renamed = true;
    }
    key->present = true;
    if (UNLIKELY(entry_has_times(entry)))
        keyspace_note_times(key->keyspace, key->hash, key->handle, call->turn->now_ms);
    call->handles_stale = true;
}

/* Removes the value of an undeclared key. The handler may still use its object, so the object is freed after the call. */
static void drop_value(struct key *key)
{
    struct call *call = key->call;
    struct call_copy *copy = key->present ? call->copies : NULL;

    if (key->replaced)
        free_value(call, key->old);
    key->replaced = false;
    while (copy != NULL && copy->key != key)
        copy = copy->next;
    if (copy == NULL) {
        copy = arena_alloc(call->arena, sizeof(*copy));
        *copy = (struct call_copy){ .next = call->copies, .key = key };
        call->copies = copy;
    }
    copy->value = value_is_object(&key->value) ? key->value : (struct value){ 0 };
    key->present = true;
}

void key_changed(struct key *key, enum event event)
{
    if (UNLIKELY(key->keyspace == NULL)) {
        drop_value(key);
        return;
    }
    store_entry(key);
    key->call->changed = true;
    key->call->change_count++;
    key_event(key, event);
}

void key_recode(struct key *key)
{
    store_entry(key);
}

/* The key was opened for overwriting and has no entry: if it may be cold, its record must not come back. */
static void bury_unseen(struct key *key)
{
    struct keyspace_watch *watch = &key->call->partitions->watch;

    if (watch->record_of_new != NULL)
        watch->removed(watch->context, key->keyspace, key->hash, key->name,
            watch->record_of_new(watch->context, key->keyspace, key->hash, key->name));
}

void key_remove(struct key *key, enum key_removal removal, enum event event)
{
    struct call *call = key->call;

    if (UNLIKELY(key->keyspace == NULL))
        return;
    ASSERT_LOCKED(key->keyspace->partition);
    if (key->handle != 0)
        remove_entry(key, removal);
    else
        bury_unseen(key);
    mark_absent(key);
    call->changed = true;
    call->change_count++;
    key_event(key, event);
}

struct value key_detach(struct key *key, int db)
{
    struct call *call = key->call;
    struct value value = key->value;

    ASSERT_LOCKED(key->keyspace->partition);
    CHECK(key->present && !key->replaced);
    if (value.type == VALUE_STRING && (value.encoding == STRING_EMBEDDED || value.encoding == STRING_RAW))
        value.bytes = arena_copy(call->arena, value.bytes);
    if (UNLIKELY(value_is_paged(&value)) && db != key->keyspace->db) {
        value = value_copy(&value);             /* pages don't leave their database */
        remove_entry(key, KEY_REMOVE_NOW);
    } else {
        detach_entry(key);
    }
    mark_absent(key);
    call->changed = true;
    return value;
}

uint8_t key_heat(const struct key *key)
{
    const struct entry *entry = keyspace_entry(key->keyspace, key->handle);

    return heat_now(&key->call->turn->heat, entry->heat, entry->heat_minutes, key->call->turn->minutes);
}

int64_t key_idle_s(const struct key *key)
{
    const struct entry *entry = keyspace_entry(key->keyspace, key->handle);

    return (int64_t)heat_idle(entry->heat_minutes, key->call->turn->minutes) * 60;
}

void key_set_heat(struct key *key, uint8_t heat)
{
    struct entry *entry = keyspace_entry(key->keyspace, key->handle);

    entry->heat = heat;
    entry->heat_minutes = key->call->turn->minutes;
}

void key_set_idle(struct key *key, int64_t seconds)
{
    keyspace_entry(key->keyspace, key->handle)->heat_minutes = heat_minutes_before(key->call->turn->minutes, seconds);
}
