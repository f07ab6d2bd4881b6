#include "keyspace/heap.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
    SEGMENT_UNITS = SEGMENT_SIZE / ENTRY_UNIT,
    SEGMENT_LIMIT = 1 << (32 - HEAP_UNIT_BITS),
    SPLIT_SEARCH_MAX = 8,
    REPORT_STEP = 4096,
    GAIN_MIN = SEGMENT_SIZE / 50,       /* bytes that evacuating a segment has to regain */
};

/* A hole: tag u8 | 3 spare | units u32 | next u32 | prev u32. */
struct hole {
    uint8_t tag;
    uint8_t spare[3];
    uint32_t units;
    uint32_t next, prev;
};

static struct hole *hole_at(const struct heap *heap, uint32_t handle)
{
    return (struct hole *)heap_at(heap, handle);
}

/* One list per size below HEAP_EXACT_UNITS, above it eight lists per doubling; a list above contains sizes from its
 * lower bound on. */
static uint32_t list_of(uint32_t units)
{
    uint32_t shift, list;

    if (units < HEAP_EXACT_UNITS)
        return units;
    shift = 31 - (uint32_t)__builtin_clz(units) - 3;
    list = HEAP_EXACT_UNITS + (shift - 4) * 8 + ((units >> shift) & 7);
    return list < HEAP_LISTS ? list : HEAP_LISTS - 1;
}

void heap_init(struct heap *heap, struct segment_pool *pool)
{
    memset(heap, 0, sizeof(*heap));
    heap->pool = pool;
    heap->current = UINT32_MAX;
    heap->barred = UINT32_MAX;
}

void heap_release(struct heap *heap)
{
    for (uint32_t i = 0; i < heap->segment_count; i++) {
        if (heap->segments[i] != NULL)
            segment_pool_give(heap->pool, heap->segments[i]);
    }
    segment_pool_report(heap->pool, -(int64_t)heap->reported_bytes);
    mem_free(heap->segments);
    mem_free(heap->info);
    heap_init(heap, heap->pool);
}

static void hole_add(struct heap *heap, uint32_t handle, uint32_t units)
{
    struct hole *hole = hole_at(heap, handle);
    uint32_t list;

    heap->hole_bytes += (uint64_t)units * ENTRY_UNIT;
    if (units == 1) {
        hole->tag = ENTRY_FILLER;
        return;
    }
    list = list_of(units);
    hole->tag = ENTRY_FREE;
    hole->units = units;
    hole->prev = 0;
    hole->next = heap->lists[list];
    if (hole->next != 0)
        hole_at(heap, hole->next)->prev = handle;
    heap->lists[list] = handle;
    heap->list_map[list / 64] |= 1ull << (list % 64);
}

static void hole_remove(struct heap *heap, uint32_t handle)
{
    struct hole *hole = hole_at(heap, handle);
    uint32_t list = list_of(hole->units);

    heap->hole_bytes -= (uint64_t)hole->units * ENTRY_UNIT;
    if (hole->prev != 0) {
        hole_at(heap, hole->prev)->next = hole->next;
    } else {
        heap->lists[list] = hole->next;
        if (hole->next == 0)
            heap->list_map[list / 64] &= ~(1ull << (list % 64));
    }
    if (hole->next != 0)
        hole_at(heap, hole->next)->prev = hole->prev;
}

/* The first list from `from` on that is not empty. */
static uint32_t list_next(const struct heap *heap, uint32_t from)
{
    uint32_t word = from / 64;
    uint64_t map;

    if (from >= HEAP_LISTS)
        return HEAP_LISTS;
    map = heap->list_map[word] & (~0ull << (from % 64));
    while (map == 0) {
        if (++word == sizeof(heap->list_map) / sizeof(heap->list_map[0]))
            return HEAP_LISTS;
        map = heap->list_map[word];
    }
    return word * 64 + (uint32_t)__builtin_ctzll(map);
}

static uint32_t hole_take(struct heap *heap, uint32_t handle, uint32_t units)
{
    uint32_t rest = hole_at(heap, handle)->units - units;

    hole_remove(heap, handle);
    if (rest > 0)
        hole_add(heap, handle + units, rest);
    return handle;
}

/* Searches a list that may contain sizes below and above `units`, up to SPLIT_SEARCH_MAX holes. */
static uint32_t hole_search(struct heap *heap, uint32_t list, uint32_t units)
{
    uint32_t handle = heap->lists[list];

    for (int i = 0; handle != 0 && i < SPLIT_SEARCH_MAX; i++) {
        if (hole_at(heap, handle)->units >= units)
            return hole_take(heap, handle, units);
        handle = hole_at(heap, handle)->next;
    }
    return 0;
}

static uint32_t hole_split(struct heap *heap, uint32_t units)
{
    uint32_t list = list_next(heap, list_of(units) + 1);

    /* A remainder of one unit is unusable until compaction: prefer the next larger size. */
    if (list == units + 1 && list < HEAP_EXACT_UNITS) {
        uint32_t larger = list_next(heap, list + 1);

        if (larger < HEAP_LISTS)
            list = larger;
    }
    if (list >= HEAP_LISTS)
        return 0;
    return hole_search(heap, list, units);
}

