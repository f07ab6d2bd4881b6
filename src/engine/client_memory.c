#include "engine/client_memory.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/blocking.h"
#include "engine/delivery.h"
#include "engine/engine.h"
#include "engine/tracking.h"
#include "engine/transaction.h"

enum {
    SMALL_BITS = 15,                /* the first list has all clients of up to 32 KiB */
    LIMIT_MIN = 128 * 1024,         /* with less no client could be served */
    LOOKED_AT_MAX = 64,             /* clients of a list, to find the largest of them */
    /* If no limit is given, a client that takes less is no reason to close any, and one with less of requests and state is not closed for a large
     * reply alone. */
    GROWTH_SMALL = 16 * 1024,
    REQUESTS_SMALL = 64 * 1024,
};

static void add(_Atomic uint64_t *sum, uint64_t by)
{
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + by, memory_order_release);
}

static uint64_t used(const struct engine *engine)
{
    uint64_t sum = 0;

    for (int i = 0; i < engine->worker_count; i++)
        sum += atomic_load_explicit(&engine->workers[i]->sizes.all, memory_order_acquire);
    return sum;
}

static uint64_t used_without_limit(const struct engine *engine)
{
    uint64_t sum = 0;

    for (int i = 0; i < engine->worker_count; i++)
        sum += atomic_load_explicit(&engine->workers[i]->sizes.held, memory_order_acquire);
    return sum;
}

uint64_t client_memory_used(const struct engine *engine)
{
    return used(engine);
}

uint64_t client_memory_limit(const struct engine *engine)
{
    uint64_t given = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY_CLIENTS);

    return given == 0 || given > LIMIT_MIN ? given : LIMIT_MIN;
}

uint64_t client_memory_max(const struct engine *engine)
{
    uint64_t given = client_memory_limit(engine), memory = (uint64_t)config_number(engine->config, CONFIG_MAXMEMORY);

    if (given > 0)
        return given;
    if (memory == 0)
        return UINT64_MAX;
    return memory / 2 > LIMIT_MIN ? memory / 2 : LIMIT_MIN;
}

/* Bytes of the client's state: all that is not in its connection. */
static uint64_t client_memory_state(const struct client *client)
{
    return client->names.size + transaction_memory(client) + delivery_memory(client) + tracking_memory(client) + blocking_memory(client);
}

/* Lists. */

static int class_of(uint64_t bytes)
{
    int bits = 64 - __builtin_clzll(bytes | 1), class = bits <= SMALL_BITS ? 1 : 1 + bits - SMALL_BITS;

    return class < CLIENT_SIZE_CLASSES ? class : CLIENT_SIZE_CLASSES;
}

static void leave_list(struct client *client)
{
    struct client_sizes *sizes = &client->worker->sizes;
    struct client_size *size = &client->size;
    int largest = sizes->largest;

    if (size->class == 0)
        return;
    *(size->prev != NULL ? &size->prev->size.next : &sizes->lists[size->class - 1]) = size->next;
    if (size->next != NULL)
        size->next->size.prev = size->prev;
    size->class = 0;
    while (largest > 0 && sizes->lists[largest - 1] == NULL)
        largest--;
    atomic_store_explicit(&sizes->largest, largest, memory_order_release);
}

static void join_list(struct client *client, int class)
{
    struct client_sizes *sizes = &client->worker->sizes;
    struct client **first = &sizes->lists[class - 1];

    client->size.class = class;
    client->size.prev = NULL;
    client->size.next = *first;
    if (*first != NULL)
        (*first)->size.prev = client;
    *first = client;
    if (class > sizes->largest)
        atomic_store_explicit(&sizes->largest, class, memory_order_release);
}

/* By what counts. */
static void choose_list(struct client *client)
{
    bool has_limit = client_memory_limit(client->worker->engine) > 0;
    int class = client->flags & CLIENT_NO_EVICT || client->dead ? 0 : class_of(has_limit ? client->size.all : client->size.held);

    if (LIKELY(class == client->size.class))
        return;
    leave_list(client);
    if (class > 0)
        join_list(client, class);
}

/* Closing. */

static bool is_over(const struct engine *engine)
{
    if (client_memory_limit(engine) > 0)
        return used(engine) > client_memory_limit(engine);
    return used_without_limit(engine) > client_memory_max(engine);
}

static void evict(struct client *client)
{
    struct worker *worker = client->worker;
    struct engine *engine = worker->engine;

    log_write(engine->log, LOG_LEVEL_WARNING,
        "Evicting client: id=%llu addr=%s: it takes %llu bytes, and all clients together %llu, more than maxmemory-clients allows",
        (unsigned long long)client->id, client->address == NULL ? "" : client->address, (unsigned long long)client->size.all,
        (unsigned long long)used(engine));
    turn_count(&worker->turn, STAT_EVICTED_CLIENTS, 1);
    worker->host.close(client);
}

