#include "containers/score_index.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "containers/linear_hash.h"

enum {
    HASH_SIZE = sizeof(uint32_t), SCORE_SIZE = sizeof(double), ENTRY_SIZE = HASH_SIZE + SCORE_SIZE,
    STEPS = 2,                  /* of growing or shrinking at a time, so that what was put off is made up for */
    SHRINK_SHARE = 2,
};

/* --- pages --- */

static uint32_t count_of(size_t size)
{
    return (uint32_t)(size / ENTRY_SIZE);
}

static uint32_t hash_at(const char *page, uint32_t at)
{
    uint32_t hash;

    memcpy(&hash, page + (size_t)at * HASH_SIZE, HASH_SIZE);
    return hash;
}

static size_t score_offset(uint32_t count, uint32_t at)
{
    return (size_t)count * HASH_SIZE + (size_t)at * SCORE_SIZE;
}

static void put_entry(char *page, uint32_t count, uint32_t at, uint32_t hash, const char *score)
{
    memcpy(page + (size_t)at * HASH_SIZE, &hash, HASH_SIZE);
    memcpy(page + score_offset(count, at), score, SCORE_SIZE);
}

bool score_page_is_sound(struct bytes page)
{
    return page.size % ENTRY_SIZE == 0 && page.size / ENTRY_SIZE <= UINT32_MAX;
}

static struct bytes page_at(const struct score_index *index, uint32_t number, enum pager_use use)
{
    return page_row_at(index->pager, number, use);
}

/* --- growing and shrinking --- */

static enum page_row_step step_of(const struct score_index *index)
{
    uint64_t pages = index->root->pages;

    if (index->root->count > pages * index->entries && pages < UINT32_MAX)
        return PAGE_ROW_GROWS;
    return pages > 1 && index->root->count < pages * index->entries / SHRINK_SHARE ? PAGE_ROW_SHRINKS : PAGE_ROW_STAYS;
}

static char *copy_of(struct bytes page)
{
    char *copy = mem_alloc(page.size + 1);

    memcpy(copy, page.data, page.size);
    return copy;
}

static bool split_page(const struct score_index *index)
{
    uint32_t new = index->root->pages, old = (uint32_t)linear_hash_other_half((size_t)new + 1), counts[2] = { 0 }, written[2] = { 0 };
    struct bytes page = page_at(index, old, PAGER_LOOK);
    uint32_t count = count_of(page.size);
    char *copy, *pages[2];

    if (page.data == NULL)
        return false;
    copy = copy_of(page);
    for (uint32_t i = 0; i < count; i++)
        counts[linear_hash_index((size_t)new + 1, hash_at(copy, i)) == new]++;
    pages[1] = index->pager->create(index->pager, new, (size_t)counts[1] * ENTRY_SIZE);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t hash = hash_at(copy, i);

        if (linear_hash_index((size_t)new + 1, hash) == new)
            put_entry(pages[1], counts[1], written[1]++, hash, copy + score_offset(count, i));
    }
    pages[0] = index->pager->change(index->pager, old, (size_t)counts[0] * ENTRY_SIZE);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t hash = hash_at(copy, i);

        if (linear_hash_index((size_t)new + 1, hash) != new)
            put_entry(pages[0], counts[0], written[0]++, hash, copy + score_offset(count, i));
    }
    mem_free(copy);
    index->root->pages++;
    return true;
}

static bool join_pages(const struct score_index *index)
{
    uint32_t last = index->root->pages - 1, other = (uint32_t)linear_hash_other_half(index->root->pages);
    struct bytes from = page_at(index, last, PAGER_LOOK), to = page_at(index, other, PAGER_LOOK);
    uint32_t from_count = count_of(from.size), to_count = count_of(to.size);
    char *copy, *page;

    if (from.data == NULL || to.data == NULL)
        return false;
    copy = copy_of(from);
    index->pager->drop(index->pager, last);
    page = index->pager->change(index->pager, other, to.size + from.size);
    memmove(page + score_offset(to_count + from_count, 0), page + score_offset(to_count, 0), (size_t)to_count * SCORE_SIZE);
    for (uint32_t i = 0; i < from_count; i++)
        put_entry(page, to_count + from_count, to_count + i, hash_at(copy, i), copy + score_offset(from_count, i));
    mem_free(copy);
    index->root->pages--;
    return true;
}

static void grow(const struct score_index *index)
{
    for (int i = 0; i < STEPS && step_of(index) == PAGE_ROW_GROWS && split_page(index); i++)
        ;
}