static uint32_t bump_take(struct heap *heap, uint32_t units)
{
    struct heap_segment *info;
    uint32_t handle;

    if (heap->current == UINT32_MAX || heap->info[heap->current].bump + units > SEGMENT_UNITS)
        return 0;
    info = &heap->info[heap->current];
    handle = heap->current << HEAP_UNIT_BITS | info->bump;
    info->bump += units;
    return handle;
}

/* The rest of the bump segment becomes a hole, so that other sizes can use it. */
static void current_retire(struct heap *heap)
{
    struct heap_segment *info;
    uint32_t left;

    if (heap->current == UINT32_MAX)
        return;
    info = &heap->info[heap->current];
    left = SEGMENT_UNITS - info->bump;
    if (left > 0) {
        uint32_t handle = heap->current << HEAP_UNIT_BITS | info->bump;

        info->bump = SEGMENT_UNITS;
        hole_add(heap, handle, left);
    }
    heap->current = UINT32_MAX;
}

static bool segment_add(struct heap *heap)
{
    char *segment;
    uint32_t index = heap->segment_count;

    for (uint32_t i = 0; heap->held_count < heap->segment_count && i < heap->segment_count; i++) {
        if (heap->segments[i] == NULL) {
            index = i;
            break;
        }
    }
    if (index == SEGMENT_LIMIT)
        return false;
    segment = segment_pool_take(heap->pool);
    if (segment == NULL)
        return false;
    if (index == heap->segment_capacity) {
        heap->segment_capacity += heap->segment_capacity / 4 + 4;
        heap->segments = mem_realloc(heap->segments, heap->segment_capacity * sizeof(char *));
        heap->info = mem_realloc(heap->info, heap->segment_capacity * sizeof(struct heap_segment));
    }
    current_retire(heap);
    heap->segments[index] = segment;
    heap->info[index] = (struct heap_segment){ .bump = 1 };      /* unit 0 stays unused, so that no handle is 0 */
    if (index == heap->segment_count)
        heap->segment_count++;
    heap->held_count++;
    heap->current = index;
    return true;
}

static inline void note_live(struct heap *heap)
{
    int64_t change = (int64_t)(heap->live_bytes - heap->reported_bytes);

    if (change < REPORT_STEP && change > -REPORT_STEP)
        return;
    heap->reported_bytes = heap->live_bytes;
    segment_pool_report(heap->pool, change);
}

uint32_t heap_alloc(struct heap *heap, uint32_t size)
{
    uint32_t units = size / ENTRY_UNIT;
    uint32_t list = list_of(units);
    uint32_t handle = 0;
    struct heap_segment *info;

    if (heap->lists[list] != 0)
        handle = hole_search(heap, list, units);
    if (handle == 0)
        handle = bump_take(heap, units);
    if (handle == 0)
        handle = hole_split(heap, units);
    if (handle == 0) {
        if (!segment_add(heap))
            return 0;
        handle = bump_take(heap, units);
    }
    heap->live_bytes += size;
    note_live(heap);
    info = &heap->info[handle >> HEAP_UNIT_BITS];
    info->live += size;
    if (units > info->largest)
        info->largest = (uint16_t)units;
    return handle;
}

/* Removes the segment's holes from the lists, so that nothing is allocated in it any more. */
static void segment_unlist(struct heap *heap, uint32_t segment)
{
    uint32_t unit = 1;

    while (unit < heap->info[segment].bump) {
        uint32_t handle = segment << HEAP_UNIT_BITS | unit;
        struct entry *entry = heap_at(heap, handle);

        if (entry->type_encoding == ENTRY_FREE) {
            struct hole *hole = hole_at(heap, handle);

            hole_remove(heap, handle);
            hole->next = hole->prev = handle;
            unit += hole->units;
        } else if (entry->type_encoding == ENTRY_FILLER) {
            heap->hole_bytes -= ENTRY_UNIT;
            unit += 1;
        } else {
            unit += entry_block_size(entry) / ENTRY_UNIT;
        }
    }
}

static void segment_give(struct heap *heap, uint32_t segment)
{
    segment_pool_give(heap->pool, heap->segments[segment]);
    heap->segments[segment] = NULL;
    heap->held_count--;
}

void heap_free(struct heap *heap, uint32_t handle, uint32_t size)
{
    uint32_t segment = handle >> HEAP_UNIT_BITS;

    heap->live_bytes -= size;
    note_live(heap);
    heap->info[segment].live -= size;
    if (segment == heap->barred) {          /* being evacuated: must not be allocated again */
        struct hole *hole = hole_at(heap, handle);

        hole->tag = ENTRY_FREE;
        hole->units = size / ENTRY_UNIT;
        hole->next = hole->prev = handle;   /* in no list */
        return;
    }
    hole_add(heap, handle, size / ENTRY_UNIT);
    if (heap->info[segment].live == 0 && segment != heap->current) {
        segment_unlist(heap, segment);
        segment_give(heap, segment);
    }
}

