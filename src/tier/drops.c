#include "tier/drops.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "keyspace/pages.h"
#include "tier/handover.h"
#include "tier/reading.h"
#include "tier/tier_private.h"

enum {
    PAGES_A_HOLD = 256,             /* removed under one hold of a partition's lock */
    PAGES_A_ROUND = 4096,
    GRAVES_MAX = 8192,              /* in a page space: at this number the removed pages' records have to go first */
    ITEM_SIZE = 2 * PAGE_NAME_SIZE,
};

struct item {
    uint64_t id;
    uint32_t first, end;
};

static void put_item(char *to, const struct item *item)
{
    page_name(to, item->id, item->first);
    page_name(to + PAGE_NAME_SIZE, item->id, item->end);
}

static bool read_item(const char *from, struct item *item)
{
    uint64_t id;

    return page_name_parse(bytes_of(from, PAGE_NAME_SIZE), &item->id, &item->first) &&
           page_name_parse(bytes_of(from + PAGE_NAME_SIZE, PAGE_NAME_SIZE), &id, &item->end) && id == item->id;
}

static uint64_t list_of_slot(uint32_t slot)
{
    return (uint64_t)slot << PAGE_ID_COUNT_BITS;
}

/* --- which slots have lists --- */

static uint32_t first_slot(const struct keyspace *space)
{
    return (uint32_t)(partition_first_hash(space->partition) >> SLOT_SHIFT);
}

static void set_bit(struct tier *tier, struct keyspace *space, uint32_t slot)
{
    struct drops *drops = &space->tier->drops;
    uint32_t count = partition_slot_count(space->partition->all), at = slot & (count - 1);

    if (drops->slots == NULL)
        drops->slots = mem_zalloc((count + 63) / 64 * sizeof(uint64_t));
    if (drops->slots[at / 64] >> at % 64 & 1)
        return;
    drops->slots[at / 64] |= 1ull << at % 64;
    drops->count++;
    atomic_fetch_add(&tier->drop_lists, 1);
}

static void clear_bit(struct tier *tier, struct keyspace *space, uint32_t slot)
{
    struct drops *drops = &space->tier->drops;
    uint32_t at = slot & (partition_slot_count(space->partition->all) - 1);

    CHECK(drops->slots[at / 64] >> at % 64 & 1);
    drops->slots[at / 64] &= ~(1ull << at % 64);
    drops->count--;
    atomic_fetch_sub(&tier->drop_lists, 1);
}

/* A slot with a list, from drops.next on; there is one. */
static uint32_t next_slot(const struct keyspace *space)
{
    const struct drops *drops = &space->tier->drops;
    uint32_t count = partition_slot_count(space->partition->all), at = drops->next % count;

    while (!(drops->slots[at / 64] >> at % 64 & 1))
        at = (at + 1) % count;
    return first_slot(space) + at;
}

void drops_forget(struct tier *tier, struct tier_keyspace *part)
{
    atomic_fetch_sub(&tier->drop_lists, part->drops.count);
    mem_free(part->drops.slots);
    part->drops = (struct drops){ 0 };
}

static void find_lists(struct tier *tier, struct keyspace *space) REQUIRES(space->partition->lock);
static void find_lists(struct tier *tier, struct keyspace *space)
{
    uint32_t first = first_slot(space);

    for (uint32_t i = 0; i < partition_slot_count(space->partition->all); i++) {
        char name[PAGE_NAME_SIZE];
        uint64_t hash = pages_name(list_of_slot(first + i), 0, name);

        if (reading_is_possible(space, hash, bytes_of(name, sizeof(name))))
            set_bit(tier, space, first + i);
    }
}

void drops_find(struct tier *tier)
{
    for (uint32_t i = 0; i < tier->partitions->count; i++) {
        struct partition *partition = &tier->partitions->partitions[i];

        partition_lock(partition);
        for (int db = 0; db < tier->partitions->db_count; db++) {
            struct keyspace *space = partition_keyspace_if(partition, partitions_page_space(tier->partitions, db));

            if (space == NULL)
                continue;
            keyspace_assert_locked(space);
            if (recordmap_count(space->tier->map) > 0)
                find_lists(tier, space);
        }
        partition_unlock(partition);
    }
}

/* --- the lists --- */

/* STATUS_OK: it is resident. STATUS_NOT_FOUND: there is none. Else it can't be read. */
static enum status bring_list(struct tier *tier, struct pages *list) REQUIRES(list->space->partition->lock);
static enum status bring_list(struct tier *tier, struct pages *list)
{
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(list->id, 0, name);
    enum status status;
    size_t size;

    if (list->pager.find(&list->pager, 0, PAGER_LOOK, &size) != NULL)
        return STATUS_OK;
    status = tier_load_in_place(tier, list->space, hash, bytes_of(name, sizeof(name)));
    if (status != STATUS_OK)
        return status;
    return list->pager.find(&list->pager, 0, PAGER_LOOK, &size) != NULL ? STATUS_OK : STATUS_NOT_FOUND;
}

