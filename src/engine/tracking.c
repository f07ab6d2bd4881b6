/* Trackers: what clients have turned on, what they read, and what changes. */
#include "engine/tracking.h"

#include <string.h>

#include "base/mem.h"
#include "call/command_keys.h"
#include "engine/delivery.h"
#include "engine/event.h"
#include "engine/tracking_private.h"

enum {
    TRIMMED_A_TURN = 1000,
    TRIMMED_A_LOCK = 64,
    TRACKED_SHARE = 8,              /* of maxmemory: what the keys in the tables take */
};

struct tracking *tracking_create(struct engine *engine)
{
    struct tracking *tracking = mem_zalloc(sizeof(*tracking));

    tracking->table_count = engine->partitions->count;
    tracking->tables = mem_zalloc(tracking->table_count * sizeof(*tracking->tables));
    tracking->broadcasts = mem_zalloc((size_t)engine->worker_count * sizeof(*tracking->broadcasts));
    tracking->efforts = mem_zalloc((size_t)engine->worker_count * sizeof(*tracking->efforts));
    tracking_prefixes_init(&tracking->prefixes);
    mutex_init(&tracking->lock);
    return tracking;
}

void tracking_destroy(struct tracking *tracking, int worker_count)
{
    if (tracking == NULL)
        return;
    for (int i = 0; i < worker_count; i++)
        tracking_list_release(&tracking->broadcasts[i].list);
    for (uint32_t i = 0; i < tracking->table_count; i++)
        tracking_table_clear(&tracking->tables[i]);
    tracking_prefixes_release(&tracking->prefixes);
    mutex_release(&tracking->lock);
    mem_free(tracking->broadcasts);
    mem_free(tracking->efforts);
    mem_free(tracking->tables);
    mem_free(tracking);
}

static void drop_prefixes(struct tracker *tracker)
{
    for (int i = 0; i < tracker->prefix_count; i++)
        mem_free((char *)tracker->prefixes[i].data);
    mem_free(tracker->prefixes);
    tracker->prefixes = NULL;
    tracker->prefix_count = 0;
    tracker->prefix_size = 0;
}

static struct tracker *tracker_of(struct client *client)
{
    struct tracker *tracker = client->tracker;

    if (tracker != NULL)
        return tracker;
    tracker = mem_zalloc(sizeof(*tracker));
    tracker->holders = 1;
    tracker->client_id = client->id;
    tracker->worker = client->worker->index;
    tracker->state = (uint64_t)client->push_generation << TRACKER_GENERATION_SHIFT;
    client->tracker = tracker;
    return tracker;
}

static void enlist(struct engine *engine, struct tracker *tracker)
{
    struct tracking *tracking = engine->tracking;

    mutex_lock(&tracking->lock);
    tracker->next = tracking->trackers;
    if (tracker->next != NULL)
        tracker->next->prev = tracker;
    tracking->trackers = tracker;
    mutex_unlock(&tracking->lock);
    tracking->clients++;
    interest_count(&engine->interest, 1);
}

static void delist(struct engine *engine, struct tracker *tracker)
{
    struct tracking *tracking = engine->tracking;

    mutex_lock(&tracking->lock);
    if (tracker->prev != NULL)
        tracker->prev->next = tracker->next;
    else
        tracking->trackers = tracker->next;
    if (tracker->next != NULL)
        tracker->next->prev = tracker->prev;
    tracker->prev = tracker->next = NULL;
    mutex_unlock(&tracking->lock);
    tracking->clients--;
    interest_count(&engine->interest, -1);
}

static void add_prefix(struct tracking *tracking, struct tracker *tracker, struct bytes name)
{
    int place = 0, order = 1;

    while (place < tracker->prefix_count && (order = bytes_compare(tracker->prefixes[place], name)) < 0)
        place++;
    if (place < tracker->prefix_count && order == 0)
        return;
    tracker->prefixes = mem_realloc(tracker->prefixes, (size_t)(tracker->prefix_count + 1) * sizeof(struct bytes));
    memmove(tracker->prefixes + place + 1, tracker->prefixes + place, (size_t)(tracker->prefix_count - place) * sizeof(struct bytes));
    tracker->prefixes[place] = bytes_of(mem_string(name), name.size);
    tracker->prefix_count++;
    tracker->prefix_size += sizeof(struct bytes) + name.size;
    tracking_prefixes_add(&tracking->prefixes, tracker, name);
}