static void shrink(const struct score_index *index)
{
    for (int i = 0; i < STEPS && step_of(index) == PAGE_ROW_SHRINKS && join_pages(index); i++)
        ;
}

void score_index_settle(const struct score_index *index)
{
    grow(index);
    shrink(index);
}

uint32_t score_index_ahead(const struct score_index *index, uint32_t numbers[PAGE_ROW_AHEAD_MAX])
{
    return page_row_ahead(index->pager, index->root->pages, step_of(index), 0, numbers);
}

/* --- entries --- */

void score_index_create(const struct score_index *index, uint64_t count)
{
    *index->root = (struct score_root){ .count = count, .pages = 1 };
    while (step_of(index) == PAGE_ROW_GROWS)
        index->root->pages++;
    index->root->count = 0;
    for (uint32_t i = 0; i < index->root->pages; i++)
        index->pager->create(index->pager, i, 0);
}

/* As many bits as an entry has: a table of more than 2^32 pages can't be. */
uint32_t score_index_page(const struct score_index *index, uint64_t hash)
{
    return (uint32_t)linear_hash_index(index->root->pages, (uint32_t)hash);
}

/* The entry of the hash, from `at` on; the count if there is none. */
static uint32_t find_from(struct bytes page, uint32_t hash, uint32_t at)
{
    uint32_t count = count_of(page.size);

    while (at < count && hash_at(page.data, at) != hash)
        at++;
    return at;
}

enum score_answer score_index_find(const struct score_index *index, uint64_t hash, uint32_t *at, double *score)
{
    struct bytes page = page_at(index, score_index_page(index, hash), PAGER_USE);
    uint32_t count = count_of(page.size), found;

    if (page.data == NULL)
        return SCORE_MISSING;
    found = find_from(page, (uint32_t)hash, *at);
    if (found >= count)
        return SCORE_NO;
    memcpy(score, page.data + score_offset(count, found), SCORE_SIZE);
    *at = found + 1;
    return SCORE_YES;
}

enum score_answer score_index_add(const struct score_index *index, uint64_t hash, double score)
{
    uint32_t number = score_index_page(index, hash), count;
    struct bytes page = page_at(index, number, PAGER_USE);
    char *data;

    if (page.data == NULL)
        return SCORE_MISSING;
    count = count_of(page.size);
    data = index->pager->change(index->pager, number, page.size + ENTRY_SIZE);
    memmove(data + score_offset(count + 1, 0), data + score_offset(count, 0), (size_t)count * SCORE_SIZE);
    put_entry(data, count + 1, count, (uint32_t)hash, (const char *)&score);
    index->root->count++;
    grow(index);
    return SCORE_YES;
}

/* The entry with that hash and score. */
static enum score_answer find_exactly(const struct score_index *index, uint64_t hash, double score, struct bytes *page, uint32_t *at)
{
    uint32_t count;

    *page = page_at(index, score_index_page(index, hash), PAGER_USE);
    if (page->data == NULL)
        return SCORE_MISSING;
    count = count_of(page->size);
    for (*at = 0; (*at = find_from(*page, (uint32_t)hash, *at)) < count; (*at)++) {
        if (memcmp(page->data + score_offset(count, *at), &score, SCORE_SIZE) == 0)
            return SCORE_YES;
    }
    return SCORE_NO;
}

enum score_answer score_index_remove(const struct score_index *index, uint64_t hash, double score)
{
    uint32_t number = score_index_page(index, hash), at, last;
    struct bytes page;
    enum score_answer answer = find_exactly(index, hash, score, &page, &at);
    char *data;

    if (answer != SCORE_YES)
        return answer;
    /* The last entry takes its place. */
    last = count_of(page.size) - 1;
    data = index->pager->change(index->pager, number, page.size);
    if (at != last)
        put_entry(data, last + 1, at, hash_at(data, last), data + score_offset(last + 1, last));
    memmove(data + score_offset(last, 0), data + score_offset(last + 1, 0), (size_t)last * SCORE_SIZE);
    index->pager->change(index->pager, number, page.size - ENTRY_SIZE);
    index->root->count--;
    shrink(index);
    return SCORE_YES;
}

enum score_answer score_index_change(const struct score_index *index, uint64_t hash, double from, double to)
{
    struct bytes page;
    uint32_t at;
    enum score_answer answer = find_exactly(index, hash, from, &page, &at);
    char *data;

    if (answer != SCORE_YES)
        return answer;
    data = index->pager->change(index->pager, score_index_page(index, hash), page.size);
    memcpy(data + score_offset(count_of(page.size), at), &to, SCORE_SIZE);
    return SCORE_YES;
}
