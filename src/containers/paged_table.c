#include "containers/paged_table.h"

#include <string.h>

#include "base/check.h"
#include "base/compiler.h"
#include "base/mem.h"
#include "containers/linear_hash.h"
#include "containers/pair_page.h"

enum {
    FINGERPRINT_SHIFT = 56,
    STEPS = 2,                  /* of growing or shrinking at a time, so that what was put off is made up for */
    BEHIND_SHARE = 8,           /* pages are longer than they should be by this part */
    SHRINK_SHARE = 2,           /* pages are joined when they are half as long as when they are split */
    DRAWS_MIN = 100, DRAWS_MAX = 10000000, DRAWS_SHARE = 50,      /* of a random pair, times as many as it takes on average */
};

/* --- how many pages there should be --- */

/* Bytes of pairs for each page. */
static uint64_t mean_size(const struct paged_table *table)
{
    const struct paged_limits *limits = &table->limits;
    uint64_t size = table->root->count == 0 ? 0 : table->root->size / table->root->count * limits->pairs;

    if (size < limits->size_min)
        return limits->size_min;
    return size > limits->size_max ? limits->size_max : size;
}

static bool has_to_grow(const struct paged_table *table, uint64_t pages)
{
    return table->root->size > pages * mean_size(table) && table->root->count > pages && pages < UINT32_MAX;
}

static bool has_to_shrink(const struct paged_table *table, uint64_t pages)
{
    return pages > 1 && (table->root->size < pages * mean_size(table) / SHRINK_SHARE || table->root->count < pages / SHRINK_SHARE);
}

/* --- pages --- */

static struct bytes page_at(const struct paged_table *table, uint32_t number, enum pager_use use)
{
    return page_row_at(table->pager, number, use);
}

static void create_page(const struct paged_table *table, uint32_t number)
{
    struct pair_page_writer writer;

    pair_page_begin(&writer, table->pager->create(table->pager, number, pair_page_size(0, 0)), 0, 0);
}

static void note_length(struct paged_root *root, uint32_t count)
{
    if (count > root->longest)
        root->longest = count;
    if (count > root->longest_now)
        root->longest_now = count;
}

/* When the number of pages is a power of two, each of them has been split since it was one before: so `longest_now` is a bound for all. */
static void note_split(struct paged_root *root, uint32_t old_count, uint32_t new_count)
{
    note_length(root, old_count > new_count ? old_count : new_count);
    if ((root->pages & (root->pages - 1)) != 0)
        return;
    root->longest = root->longest_now;
    root->longest_now = 0;
}

static uint64_t hash_of(const struct paged_table *table, struct bytes key)
{
    return hash_bytes(&table->seed, key);
}

static uint8_t fingerprint_of(uint64_t hash)
{
    return (uint8_t)(hash >> FINGERPRINT_SHIFT);
}

static struct bytes pair_bytes(struct bytes page, uint32_t index, struct pair *pair)
{
    *pair = pair_page_at(page, index);
    return bytes_of(pair->value.data + pair->value.size - pair->size, pair->size);
}

/* --- growing and shrinking --- */

/* The pairs of a page that is split, divided. */
struct half {
    struct pair_page_writer writer;
    size_t size;
    uint32_t count;
};

static bool split_page(const struct paged_table *table)
{
    uint32_t new = table->root->pages, old = (uint32_t)linear_hash_other_half((size_t)new + 1), count;
    struct bytes page = page_at(table, old, PAGER_LOOK);
    struct half halves[2] = { 0 };
    struct pair pair;
    char *copy;
    bool *is_new;

    if (page.data == NULL)
        return false;
    count = pair_page_count(page);
    copy = mem_alloc(page.size + count + 1);
    memcpy(copy, page.data, page.size);
    is_new = (bool *)copy + page.size;
    page.data = copy;
    for (uint32_t i = 0; i < count; i++) {
        struct half *half;

        pair = pair_page_at(page, i);
        is_new[i] = linear_hash_index((size_t)new + 1, hash_of(table, pair.key)) == new;
        half = &halves[is_new[i]];
        half->size += pair.size;
        half->count++;
    }
    for (int i = 0; i < 2; i++) {
        size_t size = pair_page_size(halves[i].size, halves[i].count);
        char *data = i == 0 ? table->pager->change(table->pager, old, size) : table->pager->create(table->pager, new, size);

        pair_page_begin(&halves[i].writer, data, halves[i].size, halves[i].count);
        for (uint32_t k = 0; k < count; k++) {
            if (is_new[k] == (i == 1))
                pair_page_write(&halves[i].writer, pair_page_fingerprint(page, k), pair_bytes(page, k, &pair));
        }
    }
    mem_free(copy);
    table->root->pages++;
    note_split(table->root, halves[0].count, halves[1].count);
    return true;
}