/* Returns the bytes that evacuating the segment regains: all that is free, but the rest that a segment with the same blocks would have, too. */
static int64_t gain_of(const struct heap_segment *info)
{
    return (int64_t)SEGMENT_SIZE - info->live - (int64_t)info->largest * ENTRY_UNIT;
}

uint32_t heap_victim(const struct heap *heap)
{
    uint32_t victim = UINT32_MAX;
    int64_t most = GAIN_MIN;

    if (heap->hole_bytes <= SEGMENT_SIZE)
        return UINT32_MAX;
    for (uint32_t i = 0; i < heap->segment_count; i++) {
        if (heap->segments[i] == NULL || i == heap->current || gain_of(&heap->info[i]) <= most)
            continue;
        most = gain_of(&heap->info[i]);
        victim = i;
    }
    return victim;
}

struct entry *heap_walk(const struct heap *heap, uint32_t segment, uint32_t *unit)
{
    while (*unit < heap->info[segment].bump) {
        uint32_t handle = segment << HEAP_UNIT_BITS | *unit;
        struct entry *entry = heap_at(heap, handle);

        if (entry->type_encoding == ENTRY_FREE)
            *unit += hole_at(heap, handle)->units;
        else if (entry->type_encoding == ENTRY_FILLER)
            *unit += 1;
        else
            return entry;
    }
    return NULL;
}

void heap_bar(struct heap *heap, uint32_t segment)
{
    CHECK(heap->barred == UINT32_MAX && segment != heap->current);
    segment_unlist(heap, segment);
    heap->barred = segment;
}

/* Returns the segment to normal use: its free blocks become holes again. */
static void segment_relist(struct heap *heap, uint32_t segment)
{
    uint32_t unit = 1;

    while (unit < heap->info[segment].bump) {
        uint32_t handle = segment << HEAP_UNIT_BITS | unit;
        struct entry *entry = heap_at(heap, handle);
        uint32_t units;

        if (entry->type_encoding == ENTRY_FREE) {
            units = hole_at(heap, handle)->units;
            hole_add(heap, handle, units);
        } else if (entry->type_encoding == ENTRY_FILLER) {
            units = 1;
            heap->hole_bytes += ENTRY_UNIT;
        } else {
            units = entry_block_size(entry) / ENTRY_UNIT;
        }
        unit += units;
    }
}

void heap_unbar(struct heap *heap)
{
    uint32_t segment = heap->barred;

    if (segment == UINT32_MAX)
        return;
    heap->barred = UINT32_MAX;
    if (heap->info[segment].live == 0) {
        segment_give(heap, segment);
    } else {
        segment_relist(heap, segment);
    }
}

size_t heap_size(const struct heap *heap)
{
    size_t size = (size_t)heap->held_count * SEGMENT_SIZE;

    if (heap->current != UINT32_MAX)
        size -= (size_t)(SEGMENT_UNITS - heap->info[heap->current].bump) * ENTRY_UNIT;
    return size + heap->segment_capacity * (sizeof(char *) + sizeof(struct heap_segment));
}

void heap_verify(const struct heap *heap)
{
    uint64_t live = 0, holes = 0, listed = 0, held = 0;

    for (uint32_t segment = 0; segment < heap->segment_count; segment++) {
        uint32_t unit = 1, segment_live = 0;

        if (heap->segments[segment] == NULL)
            continue;
        held++;
        while (unit < heap->info[segment].bump) {
            uint32_t handle = segment << HEAP_UNIT_BITS | unit;
            struct entry *entry = heap_at(heap, handle);
            uint32_t units;

            if (entry->type_encoding == ENTRY_FREE) {
                units = hole_at(heap, handle)->units;
                CHECK(units >= 2);
                holes += segment == heap->barred ? 0 : units * ENTRY_UNIT;
            } else if (entry->type_encoding == ENTRY_FILLER) {
                units = 1;
                holes += segment == heap->barred ? 0 : ENTRY_UNIT;
                listed += segment == heap->barred ? 0 : ENTRY_UNIT;
            } else {
                units = entry_block_size(entry) / ENTRY_UNIT;
                segment_live += units * ENTRY_UNIT;
            }
            unit += units;
        }
        CHECK(unit == heap->info[segment].bump && segment_live == heap->info[segment].live);
        live += segment_live;
    }
    for (uint32_t list = 0; list < HEAP_LISTS; list++) {
        uint32_t prev = 0;

        CHECK((heap->lists[list] != 0) == (heap->list_map[list / 64] >> (list % 64) & 1));
        for (uint32_t handle = heap->lists[list]; handle != 0; handle = hole_at(heap, handle)->next) {
            CHECK(hole_at(heap, handle)->prev == prev && list_of(hole_at(heap, handle)->units) == list);
            listed += hole_at(heap, handle)->units * ENTRY_UNIT;
            prev = handle;
        }
    }
    CHECK(live == heap->live_bytes && holes == heap->hole_bytes && listed == holes && held == heap->held_count);
}
