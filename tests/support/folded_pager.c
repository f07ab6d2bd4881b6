#include "support/folded_pager.h"

#include "base/check.h"

static uint32_t fold(uint32_t number)
{
    return number < PAGED_TREE_FIRST ? number * 2 : (number - PAGED_TREE_FIRST) * 2 + 1;
}

static struct pager *memory_of(struct pager *pager)
{
    return &((struct folded_pager *)pager)->memory.pager;
}

static const char *find(struct pager *pager, uint32_t number, enum pager_use use, size_t *size)
{
    return memory_of(pager)->find(memory_of(pager), fold(number), use, size);
}

static char *change(struct pager *pager, uint32_t number, size_t size)
{
    return memory_of(pager)->change(memory_of(pager), fold(number), size);
}

static char *create(struct pager *pager, uint32_t number, size_t size)
{
    return memory_of(pager)->create(memory_of(pager), fold(number), size);
}

static void drop(struct pager *pager, uint32_t number)
{
    memory_of(pager)->drop(memory_of(pager), fold(number));
}

static void bring(struct pager *pager, uint32_t number)
{
    memory_of(pager)->bring(memory_of(pager), fold(number));
}

void folded_pager_init(struct folded_pager *pager)
{
    memory_pager_init(&pager->memory);
    pager->pager = (struct pager){ .find = find, .change = change, .create = create, .drop = drop, .bring = bring };
}

void folded_pager_release(struct folded_pager *pager)
{
    memory_pager_release(&pager->memory);
}

void folded_pager_load_wanted(struct folded_pager *pager, struct paged_access *access)
{
    CHECK(access->wanted_count > 0 && !access->asks);
    for (uint32_t i = 0; i < access->wanted_count; i++)
        memory_pager_load(&pager->memory, fold(access->wanted[i]));
    paged_forget_wanted(access);
}