static void write_pairs(struct pair_page_writer *writer, struct bytes page)
{
    uint32_t count = pair_page_count(page);
    struct pair pair;

    for (uint32_t i = 0; i < count; i++)
        pair_page_write(writer, pair_page_fingerprint(page, i), pair_bytes(page, i, &pair));
}

static bool join_pages(const struct paged_table *table)
{
    uint32_t last = table->root->pages - 1, other = (uint32_t)linear_hash_other_half(table->root->pages), count;
    struct bytes from = page_at(table, last, PAGER_LOOK), to = page_at(table, other, PAGER_LOOK);
    struct pair_page_writer writer;
    size_t pairs_size;
    char *copy;

    if (from.data == NULL || to.data == NULL)
        return false;
    count = pair_page_count(from) + pair_page_count(to);
    pairs_size = pair_page_pairs_size(from) + pair_page_pairs_size(to);
    copy = mem_alloc(from.size + to.size);
    memcpy(copy, from.data, from.size);
    memcpy(copy + from.size, to.data, to.size);
    table->pager->drop(table->pager, last);
    pair_page_begin(&writer, table->pager->change(table->pager, other, pair_page_size(pairs_size, count)), pairs_size, count);
    write_pairs(&writer, bytes_of(copy + from.size, to.size));
    write_pairs(&writer, bytes_of(copy, from.size));
    mem_free(copy);
    table->root->pages--;
    note_length(table->root, count);
    table->root->longest_now = table->root->longest;        /* pages that were split may be a whole again */
    return true;
}

static void grow(const struct paged_table *table)
{
    for (int i = 0; i < STEPS && has_to_grow(table, table->root->pages) && split_page(table); i++)
        ;
}

static void shrink(const struct paged_table *table)
{
    for (int i = 0; i < STEPS && has_to_shrink(table, table->root->pages) && join_pages(table); i++)
        ;
}

void paged_table_settle(const struct paged_table *table)
{
    grow(table);
    shrink(table);
}

uint32_t paged_table_ahead(const struct paged_table *table, uint32_t numbers[PAGE_ROW_AHEAD_MAX])
{
    uint32_t pages = table->root->pages;
    uint64_t wanted = table->root->size / mean_size(table);

    if (has_to_grow(table, pages))
        return page_row_ahead(table->pager, pages, PAGE_ROW_GROWS, wanted > pages ? wanted - pages : 0, numbers);
    if (has_to_shrink(table, pages))
        return page_row_ahead(table->pager, pages, PAGE_ROW_SHRINKS, wanted < pages ? pages - wanted : 0, numbers);
    return 0;
}

uint32_t paged_table_behind(const struct paged_table *table, uint32_t numbers[PAGE_ROW_AHEAD_MAX], uint32_t max)
{
    uint64_t pages = table->root->pages, wanted = table->root->size / mean_size(table);
    uint32_t count = 0;

    if (wanted <= pages + pages / BEHIND_SHARE + PAGE_ROW_AHEAD)
        return 0;
    while (count < max && count < PAGE_ROW_AHEAD_MAX && count < wanted - pages && page_row_split(table->root->pages, pages + count, &numbers[count]))
        count++;
    return count;
}

/* --- pairs --- */

void paged_table_create(const struct paged_table *table, uint64_t count, uint64_t size)
{
    struct paged_root *root = table->root;

    *root = (struct paged_root){ .count = count, .size = size, .pages = 1 };
    while (has_to_grow(table, root->pages))
        root->pages++;
    root->count = root->size = 0;
    for (uint32_t i = 0; i < root->pages; i++)
        create_page(table, i);
}

uint32_t paged_table_page(const struct paged_table *table, struct bytes key)
{
    return (uint32_t)linear_hash_index(table->root->pages, hash_of(table, key));
}

/* A key's page, and its pair there. */
struct spot {
    uint64_t hash;
    uint32_t number, index;
    struct bytes page;
};

static enum paged_answer find_spot(const struct paged_table *table, struct bytes key, struct spot *spot)
{
    spot->hash = hash_of(table, key);
    spot->number = (uint32_t)linear_hash_index(table->root->pages, spot->hash);
    spot->page = page_at(table, spot->number, PAGER_USE);
    if (spot->page.data == NULL)
        return PAGED_MISSING;
    return pair_page_find(spot->page, fingerprint_of(spot->hash), key, &spot->index) ? PAGED_YES : PAGED_NO;
}

