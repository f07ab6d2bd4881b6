#include "containers/score_index.h"

#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "containers/linear_hash.h"
#include "support/memory_pager.h"
#include "support/scaled.h"

enum { ENTRIES_MAX = 3000, SMALL = 6, FOUND_MAX = 64 };

struct entry {
    uint64_t hash;
    double score;
};

/* An index beside an array of its entries. */
struct rig {
    struct memory_pager memory;
    struct score_root root;
    struct score_index index;
    struct entry list[ENTRIES_MAX];
    uint32_t count;
    struct random random;
    uint64_t missing;
};

static void rig_init(struct rig *rig, uint64_t seed, uint32_t entries)
{
    memset(rig, 0, sizeof(*rig));
    memory_pager_init(&rig->memory);
    rig->index = (struct score_index){ &rig->root, &rig->memory.pager, entries };
    random_init(&rig->random, seed);
    score_index_create(&rig->index, 0);
}

/* After SCORE_MISSING: nothing has changed, and with the page it works. */
static bool was_missing(struct rig *rig, enum score_answer answer, uint64_t hash, const struct score_root *before, uint64_t changes)
{
    if (answer != SCORE_MISSING)
        return false;
    assert_memory_equal(&rig->root, before, sizeof(*before));
    assert_int_equal(rig->memory.changes, changes);
    memory_pager_load(&rig->memory, score_index_page(&rig->index, hash));
    rig->missing++;
    return true;
}

static enum score_answer add(struct rig *rig, uint64_t hash, double score)
{
    struct score_root before = rig->root;
    uint64_t changes = rig->memory.changes;
    enum score_answer answer = score_index_add(&rig->index, hash, score);

    return was_missing(rig, answer, hash, &before, changes) ? score_index_add(&rig->index, hash, score) : answer;
}

static enum score_answer take_out(struct rig *rig, uint64_t hash, double score)
{
    struct score_root before = rig->root;
    uint64_t changes = rig->memory.changes;
    enum score_answer answer = score_index_remove(&rig->index, hash, score);

    return was_missing(rig, answer, hash, &before, changes) ? score_index_remove(&rig->index, hash, score) : answer;
}

static enum score_answer change(struct rig *rig, uint64_t hash, double from, double to)
{
    struct score_root before = rig->root;
    uint64_t changes = rig->memory.changes;
    enum score_answer answer = score_index_change(&rig->index, hash, from, to);

    return was_missing(rig, answer, hash, &before, changes) ? score_index_change(&rig->index, hash, from, to) : answer;
}

/* Hashes of which many are equal, also in their lower half only. */
static uint64_t draw_hash(struct rig *rig)
{
    uint64_t hash = random_below(&rig->random, 1200) * 0x9e3779b97f4a7c15ull;

    return hash ^ random_below(&rig->random, 2) << 60;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(double));
}

/* The scores that are found are those of all entries with these 32 bits. */
static void verify_hash(struct rig *rig, uint64_t hash)
{
    double found[FOUND_MAX], wanted[FOUND_MAX];
    uint32_t found_count = 0, wanted_count = 0, at = 0;
    enum score_answer answer;

    while ((answer = score_index_find(&rig->index, hash, &at, &found[found_count])) != SCORE_NO) {
        if (answer == SCORE_MISSING)
            memory_pager_load(&rig->memory, score_index_page(&rig->index, hash));
        else
            found_count++;
        assert_true(found_count < FOUND_MAX);
    }
    for (uint32_t i = 0; i < rig->count; i++) {
        if ((uint32_t)rig->list[i].hash == (uint32_t)hash)
            wanted[wanted_count++] = rig->list[i].score;
    }
    assert_int_equal(found_count, wanted_count);
    qsort(found, found_count, sizeof(found[0]), compare);
    qsort(wanted, wanted_count, sizeof(wanted[0]), compare);
    assert_memory_equal(found, wanted, found_count * sizeof(found[0]));
}

static void verify(struct rig *rig)
{
    uint64_t count = 0;

    assert_int_equal(rig->memory.count, rig->root.pages);
    assert_int_equal(rig->root.count, rig->count);
    for (uint32_t number = 0; number < rig->root.pages; number++) {
        struct bytes page = memory_pager_page(&rig->memory, number);

        assert_true(score_page_is_sound(page));
        count += page.size / 12;
    }
    assert_int_equal(count, rig->count);
    for (uint32_t i = 0; i < rig->count; i += 7)
        verify_hash(rig, rig->list[i].hash);
}