void tracking_turn_on(struct client *client, uint32_t options, uint64_t redirect, const struct bytes *prefixes, int prefix_count)
{
    struct engine *engine = client->worker->engine;
    struct tracking *tracking = engine->tracking;
    struct tracker *tracker;
    uint32_t before = tracking_mode(client);

    if (client->dead)
        return;                         /* it was closed, and its transaction goes on */
    tracker = tracker_of(client);
    delivery_open(client);
    tracker->redirect = redirect;
    tracker->state = (tracker->state >> TRACKER_GENERATION_SHIFT << TRACKER_GENERATION_SHIFT) | TRACKING_ON | options;
    if (!(before & TRACKING_ON))
        enlist(engine, tracker);
    if (!(options & TRACKING_BCAST)) {
        client->flags |= CLIENT_TRACKING;
        return;
    }
    if (!(before & TRACKING_BCAST))
        tracking->broadcasters++;
    if (prefix_count == 0)
        add_prefix(tracking, tracker, bytes_of("", 0));
    for (int i = 0; i < prefix_count; i++)
        add_prefix(tracking, tracker, prefixes[i]);
}

void tracking_turn_off(struct client *client)
{
    struct engine *engine = client->worker->engine;
    struct tracker *tracker = client->tracker;
    uint32_t before = tracking_mode(client);

    client->flags &= ~(uint32_t)(CLIENT_TRACKING | CLIENT_CACHING);
    if (!(before & TRACKING_ON))
        return;
    client->push_generation++;
    tracker->state = (uint64_t)client->push_generation << TRACKER_GENERATION_SHIFT;
    tracker->redirect = 0;
    delist(engine, tracker);
    if (before & TRACKING_BCAST) {
        engine->tracking->broadcasters--;
        tracking_prefixes_remove(&engine->tracking->prefixes, tracker);
        drop_prefixes(tracker);
    }
}

void tracking_forget(struct client *client)
{
    if (client->tracker == NULL)
        return;
    tracking_turn_off(client);
    atomic_fetch_or(&client->tracker->state, TRACKING_GONE);
    tracker_release(client->tracker);
    client->tracker = NULL;
}

uint32_t tracking_mode(const struct client *client)
{
    return client->tracker == NULL ? 0 : (uint32_t)client->tracker->state;
}

uint64_t tracking_redirect(const struct client *client)
{
    return client->tracker == NULL ? 0 : client->tracker->redirect;
}

int tracking_prefix_count(const struct client *client)
{
    return client->tracker == NULL ? 0 : client->tracker->prefix_count;
}

struct bytes tracking_prefix(const struct client *client, int index)
{
    return client->tracker->prefixes[index];
}

uint64_t tracking_memory(const struct client *client)
{
    return client->tracker == NULL ? 0 : sizeof(*client->tracker) + client->tracker->prefix_size;
}

/* OPTIN and OPTOUT: what CLIENT CACHING said before this call. */
static bool is_wanted(const struct client *client)
{
    uint32_t mode = tracking_mode(client);

    return !(mode & TRACKING_OPTIN && !(client->flags & CLIENT_CACHING)) && !(mode & TRACKING_OPTOUT && client->flags & CLIENT_CACHING);
}

/* Each key in a table counts as a listener, while the table's partition is locked: its change will be noted. */
static void count_change(struct engine *engine, struct tracking_change change)
{
    struct tracking *tracking = engine->tracking;

    if (change.keys != 0) {
        atomic_fetch_add_explicit(&tracking->keys, change.keys, memory_order_relaxed);
        interest_count(&engine->interest, change.keys);
    }
    if (change.items != 0)
        atomic_fetch_add_explicit(&tracking->items, change.items, memory_order_relaxed);
    if (change.bytes != 0)
        atomic_fetch_add_explicit(&tracking->bytes, change.bytes, memory_order_relaxed);
}

void tracking_remember(struct call *call)
{
    struct tracking *tracking = call->engine->tracking;
    const struct client *client = call->requester;

    if (!(call->command->flags & COMMAND_READONLY) || !is_wanted(client))
        return;
    for (int i = 0; i < call->own_key_count; i++) {
        const struct call_key *key = &call->keys[i];

        if (!(key->flags & KEY_NOT_KEY))
            count_change(call->engine, tracking_table_add(&tracking->tables[partition_index(call->partitions, key->hash)], key->hash,
                call->args[key->arg], client->tracker));
    }
}

void tracking_disown(struct client *client, const struct command *command, const struct bytes *args, int arg_count, uint64_t lsn)
{
    struct worker *worker = client->worker;
    struct call_key keys[WORKER_KEYS], *more = NULL;
    struct tracking_list list = { 0 };
    int count = command_keys(command, args, arg_count, keys, WORKER_KEYS);

    if (!(command->flags & COMMAND_READONLY) || !is_wanted(client))
        return;
    if (count > WORKER_KEYS) {
        more = mem_alloc((size_t)count * sizeof(*more));
        count = command_keys(command, args, arg_count, more, count);
    }
    for (int i = 0; i < count; i++) {
        struct tracking_table alone = { 0 };
        struct bytes name = args[(more == NULL ? keys : more)[i].arg];

        tracking_table_add(&alone, 0, name, client->tracker);
        tracking_list_append(&list, tracking_table_take(&alone, 0, name));
        tracking_table_clear(&alone);
    }
    tracking_send_to(worker->engine, worker, &list, lsn, TRACKING_TO_READERS);
    mem_free(more);
}