/* Nothing knows of some pages any more. */
static void log_left(struct tier *tier)
{
    tier->hooks.log(tier->hooks.context, "A list of deleted pages is damaged: the disk space of some deleted values will not become free.");
}

/* A damaged list. The pages that it names stay. */
static void give_up(struct tier *tier, struct pages *list) REQUIRES(list->space->partition->lock);
static void give_up(struct tier *tier, struct pages *list)
{
    list->pager.drop(&list->pager, 0);
    log_left(tier);
}

static bool is_elsewhere(const struct keyspace *space, uint64_t id)
{
    return pages_partition(space->partition->all, id) != space->partition->index;
}

/* False: the list can't be read just now. */
static bool add_item(struct tier *tier, struct keyspace *space, const struct item *item, int64_t now_ms) REQUIRES(space->partition->lock);
static bool add_item(struct tier *tier, struct keyspace *space, const struct item *item, int64_t now_ms)
{
    uint32_t slot = is_elsewhere(space, item->id) ? first_slot(space) : (uint32_t)(item->id >> PAGE_ID_COUNT_BITS);
    struct pages list;
    enum status status;
    size_t size = 0;
    char *bytes;

    pages_init(&list, space, list_of_slot(slot), now_ms);
    status = bring_list(tier, &list);
    if (status == STATUS_CORRUPT)
        give_up(tier, &list);
    else if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return false;
    if (status == STATUS_OK) {
        (void)list.pager.find(&list.pager, 0, PAGER_USE, &size);
        bytes = list.pager.change(&list.pager, 0, size + ITEM_SIZE);
    } else {
        bytes = list.pager.create(&list.pager, 0, ITEM_SIZE);
    }
    put_item(bytes + size, item);
    set_bit(tier, space, slot);
    return true;
}

void tier_drop_pages(struct tier *tier, struct keyspace *space, uint64_t id, uint32_t first, uint32_t end, int64_t now_ms)
{
    /* Memory that a deletion should give becomes free at once if the writer can't make any. */
    bool elsewhere = is_elsewhere(space, id);
    uint32_t at_once = elsewhere ? 0 : tier->state == TIER_OK ? tier->drops_at_once : DROPS_AT_ONCE_BLOCKED;
    struct item rest = { id, end - first > at_once ? first + at_once : end, end };
    struct pages pages;
    bool is_listed;

    ASSERT_LOCKED(space->partition);
    CHECK(first <= end);
    if (first == end)
        return;
    is_listed = rest.first < end && add_item(tier, space, &rest, now_ms);
    if (elsewhere && !is_listed)
        log_left(tier);
    if (is_listed)
        tier_nudge(tier);
    if (elsewhere)
        return;
    pages_init(&pages, space, id, now_ms);
    pages_drop(&pages, first, (is_listed ? rest.first : end) - first);      /* without the list all has to be done now */
}

void tier_drop_value(struct tier *tier, struct keyspace *keyspace, const struct paged_extent *pages)
{
    struct keyspace *space;
    int64_t now_ms;

    ASSERT_LOCKED(keyspace->partition);
    if (paged_pages(pages) == 0 || tier_living_keyspace(keyspace->partition, keyspace->incarnation) != keyspace)
        return;                     /* one that was flushed has no page space any more */
    space = pages_space_of(keyspace);
    keyspace_assert_locked(space);
    now_ms = clock_wall_ms();
    tier_drop_pages(tier, space, pages->id, 0, pages->table_pages, now_ms);
    if (pages->tree_pages > 0)
        tier_drop_pages(tier, space, pages->id, PAGED_TREE_FIRST, PAGED_TREE_FIRST + pages->tree_pages, now_ms);
}

bool tier_drops_pages(const struct tier *tier)
{
    return tier->state == TIER_OK && tier->drops_at_once > 0 && atomic_load_explicit(&tier->drop_lists, memory_order_relaxed) > 0;
}

/* The last item of a list. False: there is none, which is damage that no checksum has shown. */
static bool last_item(struct pages *list, struct item *item)
{
    size_t size = 0;
    const char *bytes = list->pager.find(&list->pager, 0, PAGER_LOOK, &size);

    return size >= ITEM_SIZE && read_item(bytes + size - ITEM_SIZE, item) && item->id % (1ull << PAGE_ID_COUNT_BITS) > 0 && item->first <= item->end;
}

/* The last item is what is left of it. */
static void put_back(struct pages *list, const struct item *item)
{
    size_t size = 0;

    (void)list->pager.find(&list->pager, 0, PAGER_LOOK, &size);
    if (item->first < item->end)
        put_item(list->pager.change(&list->pager, 0, size) + size - ITEM_SIZE, item);
    else if (size > ITEM_SIZE)
        (void)list->pager.change(&list->pager, 0, size - ITEM_SIZE);
    else
        list->pager.drop(&list->pager, 0);
}

