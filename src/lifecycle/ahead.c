#include "lifecycle/ahead.h"

#include "base/siphash.h"
#include "base/text.h"
#include "call/command_keys.h"
#include "engine/memory.h"

enum {
    KEYS_MAX = 64,              /* of one command */
    LOADS_A_LOOK = 64,          /* memory is looked at so often */
    MEMORY_SHARE = 16,          /* loads in progress may need 1/16 of maxmemory */
    RECORD_SIZE_MIN = 64,
    RECORD_SIZE_GUESS = 16384,  /* before any was read */
};

static const struct command *find(const struct engine *engine, const struct bytes *args, int arg_count)
{
    const struct command *command = command_find_logged(engine->commands, args[0]);

    if (command != NULL && command->children != NULL && arg_count > 1)
        command = command_find_child(command, args[1]);
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

static void hint(struct ahead *ahead, struct bytes key, uint32_t flags)
{
    struct engine *engine = ahead->engine;
    uint64_t hash = hash_bytes(&engine->partitions->seed, key);
    struct partition *partition = &engine->partitions->partitions[partition_index(engine->partitions, hash)];
    struct load *last = ahead->loads.last;
    struct keyspace *keyspace;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, ahead->db);
    if (keyspace != NULL && (flags & (KEY_OW | KEY_RESIDENT)) == KEY_OW) {
        __builtin_prefetch(table_bucket_at(&keyspace->table, hash));
        tier_prefetch(keyspace, hash);
    } else if (keyspace != NULL && keyspace_find(keyspace, hash, key) == 0 && has_room(ahead)) {
        tier_preload(engine->tier, keyspace, hash, key, &ahead->loads);
    }
    partition_unlock(partition);
    if (ahead->loads.last == last)
        return;
    ahead->load_count++;
    if (ahead->room > 0)
        ahead->room--;
}

void ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count)
{
    const struct command *command = find(ahead->engine, args, arg_count);
    struct call_key keys[KEYS_MAX];
    int64_t number;
    int count;

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
        if (!(keys[i].flags & KEY_NOT_KEY))
            hint(ahead, args[keys[i].arg], keys[i].flags);
    }
    if (ahead->load_count >= LOADS_A_LOOK)
        ahead_submit(ahead);
}

void ahead_submit(struct ahead *ahead)
{
    if (ahead->load_count == 0)
        return;
    tier_submit(ahead->engine->tier, &ahead->loads);
    ahead->load_count = 0;
}

void ahead_ran(struct ahead *ahead, int db)
{
    ahead->run++;
    if (ahead->run >= ahead->seen) {        /* between two files a SELECT runs that was not seen */
        ahead->run = ahead->seen;
        ahead->db = db;
    }
}
