#include "support/page_values.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "keyspace/pages.h"

enum { VALUES = 6, PAGES = 24, RANGE_MAX = 8 };

struct page {
    bool exists;
    uint32_t size, stamp;
};

struct value_of_pages {
    uint64_t id;                    /* 0: none */
    uint32_t incarnation;           /* of its database */
    struct page pages[PAGES];
};

struct page_values {
    struct tier_box *box;
    struct random random;
    uint32_t stamp;
    struct value_of_pages list[VALUES];
};

struct page_values *page_values_create(struct tier_box *box, uint64_t seed)
{
    struct page_values *values = mem_zalloc(sizeof(*values));

    values->box = box;
    box->tier->drops_at_once = 2;
    random_init(&values->random, seed);
    return values;
}

void page_values_destroy(struct page_values *values)
{
    mem_free(values);
}

void page_values_move(struct page_values *values, struct tier_box *box)
{
    values->box = box;
}

static uint32_t pick(struct page_values *values, uint32_t limit)
{
    return (uint32_t)random_below(&values->random, limit);
}

/* Around the limits of rooms and forms; one in some hundreds is encoded without a lock. */
static uint32_t pick_size(struct page_values *values)
{
    static const uint32_t sizes[] = { 0, 1, 62, 63, 64, 65, 700, 1023, 1024, 2000, 4031, 4032, 4095, 4096, 6000 };

    if (pick(values, 300) == 0)
        return 100000;
    return pick(values, 3) == 0 ? sizes[pick(values, sizeof(sizes) / sizeof(sizes[0]))] : pick(values, 1400);
}

static char byte_at(const struct value_of_pages *value, uint32_t number, uint32_t at)
{
    return (char)(value->id * 31 + number * 7 + value->pages[number].stamp * 13 + at + at / 251);
}

static void fill(struct value_of_pages *value, uint32_t number, char *bytes)
{
    for (uint32_t at = 0; at < value->pages[number].size; at++)
        bytes[at] = byte_at(value, number, at);
}

static struct keyspace *page_space(const struct page_values *values, struct partition *partition, uint32_t incarnation) REQUIRES(partition->lock);
static struct keyspace *page_space(const struct page_values *values, struct partition *partition, uint32_t incarnation)
{
    int space = partitions_space_of(values->box->partitions, incarnation | INCARNATION_PAGES);

    return space < 0 ? NULL : partition_keyspace(partition, space);
}

/* True: it is resident. False: the disk can't be read just now. */
static bool bring(struct page_values *values, struct pages *pages, uint32_t number) REQUIRES(pages->space->partition->lock);
static bool bring(struct page_values *values, struct pages *pages, uint32_t number)
{
    char name[PAGE_NAME_SIZE];
    uint64_t hash = pages_name(pages->id, number, name);
    size_t size;

    if (pages->pager.find(&pages->pager, number, PAGER_LOOK, &size) != NULL)
        return true;
    if (tier_load_in_place(values->box->tier, pages->space, hash, bytes_of(name, sizeof(name))) != STATUS_OK)
        return false;
    BOX_DEMAND(values->box, pages->pager.find(&pages->pager, number, PAGER_LOOK, &size) != NULL, "page %u of %llx is gone", number,
        (unsigned long long)pages->id);
    return true;
}

static void check(struct page_values *values, struct value_of_pages *value, struct pages *pages, uint32_t number)
{
    size_t size;
    const char *bytes = pages->pager.find(&pages->pager, number, PAGER_USE, &size);

    BOX_DEMAND(values->box, size == value->pages[number].size, "page %u of %llx has %zu bytes, not %u", number, (unsigned long long)value->id, size,
        value->pages[number].size);
    for (uint32_t at = 0; at < size; at++)
        BOX_DEMAND(values->box, bytes[at] == byte_at(value, number, at), "byte %u of page %u of %llx", at, number, (unsigned long long)value->id);
}

/* What is kept of its bytes is as it was; then all are new. */
static void change(struct page_values *values, struct value_of_pages *value, struct pages *pages, uint32_t number)
{
    uint32_t size = pick(values, 2) == 0 ? value->pages[number].size + pick(values, 40) : pick_size(values);
    char *bytes = pages->pager.change(&pages->pager, number, size);

    for (uint32_t at = 0; at < size && at < value->pages[number].size; at++)
        BOX_DEMAND(values->box, bytes[at] == byte_at(value, number, at), "byte %u of page %u is not kept", at, number);
    value->pages[number].size = size;
    value->pages[number].stamp = ++values->stamp;
    fill(value, number, bytes);
    check(values, value, pages, number);
}

