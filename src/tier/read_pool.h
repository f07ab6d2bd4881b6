/* Read pool: the threads (kelvin-load) that read what readers (tier/reader.h) don't read themselves, and the queue before them.
 *
 * There are 1 to READ_POOL_MAX of them (tier-load-threads). read_pool_submit wakes one, which wakes others; the first one ends only when the
 * queue is empty.
 */
#ifndef KELVIN_TIER_READ_POOL_H
#define KELVIN_TIER_READ_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct read_buffers;
struct read_pool;
struct reading;
struct tier;

enum { READ_POOL_MAX = 64 };

/* Reads a group, on a thread of the pool. */
typedef void read_pool_run(struct tier *tier, struct reading *group, struct read_buffers *buffers);

struct read_pool *read_pool_create(read_pool_run *run);
void read_pool_destroy(struct read_pool *pool);     /* after read_pool_stop */

/* Queues groups, linked by `next_group`. No lock is held. */
void read_pool_submit(struct tier *tier, struct reading *first, struct reading *last, uint64_t count);
/* `*left`, which is in the reader, is one less: a group has been read. Another thread may free the reader as soon as it is 0. */
void read_pool_note_end(struct read_pool *pool, _Atomic unsigned *left);
/* Waits until `*left` is 0. */
void read_pool_wait(struct read_pool *pool, const _Atomic unsigned *left);

/* Starts or ends threads until there are as many as the settings say. At start, then by the writer only. False: there is
 * none. */
bool read_pool_adjust(struct tier *tier);
/* Joins all, when the queue is empty. No reader reads any more. */
void read_pool_stop(struct tier *tier);

/* For tests. Threads that wait for groups; groups in the queue. */
int read_pool_idle(struct tier *tier);
uint64_t read_pool_queued(struct tier *tier);

#endif
