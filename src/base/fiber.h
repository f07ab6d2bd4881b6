/* Fiber: a stack of its own for work that may have to wait in the middle, on a thread that must not wait.
 *
 * Owner: one thread, which enters fibers and is returned to when they suspend themselves. A fiber that has ended goes back to its pool
 * and is used again. Its stack is FIBER_STACK_SIZE bytes of address space, of which the operating system provides what is touched, and
 * ends at a guard page: overflow is a segmentation fault, not silent damage.
 *
 * What stacks take is counted: FIBER_LEAST_SIZE each, and what a deep one has touched when it is suspended. Then what is below its end is
 * given back, and all but the first FIBER_KEPT_SIZE bytes when it has ended; so beside the fiber that runs, at most one has more than it counts.
 */
#ifndef KELVIN_BASE_FIBER_H
#define KELVIN_BASE_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIBER_STACK_SIZE = 8 * 1024 * 1024, FIBER_LEAST_SIZE = 16 * 1024, FIBER_KEPT_SIZE = 64 * 1024 };

struct fiber;

/* The fibers of one thread. */
struct fiber_pool {
    struct fiber *free;
    struct fiber *current;      /* the one that runs; NULL: the thread's own stack */
    size_t free_count;
    _Atomic uint64_t *memory;
};

/* `memory` counts the bytes that the stacks of all its pools take. */
void fiber_pool_init(struct fiber_pool *pool, _Atomic uint64_t *memory);
void fiber_pool_release(struct fiber_pool *pool);       /* no fiber is in use */

/* A fiber that will run `main(context)`. NULL: there is no memory for its stack. */
struct fiber *fiber_create(struct fiber_pool *pool, void (*main)(void *context), void *context);

/* Runs the fiber until it suspends itself or `main` returns. False: it has ended, and the pointer is no longer valid. Not called on a fiber. */
bool fiber_enter(struct fiber_pool *pool, struct fiber *fiber);

/* On a fiber: returns to the caller of fiber_enter; returns here when the fiber is entered again. */
void fiber_suspend(struct fiber_pool *pool);

#endif
