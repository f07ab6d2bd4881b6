#include "cluster/lost_slots.h"

#include "base/mem.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "engine/delete_key.h"
#include "engine/redirect.h"
#include "engine/role.h"
#include "tier/tier.h"

enum {
    KEYS_A_PAGE = 64,
    AGAIN_MS = 1000,                /* after the store could not be read, or a value is being written */
};

struct lost_slots {
    struct engine *engine;
    struct thread thread;
    struct waiting changed;
    _Atomic bool stopping;
    struct mutex lock;              /* guards `left` */
    struct slots left;
};

/* False: it can't be removed now. Its partition is locked. */
static bool remove_locked(struct lost_slots *lost, struct keyspace *keyspace, uint64_t hash, struct bytes key)
    REQUIRES(keyspace->partition->lock);
static bool remove_locked(struct lost_slots *lost, struct keyspace *keyspace, uint64_t hash, struct bytes key)
{
    struct engine *engine = lost->engine;
    uint32_t handle = keyspace_find(keyspace, hash, key);

    if (handle == 0 && engine->tier != NULL && tier_discard_unread(engine->tier, keyspace, hash, key)) {
        handle = keyspace_find(keyspace, hash, key);
    } else if (handle == 0 && engine->tier != NULL) {      /* it is not there, or is being loaded */
        enum status status = tier_load_in_place(engine->tier, keyspace, hash, key);

        if (status == STATUS_CORRUPT)
            (void)tier_discard_damaged(engine->tier, keyspace, hash, key);
        else if (status != STATUS_OK)
            return false;
        handle = keyspace_find(keyspace, hash, key);
    }
    if (handle == 0)
        return true;
    if (keyspace_entry(keyspace, handle)->flags & ENTRY_PINNED || entry_is_held(keyspace, keyspace_entry(keyspace, handle)))
        return false;
    delete_key(engine, keyspace, hash, handle, EVENT_DEL);
    return true;
}

static bool remove_key(struct lost_slots *lost, int db, struct bytes key)
{
    struct partitions *all = lost->engine->partitions;
    uint64_t hash = key_hash(&all->seed, key);
    struct partition *partition = &all->partitions[partition_index(all, hash)];
    struct keyspace *keyspace;
    enum slot_state state;
    bool is_done = true;

    if (!partition_lock_for(partition, &(struct reader){ .may_block = true }))
        return false;
    keyspace = partition_keyspace_if(partition, db);
    state = redirect_state(lost->engine->redirect, hash);
    if (keyspace != NULL && !role_is_replica(lost->engine) && state < SLOT_OWNED && state != SLOT_RECEIVED) {
        keyspace_assert_locked(keyspace);
        is_done = remove_locked(lost, keyspace, hash, key);
    }
    partition_unlock(partition);
    return is_done;
}

/* Removes the keys of a slot in a database. False: some are left. */
static bool empty_slot(struct lost_slots *lost, unsigned slot, int db)
{
    struct engine *engine = lost->engine;
    uint64_t cursor = slot_first_hash((uint16_t)slot) >> 16, last = slot_last_hash((uint16_t)slot) >> 16;
    bool is_done = true;

    do {
        struct scan_page page = { 0 };

        tier_scan(engine->tier, engine->partitions, &(struct reader){ .may_block = true }, db, cursor, KEYS_A_PAGE, &page);
        is_done &= page.status == STATUS_OK;
        for (size_t i = 0; i < page.count && is_done && !lost->stopping; i++) {
            if (slot_of_key(scan_page_key(&page, i)) == slot)
                is_done &= remove_key(lost, db, scan_page_key(&page, i));
        }
        cursor = page.cursor;
        scan_page_release(&page);
    } while (cursor != 0 && cursor <= last && is_done && !lost->stopping);
    return is_done && !lost->stopping;
}

/* False: there is none. */
static bool next_slot(struct lost_slots *lost, unsigned *slot)
{
    struct slot_range range;
    bool has_any;

    mutex_lock(&lost->lock);
    has_any = slots_next(&lost->left, 0, &range);
    mutex_unlock(&lost->lock);
    if (has_any)
        *slot = range.first;
    return has_any;
}

static void note_empty(struct lost_slots *lost, unsigned slot)
{
    mutex_lock(&lost->lock);
    slots_remove(&lost->left, slot);
    mutex_unlock(&lost->lock);
    waiting_bump(&lost->changed);
}

static void lost_main(void *context)
{
    struct lost_slots *lost = context;

    while (!lost->stopping) {
        uint32_t version = waiting_version(&lost->changed);
        bool is_done = true;
        unsigned slot;

        if (!next_slot(lost, &slot)) {
            waiting_wait(&lost->changed, version, -1);
            continue;
        }
        for (int db = 0; db < lost->engine->partitions->db_count; db++)
            is_done &= empty_slot(lost, slot, db);
        if (is_done)
            note_empty(lost, slot);
        else if (!lost->stopping)
            waiting_wait(&lost->changed, version, AGAIN_MS);
    }
}

int lost_slots_start(struct engine *engine, struct lost_slots **lost)
{
    struct lost_slots *new = mem_zalloc(sizeof(*new));
    int error;

    new->engine = engine;
    mutex_init(&new->lock);
    error = thread_start(&new->thread, "kelvin-lost", engine->meter, lost_main, new);
    *lost = new;
    if (error == 0)
        return 0;
    lost_slots_destroy(new);
    *lost = NULL;
    return error;
}

void lost_slots_stop(struct lost_slots *lost)
{
    if (lost == NULL)
        return;
    lost->stopping = true;
    waiting_bump(&lost->changed);
    thread_join(&lost->thread);
}

void lost_slots_destroy(struct lost_slots *lost)
{
    if (lost == NULL)
        return;
    mutex_release(&lost->lock);
    mem_free(lost);
}

void lost_slots_add(struct lost_slots *lost, const struct slots *slots)
{
    mutex_lock(&lost->lock);
    slots_add_all(&lost->left, slots);
    mutex_unlock(&lost->lock);
    waiting_bump(&lost->changed);
}

void lost_slots_await(struct lost_slots *lost)
{
    for (;;) {
        uint32_t version = waiting_version(&lost->changed);
        unsigned slot;

        if (lost->stopping || !next_slot(lost, &slot))
            return;
        waiting_wait(&lost->changed, version, -1);
    }
}
