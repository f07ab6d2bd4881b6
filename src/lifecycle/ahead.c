#include "lifecycle/ahead.h"

#include "base/mem.h"
#include "base/siphash.h"
#include "base/text.h"
#include "call/command_keys.h"
#include "lifecycle/fetch.h"

enum {
    KEYS_MAX = 64,              /* of one command */
    NEAR_BUCKET = 8,            /* commands before one runs its bucket is asked for, ... */
    NEAR_ENTRY = 4,             /* ... and its entry */
};

static const struct command *find_command(const struct engine *engine, const struct bytes *args, int arg_count)
{
    const struct command *command = command_find_logged_call(engine->commands, args, arg_count);

    if (command == NULL || arg_count < (command->arity < 0 ? -command->arity : command->arity))
        return NULL;
    return command;
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

/* Returns whether the old value does not matter: replay sends no events. */
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

struct ahead *ahead_create(struct engine *engine, uint64_t commands)
{
    struct ahead *ahead;
    uint64_t count = AHEAD_COMMANDS_MIN;

    while (count < commands)
        count *= 2;
    ahead = mem_zalloc(sizeof(*ahead) + count * sizeof(ahead->recent[0]));
    ahead->engine = engine;
    ahead->recent_count = count;
    if (engine->tier != NULL)
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

void ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count)
{
    const struct command *command = find_command(ahead->engine, args, arg_count);
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
    if (ahead->fetch == NULL || ahead->run < ahead->barrier)
        return;
    count = command_keys(command, args, arg_count, keys, KEYS_MAX);
    for (int i = 0; i < count && i < KEYS_MAX; i++) {
        struct bytes key = args[keys[i].arg];
        uint64_t hash = key_hash(&ahead->engine->partitions->seed, key);

        if (keys[i].flags & KEY_NOT_KEY)
            continue;
        if (!is_overwritten(keys[i].flags))
            fetch_add(ahead->fetch, ahead->seen - 1, key, hash, ahead->db);
        if (i == 0)
            *recent_at(ahead, ahead->seen - 1) = (struct ahead_key){ hash, ahead->db };
    }
}

void ahead_submit(struct ahead *ahead)
{
    if (ahead->fetch != NULL)
        fetch_submit(ahead->fetch, ahead->run);
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
