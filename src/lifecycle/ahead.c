#include "lifecycle/ahead.h"

#include <string.h>

#include "base/mem.h"
#include "base/siphash.h"
#include "base/text.h"
#include "call/command_keys.h"
#include "engine/memory.h"
#include "lifecycle/fetch.h"

enum {
    KEYS_MAX = 64,              /* of one command */
    NEAR_BUCKET = 8,            /* commands before one runs its bucket is asked for again, ... */
    NEAR_ENTRY = 4,             /* ... and its entry */
    LOADS_A_LOOK = 64,          /* memory is looked at so often */
    MEMORY_SHARE = 16,          /* loads in progress may need 1/16 of maxmemory */
    RECORD_SIZE_MIN = 64,
    RECORD_SIZE_GUESS = 16384,  /* before any was read */
};

static const struct command *find(const struct engine *engine, const struct bytes *args, int arg_count)
{
    const struct command *command = command_find_logged_call(engine->commands, args, arg_count);

    if (command == NULL || arg_count < (command->arity < 0 ? -command->arity : command->arity))
        return NULL;
    return command;
}

/* Loads need memory: with little of it left, the replay loads what it needs when it needs it, and demotion goes on between. */
static bool has_room(struct ahead *ahead)
{
    struct engine *engine = ahead->engine;
    int64_t limit = config_number(engine->config, CONFIG_MAXMEMORY);
    uint64_t size, allowed, waiting;

    if (ahead->room > 0 || limit <= 0)
        return true;
    size = tier_record_size(engine->tier);
    if (size == 0)
        size = RECORD_SIZE_GUESS;
    if (size < RECORD_SIZE_MIN)
        size = RECORD_SIZE_MIN;
    allowed = (uint64_t)limit / MEMORY_SHARE / size;
    waiting = tier_loads_waiting(engine->tier);
    if (memory_is_short(engine) || waiting >= allowed)
        return false;
    ahead->room = allowed - waiting < LOADS_A_LOOK ? allowed - waiting : LOADS_A_LOOK;
    return true;
}

/* Locks the partition of the hash. Its keyspace may be NULL. */
static struct keyspace *lock_keyspace(struct ahead *ahead, uint64_t hash, int db, struct partition **partition) UNCHECKED_LOCKS;
static struct keyspace *lock_keyspace(struct ahead *ahead, uint64_t hash, int db, struct partition **partition)
{
    struct partitions *all = ahead->engine->partitions;

    *partition = &all->partitions[partition_index(all, hash)];
    partition_lock(*partition);
    return partition_keyspace_if(*partition, db);
}

static void unlock(struct partition *partition) UNCHECKED_LOCKS;
static void unlock(struct partition *partition) { partition_unlock(partition); }

/* Its old value does not matter: replay sends no events. */
static bool is_overwritten(uint32_t flags)
{
    return (flags & (KEY_OW | KEY_RESIDENT)) == KEY_OW;
}

static void fetch_bucket(struct ahead *ahead, uint64_t hash, int db)
{
    struct partition *partition;
    struct keyspace *keyspace = lock_keyspace(ahead, hash, db, &partition);

    if (keyspace != NULL)
        __builtin_prefetch(table_bucket_at(&keyspace->table, hash));
    unlock(partition);
}

static void fetch_entry(struct ahead *ahead, uint64_t hash, int db)
{
    struct partition *partition;
    struct keyspace *keyspace = lock_keyspace(ahead, hash, db, &partition);

    if (keyspace != NULL)
        __builtin_prefetch(table_entry_at(&keyspace->table, hash));
    unlock(partition);
}

static void fetch_entry_and_tag(struct ahead *ahead, const struct ahead_hint *hint)
{
    struct partition *partition;
    struct keyspace *keyspace = lock_keyspace(ahead, hint->hash, hint->db, &partition);

    if (keyspace != NULL) {
        if (!is_overwritten(hint->flags))
            __builtin_prefetch(table_entry_at(&keyspace->table, hint->hash));
        tier_prefetch(keyspace, hint->hash);
    }
    unlock(partition);
}

static void look_up(struct ahead *ahead, struct bytes key, uint64_t hash, int db, uint32_t flags)
{
    struct load *last = ahead->loads.last;
    struct partition *partition;
    struct keyspace *keyspace;

    if (is_overwritten(flags))
        return;
    keyspace = lock_keyspace(ahead, hash, db, &partition);
    if (keyspace != NULL) {
        keyspace_assert_locked(keyspace);
        if (keyspace_find(keyspace, hash, key) == 0 && has_room(ahead))
            tier_preload(ahead->engine->tier, keyspace, hash, key, &ahead->loads);
    }
    unlock(partition);
    if (ahead->loads.last == last)
        return;
    ahead->load_count++;
    if (ahead->room > 0)
        ahead->room--;
}

/* The second step of the key that has waited longest for it, and the third. */
static void fetch_next(struct ahead *ahead)
{
    fetch_entry_and_tag(ahead, &ahead->hints[ahead->fetched++ % AHEAD_HINTS]);
}

