#include "pubsub/hub.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/text.h"
#include "containers/dict.h"
#include "pubsub/pattern_set.h"
#include "pubsub/publication.h"

enum {
    WORKERS_MAX = 128,              /* as io-threads */
    TRIES_MAX = 3,                  /* of matching while other threads change patterns; then it is done under the lock */
    LIST_STEP = 256,                /* topics that are listed while the lock is held */
};

struct inbox {
    struct publication *first, *last;
    _Atomic bool has_mail;          /* `first` is not NULL. Changed under the lock */
    uint32_t patterns;              /* subscriptions of this worker to patterns */
};

struct hub {
    struct mutex lock;              /* leaf */
    int worker_count;               /* immutable, as are these */
    hub_ring *ring;
    void *ring_context;

    /* Under the lock. */
    struct dict *topics[TOPIC_KINDS];   /* name -> subscribers on each worker: uint32_t[worker_count] */
    struct inbox *inboxes;
    uint64_t number;                /* of the last publication */
    struct pattern_set *patterns;   /* as they are; NULL: they have changed since the last match */
    uint64_t version;               /* counts the changes of patterns */

    /* Atomic; the first are changed under the lock. */
    _Atomic size_t topic_counts[TOPIC_KINDS];
    _Atomic uint64_t transit_count, transit_bytes;
};

/* Where a publication goes. */
struct route {
    bool wanted[WORKERS_MAX], rung[WORKERS_MAX];
    uint64_t receivers;
};

struct hub *hub_create(int worker_count, const struct hash_seed *seed, hub_ring *ring, void *context)
{
    struct hub *hub = mem_zalloc(sizeof(*hub));

    CHECK(worker_count <= WORKERS_MAX);
    mutex_init(&hub->lock);
    hub->worker_count = worker_count;
    hub->ring = ring;
    hub->ring_context = context;
    hub->inboxes = mem_zalloc((size_t)worker_count * sizeof(*hub->inboxes));
    for (int kind = 0; kind < TOPIC_KINDS; kind++)
        hub->topics[kind] = dict_create(seed);
    return hub;
}

static void empty_inbox(struct hub *hub, int worker)
{
    struct publication *next;

    for (struct publication *publication = hub_take(hub, worker); publication != NULL; publication = next) {
        next = publication->posted_next[worker];
        hub_release(hub, publication);
    }
}

void hub_destroy(struct hub *hub)
{
    if (hub == NULL)
        return;
    for (int i = 0; i < hub->worker_count; i++)
        empty_inbox(hub, i);
    for (int kind = 0; kind < TOPIC_KINDS; kind++)
        dict_destroy(hub->topics[kind]);
    pattern_set_release(hub->patterns);
    mem_free(hub->inboxes);
    mutex_release(&hub->lock);
    mem_free(hub);
}

static void patterns_changed(struct hub *hub)
{
    pattern_set_release(hub->patterns);
    hub->patterns = NULL;
    hub->version++;
}

/* The numbers of a topic's subscribers; all zero if there is none. */
static void read_counts(const struct hub *hub, enum topic_kind kind, struct bytes name, uint32_t *counts)
{
    size_t size = (size_t)hub->worker_count * sizeof(*counts);
    struct bytes value;

    if (dict_find(hub->topics[kind], name, &value))
        memcpy(counts, value.data, size);
    else
        memset(counts, 0, size);
}

static void write_counts(struct hub *hub, enum topic_kind kind, struct bytes name, const uint32_t *counts)
{
    size_t size = (size_t)hub->worker_count * sizeof(*counts);
    bool is_used = false;

    for (int i = 0; i < hub->worker_count; i++)
        is_used = is_used || counts[i] > 0;
    if (is_used)
        dict_put(hub->topics[kind], name, bytes_of((const char *)counts, size));
    else
        dict_remove(hub->topics[kind], name);
    hub->topic_counts[kind] = dict_count(hub->topics[kind]);
}

static uint64_t change(struct hub *hub, int worker, enum topic_kind kind, struct bytes name, uint32_t by)
{
    uint32_t counts[WORKERS_MAX];
    uint64_t number;

    mutex_lock(&hub->lock);
    read_counts(hub, kind, name, counts);
    counts[worker] += by;
    write_counts(hub, kind, name, counts);
    if (kind == TOPIC_PATTERN) {
        hub->inboxes[worker].patterns += by;
        patterns_changed(hub);
    }
    number = hub->number;
    mutex_unlock(&hub->lock);
    return number;
}