static void settle(struct rig *rig)
{
    uint32_t numbers[PAGE_ROW_AHEAD_MAX], pages;

    memory_pager_load_all(&rig->memory);
    assert_int_equal(score_index_ahead(&rig->index, numbers), 0);
    do {
        pages = rig->root.pages;
        score_index_settle(&rig->index);
    } while (rig->root.pages != pages);
}

static void one_step(struct rig *rig, bool grows)
{
    uint64_t action = random_below(&rig->random, 100);
    uint32_t at = rig->count > 0 ? (uint32_t)random_below(&rig->random, rig->count) : 0;
    double score = (double)random_below(&rig->random, 5) - 2.5;

    if (action < 10) {
        verify_hash(rig, draw_hash(rig));
    } else if (action < 20 && rig->count > 0) {
        assert_int_equal(change(rig, rig->list[at].hash, rig->list[at].score, score), SCORE_YES);
        rig->list[at].score = score;
    } else if (action < 25) {
        assert_int_equal(take_out(rig, draw_hash(rig), 77), SCORE_NO);
        assert_int_equal(change(rig, draw_hash(rig), 77, 78), SCORE_NO);
    } else if ((action < (grows ? 75 : 45) || rig->count == 0) && rig->count < ENTRIES_MAX) {
        rig->list[rig->count] = (struct entry){ draw_hash(rig), score };
        assert_int_equal(add(rig, rig->list[rig->count].hash, score), SCORE_YES);
        rig->count++;
    } else {
        assert_int_equal(take_out(rig, rig->list[at].hash, rig->list[at].score), SCORE_YES);
        rig->list[at] = rig->list[--rig->count];
    }
}

static void random_work_agrees_with_an_array(void **state)
{
    static struct rig rig;

    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(6); seed++) {
        rig_init(&rig, seed, seed % 2 == 0 ? SMALL : SCORE_INDEX_ENTRIES);
        for (int i = 0; i < 12000; i++) {
            one_step(&rig, i / 3000 % 2 == 0);
            if (seed > 2 && random_below(&rig.random, 100) == 0)
                memory_pager_lose(&rig.memory, &rig.random, 1 + random_below(&rig.random, 3));
            if (random_below(&rig.random, 20) == 0) {
                uint32_t numbers[PAGE_ROW_AHEAD_MAX], count = score_index_ahead(&rig.index, numbers);

                while (count > 0)
                    memory_pager_load(&rig.memory, numbers[--count]);
            }
            if (i % 1000 == 0)
                verify(&rig);
        }
        settle(&rig);
        verify(&rig);
        assert_true(seed <= 2 ? rig.missing == 0 : rig.missing > 100);
        assert_in_range(rig.root.count / rig.root.pages, 0, rig.index.entries);
        while (rig.count > 0) {
            rig.count--;
            assert_int_equal(take_out(&rig, rig.list[rig.count].hash, rig.list[rig.count].score), SCORE_YES);
        }
        settle(&rig);
        verify(&rig);
        assert_int_equal(rig.root.pages, 1);
        memory_pager_release(&rig.memory);
    }
}

static void an_index_of_known_size_has_its_pages_at_once(void **state)
{
    static struct rig rig;
    uint32_t pages;

    (void)state;
    rig_init(&rig, 1, SMALL);
    rig.memory.pager.drop(&rig.memory.pager, 0);
    score_index_create(&rig.index, ENTRIES_MAX);
    pages = rig.root.pages;
    assert_in_range(pages, ENTRIES_MAX / SMALL, ENTRIES_MAX / SMALL + 1);
    for (uint64_t i = 0; i < ENTRIES_MAX; i++) {
        rig.list[rig.count++] = (struct entry){ i * 0x9e3779b97f4a7c15ull, (double)i };
        assert_int_equal(add(&rig, i * 0x9e3779b97f4a7c15ull, (double)i), SCORE_YES);
    }
    verify(&rig);
    assert_int_equal(rig.root.pages, pages);
    memory_pager_release(&rig.memory);
}

static void a_search_ends_when_its_page_got_shorter(void **state)
{
    static struct rig rig;
    uint32_t at = 0;
    double score;

    (void)state;
    rig_init(&rig, 1, SMALL);
    assert_int_equal(add(&rig, 5, 1), SCORE_YES);
    assert_int_equal(score_index_find(&rig.index, 5, &at, &score), SCORE_YES);
    assert_int_equal(take_out(&rig, 5, 1), SCORE_YES);
    assert_int_equal(score_index_find(&rig.index, 5, &at, &score), SCORE_NO);
    memory_pager_release(&rig.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_an_array),
        cmocka_unit_test(a_search_ends_when_its_page_got_shorter),
        cmocka_unit_test(an_index_of_known_size_has_its_pages_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
