#include "support/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

struct guarded guarded_create(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page - 1) / page * page;
    char *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(map != MAP_FAILED);
    CHECK(mprotect(map + page, inner, PROT_READ | PROT_WRITE) == 0);
    return (struct guarded){ map + page, map + page + inner };
}

void guarded_destroy(struct guarded *guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    CHECK(munmap(guarded->start - page, (size_t)(guarded->end - guarded->start) + 2 * page) == 0);
    *guarded = (struct guarded){ NULL, NULL };
}
