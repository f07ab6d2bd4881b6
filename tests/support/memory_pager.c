#include "support/memory_pager.h"

#include "base/check.h"
#include "base/mem.h"

static struct memory_page *page_of(struct pager *pager, uint32_t number)
{
    struct memory_pager *memory = (struct memory_pager *)pager;

    CHECK(number < memory->capacity && memory->pages[number].data != NULL);
    return &memory->pages[number];
}

static const char *find(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    const struct memory_page *page = page_of(pager, number);

    (void)use;
    *size = page->size;
    return page->is_missing ? NULL : page->data;
}

static char *change(struct pager *pager, uint32_t number, size_t size)
{
    struct memory_page *page = page_of(pager, number);
    char *data = mem_alloc(size > 0 ? size : 1);

    CHECK(!page->is_missing);
    memcpy(data, page->data, size < page->size ? size : page->size);
    mem_free(page->data);
    page->data = data;
    page->size = size;
    ((struct memory_pager *)pager)->changes++;
    return data;
}

static char *create(struct pager *pager, uint32_t number, size_t size)
{
    struct memory_pager *memory = (struct memory_pager *)pager;

    if (number >= memory->capacity) {
        uint32_t capacity = number * 2 + 16;

        memory->pages = mem_realloc(memory->pages, capacity * sizeof(memory->pages[0]));
        memset(memory->pages + memory->capacity, 0, (capacity - memory->capacity) * sizeof(memory->pages[0]));
        memory->capacity = capacity;
    }
    if (memory->pages[number].data != NULL) {
        CHECK(memory->pages[number].is_missing);
        mem_free(memory->pages[number].data);
        memory->count--;
    }
    memory->pages[number] = (struct memory_page){ .data = mem_alloc(size > 0 ? size : 1), .size = size };
    memory->count++;
    memory->changes++;
    return memory->pages[number].data;
}

static void drop(struct pager *pager, uint32_t number)
{
    struct memory_page *page = page_of(pager, number);

    mem_free(page->data);
    *page = (struct memory_page){ 0 };
    ((struct memory_pager *)pager)->count--;
    ((struct memory_pager *)pager)->changes++;
}

static void bring(struct pager *pager, uint32_t number)
{
    page_of(pager, number)->is_missing = false;
    ((struct memory_pager *)pager)->brought++;
}

void memory_pager_init(struct memory_pager *pager)
{
    *pager = (struct memory_pager){ .pager = { .find = find, .change = change, .create = create, .drop = drop, .bring = bring } };
}

void memory_pager_release(struct memory_pager *pager)
{
    for (uint32_t i = 0; i < pager->capacity; i++)
        mem_free(pager->pages[i].data);
    mem_free(pager->pages);
}

void memory_pager_lose(struct memory_pager *pager, struct random *random, uint64_t one_in)
{
    for (uint32_t i = 0; i < pager->capacity; i++) {
        if (random_below(random, one_in) == 0)
            pager->pages[i].is_missing = true;
    }
}

void memory_pager_load(struct memory_pager *pager, uint32_t number)
{
    page_of(&pager->pager, number)->is_missing = false;
}

void memory_pager_load_all(struct memory_pager *pager)
{
    for (uint32_t i = 0; i < pager->capacity; i++)
        pager->pages[i].is_missing = false;
}

struct bytes memory_pager_page(const struct memory_pager *pager, uint32_t number)
{
    CHECK(number < pager->capacity && pager->pages[number].data != NULL);
    return bytes_of(pager->pages[number].data, pager->pages[number].size);
}
