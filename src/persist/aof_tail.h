/* The log's tail: what was appended and is not in a file yet.
 *
 * A list of chunks, so that a tail that grows (the disk does not take it) is never copied while partitions are locked.
 * A chunk holds whole commands, and whole groups; it is what is written at a time (with one write(2), unless that
 * is short), and what is cut off again when writing it fails. Chunks come back and are used again.
 *
 *   append: lock, memcpy into the last chunk, unlock        take: lock, take the list, unlock; the writer does the rest
 *
 * A command of more than a quarter chunk is copied before the lock is taken, into a chunk of its own.
 */
#ifndef KELVIN_PERSIST_AOF_TAIL_H
#define KELVIN_PERSIST_AOF_TAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/mutex.h"

struct aof_group;
struct blob;
struct request_large;

enum { AOF_CHUNK_SIZE = 256 << 10 };

/* A large argument in the middle of a chunk: its bytes come before data[at]. */
struct aof_piece {
    struct blob *blob;          /* held */
    size_t offset;
};

struct aof_chunk {
    struct aof_chunk *next;
    size_t start, end;          /* data[start..end) is what to write, with the pieces in between */
    struct aof_piece *pieces;   /* in the order of `at`; NULL: none */
    int piece_count;
    size_t capacity;
    int db_after;               /* selected behind it; -1: none yet */
    bool begins_file;           /* a cut: this chunk goes into the next file */
    char data[];
};

struct aof_tail {
    struct mutex lock;       /* a leaf; guards what follows */
    struct aof_chunk *first, *last;
    struct aof_chunk *spare;    /* of AOF_CHUNK_SIZE each */
    int spare_count;
    int db;                     /* selected at the end of the log; -1: none */
    _Atomic uint64_t end;       /* LSN; written under the lock, read anywhere */
};

void aof_tail_init(struct aof_tail *tail);
void aof_tail_release(struct aof_tail *tail);

/* The LSN behind what was appended. */
uint64_t aof_tail_append(struct aof_tail *tail, int db, const struct bytes *args, int arg_count);
/* The same; those of the arguments that are large ones of the request are held, not copied. */
uint64_t aof_tail_append_large(struct aof_tail *tail, int db, const struct bytes *args, int arg_count, const struct request_large *large,
    int large_count);
uint64_t aof_tail_append_group(struct aof_tail *tail, const struct aof_group *group);

/* What is appended from now on begins a new file, with a SELECT of its own. Returns the LSN of the cut. */
uint64_t aof_tail_cut(struct aof_tail *tail);

/* Takes all chunks, in order; NULL: there are none. Given back (a list, any order) when written. */
struct aof_chunk *aof_tail_take(struct aof_tail *tail);
void aof_tail_give_back(struct aof_tail *tail, struct aof_chunk *chunks);

/* Writes a SELECT of `db` to `out`, which has AOF_SELECT_SIZE bytes; returns its size. */
enum { AOF_SELECT_SIZE = 64 };
size_t aof_select_print(int db, char *out);

#endif
