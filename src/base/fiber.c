/* Switching between stacks: ucontext makes the first entry of a fiber, _setjmp and _longjmp all others, because swapcontext asks the
 * kernel for the signal mask each time. Builds with sanitizers, which have to know of each switch, use swapcontext only. */
#include "base/fiber.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

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

enum { GUARD_SIZE = 4096, FREE_MAX = 16, KEPT_SIZE = 64 * 1024 };

struct fiber {
    struct fiber *next;         /* in the pool */
    struct fiber_pool *pool;
    char *stack;                /* GUARD_SIZE bytes that can't be touched, then FIBER_STACK_SIZE */
    ucontext_t context, caller;
    jmp_buf here, back;
    bool begun;                 /* its first entry has happened: here is valid */
    bool ended;
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

void fiber_pool_init(struct fiber_pool *pool)
{
    *pool = (struct fiber_pool){ 0 };
}

static void destroy(struct fiber *fiber)
{
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
        destroy(fiber);
    }
    pool->free_count = 0;
}

/* What the sanitizers have to know of a switch. */
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
static void run(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)((unsigned long)high << 32 | low);

    note_entry(fiber);
    for (;;) {
        fiber->main(fiber->main_context);
        fiber->ended = true;
        switch_out(fiber);
    }
}

static struct fiber *create(struct fiber_pool *pool)
{
    struct fiber *fiber = mem_zalloc(sizeof(*fiber));
    unsigned long address = (unsigned long)fiber;

    fiber->pool = pool;
    fiber->stack = mmap(NULL, GUARD_SIZE + FIBER_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber->stack == MAP_FAILED) {
        mem_free(fiber);
        return NULL;
    }
    mprotect(fiber->stack, GUARD_SIZE, PROT_NONE);
    CHECK(getcontext(&fiber->context) == 0);
    fiber->context.uc_stack.ss_sp = fiber->stack + GUARD_SIZE;
    fiber->context.uc_stack.ss_size = FIBER_STACK_SIZE;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, (void (*)(void))run, 2, (unsigned)(address >> 32), (unsigned)address);
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
        fiber = create(pool);
        if (fiber == NULL)
            return NULL;
    }
    fiber->main = main;
    fiber->main_context = context;
    fiber->ended = false;
    return fiber;
}

bool fiber_enter(struct fiber_pool *pool, struct fiber *fiber)
{
    CHECK(pool->current == NULL);
    pool->current = fiber;
    switch_in(fiber);
    pool->current = NULL;
    if (!fiber->ended)
        return true;
    if (pool->free_count >= FREE_MAX) {
        destroy(fiber);
        return false;
    }
    fiber->next = pool->free;
    pool->free = fiber;
    pool->free_count++;
    return false;
}

void fiber_suspend(struct fiber_pool *pool)
{
    CHECK(pool->current != NULL);
    switch_out(pool->current);
}

/* Stacks grow downwards: what was touched long ago is at their low end. */
void fiber_pool_trim(struct fiber_pool *pool)
{
    for (struct fiber *fiber = pool->free; fiber != NULL; fiber = fiber->next)
        madvise(fiber->stack + GUARD_SIZE, FIBER_STACK_SIZE - KEPT_SIZE, MADV_DONTNEED);
}
