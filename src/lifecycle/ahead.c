#include "lifecycle/ahead.h"

#include "base/mem.h"
#include "base/siphash.h"
#include "base/text.h"
#include "call/command_keys.h"
#include "engine/prefetch.h"
#include "lifecycle/fetch.h"

enum {
    KEYS_MAX = 64,              /* of one command */
    GROUP = 16,                 /* commands whose lines are asked for together, before the first of them runs; a power of two */
};

static const struct command *find_command(const struct engine *engine, const struct bytes *args, int arg_count)
{
    const struct command *command = command_find_logged_call(engine->commands, args, arg_count);

    if (command == NULL || arg_count < (command->arity < 0 ? -command->arity : command->arity))
        return NULL;
    return command;
}

/* Returns whether the old value does not matter: replay sends no events. */
static bool is_overwritten(uint32_t flags)
{
    return (flags & (KEY_OW | KEY_RESIDENT)) == KEY_OW;
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

/* Notes a SELECT. */
static void see_database(struct ahead *ahead, const struct bytes *args, int arg_count)
{
    int64_t number;

    if (arg_count == 2 && bytes_is(args[0], "select") && text_to_int(args[1], &number) && number >= 0 &&
        number < ahead->engine->partitions->db_count)
        ahead->db = (int)number;
}

/* Adds those that the arguments name. */
static void see_elements(struct ahead *ahead, const struct command_need *need, const struct bytes *args, int arg_count)
{
    int last = command_need_last(need, arg_count);

    for (int arg = need->first; arg <= last; arg += need->step)
        fetch_add_element(ahead->fetch, args[arg]);
}

uint64_t ahead_see(struct ahead *ahead, const struct bytes *args, int arg_count)
{
    const struct command *command = find_command(ahead->engine, args, arg_count);
    uint64_t number = ++ahead->seen;
    struct call_key keys[KEYS_MAX];
    bool has_pages = ahead->engine->partitions->value_count > 0;        /* then no key is overwritten blindly (keyspace/pages.h) */
    int count;

    *recent_at(ahead, number) = (struct ahead_key){ .number = number, .db = -1 };
    if (command == NULL)
        return number;
    if (command->flags & COMMAND_EXCLUSIVE)
        ahead->barrier = number;
    if (command->keys == NULL) {
        see_database(ahead, args, arg_count);
        return number;
    }
    if (ahead->fetch == NULL || ahead->run < ahead->barrier)
        return number;
    count = command_keys(command, args, arg_count, keys, KEYS_MAX);
    for (int i = 0; i < count && i < KEYS_MAX; i++) {
        struct bytes key = args[keys[i].arg];
        uint64_t hash = key_hash(&ahead->engine->partitions->seed, key);

        if (keys[i].flags & KEY_NOT_KEY)
            continue;
        if (has_pages || !is_overwritten(keys[i].flags)) {
            fetch_add(ahead->fetch, number, key, hash, ahead->db);
            if (has_pages && key.size <= FETCH_KEY_SIZE_MAX && command->need.step > 0)
                see_elements(ahead, &command->need, args, arg_count);
        }
        if (i == 0)
            *recent_at(ahead, number) = (struct ahead_key){ number, hash, ahead->db, keys[i].arg };
    }
    return number;
}

/* Asks the CPU for what the commands from this one on will touch. */
static void fetch_lines(struct ahead *ahead, uint64_t number)
{
    struct request_hint hints[GROUP];
    int count = 0;

    for (; number <= ahead->seen && count < GROUP; number++) {
        const struct ahead_key *key = recent_at(ahead, number);

        if (key->db >= 0)
            hints[count++] = (struct request_hint){ .hash = key->hash, .db = key->db };
    }
    ahead->fetched = number - 1;
    if (count > 1)
        prefetch_hashed(ahead->engine, hints, count);
}

const struct ahead_key *ahead_begin(struct ahead *ahead, uint64_t number)
{
    const struct ahead_key *key;

    if (number == 0)
        return NULL;
    ahead->run = number - 1;
    if (ahead->fetch != NULL)
        fetch_submit(ahead->fetch, number);
    if (number > ahead->fetched)
        fetch_lines(ahead, number);
    key = recent_at(ahead, number);
    return key->number == number && key->db >= 0 ? key : NULL;      /* there may be newer ones in its place: a transaction is seen as a whole */
}

void ahead_ran(struct ahead *ahead, int db)
{
    if (++ahead->run >= ahead->seen) {          /* between two files a SELECT runs that was not seen */
        ahead->run = ahead->seen;
        ahead->db = db;
    }
}
