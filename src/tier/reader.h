/* Reader: reads cold records, many at a time, for one owner: the misses of a worker's turn, the writer's look-ups, what a replay or the
 * warm-up wants.
 *
 * Readings (tier/reading.h) are added, submitted together, and done in any order: a callback gets each record that was found, or why there
 * is none. How they are read is decided here:
 *
 * - Small records in segments are read in *groups*: neighbours in a segment with one read. If many are submitted together they are sorted for that.
 * - Groups are read on the owner's io_uring (base/read_ring.h), all that is submitted in one system call, and done by the owner when it
 *   collects. Where io_uring can't be used they are read and done by the pool's threads (tier/read_pool.h).
 * - The pool reads what else there is: large records, and again and alone what could not be used, to find out why.
 *
 * Bounds: `flight_max` groups and READER_BYTES of buffers on the ring; `flight_max` groups in the pool. What is beyond waits in the reader;
 * but a worker does not wait for its reader, which gives the pool all.
 *
 * Owner: one thread at a time. Readings that wait are added under any lock; no lock is held when they are submitted or done.
 */
#ifndef KELVIN_TIER_READER_H
#define KELVIN_TIER_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "tier/reading.h"

enum {
    READER_DEPTH = 128,                 /* flight_max at most */
    READER_BYTES = 2 << 20,
    READER_RECORD_MAX = 64 << 10,       /* a record_max for owners that have other things to do */
    READER_GROUP_SIZE = 256 << 10,      /* bytes of one read; a larger record has one of its own */
    READER_GAP = 4096,                  /* bytes between two records that are read, too, to save a read */
};

/* A reading is done; it belongs to its user again. By the owner in reader_collect or reader_finish, or by a thread of the pool. */
typedef void reading_done(void *context, struct reading *reading, struct read_record *record);

struct reader_options {
    reading_done *done;
    void *context;
    struct worker *worker;              /* the owner, whose loop calls reader_collect; NULL: the owner calls reader_finish */
    uint64_t record_max;                /* bytes, as of places: larger records are read by the pool, alone */
    unsigned flight_max;
    bool without_ring;
};

/* By the owner, or before it runs. The first ring of a tier that can't be opened is in the log, with the reason. */
struct tier_reader *reader_open(struct tier *tier, const struct reader_options *options);
/* Reads what still waits, so that no reading is left. NULL is fine. */
void reader_close(struct tier_reader *reader);

/* Readable when reader_collect has something to do; -1: never. */
int reader_descriptor(const struct tier_reader *reader);
/* Reads that were begun, of one record or more. */
uint64_t reader_reads(const struct tier_reader *reader);

void reader_add(struct tier_reader *reader, struct reading *reading);
/* Begins to read what was added. NULL is fine. The worker is rung (tier_hooks) if something has been read already without the descriptor being readable. */
void reader_submit(struct tier_reader *reader);
/* Ends what has been read on the ring, and begins what waited for it. NULL is fine. */
void reader_collect(struct tier_reader *reader);
/* Submits, and returns when all is done. The owner reads, too, where there is no ring. */
void reader_finish(struct tier_reader *reader);

/* Reads a group that a reader has given to the pool: for read_pool_create. */
void reader_run(struct tier *tier, struct reading *group, struct read_buffers *buffers);

#endif