uint64_t hub_add(struct hub *hub, int worker, enum topic_kind kind, struct bytes name)
{
    return change(hub, worker, kind, name, 1);
}

uint64_t hub_remove(struct hub *hub, int worker, enum topic_kind kind, struct bytes name)
{
    return change(hub, worker, kind, name, UINT32_MAX);
}

uint64_t hub_number(struct hub *hub)
{
    uint64_t number;

    mutex_lock(&hub->lock);
    number = hub->number;
    mutex_unlock(&hub->lock);
    return number;
}

static uint64_t add_channel(const struct hub *hub, enum topic_kind kind, struct bytes name, bool *wanted)
{
    uint32_t counts[WORKERS_MAX];
    uint64_t sum = 0;

    read_counts(hub, kind, name, counts);
    for (int i = 0; i < hub->worker_count; i++) {
        sum += counts[i];
        wanted[i] = wanted[i] || counts[i] > 0;
    }
    return sum;
}

uint64_t hub_subscribers(struct hub *hub, enum topic_kind kind, struct bytes name)
{
    bool wanted[WORKERS_MAX] = { false };
    uint64_t sum;

    mutex_lock(&hub->lock);
    sum = add_channel(hub, kind, name, wanted);
    mutex_unlock(&hub->lock);
    return sum;
}

/* A reference to the patterns as they are. */
static struct pattern_set *hold_patterns(struct hub *hub)
{
    if (hub->patterns == NULL)
        hub->patterns = pattern_set_create(hub->topics[TOPIC_PATTERN], hub->worker_count, hub->version);
    pattern_set_hold(hub->patterns);
    return hub->patterns;
}

/* Finds out where a message to the channel goes, and returns with the lock held, so that this is true until it is given back. */
static void find_route(struct hub *hub, enum topic_kind kind, struct bytes channel, struct route *route) ACQUIRE(hub->lock) UNCHECKED_LOCKS;
static void find_route(struct hub *hub, enum topic_kind kind, struct bytes channel, struct route *route)
{
    mutex_lock(&hub->lock);
    for (int tries = 0;; tries++) {
        struct pattern_set *set;
        bool is_current;

        *route = (struct route){ .receivers = 0 };
        if (kind != TOPIC_CHANNEL || hub->topic_counts[TOPIC_PATTERN] == 0)
            break;
        set = hold_patterns(hub);
        if (tries < TRIES_MAX)
            mutex_unlock(&hub->lock);
        route->receivers = pattern_set_match(set, channel, route->wanted);
        if (tries < TRIES_MAX)
            mutex_lock(&hub->lock);
        is_current = pattern_set_version(set) == hub->version;
        pattern_set_release(set);
        if (is_current)
            break;
    }
    route->receivers += add_channel(hub, kind, channel, route->wanted);
}

uint64_t hub_receivers(struct hub *hub, enum topic_kind kind, struct bytes channel)
{
    struct route route;

    find_route(hub, kind, channel, &route);
    mutex_unlock(&hub->lock);
    return route.receivers;
}

size_t hub_topics(const struct hub *hub, enum topic_kind kind)
{
    return hub->topic_counts[kind];
}

struct listing {
    const struct bytes *pattern;
    struct buffer names;            /* each after its size */
};

static void note_name(void *context, struct bytes name, struct bytes counts)
{
    struct listing *listing = context;

    (void)counts;
    if (listing->pattern != NULL && !text_matches(*listing->pattern, name, TEXT_CASE_EXACT))
        return;
    buffer_append(&listing->names, &name.size, sizeof(name.size));
    buffer_append_bytes(&listing->names, name);
}

/* Reports what was noted in one step, without the lock. */
static size_t report_names(struct buffer *names, hub_found *found, void *context)
{
    size_t count = 0, at = 0;

    while (at < names->size) {
        size_t size;

        memcpy(&size, names->data + at, sizeof(size));
        at += sizeof(size);
        found(context, bytes_of(names->data + at, size));
        at += size;
        count++;
    }
    names->size = 0;
    return count;
}

