/* MIGRATE. It runs as a unit that owns the partitions of its keys (COMMAND_OWNS_KEYS in engine/unit.h), from the first look at them until the
 * other server has replied for all of them, or can't be reached: so none changes between its sending and its deletion. The handler is called
 * again after each round that was sent (migrate_send.h), and deletes at the end what the other server has accepted.
 */
#include "base/clock.h"
#include "call/key.h"
#include "commands/handlers.h"
#include "commands/keys.h"
#include "commands/migrate_send.h"
#include "engine/unit.h"

enum { HOST = 1, PORT, ONE_KEY, DB, TIMEOUT, OPTIONS };

enum { TIMEOUT_DEFAULT_MS = 1000 };

/* False: an error was replied. KEYS ends the options: the executor has found what follows. */
static bool parse_options(struct call *call, struct migration_options *options)
{
    for (int arg = OPTIONS; arg < call->arg_count; arg++) {
        int left = call->arg_count - arg - 1;

        if (arg_is(call, arg, "copy")) {
            options->copies = true;
        } else if (arg_is(call, arg, "replace")) {
            options->replaces = true;
        } else if (arg_is(call, arg, "auth") && left >= 1) {
            options->user = bytes_of(NULL, 0);
            options->password = call->args[++arg];
        } else if (arg_is(call, arg, "auth2") && left >= 2) {
            options->user = call->args[++arg];
            options->password = call->args[++arg];
        } else if (arg_is(call, arg, "keys")) {
            if (call->args[ONE_KEY].size == 0)
                return true;
            reply_errorf(call, "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");
            return false;
        } else {
            reply_error(call, ERR_SYNTAX);
            return false;
        }
    }
    return true;
}

/* False: an error was replied. */
static bool parse(struct call *call, struct migration_options *options)
{
    int64_t db;

    if (!parse_options(call, options) || !arg_integer(call, TIMEOUT, &options->timeout_ms) || !arg_integer(call, DB, &db))
        return false;
    options->host = call->args[HOST];
    options->port = call->args[PORT];
    options->db = call_integer(call, db);
    options->asks = call->engine->redirect != NULL;
    options->cache = call->engine->replication.migrate_cache;
    options->has_tls = config_number(call->engine->config, CONFIG_TLS_CLUSTER) != 0;
    if (options->timeout_ms <= 0)
        options->timeout_ms = TIMEOUT_DEFAULT_MS;
    if (options->timeout_ms > INT32_MAX)
        options->timeout_ms = INT32_MAX;
    return true;
}

/* By the clock, as a slow server lets time pass: false: it has expired meanwhile. 0: it does not expire. */
static bool time_left(const struct key *key, int64_t *ttl_ms)
{
    *ttl_ms = key->expire_ms < 0 ? 0 : key->expire_ms - clock_wall_ms();
    return key->expire_ms < 0 || *ttl_ms > 0;
}

/* Collects the next keys that are to be sent. */
static void fill_round(struct call *call, struct migration *migration)
{
    while (migration->key_next < call->own_key_count && !migration_is_full(migration)) {
        int index = migration->key_next++;
        struct key key;
        int64_t ttl_ms;

        if (key_open(call, call->keys[index].arg, KEY_FOR_LOOKING, &key) && time_left(&key, &ttl_ms))
            migration_add(migration, index, key.name, &key.value, ttl_ms);
        key_count_read(&key);
    }
}

static void delete_accepted(struct call *call, const struct migration *migration)
{
    enum key_removal removal = keys_removal(call, CONFIG_LAZYFREE_LAZY_SERVER_DEL);
    struct bytes *words = arena_alloc(call->arena, ((size_t)call->own_key_count + 1) * sizeof(*words));
    int count = 0;

    words[count++] = BYTES("DEL");
    for (int i = 0; i < call->own_key_count; i++) {
        struct key key;

        if (!migration->accepted[i] || !key_open(call, call->keys[i].arg, KEY_FOR_LOOKING, &key))
            continue;
        key_remove(&key, removal, EVENT_DEL);
        words[count++] = key.name;
    }
    if (count > 1)
        call_propagate(call, words, count);
}

static void reply_result(struct call *call, const struct migration *migration)
{
    if (migration->error[0] != '\0')
        reply_errorf(call, "ERR Target instance replied with error: %s", migration->error);
    else if (migration->result == MIGRATE_LINK_NO_CONNECTION)
        reply_errorf(call, "IOERR error or timeout connecting to the client");
    else if (migration->result == MIGRATE_LINK_WRITE_FAILED)
        reply_errorf(call, "IOERR error or timeout writing to target instance");
    else if (migration->result == MIGRATE_LINK_READ_FAILED)
        reply_errorf(call, "IOERR error or timeout reading to target instance");
    else if (migration->found_count == 0)
        reply_status(call->reply, BYTES("NOKEY"));
    else
        reply_ok(call->reply);
}

/* The first time: NULL: an error was replied. */
static struct migration *begin_migration(struct call *call)
{
    struct migration_options options = { 0 };

    if (call->client->caller & TRAIT_WAITS_IN_PLACE) {
        reply_errorf(call, "ERR MIGRATE is never in a log");
        return NULL;
    }
    return parse(call, &options) ? migration_create(&options, call->own_key_count) : NULL;
}

void migrate_command(struct call *call)
{
    struct migration *migration = call_take_job(call);

    if (migration == NULL)
        migration = begin_migration(call);
    else
        migration_end_round(migration);
    if (migration == NULL)
        return;
    if (!migration_is_over(migration))
        fill_round(call, migration);
    if (migration->sent_count > 0) {
        call->unit->claim.slow = true;      /* no claim has to wait for one that waits for this */
        call_start_job(call, &migration->job);
        return;
    }
    if (!migration->copies)
        delete_accepted(call, migration);
    reply_result(call, migration);
    migration_destroy(migration);
}
