#include "tier/request.h"

#include <time.h>

#include "base/check.h"
#include "base/mem.h"
#include "keyspace/pages.h"
#include "tier/image.h"
#include "tier/tier_private.h"

enum { URGENT_MAX = 256, PAGES_A_TIME = 1024 };

void requests_init(struct requests *requests)
{
    mutex_init(&requests->lock);
    condition_init(&requests->asked);
    condition_init(&requests->completed);
}

void requests_release(struct requests *requests)
{
    if (requests->urgent != NULL)
        key_list_release(requests->urgent);
    mem_free(requests->urgent);
    condition_release(&requests->asked);
    condition_release(&requests->completed);
    mutex_release(&requests->lock);
}

void tier_nudge(struct tier *tier)
{
    struct requests *requests = &tier->requests;

    mutex_lock(&requests->lock);
    if (!requests->nudged) {
        requests->nudged = true;
        condition_signal(&requests->asked);
    }
    mutex_unlock(&requests->lock);
}

enum tier_move tier_demote(struct tier *tier, int db, struct bytes key)
{
    enum tier_move result;

    tier_demote_many(tier, db, &key, 1, &result);
    return result;
}

/* Their results are in the requests afterwards. */
static void ask_for_demotions(struct tier *tier, struct demote_request *demotions, size_t count)
{
    struct requests *requests = &tier->requests;

    mutex_lock(&requests->lock);
    for (size_t i = 0; i < count; i++) {
        demotions[i].next = requests->demotions;
        requests->demotions = &demotions[i];
    }
    condition_signal(&requests->asked);
    for (size_t i = 0; i < count; i++) {
        while (!demotions[i].done)
            condition_wait(&requests->completed, &requests->lock);
    }
    mutex_unlock(&requests->lock);
}

static void demote_pages(struct tier *tier, int db, uint64_t id, uint32_t begin, uint32_t count)
{
    struct demote_request *demotions = mem_alloc(PAGES_A_TIME * sizeof(*demotions));
    char (*names)[PAGE_NAME_SIZE] = mem_alloc(PAGES_A_TIME * sizeof(*names));

    for (uint32_t first = 0; first < count; first += PAGES_A_TIME) {
        uint32_t asked = count - first < PAGES_A_TIME ? count - first : PAGES_A_TIME;

        for (uint32_t i = 0; i < asked; i++)
            demotions[i] = (struct demote_request){ .db = partitions_page_space(tier->partitions, db),
                .hash = pages_name(id, begin + first + i, names[i]), .key = bytes_of(names[i], PAGE_NAME_SIZE) };
        ask_for_demotions(tier, demotions, asked);
    }
    mem_free(demotions);
    mem_free(names);
}

/* If its root is hot. */
static struct paged_extent pages_of_key(struct tier *tier, int db, uint64_t hash, struct bytes key)
{
    struct partition *partition = &tier->partitions->partitions[partition_index(tier->partitions, hash)];
    struct paged_extent extent = { 0 };
    struct keyspace *keyspace;
    uint32_t handle;

    partition_lock(partition);
    keyspace = partition_keyspace_if(partition, db);
    handle = keyspace != NULL ? keyspace_find(keyspace, hash, key) : 0;
    if (handle != 0 && entry_is_paged(keyspace_entry(keyspace, handle))) {
        struct value value = entry_value(keyspace_entry(keyspace, handle));

        extent = paged_extent_of(&value);
    }
    partition_unlock(partition);
    return extent;
}

void tier_demote_many(struct tier *tier, int db, const struct bytes *keys, size_t count, enum tier_move *results)
{
    struct demote_request *demotions = mem_zalloc((count + 1) * sizeof(*demotions));

    for (size_t i = 0; i < count; i++) {
        struct paged_extent pages;

        demotions[i].db = db;
        demotions[i].hash = key_hash(&tier->partitions->seed, keys[i]);
        demotions[i].key = keys[i];
        pages = pages_of_key(tier, db, demotions[i].hash, keys[i]);
        demote_pages(tier, db, pages.id, 0, pages.table_pages);
        demote_pages(tier, db, pages.id, PAGED_TREE_FIRST, pages.tree_pages);
    }
    ask_for_demotions(tier, demotions, count);
    for (size_t i = 0; i < count; i++)
        results[i] = demotions[i].result;
    mem_free(demotions);
}