size_t hub_list(struct hub *hub, enum topic_kind kind, const struct bytes *pattern, hub_found *found, void *context)
{
    struct listing listing = { .pattern = pattern };
    uint64_t cursor = 0;
    size_t count = 0;

    do {
        mutex_lock(&hub->lock);
        cursor = dict_scan(hub->topics[kind], cursor, LIST_STEP, note_name, &listing);
        mutex_unlock(&hub->lock);
        count += report_names(&listing.names, found, context);
    } while (cursor != 0);
    buffer_release(&listing.names);
    return count;
}

bool hub_has_receivers(const struct hub *hub, enum topic_kind kind)
{
    return hub->topic_counts[kind] > 0 || (kind == TOPIC_CHANNEL && hub->topic_counts[TOPIC_PATTERN] > 0);
}

static void put(struct hub *hub, struct publication *publication, int worker, struct route *route)
{
    struct inbox *inbox = &hub->inboxes[worker];

    publication_hold(publication);
    publication->posted_next[worker] = NULL;
    if (inbox->first != NULL)
        inbox->last->posted_next[worker] = publication;
    else
        inbox->first = publication;
    if (!inbox->has_mail) {
        route->rung[worker] = true;
        atomic_store(&inbox->has_mail, true);
    }
    inbox->last = publication;
}

/* With the lock held. Keeps the caller's reference. */
static void number_and_put(struct hub *hub, struct publication *publication, struct route *route)
{
    bool any = false;

    publication->number = ++hub->number;
    for (int i = 0; i < hub->worker_count; i++)
        any = any || route->wanted[i];
    if (!any)
        return;
    publication->in_transit = true;
    atomic_fetch_add(&hub->transit_count, 1);
    atomic_fetch_add(&hub->transit_bytes, publication->size);
    for (int i = 0; i < hub->worker_count; i++) {
        if (route->wanted[i])
            put(hub, publication, i, route);
    }
}

static void ring_bells(const struct hub *hub, int here, const struct route *route)
{
    for (int i = 0; i < hub->worker_count; i++) {
        if (route->rung[i] && i != here)
            hub->ring(hub->ring_context, i);
    }
}

uint64_t hub_post_counted(struct hub *hub, int here, struct publication *publication)
{
    struct route route;

    find_route(hub, publication->kind, publication->channel, &route);
    number_and_put(hub, publication, &route);
    mutex_unlock(&hub->lock);
    ring_bells(hub, here, &route);
    hub_release(hub, publication);
    return route.receivers;
}

/* All workers that may have receivers. With the lock held. */
static void guess_route(const struct hub *hub, const struct publication *publication, struct route *route)
{
    memset(route->wanted, 0, sizeof(route->wanted));
    if (publication->is_push) {
        route->wanted[publication->worker] = true;
        return;
    }
    for (int i = 0; i < hub->worker_count && publication->kind == TOPIC_CHANNEL; i++)
        route->wanted[i] = hub->inboxes[i].patterns > 0;
    add_channel(hub, publication->kind, publication->channel, route->wanted);
}

void hub_post(struct hub *hub, int here, struct publication *first, uint64_t lsn)
{
    struct route route = { .receivers = 0 };
    struct publication *next;

    mutex_lock(&hub->lock);
    for (struct publication *publication = first; publication != NULL; publication = publication->next) {
        publication->lsn = lsn;
        guess_route(hub, publication, &route);
        number_and_put(hub, publication, &route);
    }
    mutex_unlock(&hub->lock);
    ring_bells(hub, here, &route);
    for (; first != NULL; first = next) {
        next = first->next;
        hub_release(hub, first);
    }
}

bool hub_has_mail(const struct hub *hub, int worker)
{
    return atomic_load_explicit(&hub->inboxes[worker].has_mail, memory_order_acquire);
}

struct publication *hub_take(struct hub *hub, int worker)
{
    struct inbox *inbox = &hub->inboxes[worker];
    struct publication *first;

    mutex_lock(&hub->lock);
    first = inbox->first;
    inbox->first = inbox->last = NULL;
    atomic_store(&inbox->has_mail, false);
    mutex_unlock(&hub->lock);
    return first;
}

void hub_release(struct hub *hub, struct publication *publication)
{
    size_t size = publication->size;
    bool in_transit = publication->in_transit;

    if (!publication_release(publication) || !in_transit)
        return;
    atomic_fetch_sub(&hub->transit_count, 1);
    atomic_fetch_sub(&hub->transit_bytes, size);
}

struct hub_transit hub_transit(const struct hub *hub)
{
    return (struct hub_transit){ hub->transit_count, hub->transit_bytes };
}
