#include "containers/page_row.h"

static void note_missing(struct pager *pager, uint64_t number, uint32_t numbers[PAGE_ROW_AHEAD_MAX], uint32_t *count)
{
    if (*count < PAGE_ROW_AHEAD_MAX && page_row_at(pager, (uint32_t)number, PAGER_LOOK).data == NULL)
        numbers[(*count)++] = (uint32_t)number;
}

uint32_t page_row_ahead(struct pager *pager, uint32_t pages, enum page_row_step step, uint64_t due, uint32_t numbers[PAGE_ROW_AHEAD_MAX])
{
    uint64_t next = pages, steps = due < PAGE_ROW_AHEAD_MAX - PAGE_ROW_AHEAD ? due + PAGE_ROW_AHEAD : PAGE_ROW_AHEAD_MAX;
    uint32_t count = 0;

    if (step == PAGE_ROW_GROWS) {
        for (uint32_t number; next < pages + steps && page_row_split(pages, next, &number); next++)
            note_missing(pager, number, numbers, &count);
    } else if (step == PAGE_ROW_SHRINKS) {
        /* A page is joined once until their number has halved. */
        for (; next > 1 && next + steps / 2 > pages && linear_hash_level(next - 1) == linear_hash_level(pages - 1); next--) {
            note_missing(pager, next - 1, numbers, &count);
            note_missing(pager, linear_hash_other_half(next), numbers, &count);
        }
    }
    return count;
}
