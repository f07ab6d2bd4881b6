/* Meter: how much memory the process has asked for, cheaply.
 *
 * jemalloc counts per thread what it gave and got back; the sum over all threads is exact, whatever library asked. A thread joins at its
 * start and leaves at its end. Under sanitizers, where there is no jemalloc, the C library's own count is taken.
 *
 * Thread-safe: reading takes no lock.
 */
#ifndef KELVIN_BASE_METER_H
#define KELVIN_BASE_METER_H

#include <stdint.h>

#include "base/buffer.h"

struct meter;

struct meter *meter_create(void);
void meter_destroy(struct meter *meter);

/* Called by each thread for itself; nests. Threads that never join are not counted, but for what meter_create found in use. */
void meter_join(struct meter *meter);
void meter_leave(struct meter *meter);

uint64_t meter_used(const struct meter *meter);         /* bytes */

/* What the allocator itself tells, refreshed now (slow: some microseconds): bytes asked for, mapped, resident, kept. False if there is
 * no jemalloc. */
struct meter_allocator {
    uint64_t allocated, active, resident, retained, metadata;
};
int meter_allocator(struct meter_allocator *out);

/* Resident set size of the process in bytes, from the kernel. */
uint64_t meter_resident(void);

/* Asks the allocator to give freed pages back to the machine. */
void meter_purge(void);

/* "jemalloc-5.3.0" or "libc"; and all that jemalloc tells about itself, for people to read. */
void meter_name(char name[64]);
void meter_report(struct buffer *out);

#endif
