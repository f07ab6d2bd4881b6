/* Meter: how much memory the process has allocated, at little cost.
 *
 * jemalloc counts per thread what it allocated and freed; the sum over all threads is exact, whatever library made the
 * calls. A thread joins when it starts and leaves when it ends (base/thread.h does it). Under sanitizers, where there is no jemalloc, the
 * C library's own count is used.
 *
 * Thread-safe: reading takes no lock.
 */
#ifndef KELVIN_BASE_METER_H
#define KELVIN_BASE_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct meter;

/* Freed when it was released once more often than it was held. */
struct meter *meter_create(void);
struct meter *meter_hold(struct meter *meter);
void meter_release(struct meter *meter);

/* Each thread calls these for itself; calls nest. A thread that never joins is not counted, except for what was in use
 * when meter_create was called. */
void meter_join(struct meter *meter);
void meter_leave(struct meter *meter);

uint64_t meter_used(const struct meter *meter);         /* bytes */

/* Where the bytes are counted that the calling thread has allocated since it began, whatever it has freed; valid for as long as it runs. Without jemalloc a
 * number that never changes. */
const uint64_t *meter_own_allocated(void);
extern const uint64_t meter_nothing_allocated;          /* 0 */

/* The allocator's own statistics, refreshed by the call (which takes some microseconds): bytes allocated, mapped,
 * resident, retained. Returns false if there is no jemalloc. */
struct meter_allocator {
    uint64_t allocated, active, resident, retained, metadata;
};
bool meter_allocator(struct meter_allocator *out);

/* Resident set size of the process in bytes, from the kernel. */
uint64_t meter_resident(void);

/* Bytes of freed pages that the allocator has not returned to the operating system yet, refreshed by the call (some microseconds); 0 without jemalloc. */
uint64_t meter_freed_pages(void);
/* Has the allocator return them. */
void meter_purge(void);
/* The same if there are more than `most` bytes of them. Values of many sizes leave them faster than the allocator returns them by itself (within a tenth
 * of a second), and they are resident. Takes a millisecond for some ten MB: not for threads that serve clients. */
void meter_give_back(uint64_t most);

/* The name is "jemalloc-5.3.0" or "libc". The report is jemalloc's statistics as text for people. */
void meter_name(char name[64]);
void meter_report(struct buffer *out);

#endif