static void look_up_next(struct ahead *ahead)
{
    const struct ahead_hint *hint = &ahead->hints[ahead->looked_up++ % AHEAD_HINTS];

    look_up(ahead, bytes_of(hint->key, hint->size), hint->hash, hint->db, hint->flags);
}

static void hint(struct ahead *ahead, struct bytes key, uint64_t hash, uint32_t flags)
{
    struct ahead_hint *next;

    if (key.size > AHEAD_KEY_COPY) {
        look_up(ahead, key, hash, ahead->db, flags);
        return;
    }
    if (ahead->asked - ahead->fetched == AHEAD_HINTS / 2)
        fetch_next(ahead);
    if (ahead->asked - ahead->looked_up == AHEAD_HINTS)
        look_up_next(ahead);
    next = &ahead->hints[ahead->asked++ % AHEAD_HINTS];
    next->hash = hash;
    next->flags = flags;
    next->db = ahead->db;
    next->size = key.size;
    if (key.size > 0)
        memcpy(next->key, key.data, key.size);
    fetch_bucket(ahead, hash, ahead->db);
}

static void submit_loads(struct ahead *ahead)
{
    if (ahead->load_count == 0)
        return;
    tier_submit(ahead->engine->tier, &ahead->loads);
    ahead->load_count = 0;
}

struct ahead *ahead_create(struct engine *engine, enum ahead_way way, uint64_t commands)
{
    struct ahead *ahead;
    uint64_t count = AHEAD_COMMANDS_MIN;

    while (count < commands)
        count *= 2;
    ahead = mem_zalloc(sizeof(*ahead) + count * sizeof(ahead->recent[0]));
    ahead->engine = engine;
    ahead->recent_count = count;
    if (way == AHEAD_IN_BULK && engine->tier != NULL)
        ahead->fetch = fetch_create(engine);
    return ahead;
}

void ahead_destroy(struct ahead *ahead)
{
    if (ahead == NULL)
        return;
    fetch_destroy(ahead->fetch);
    mem_free(ahead);
}

static struct ahead_key *recent_at(struct ahead *ahead, uint64_t number)
{
    return &ahead->recent[number & (ahead->recent_count - 1)];
}

static void note_key(struct ahead *ahead, struct bytes key, uint64_t hash, uint32_t flags)
{
    if (ahead->fetch == NULL)
        hint(ahead, key, hash, flags);
    else if (!is_overwritten(flags))
        fetch_add(ahead->fetch, ahead->seen - 1, key, hash, ahead->db);
}

void ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count)
{
    const struct command *command = find(ahead->engine, args, arg_count);
    struct call_key keys[KEYS_MAX];
    int64_t number;
    int count;

    recent_at(ahead, ahead->seen)->db = -1;
    ahead->seen++;
    if (command == NULL)
        return;
    if (command->flags & COMMAND_EXCLUSIVE)
        ahead->barrier = ahead->seen;
    if (command->keys == NULL) {
        if (arg_count == 2 && bytes_is(args[0], "select") && text_to_int(args[1], &number) && number >= 0 &&
            number < ahead->engine->partitions->db_count)
            ahead->db = (int)number;
        return;
    }
    if (ahead->engine->tier == NULL || ahead->run < ahead->barrier)
        return;
    count = command_keys(command, args, arg_count, keys, KEYS_MAX);
    for (int i = 0; i < count && i < KEYS_MAX; i++) {
        struct bytes key = args[keys[i].arg];
        uint64_t hash = hash_bytes(&ahead->engine->partitions->seed, key);

        if (keys[i].flags & KEY_NOT_KEY)
            continue;
        note_key(ahead, key, hash, keys[i].flags);
        if (i == 0)
            *recent_at(ahead, ahead->seen - 1) = (struct ahead_key){ hash, ahead->db };
    }
    if (ahead->load_count >= LOADS_A_LOOK)
        submit_loads(ahead);
}

void ahead_submit(struct ahead *ahead)
{
    if (ahead->fetch != NULL) {
        fetch_hand_over(ahead->fetch);
        fetch_await(ahead->fetch, ahead->run);
        return;
    }
    while (ahead->fetched < ahead->asked)
        fetch_next(ahead);
    while (ahead->looked_up < ahead->asked)
        look_up_next(ahead);
    submit_loads(ahead);
}

/* The command that runs `distance` commands after the next one has a key. */
static const struct ahead_key *key_after(struct ahead *ahead, uint64_t distance)
{
    const struct ahead_key *key = recent_at(ahead, ahead->run + distance);

    return ahead->run + distance < ahead->seen && key->db >= 0 ? key : NULL;
}

void ahead_ran(struct ahead *ahead, int db)
{
    const struct ahead_key *next;

    ahead->run++;
    if ((next = key_after(ahead, NEAR_BUCKET)) != NULL)
        fetch_bucket(ahead, next->hash, next->db);
    if ((next = key_after(ahead, NEAR_ENTRY)) != NULL)
        fetch_entry(ahead, next->hash, next->db);
    if (ahead->run >= ahead->seen) {        /* between two files a SELECT runs that was not seen */
        ahead->run = ahead->seen;
        ahead->db = db;
    }
}