/* Removes pages of the last item of the list, which are in `home`. */
static void drop_some(struct keyspace *home, struct pages *list, struct item *item) REQUIRES(home->partition->lock);
static void drop_some(struct keyspace *home, struct pages *list, struct item *item)
{
    uint32_t count = item->end - item->first < PAGES_A_HOLD ? item->end - item->first : PAGES_A_HOLD;
    struct pages pages;

    if (count > 0) {
        pages_init(&pages, home, item->id, list->now_ms);
        pages_drop(&pages, item->first, count);
        item->first += count;
    }
    put_back(list, item);
}

static bool has_to_wait(struct tier *tier, const struct keyspace *space)
{
    return space->tier->graves.count > GRAVES_MAX || handover_is_full(tier);
}

enum step { STEP_NOTHING, STEP_DONE, STEP_ELSEWHERE };

/* One hold of the lock. STEP_NOTHING: there is nothing to do, or it has to wait. STEP_ELSEWHERE: the pages are in another partition. */
static enum step step_space(struct tier *tier, struct keyspace *space, uint64_t *id) REQUIRES(space->partition->lock);
static enum step step_space(struct tier *tier, struct keyspace *space, uint64_t *id)
{
    struct pages list;
    struct item item = { 0 };
    enum status status;
    uint32_t slot;

    if (space->tier->drops.count == 0 || has_to_wait(tier, space))
        return STEP_NOTHING;
    slot = next_slot(space);
    pages_init(&list, space, list_of_slot(slot), clock_wall_ms());
    status = bring_list(tier, &list);
    if (status == STATUS_OK && !last_item(&list, &item))
        status = STATUS_CORRUPT;
    if (status == STATUS_CORRUPT)
        give_up(tier, &list);
    if (status == STATUS_NOT_FOUND || status == STATUS_CORRUPT)
        clear_bit(tier, space, slot);
    if (status != STATUS_OK) {
        space->tier->drops.next = (slot + 1) % partition_slot_count(space->partition->all);     /* others may be readable */
        return STEP_NOTHING;
    }
    *id = item.id;
    if (is_elsewhere(space, item.id))
        return STEP_ELSEWHERE;
    drop_some(space, &list, &item);
    return STEP_DONE;
}

/* Both partitions are locked. False: it has to wait. */
static bool step_both(struct tier *tier, struct keyspace *space, struct keyspace *home, uint64_t id) REQUIRES(space->partition->lock, home->partition->lock);
static bool step_both(struct tier *tier, struct keyspace *space, struct keyspace *home, uint64_t id)
{
    struct pages list;
    struct item item;

    if (space->tier->drops.count == 0 || has_to_wait(tier, home))
        return false;
    pages_init(&list, space, list_of_slot(next_slot(space)), clock_wall_ms());
    if (bring_list(tier, &list) != STATUS_OK || !last_item(&list, &item) || item.id != id)
        return false;               /* it has changed meanwhile: the next round sees */
    drop_some(home, &list, &item);
    return true;
}

/* For the last item of a list of this partition, whose pages are in another one. */
static bool step_elsewhere(struct tier *tier, struct partition *partition, int db, uint64_t id) UNCHECKED_LOCKS;
static bool step_elsewhere(struct tier *tier, struct partition *partition, int db, uint64_t id)
{
    struct partition *other = &tier->partitions->partitions[pages_partition(tier->partitions, id)];
    struct partition *first = partition->index < other->index ? partition : other, *second = first == partition ? other : partition;
    int page_space = partitions_page_space(tier->partitions, db);
    struct keyspace *space;
    bool done = false;

    partition_lock(first);
    partition_lock(second);
    space = partition_keyspace_if(partition, page_space);
    if (space != NULL)              /* else all was flushed */
        done = step_both(tier, space, partition_keyspace(other, page_space), id);
    partition_unlock(second);
    partition_unlock(first);
    return done;
}

/* One hold of locks for each database. */
static uint32_t step_partition(struct tier *tier, struct partition *partition)
{
    uint32_t holds = 0;

    for (int db = 0; db < tier->partitions->db_count; db++) {
        enum step step = STEP_NOTHING;
        struct keyspace *space;
        uint64_t id = 0;

        partition_lock(partition);
        space = partition_keyspace_if(partition, partitions_page_space(tier->partitions, db));
        if (space != NULL) {
            keyspace_assert_locked(space);
            step = step_space(tier, space, &id);
        }
        partition_unlock(partition);
        holds += step == STEP_DONE || (step == STEP_ELSEWHERE && step_elsewhere(tier, partition, db, id));
    }
    return holds;
}

bool drops_step(struct tier *tier)
{
    uint32_t holds = 0, before = 0;

    if (atomic_load(&tier->drop_lists) == 0 || tier->drops_at_once == 0)
        return false;
    do {
        before = holds;
        for (uint32_t i = 0; i < tier->partitions->count; i++)
            holds += step_partition(tier, &tier->partitions->partitions[i]);
    } while (holds > before && holds < PAGES_A_ROUND / PAGES_A_HOLD);
    return holds > before;
}