static void create(struct page_values *values, struct value_of_pages *value, struct pages *pages, uint32_t number)
{
    uint32_t size = pick_size(values);
    char *bytes = pages->pager.create(&pages->pager, number, size);

    value->pages[number] = (struct page){ true, size, ++values->stamp };
    fill(value, number, bytes);
    check(values, value, pages, number);
}

/* A run of pages that exist, resident or not. */
static void drop(struct page_values *values, struct value_of_pages *value, struct pages *pages, uint32_t first)
{
    uint32_t count = 0, most = 1 + pick(values, RANGE_MAX);

    while (first + count < PAGES && value->pages[first + count].exists && count < most)
        value->pages[first + count++].exists = false;
    pages_drop(pages, first, count);
}

static void drop_all(struct page_values *values, struct value_of_pages *value, struct pages *pages)
{
    for (uint32_t first = 0, end; first < PAGES; first = end + 1) {
        for (end = first; end < PAGES && value->pages[end].exists; end++)
            ;
        tier_drop_pages(values->box->tier, pages->space, value->id, first, end, pages->now_ms);
    }
    value->id = 0;
}

static void step_page(struct page_values *values, struct value_of_pages *value, struct pages *pages)
{
    uint32_t number = pick(values, PAGES);

    if (!value->pages[number].exists)
        create(values, value, pages, number);
    else if (pick(values, 4) == 0)
        drop(values, value, pages, number);
    else if (!bring(values, pages, number))
        return;
    else if (pick(values, 2) == 0)
        change(values, value, pages, number);
    else
        check(values, value, pages, number);
}

static void step_value(struct page_values *values, struct value_of_pages *value, struct partition *partition)
{
    struct keyspace *space;
    struct pages pages;

    partition_lock(partition);
    space = page_space(values, partition, value->incarnation);
    if (space == NULL) {
        value->id = 0;              /* flushed */
    } else if (partition->owner == NULL) {
        pages_init(&pages, space, value->id, clock_wall_ms());
        if (pick(values, 40) == 0)
            drop_all(values, value, &pages);
        else
            step_page(values, value, &pages);
    }
    partition_unlock(partition);
}

static struct partition *partition_of(const struct page_values *values, const struct value_of_pages *value)
{
    return &values->box->partitions->partitions[pages_partition(values->box->partitions, value->id)];
}

void page_values_step(struct page_values *values, int db)
{
    struct value_of_pages *value = &values->list[pick(values, VALUES)];

    if (value->id == 0) {
        memset(value, 0, sizeof(*value));
        value->id = pages_new_id(values->box->partitions, random_next(&values->random) | 1ull << 63);      /* keys of the other partitions are overwritten blindly */
        value->incarnation = partitions_incarnation(values->box->partitions, db);
    }
    step_value(values, value, partition_of(values, value));
}

static void verify_value(struct page_values *values, struct value_of_pages *value, struct partition *partition)
{
    struct keyspace *space;
    struct pages pages;

    partition_lock(partition);
    space = page_space(values, partition, value->incarnation);
    if (space == NULL) {
        value->id = 0;
    } else {
        pages_init(&pages, space, value->id, clock_wall_ms());
        for (uint32_t i = 0; i < PAGES; i++) {
            if (!value->pages[i].exists)
                continue;
            BOX_DEMAND(values->box, bring(values, &pages, i), "page %u of %llx can't be read", i, (unsigned long long)value->id);
            check(values, value, &pages, i);
        }
    }
    partition_unlock(partition);
}

void page_values_verify(struct page_values *values)
{
    for (int i = 0; i < VALUES; i++) {
        if (values->list[i].id != 0)
            verify_value(values, &values->list[i], partition_of(values, &values->list[i]));
    }
}

void page_values_drop_later(struct page_values *values)
{
    values->box->tier->drops_at_once = 0;
    for (int i = 0; i < VALUES / 2; i++) {
        struct value_of_pages *value = &values->list[i];
        struct partition *partition = partition_of(values, value);
        struct keyspace *space;
        struct pages pages;

        partition_lock(partition);
        space = value->id != 0 ? page_space(values, partition, value->incarnation) : NULL;
        if (space != NULL) {
            pages_init(&pages, space, value->id, clock_wall_ms());
            drop_all(values, value, &pages);
        }
        partition_unlock(partition);
    }
}

uint64_t page_values_count(struct page_values *values)
{
    uint64_t count = 0;

    page_values_verify(values);
    for (int i = 0; i < VALUES; i++) {
        for (uint32_t number = 0; values->list[i].id != 0 && number < PAGES; number++)
            count += values->list[i].pages[number].exists;
    }
    return count;
}