void tier_write_soon(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct requests *requests = &tier->requests;

    ASSERT_LOCKED(keyspace->partition);
    if (keyspace_entry(keyspace, keyspace_find(keyspace, hash, key))->flags & ENTRY_LATCHED)
        return;                     /* it is being written just now */
    mutex_lock(&requests->lock);
    if (requests->urgent == NULL)
        requests->urgent = mem_zalloc(sizeof(*requests->urgent));
    if (requests->urgent->count < URGENT_MAX)       /* beyond it the turn of the others comes soon enough */
        key_list_add(requests->urgent, keyspace, hash, key);
    requests->nudged = true;
    condition_signal(&requests->asked);
    mutex_unlock(&requests->lock);
}

enum status request_image(struct tier *tier, struct image_request *request)
{
    struct requests *requests = &tier->requests;

    mutex_lock(&requests->lock);
    CHECK(requests->image == NULL);
    requests->image = request;
    condition_signal(&requests->asked);
    while (!request->done)
        condition_wait(&requests->completed, &requests->lock);
    mutex_unlock(&requests->lock);
    return request->status;
}

enum status request_replacement(struct tier *tier, struct replace_request *request)
{
    struct requests *requests = &tier->requests;

    mutex_lock(&requests->lock);
    CHECK(requests->replacement == NULL);
    requests->replacement = request;
    requests->nudged = true;
    condition_signal(&requests->asked);
    while (!request->done)
        condition_wait(&requests->completed, &requests->lock);
    mutex_unlock(&requests->lock);
    return request->status;
}

/* --- the writer's side --- */

bool requests_wait(struct tier *tier, int64_t pause_us, enum request_wait wait)
{
    struct requests *requests = &tier->requests;
    struct timespec until;
    bool is_over = false;

    mutex_lock(&requests->lock);
    if (pause_us > 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += pause_us * 1000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        while (!tier->stopping && !requests->nudged && requests->demotions == NULL &&
               (requests->image == NULL || wait == WAIT_EXCEPT_IMAGE) && !is_over)
            is_over = !condition_wait_until(&requests->asked, &requests->lock, &until);
    }
    requests->nudged = false;
    mutex_unlock(&requests->lock);
    return !is_over;
}

void requests_wake(struct tier *tier)
{
    mutex_lock(&tier->requests.lock);
    condition_broadcast(&tier->requests.asked);
    mutex_unlock(&tier->requests.lock);
}

bool requests_pending(struct tier *tier)
{
    bool pending;

    mutex_lock(&tier->requests.lock);
    pending = tier->requests.image != NULL || tier->requests.demotions != NULL;
    mutex_unlock(&tier->requests.lock);
    return pending;
}

struct demote_request *requests_take_demotions(struct tier *tier)
{
    struct demote_request *first;

    mutex_lock(&tier->requests.lock);
    first = tier->requests.demotions;
    tier->requests.demotions = NULL;
    mutex_unlock(&tier->requests.lock);
    return first;
}

void requests_complete_demotions(struct tier *tier, struct demote_request *first)
{
    mutex_lock(&tier->requests.lock);
    while (first != NULL) {
        struct demote_request *next = first->next;      /* the requests are their owner's as soon as the lock is released */

        first->done = true;
        first = next;
    }
    condition_broadcast(&tier->requests.completed);
    mutex_unlock(&tier->requests.lock);
}

struct image_request *requests_image(struct tier *tier)
{
    struct image_request *request;

    mutex_lock(&tier->requests.lock);
    request = tier->requests.image;
    mutex_unlock(&tier->requests.lock);
    return request;
}

void requests_complete_image(struct tier *tier, struct image_request *request, enum status status)
{
    mutex_lock(&tier->requests.lock);
    request->status = status;
    request->done = true;
    tier->requests.image = NULL;
    condition_broadcast(&tier->requests.completed);
    mutex_unlock(&tier->requests.lock);
}

struct replace_request *requests_replacement(struct tier *tier)
{
    struct replace_request *request;

    mutex_lock(&tier->requests.lock);
    request = tier->requests.replacement;
    mutex_unlock(&tier->requests.lock);
    return request;
}

void requests_complete_replacement(struct tier *tier, struct replace_request *request, enum status status)
{
    mutex_lock(&tier->requests.lock);
    request->status = status;
    request->done = true;
    tier->requests.replacement = NULL;
    condition_broadcast(&tier->requests.completed);
    mutex_unlock(&tier->requests.lock);
}

struct key_list *requests_take_urgent(struct tier *tier)
{
    struct key_list *urgent;

    mutex_lock(&tier->requests.lock);
    urgent = tier->requests.urgent;
    tier->requests.urgent = NULL;
    mutex_unlock(&tier->requests.lock);
    return urgent;
}
