/* Switching between stacks: ucontext makes the first entry of a fiber, _setjmp and _longjmp all others, because swapcontext asks the
 * kernel for the signal mask each time. Builds with sanitizers, which have to know of each switch, use swapcontext only. */
#undef _FORTIFY_SOURCE      /* Ubuntu's compiler sets it: its _longjmp ends a process that jumps to another stack */

#include "base/fiber.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FIBER_WATCHED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FIBER_WATCHED
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

/* Pages have 4 KiB to 64 KiB. SUSPENDED_SIZE is for the frames that switch. */
enum { PAGE_SIZE_MIN = 4096, GUARD_SIZE = 64 * 1024, FREE_MAX = 16, SUSPENDED_SIZE = 8 * 1024 };

struct fiber {
    struct fiber *next;         /* in the pool */
    struct fiber_pool *pool;
    char *stack;                /* GUARD_SIZE bytes that can't be touched, then FIBER_STACK_SIZE */
    ucontext_t context, caller;
    jmp_buf here, back;
    bool begun;                 /* its first entry has happened: here is valid */
    bool ended;
    bool was_suspended;         /* since it was taken from the pool */
    size_t end;                 /* of what it uses, from the low end of the stack; while it is suspended */
    size_t counted;             /* bytes, in the pool's memory */
    void (*main)(void *context);
    void *main_context;
#ifdef __SANITIZE_ADDRESS__
    void *fake_stack, *caller_fake_stack;
    const void *caller_stack;
    size_t caller_stack_size;
#endif
#ifdef __SANITIZE_THREAD__
    void *tsan_fiber, *tsan_caller;
#endif
};

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void fiber_pool_init(struct fiber_pool *pool, _Atomic uint64_t *memory)
{
    *pool = (struct fiber_pool){ .memory = memory };
}

static void count(struct fiber *fiber, size_t size)
{
    if (size != fiber->counted)
        atomic_fetch_add_explicit(fiber->pool->memory, (uint64_t)size - fiber->counted, memory_order_relaxed);
    fiber->counted = size;
}

static void destroy_fiber(struct fiber *fiber)
{
    count(fiber, 0);
#ifdef __SANITIZE_THREAD__
    __tsan_destroy_fiber(fiber->tsan_fiber);
#endif
    munmap(fiber->stack, GUARD_SIZE + FIBER_STACK_SIZE);
    mem_free(fiber);
}

void fiber_pool_release(struct fiber_pool *pool)
{
    CHECK(pool->current == NULL);
    while (pool->free != NULL) {
        struct fiber *fiber = pool->free;

        pool->free = fiber->next;
        destroy_fiber(fiber);
    }
    pool->free_count = 0;
}

/* Tells the sanitizers about a switch. */
#ifdef FIBER_WATCHED
static void announce_entry(struct fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fiber->caller_fake_stack, fiber->stack + GUARD_SIZE, FIBER_STACK_SIZE);
#endif
#ifdef __SANITIZE_THREAD__
    fiber->tsan_caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan_fiber, 0);
#endif
    (void)fiber;
}

static void note_back(struct fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->caller_fake_stack, NULL, NULL);
#endif
    (void)fiber;
}

static void note_entry(struct fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &fiber->caller_stack, &fiber->caller_stack_size);
#endif
    (void)fiber;
}

static void announce_return(struct fiber *fiber)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fiber->fake_stack, fiber->caller_stack, fiber->caller_stack_size);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(fiber->tsan_caller, 0);
#endif
    (void)fiber;
}

static void switch_in(struct fiber *fiber)
{
    announce_entry(fiber);
    swapcontext(&fiber->caller, &fiber->context);
    note_back(fiber);
}

static void switch_out(struct fiber *fiber)
{
    announce_return(fiber);
    swapcontext(&fiber->context, &fiber->caller);
    note_entry(fiber);
}
#else
static void note_entry(struct fiber *fiber)
{
    (void)fiber;
}

static __attribute__((noinline)) void switch_in(struct fiber *fiber)
{
    if (_setjmp(fiber->back) != 0)
        return;
    if (fiber->begun)
        _longjmp(fiber->here, 1);
    fiber->begun = true;
    setcontext(&fiber->context);
}

static __attribute__((noinline)) void switch_out(struct fiber *fiber)
{
    if (_setjmp(fiber->here) == 0)
        _longjmp(fiber->back, 1);
}
#endif

