/* The log's tail: what was appended and is not in a file yet.
 *
 * It is a list of chunks, so that a tail that grows (because the disk refuses writes) is never copied while partitions are locked. A chunk
 * has whole commands and whole groups; it is the unit of writing (one write(2), unless that is short) and of truncation after a failed
 * write. Chunks are given back and used again.
 *
 *   append: lock, memcpy into the last chunk, unlock        take: lock, take the list, unlock; the caller writes it
 *
 * A command of more than a quarter of a chunk is copied before the lock is taken, to a chunk of its own.
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

/* A large argument in the middle of a chunk: its bytes come before data[offset]. */
struct aof_piece {
    struct blob *blob;          /* with a reference of its own */
    size_t offset;
};

struct aof_chunk {
    struct aof_chunk *next;
    size_t start, end;          /* data[start..end) is to be written, with the pieces in between */
    struct aof_piece *pieces;   /* in the order of `offset`; NULL: none */
    int piece_count;
    size_t capacity;
    int db_after;               /* the selected database at its end; -1: none yet */
    bool begins_file;           /* a cut: this chunk goes into the next file */
    char data[];
};

struct aof_tail {
    struct mutex lock;          /* a leaf; guards what follows */
    struct aof_chunk *first, *last;
    struct aof_chunk *spare;    /* of AOF_CHUNK_SIZE each */
    int spare_count;
    int db;                     /* the selected database at the end of the log; -1: none */
    _Atomic uint64_t end;       /* LSN; written under the lock, read without it */
};

void aof_tail_init(struct aof_tail *tail);
void aof_tail_release(struct aof_tail *tail);

/* These return the LSN of the end of what was appended. */
uint64_t aof_tail_append(struct aof_tail *tail, int db, const struct bytes *args, int arg_count);
/* Arguments that are large ones of the request (`large`) are not copied, but referenced. */
uint64_t aof_tail_append_large(struct aof_tail *tail, int db, const struct bytes *args, int arg_count, const struct request_large *large,
    int large_count);
uint64_t aof_tail_append_group(struct aof_tail *tail, const struct aof_group *group);

/* What is appended afterwards goes to a new file, with a SELECT of its own. Returns the LSN of the cut. */
uint64_t aof_tail_cut(struct aof_tail *tail);

/* Takes all chunks, in order; NULL: there are none. They are given back (a list, in any order) when they are written. */
struct aof_chunk *aof_tail_take(struct aof_tail *tail);
void aof_tail_give_back(struct aof_tail *tail, struct aof_chunk *chunks);

/* Writes a SELECT of `db` to `out`, which has AOF_SELECT_SIZE bytes; returns its size. */
enum { AOF_SELECT_SIZE = 64 };
size_t aof_select_print(int db, char *out);

#endif