/* The first of the workers whose largest client is in the largest list. They agree on it, so that no two of them close clients at the same
 * time where one is enough. NULL: no client may be closed. */
static struct worker *worker_of_largest(const struct engine *engine)
{
    struct worker *found = NULL;
    int most = 0;

    for (int i = 0; i < engine->worker_count; i++) {
        int largest = atomic_load_explicit(&engine->workers[i]->sizes.largest, memory_order_acquire);

        if (largest > most) {
            most = largest;
            found = engine->workers[i];
        }
    }
    return found;
}

static struct client *largest_client(const struct worker *worker)
{
    struct client *found = worker->sizes.lists[worker->sizes.largest - 1], *client = found;

    for (int i = 0; i < LOOKED_AT_MAX && client != NULL; i++, client = client->size.next) {
        if (client->size.all > found->size.all)
            found = client;
    }
    return found;
}

/* If no limit is given, a large reply alone is no reason: its client may be reading it. */
static bool is_spared(const struct engine *engine, const struct client *client)
{
    return client_memory_limit(engine) == 0 && client->buffers.query_room + client_memory_state(client) <= REQUESTS_SMALL &&
           used_without_limit(engine) - client->size.held <= client_memory_max(engine);
}

static void client_memory_relieve(struct worker *worker);

static void run_relief(struct mail *mail, struct worker *worker)
{
    worker->sizes.asked = false;
    mem_free(mail);
    client_memory_relieve(worker);
}

struct review {
    struct mail mail;
    _Atomic int *left;              /* workers that have not finished; freed by the last one */
};

/* If the limit was given, or is no longer, other bytes count. No client is closed before all lists are right. */
static void run_review(struct mail *mail, struct worker *worker)
{
    struct review *review = (struct review *)mail;

    for (struct client *client = worker->clients; client != NULL; client = client->next)
        choose_list(client);
    if (atomic_fetch_sub(review->left, 1) == 1) {
        mem_free((void *)review->left);
        client_memory_relieve(worker);
    }
    mem_free(review);
}

static void ask(struct worker *worker)
{
    struct mail *mail;

    if (atomic_exchange(&worker->sizes.asked, true))
        return;
    mail = mem_zalloc(sizeof(*mail));
    mail->run = run_relief;
    mailbox_post(&worker->mailbox, mail);
}

/* While all clients together take too much, closes the largest; those of other workers are closed by these, a little later. On the worker,
 * not while it runs a call. Whether a worker is the right one is read before what all clients take: a worker that has closed a client changes both, in the other
 * order. */
static void client_memory_relieve(struct worker *worker)
{
    const struct engine *engine = worker->engine;

    for (;;) {
        struct worker *most = worker_of_largest(engine);
        struct client *client;

        if (most == NULL || !is_over(engine))
            return;
        if (most != worker) {
            ask(most);
            return;
        }
        client = largest_client(worker);
        if (is_spared(engine, client))
            return;
        evict(client);
    }
}

void client_memory_relieve_all(struct engine *engine)
{
    _Atomic int *left = mem_zalloc(sizeof(*left));

    *left = engine->worker_count;
    for (int i = 0; i < engine->worker_count; i++) {
        struct review *review = mem_zalloc(sizeof(*review));

        review->mail.run = run_review;
        review->left = left;
        mailbox_post(&engine->workers[i]->mailbox, &review->mail);
    }
}

/* Sizes. */

/* More than all clients together may take: no other client's end would help. */
static bool is_too_large(const struct client *client)
{
    uint64_t limit = client_memory_limit(client->worker->engine);

    return limit > 0 && client->size.all > limit && client->size.class > 0;
}

void client_memory_set(struct client *client, uint64_t bytes, uint64_t buffers)
{
    uint64_t state = client_memory_state(client), all = bytes + state, held = buffers + state;
    struct client_sizes *sizes = &client->worker->sizes;
    struct client_size *size = &client->size;
    bool has_grown = all > size->all;

    if (LIKELY((all == size->all && held == size->held) || client->dead))
        return;
    add(&sizes->all, all - size->all);
    add(&sizes->held, held - size->held);
    size->all = all;
    size->held = held;
    choose_list(client);
    if (!has_grown || (all <= GROWTH_SMALL && client_memory_limit(client->worker->engine) == 0))
        return;
    if (is_too_large(client))
        evict(client);
    else
        client_memory_relieve(client->worker);
}

void client_memory_note_exempt(struct client *client)
{
    choose_list(client);
    ask(client->worker);
}

void client_memory_forget(struct client *client)
{
    struct client_sizes *sizes = &client->worker->sizes;

    add(&sizes->all, 0 - client->size.all);
    add(&sizes->held, 0 - client->size.held);
    client->size.all = client->size.held = 0;
    leave_list(client);
}