static inline bool is_hidden(const struct paged_table *table, const struct pair *pair)
{
    return UNLIKELY(pair->number != 0) && pair->number <= table->hidden_until;
}

enum paged_answer paged_table_find(const struct paged_table *table, struct bytes key, struct bytes *value)
{
    struct spot spot;
    enum paged_answer answer = find_spot(table, key, &spot);
    struct pair pair;

    if (answer != PAGED_YES || (value == NULL && table->hidden_until == 0))
        return answer;
    pair = pair_page_at(spot.page, spot.index);
    if (value != NULL)
        *value = pair.value;
    return is_hidden(table, &pair) ? PAGED_NO : PAGED_YES;
}

enum paged_answer paged_table_number(const struct paged_table *table, struct bytes key, uint64_t *number)
{
    struct spot spot;
    enum paged_answer answer = find_spot(table, key, &spot);
    struct pair pair;

    if (answer != PAGED_YES)
        return answer;
    pair = pair_page_at(spot.page, spot.index);
    *number = pair.number;
    return is_hidden(table, &pair) ? PAGED_NO : PAGED_YES;
}

/* Bytes of the page that are replaced by as many others: nothing else of it changes. */
static void overwrite(const struct paged_table *table, const struct spot *spot, const char *old, struct bytes bytes)
{
    size_t at = (size_t)(old - spot->page.data);
    char *page = table->pager->change(table->pager, spot->number, spot->page.size);

    if (bytes.size > 0)
        memcpy(page + at, bytes.data, bytes.size);
}

/* Writes the pair in place of the old one, NULL if there is none, as the last of its page. The key and the value are not part of that. */
static void write_pair(const struct paged_table *table, struct spot *spot, const struct pair *old, struct bytes key, struct bytes value, uint64_t number)
{
    struct paged_root *root = table->root;
    size_t old_size = old != NULL ? old->size : 0, new_size = pair_numbered_size(key, value, number);
    uint32_t count = pair_page_count(spot->page) + (old == NULL);
    size_t size = pair_page_size(pair_page_pairs_size(spot->page) - old_size + new_size, count);
    char *page = table->pager->change(table->pager, spot->number, size > spot->page.size ? size : spot->page.size);

    if (old != NULL)
        spot->page.size = pair_page_remove(page, spot->page.size, spot->index);
    CHECK(pair_page_add(page, spot->page.size, fingerprint_of(spot->hash), key, value, number) == size);
    table->pager->change(table->pager, spot->number, size);
    root->size = root->size - old_size + new_size;
    root->count += old == NULL;
    note_length(root, count);
}

enum paged_answer paged_table_put(const struct paged_table *table, struct bytes key, struct bytes value)
{
    struct spot spot;
    enum paged_answer answer = find_spot(table, key, &spot);
    struct pair old = { .size = 0 };

    if (answer == PAGED_MISSING)
        return answer;
    if (answer == PAGED_YES) {
        old = pair_page_at(spot.page, spot.index);
        if (old.value.size == value.size) {
            if (value.size > 0) {
                overwrite(table, &spot, old.value.data, value);
                grow(table);        /* what was put off: the pages for it may be there */
            }
            return PAGED_NO;
        }
    }
    write_pair(table, &spot, answer == PAGED_YES ? &old : NULL, key, value, old.number);
    grow(table);
    return answer == PAGED_NO ? PAGED_YES : PAGED_NO;
}

enum paged_answer paged_table_put_number(const struct paged_table *table, struct bytes key, uint64_t number)
{
    struct spot spot;
    enum paged_answer answer = find_spot(table, key, &spot);
    struct pair old;

    if (answer != PAGED_YES)
        return answer;
    old = pair_page_at(spot.page, spot.index);
    if (old.number != 0 && number != 0) {
        char written[PAIR_NUMBER_SIZE];

        pair_write_number((uint8_t *)written, number);
        overwrite(table, &spot, (const char *)pair_number_at(&old), bytes_of(written, sizeof(written)));
    } else if (old.number != number) {
        struct buffer value = { 0 };

        buffer_append_bytes(&value, old.value);         /* it is in the page */
        write_pair(table, &spot, &old, key, buffer_bytes(&value), number);
        buffer_release(&value);
        grow(table);
    }
    return PAGED_YES;
}

enum paged_answer paged_table_remove(const struct paged_table *table, struct bytes key)
{
    struct spot spot;
    enum paged_answer answer = find_spot(table, key, &spot);
    char *page;