/* Never returns: after each run it waits for the next. makecontext passes integers only, so the pointer comes in two halves. */
static void run_fiber(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)((unsigned long)high << 32 | low);

    note_entry(fiber);
    for (;;) {
        fiber->main(fiber->main_context);
        fiber->ended = true;
        switch_out(fiber);
    }
}

static struct fiber *create_fiber(struct fiber_pool *pool)
{
    struct fiber *fiber = mem_zalloc(sizeof(*fiber));
    unsigned long address = (unsigned long)fiber;

    fiber->pool = pool;
    fiber->stack = mmap(NULL, GUARD_SIZE + FIBER_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber->stack == MAP_FAILED) {
        mem_free(fiber);
        return NULL;
    }
    if (mprotect(fiber->stack, GUARD_SIZE, PROT_NONE) != 0) {
        munmap(fiber->stack, GUARD_SIZE + FIBER_STACK_SIZE);
        mem_free(fiber);
        return NULL;
    }
    madvise(fiber->stack, GUARD_SIZE + FIBER_STACK_SIZE, MADV_NOHUGEPAGE);      /* 2 MiB for the first byte of a stack are too much */
    CHECK(getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = fiber->stack + GUARD_SIZE;
    fiber->context.uc_stack.ss_size = FIBER_STACK_SIZE;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, (void (*)(void))run_fiber, 2, (unsigned)(address >> 32), (unsigned)address);
#ifdef __SANITIZE_THREAD__
    fiber->tsan_fiber = __tsan_create_fiber(0);
#endif
    return fiber;
}

struct fiber *fiber_create(struct fiber_pool *pool, void (*main)(void *context), void *context)
{
    struct fiber *fiber = pool->free;

    if (fiber != NULL) {
        pool->free = fiber->next;
        pool->free_count--;
    } else {
        fiber = create_fiber(pool);
        if (fiber == NULL)
            return NULL;
    }
    fiber->main = main;
    fiber->main_context = context;
    fiber->ended = fiber->was_suspended = false;
    count(fiber, FIBER_LEAST_SIZE);
    return fiber;
}

/* Bytes that have memory, of `size` bytes of the stack, `from` its low end on. */
static size_t resident_size(const struct fiber *fiber, size_t from, size_t size)
{
    unsigned char pages[FIBER_STACK_SIZE / PAGE_SIZE_MIN];
    size_t found = 0, page = page_size();

    if (mincore(fiber->stack + GUARD_SIZE + from, size, pages) != 0)
        return size;
    for (size_t i = 0; i < size / page; i++)
        found += pages[i] & 1;
    return found * page;
}

/* Stacks grow downwards. No frame is so large that it leaves out as much as is looked at. */
static bool is_deep(const struct fiber *fiber)
{
    return resident_size(fiber, FIBER_STACK_SIZE - 2 * FIBER_KEPT_SIZE, FIBER_KEPT_SIZE) > 0;
}

static void trim_stack(struct fiber *fiber, size_t size)
{
    madvise(fiber->stack + GUARD_SIZE, size, MADV_DONTNEED);
}

/* Marks the stack below `end` as unused. */
static void settle_stack(struct fiber *fiber, size_t end)
{
    if (end > FIBER_STACK_SIZE - FIBER_KEPT_SIZE)
        end = FIBER_STACK_SIZE - FIBER_KEPT_SIZE;
    if (!is_deep(fiber)) {
        count(fiber, FIBER_LEAST_SIZE);
        return;
    }
    trim_stack(fiber, end);
    count(fiber, resident_size(fiber, 0, FIBER_STACK_SIZE));
}

bool fiber_enter(struct fiber_pool *pool, struct fiber *fiber)
{
    CHECK(pool->current == NULL);
    pool->current = fiber;
    switch_in(fiber);
    pool->current = NULL;
    if (!fiber->ended) {
        fiber->was_suspended = true;
        settle_stack(fiber, fiber->end);
        return true;
    }
    if (fiber->was_suspended)
        settle_stack(fiber, FIBER_STACK_SIZE);
    if (pool->free_count >= FREE_MAX) {
        destroy_fiber(fiber);
        return false;
    }
    fiber->next = pool->free;
    pool->free = fiber;
    pool->free_count++;
    return false;
}

void fiber_suspend(struct fiber_pool *pool)
{
    struct fiber *fiber = pool->current;
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    CHECK(fiber != NULL);
    fiber->end = (frame - (uintptr_t)(fiber->stack + GUARD_SIZE) - SUSPENDED_SIZE) & ~(page_size() - 1);
    switch_out(fiber);
}
