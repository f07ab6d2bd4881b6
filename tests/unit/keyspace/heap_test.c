#include "keyspace/heap.h"

#include "support/unit.h"

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

enum { BLOCKS = 3000, STEPS = 60000 };

struct block {
    uint32_t handle;        /* 0: none */
    uint32_t size;
    uint8_t fill;
};

struct rig {
    struct random random;
    struct segment_pool *pool;
    struct heap heap;
    struct block blocks[BLOCKS];
    uint64_t live;
};

static int open_rig(void **state)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    uint64_t seed = seed_new();

    random_init(&rig->random, seed);
    rig->pool = segment_pool_create();
    heap_init(&rig->heap, rig->pool);
    *state = rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    heap_release(&rig->heap);
    assert_int_equal(segment_pool_used(rig->pool), 0);
    segment_pool_destroy(rig->pool);
    mem_free(rig);
    return 0;
}

static uint32_t pick(struct rig *rig, uint32_t limit) { return (uint32_t)random_below(&rig->random, limit); }

enum { LARGEST = 8 * 1024 };        /* an entry with a longer value would have more than 13 bits of size */

static uint32_t make_size(struct rig *rig)
{
    switch (pick(rig, 8)) {
    case 0: return entry_block_round(1 + pick(rig, LARGEST));
    case 1: return entry_block_round(1070 + pick(rig, 40));       /* where the lists of one size end */
    case 2: return LARGEST - 8 * pick(rig, 4);
    default: return entry_block_round(1 + pick(rig, 120));
    }
}

/* A block must look like an entry of its size, so that the heap can be walked. */
static void fill(struct rig *rig, struct block *block)
{
    struct entry *entry = heap_at(&rig->heap, block->handle);
    struct value value = { .type = VALUE_STRING, .encoding = STRING_EMBEDDED };

    *entry = (struct entry){ .type_encoding = (uint8_t)(value.type | value.encoding << 4) };
    entry->value_size = (uint16_t)(block->size - sizeof(struct entry));
    memset(entry->body, block->fill, entry->value_size);
    assert_int_equal(entry_block_size(entry), block->size);
}

static void take(struct rig *rig, struct block *block)
{
    block->size = make_size(rig);
    block->fill = (uint8_t)random_next(&rig->random);
    block->handle = heap_alloc(&rig->heap, block->size);
    assert_int_not_equal(block->handle, 0);
    assert_int_equal((uintptr_t)heap_at(&rig->heap, block->handle) % ENTRY_UNIT, 0);
    fill(rig, block);
    rig->live += block->size;
}

static void check(struct rig *rig, const struct block *block)
{
    const struct entry *entry = heap_at(&rig->heap, block->handle);

    assert_int_equal(entry->value_size, block->size - sizeof(struct entry));
    for (uint32_t i = 0; i < entry->value_size; i++) {
        if ((uint8_t)entry->body[i] != block->fill)
            assert_true(false);
    }
}

static void give(struct rig *rig, struct block *block)
{
    check(rig, block);
    heap_free(&rig->heap, block->handle, block->size);
    rig->live -= block->size;
    block->handle = 0;
}

/* Like compaction: moves all blocks, or a part of them, out of a barred segment. */
static void evacuate(struct rig *rig, uint32_t percent)
{
    uint32_t victim = heap_victim(&rig->heap);

    if (victim == UINT32_MAX)
        return;
    heap_bar(&rig->heap, victim);
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &rig->blocks[i];
        uint32_t from = block->handle;

        if (from == 0 || from >> HEAP_UNIT_BITS != victim || pick(rig, 100) >= percent)
            continue;
        block->handle = heap_alloc(&rig->heap, block->size);
        assert_int_not_equal(block->handle >> HEAP_UNIT_BITS, victim);
        memcpy(heap_at(&rig->heap, block->handle), heap_at(&rig->heap, from), block->size);
        heap_free(&rig->heap, from, block->size);
    }
    if (pick(rig, 4) == 0)
        heap_verify(&rig->heap);
    heap_unbar(&rig->heap);
    if (percent == 100)
        assert_true(victim >= rig->heap.segment_count || rig->heap.segments[victim] == NULL);
}

static void blocks_keep_their_bytes_whatever_happens_around_them(void **state)
{
    struct rig *rig = *state;

    for (int step = 0; step < STEPS; step++) {
        struct block *block = &rig->blocks[pick(rig, step / (STEPS / 4) % 2 ? BLOCKS / 8 : BLOCKS)];

        if (block->handle == 0)
            take(rig, block);
        else
            give(rig, block);
        if (pick(rig, 300) == 0)
            evacuate(rig, pick(rig, 2) ? 100 : pick(rig, 100));
        assert_int_equal(rig->heap.live_bytes, rig->live);
        if (step % 2000 == 0)
            heap_verify(&rig->heap);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (rig->blocks[i].handle != 0)
            give(rig, &rig->blocks[i]);
    }
    heap_verify(&rig->heap);
    assert_true(rig->heap.live_bytes == 0 && rig->heap.held_count <= 2);
}

static void a_freed_block_of_the_right_size_is_reused(void **state)
{
    struct rig *rig = *state;
    uint32_t handles[100], held;

    for (int i = 0; i < 100; i++) {
        struct block block = { heap_alloc(&rig->heap, 640), 640, 1 };

        fill(rig, &block);
        handles[i] = block.handle;
    }
    held = rig->heap.held_count;
    for (int round = 0; round < 1000; round++) {
        struct block block = { 0, 640, 2 };

        heap_free(&rig->heap, handles[round % 100], 640);
        block.handle = heap_alloc(&rig->heap, 640);
        fill(rig, &block);
        assert_int_equal(block.handle, handles[round % 100]);
    }
    heap_verify(&rig->heap);
    assert_int_equal(rig->heap.held_count, held);
    for (int i = 0; i < 100; i++)
        heap_free(&rig->heap, handles[i], 640);
}

static void usage_is_reported_to_the_pool(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < BLOCKS; i++)
        take(rig, &rig->blocks[i]);
    assert_in_range(segment_pool_used(rig->pool), rig->live - 4096, rig->live + 4096);
    assert_true(heap_size(&rig->heap) >= rig->live);
    for (int i = 0; i < BLOCKS; i++)
        give(rig, &rig->blocks[i]);
    assert_in_range(segment_pool_used(rig->pool), 0, 4096);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(blocks_keep_their_bytes_whatever_happens_around_them),
        WITH_RIG(a_freed_block_of_the_right_size_is_reused),
        WITH_RIG(usage_is_reported_to_the_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