    if (answer != PAGED_YES)
        return answer;
    table->root->size -= pair_page_at(spot.page, spot.index).size;
    table->root->count--;
    page = table->pager->change(table->pager, spot.number, spot.page.size);
    table->pager->change(table->pager, spot.number, pair_page_remove(page, spot.page.size, spot.index));
    shrink(table);
    return PAGED_YES;
}

/* --- walking --- */

enum paged_answer paged_table_next(const struct paged_table *table, struct paged_iterator *iterator, struct bytes *key, struct bytes *value)
{
    while (iterator->page < table->root->pages) {
        if (iterator->bytes.data == NULL)
            iterator->bytes = page_at(table, iterator->page, PAGER_LOOK);
        if (iterator->bytes.data == NULL)
            return PAGED_MISSING;
        if (iterator->index < pair_page_count(iterator->bytes)) {
            struct pair pair = pair_page_at(iterator->bytes, iterator->index++);

            if (is_hidden(table, &pair))
                continue;
            *key = pair.key;
            *value = pair.value;
            iterator->number = pair.number;
            return PAGED_YES;
        }
        iterator->page++;
        iterator->index = 0;
        iterator->bytes.data = NULL;
    }
    return PAGED_NO;
}

/* Draws a page and a position until the position is in use: in each draw every pair has the same probability. */
enum paged_answer paged_table_random(const struct paged_table *table, struct random *random, struct bytes *key, struct bytes *value, uint32_t *page)
{
    const struct paged_root *root = table->root;
    double draws = DRAWS_MIN + DRAWS_SHARE * (double)root->pages * root->longest / (double)root->count;

    CHECK(root->count > 0);
    if (draws > DRAWS_MAX)
        draws = DRAWS_MAX;
    for (; draws > 0; draws--) {
        struct random before = *random;
        uint32_t number = (uint32_t)random_below(random, root->pages);
        uint64_t index = random_below(random, root->longest);
        struct bytes bytes = page_at(table, number, PAGER_LOOK);
        struct pair pair;

        if (bytes.data == NULL) {
            *random = before;
            *page = number;
            return PAGED_MISSING;
        }
        if (index < pair_page_count(bytes)) {
            pair = pair_page_at(bytes, (uint32_t)index);
            if (is_hidden(table, &pair))
                continue;
            *key = pair.key;
            *value = pair.value;
            (void)page_at(table, number, PAGER_USE);
            return PAGED_YES;
        }
    }
    return PAGED_NO;
}

void paged_table_skip_draw(const struct paged_table *table, struct random *random)
{
    (void)random_below(random, table->root->pages);
    (void)random_below(random, table->root->longest);
}

uint32_t paged_table_scan_page(const struct paged_table *table, uint64_t *cursor)
{
    size_t index = linear_hash_index(table->root->pages, *cursor);

    *cursor = linear_hash_cursor_after(table->root->pages, index, *cursor);
    return (uint32_t)index;
}

enum paged_answer paged_table_scan(const struct paged_table *table, uint64_t *cursor, size_t count, paged_found *found, void *context)
{
    size_t given = 0, pages = 0;

    do {
        uint64_t next = *cursor;
        struct bytes page = page_at(table, paged_table_scan_page(table, &next), PAGER_USE);
        uint32_t here;

        if (page.data == NULL)
            return pages == 0 ? PAGED_MISSING : PAGED_YES;
        here = pair_page_count(page);
        for (uint32_t i = 0; i < here; i++) {
            struct pair pair = pair_page_at(page, i);

            if (!is_hidden(table, &pair))
                found(context, pair.key, pair.value);
        }
        given += here;
        *cursor = next;
    } while (*cursor != 0 && given < count && ++pages < count * 10);
    return PAGED_YES;
}

/* --- the root as bytes --- */

void paged_root_write(const struct paged_root *root, char bytes[PAGED_ROOT_SIZE])
{
    memcpy(bytes, &root->count, 8);
    memcpy(bytes + 8, &root->size, 8);
    memcpy(bytes + 16, &root->pages, 4);
    memcpy(bytes + 20, &root->longest, 4);
    memcpy(bytes + 24, &root->longest_now, 4);
}

bool paged_root_read(const char bytes[PAGED_ROOT_SIZE], struct paged_root *root)
{
    memcpy(&root->count, bytes, 8);
    memcpy(&root->size, bytes + 8, 8);
    memcpy(&root->pages, bytes + 16, 4);
    memcpy(&root->longest, bytes + 20, 4);
    memcpy(&root->longest_now, bytes + 24, 4);
    return root->pages > 0 && root->size >= root->count && (root->count > 0) == (root->size > 0) && root->longest >= (root->count > 0) &&
        root->longest_now <= root->longest;
}
