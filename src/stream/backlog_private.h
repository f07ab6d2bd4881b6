/* The inside of a backlog, for backlog.c and backlog_reader.c. */
#ifndef KELVIN_STREAM_BACKLOG_PRIVATE_H
#define KELVIN_STREAM_BACKLOG_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/mutex.h"
#include "stream/backlog.h"
#include "stream/spool.h"

/* The positions first + number * block_size to first + (number + 1) * block_size. Bytes before the backlog's end do not change, so they are
 * copied without the lock while the block is held. */
struct block {
    struct block *next;         /* in the list of unused ones */
    int holds;                  /* by the ring, and by threads that copy or write it; owner: the lock */
    char *data;
};

struct retained {
    uint64_t position;
    int64_t until_ms;
};

/* Invariants: the bytes from each needed position on are in memory or in the spool. The spool is empty, or spool_begin <= ring_first <=
 * spool_end: there is no gap between it and the memory, but, after memory_size has grown, blocks may be in both. It has no file that is not
 * needed. */
struct backlog {
    /* Constant. */
    uint64_t first;
    size_t block_size;
    unsigned block_shift;
    uint64_t file_size, reader_memory;

    /* The appender only. */
    struct block *tail;

    struct mutex spool_lock;    /* above `lock`. Its holder may write to the spool and remove blocks from the ring */

    struct mutex lock;          /* a leaf; guards what follows */
    _Atomic uint64_t end;       /* written under the lock, read without it */
    uint64_t memory_size, disk_size;
    struct block **slots;       /* block `number` is in slots[number & (slot_count - 1)] */
    uint64_t slot_count, ring_first, ring_next;
    struct block *spare;        /* for the next tail */
    struct block *unused;       /* to be freed, without the lock */
    struct backlog_reader *readers;
    struct retained retained[BACKLOG_RETAINED_MAX];
    int reader_count, retained_count, copy_count;      /* copies of blocks that readers have */
    struct spool spool;
    uint64_t write_errors, read_errors, lost_readers, lost_retained, blocks_written, blocks_read;
};

struct backlog_reader {
    struct backlog *backlog;
    struct backlog_reader *next;
    /* Owner: the lock; its thread reads `position` without it. */
    uint64_t position;
    uint64_t kept;              /* the bytes from here on are kept: `position`, or what was acknowledged */
    bool acknowledges;
    struct backlog_loss_reason reason;
    /* The reader's thread only; the pointer is changed under the lock. */
    char *copy;                 /* of block `copy_number`, read from the spool; NULL: none */
    uint64_t copy_number;
};

/* Releases the lock, then frees the blocks and closes the files that were found to be unused. */
void backlog_unlock(struct backlog *backlog) RELEASE(backlog->lock);

static inline uint64_t backlog_number_of(const struct backlog *backlog, uint64_t position)
{
    return (position - backlog->first) >> backlog->block_shift;
}

static inline uint64_t backlog_start_of(const struct backlog *backlog, uint64_t number)
{
    return backlog->first + (number << backlog->block_shift);
}

static inline struct block *backlog_block(const struct backlog *backlog, uint64_t number)
{
    return backlog->slots[number & (backlog->slot_count - 1)];
}

/* As backlog_begin. */
uint64_t backlog_oldest(const struct backlog *backlog) REQUIRES(backlog->lock);

void backlog_let_go(struct backlog *backlog, struct block *block) REQUIRES(backlog->lock);

/* Removes blocks that memory_size does not cover. Writes a few of them to the spool. If another thread is doing that: waits, or returns. */
enum backlog_evict { BACKLOG_EVICT_UNLESS_BUSY, BACKLOG_EVICT_WAIT };
void backlog_evict(struct backlog *backlog, enum backlog_evict how) EXCLUDES(backlog->lock);

/* --- backlog_reader.c --- */

/* The needed position that is furthest back; UINT64_MAX: there is none. */
uint64_t backlog_needed_from(const struct backlog *backlog) REQUIRES(backlog->lock);

/* Gives up the needed position that is furthest back, see backlog.h. There is one. */
void backlog_give_up(struct backlog *backlog, struct backlog_loss_reason reason) REQUIRES(backlog->lock);

#endif