static void count_taken(struct engine *engine, const struct tracked_key *tracked)
{
    count_change(engine, (struct tracking_change){ -1, -(int64_t)tracked->count, -tracked_bytes(tracked) });
}

void tracking_note(struct engine *engine, struct tracking_list *list, uint64_t by, const struct keyspace *keyspace, uint64_t hash,
    struct bytes key)
{
    struct tracking *tracking = engine->tracking;
    struct tracked_key *tracked = tracking_table_take(&tracking->tables[keyspace->partition->index], hash, key);

    if (tracked != NULL) {
        count_taken(engine, tracked);
    } else {
        const struct tracked_key *last = list->last;

        if (tracking->broadcasters == 0 || (last != NULL && last->by == by && !last->is_all && bytes_equal(tracked_name(last), key)))
            return;
        tracked = tracked_create(key);
    }
    tracked->by = by;
    tracking_list_append(list, tracked);
}

void tracking_note_all(struct engine *engine, struct tracking_list *list)
{
    struct tracking *tracking = engine->tracking;
    struct tracked_key *all;

    if (list->last != NULL && list->last->is_all)
        return;                         /* FLUSHALL, which is about all databases */
    all = tracked_create(bytes_of("", 0));
    all->is_all = true;
    for (uint32_t i = 0; i < tracking->table_count; i++)
        count_change(engine, tracking_table_clear(&tracking->tables[i]));
    tracking_list_append(list, all);
}

/* Takes keys out of a partition's table. Returns their number. */
static int trim_table(struct worker *worker, uint32_t index, int64_t most, struct tracking_list *list)
{
    struct engine *engine = worker->engine;
    struct partition *partition = &engine->partitions->partitions[index];
    struct tracked_key *tracked = NULL;
    int count = 0;

    partition_lock(partition);
    while (count < most && (tracked = tracking_table_take_any(&engine->tracking->tables[index], &worker->turn.random)) != NULL) {
        count_taken(engine, tracked);
        tracked->by = 0;
        tracking_list_append(list, tracked);
        count++;
    }
    partition_unlock(partition);
    return count;
}

/* How many keys there are too many; more than enough of them if they take too many bytes. 0: there are not. */
static int64_t excess(const struct engine *engine)
{
    const struct tracking *tracking = engine->tracking;
    int64_t most = config_number(engine->config, CONFIG_TRACKING_TABLE_MAX_KEYS), memory = config_number(engine->config, CONFIG_MAXMEMORY);
    int64_t keys = tracking->keys;

    if (memory > 0 && tracking->bytes > memory / TRACKED_SHARE)
        return keys;
    return most > 0 && keys > most ? keys - most : 0;
}

/* From a random partition on, a few keys of each. As long as there are too many keys, each turn does more. */
static void trim_by_limit(struct worker *worker)
{
    struct tracking *tracking = worker->engine->tracking;
    uint32_t index = (uint32_t)random_below(&worker->turn.random, tracking->table_count);
    int64_t left = TRIMMED_A_TURN * (int64_t)++tracking->efforts[worker->index];
    struct tracking_list list = { 0 };
    int64_t over;

    while (left > 0 && (over = excess(worker->engine)) > 0) {
        int64_t share = over / tracking->table_count + 1;

        left -= 1 + trim_table(worker, index, share < TRIMMED_A_LOCK ? share : TRIMMED_A_LOCK, &list);
        index = (index + 1) % tracking->table_count;
    }
    tracking_send_to(worker->engine, worker, &list, 0, TRACKING_TO_READERS);
    mailbox_ring(&worker->mailbox);         /* another turn */
}

void tracking_end_turn(struct worker *worker)
{
    struct tracking *tracking = worker->engine->tracking;

    if (tracking == NULL)
        return;
    if (tracking->broadcasts[worker->index].list.first != NULL)
        tracking_send_broadcasts(worker);
    if (atomic_load_explicit(&tracking->keys, memory_order_relaxed) == 0)
        return;
    if (excess(worker->engine) > 0)
        trim_by_limit(worker);
    else
        tracking->efforts[worker->index] = 0;
}

bool tracking_is_on(const struct engine *engine)
{
    return engine->tracking != NULL && (engine->tracking->clients > 0 || engine->tracking->keys > 0);
}

struct tracking_counts tracking_count(const struct engine *engine)
{
    struct tracking *tracking = engine->tracking;
    struct tracking_counts counts = { 0 };

    if (tracking == NULL)
        return counts;
    counts.clients = tracking->clients;
    counts.keys = (uint64_t)tracking->keys;
    counts.items = (uint64_t)tracking->items;
    mutex_lock(&tracking->prefixes.lock);
    counts.prefixes = tracking->prefixes.count;
    mutex_unlock(&tracking->prefixes.lock);
    return counts;
}
