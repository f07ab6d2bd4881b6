/* Stream: all changes in their order of execution, as the bytes of commands. The log writes them to its files (persist/aof.h), and replicas
 * are sent them.
 *
 * Its head is the tail of what is not written yet: a list of chunks, so that one that grows (because the disk refuses writes) is never copied
 * while partitions are locked. A chunk has whole commands and whole groups; it is the unit of writing (one write(2), unless that is short) and
 * of truncation after a failed write. Chunks are given back and used again.
 *
 *   append: lock, memcpy into the last chunk, unlock        take: lock, take the list, unlock; the caller writes it and hands it over
 *
 * A command of more than a quarter of a chunk is copied before the lock is taken, to a chunk of its own.
 *
 * Positions are log sequence numbers (LSN): bytes appended since the server's start. The replication offset is the LSN plus a number that only
 * changes when the stream becomes another one (a full synchronization); the replication ID says which one it is. The first byte of a
 * stream has offset 1: a replica that has `offset` bytes asks for offset + 1.
 *
 * The stream is this server's own, or foreign: a primary's, of which this server is a replica. To a foreign one only the applier appends
 * (history_append_raw), what it has applied. Everything else is refused under the lock, no matter what the caller has seen of the role
 * before: bytes of this server in it would be counted in offsets of the primary, and the next partial synchronization would skip as many.
 *
 * A taker of chunks: the log, for those of the time in which it is attached; else history_drain. Both hand them over in order to the backlog
 * (stream/backlog.h), if there is one. If neither a log nor a backlog is there the stream is off: nothing may be appended, and nothing counts.
 *
 * Threads: any, but for what says otherwise. Locks, in order: hand-over, then the leaves tail and backlog.
 */
#ifndef KELVIN_STREAM_HISTORY_H
#define KELVIN_STREAM_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/mutex.h"

struct backlog;
struct blob;
struct request_large;

enum { HISTORY_CHUNK_SIZE = 256 << 10, HISTORY_ID_SIZE = 40 };

/* A large argument in the middle of a chunk: its bytes come before data[offset]. */
struct history_piece {
    struct blob *blob;          /* with a reference of its own */
    size_t offset;
};

/* Which stream it is, and up to where it was another one. */
struct history_identity {
    char id[HISTORY_ID_SIZE + 1];
    char second_id[HISTORY_ID_SIZE + 1];     /* the one before; 40 zeros: none */
    int64_t second_offset;                  /* the first offset that only `id` has; -1: there is no second one */
};

/* A point of the history. */
struct history_point {
    uint64_t lsn;
    int64_t offset;
    int db;                     /* selected there; -1: none yet */
    struct history_identity identity;
};

struct history_chunk {
    struct history_chunk *next;
    uint64_t begin;             /* LSN */
    size_t start, end;          /* data[start..end) is to be written, with the pieces in between */
    struct history_piece *pieces;    /* in the order of `offset`; NULL: none */
    int piece_count;
    size_t capacity;
    int db_after;               /* the selected database at its end; -1: none yet */
    int db_before;              /* the selected database at its beginning; -1: it selects one itself */
    bool begins_file;           /* a cut: this chunk goes into the next file */
    struct history_point *mark; /* of its beginning, for the log to note: a file begins there, or the stream has another ID. NULL: none */
    char data[];
};

struct history {
    _Atomic bool is_on;         /* written under the lock; read by every call that changes something, so apart from what changes often */
    char apart[64];
    struct mutex lock;          /* a leaf; guards what follows */
    struct history_chunk *first, *last;
    struct history_chunk *spare; /* of HISTORY_CHUNK_SIZE each */
    int spare_count;
    int db;                     /* lock: what the next command need not select; -1: it does select */
    int selected;               /* lock: what a reader of the stream has selected at its end; -1: nothing yet */
    bool is_foreign;            /* lock: a primary's: nothing but its bytes is appended, no SELECT either */
    uint64_t log_begin, log_end;            /* chunks in between are the log's */
    struct history_identity identity;
    int64_t shift;              /* offset less LSN */
    _Atomic uint64_t end;       /* LSN; written under the lock, read without it */

    struct mutex hand_over_lock;
    struct backlog *_Atomic backlog;        /* hand-over; NULL: none */
    _Atomic uint64_t handed;                /* hand-over: LSN up to which chunks were handed over */
};

void history_init(struct history *history);        /* off, with an ID of its own */
void history_release(struct history *history);     /* frees the backlog, too */

/* Something reads it: what is changed has to be appended. Changes only with all partitions locked. */
static inline bool history_is_on(const struct history *history)
{
    return atomic_load_explicit(&history->is_on, memory_order_relaxed);
}

/* --- appending --- */

/* These functions return the LSN of the end of the appended bytes; 0: nothing was appended, as the stream is foreign. */

/* Appends a command. A SELECT is put before it if `db` is not that of the last command. */
uint64_t history_append(struct history *history, int db, const struct bytes *args, int arg_count);

/* The same for a request with large arguments (resp/request.h): they are not copied, but referenced until they are written. */
uint64_t history_append_large(struct history *history, int db, const struct bytes *args, int arg_count, const struct request_large *large,
    int large_count);

/* Complete commands that concern no database: PING, REPLCONF GETACK. */
uint64_t history_append_signs(struct history *history, struct bytes text);

/* The applier's: what it has applied of the primary's stream, byte for byte. The stream is foreign. `db_after` is selected at the end; -1: what
 * was selected before still is. */
uint64_t history_append_raw(struct history *history, struct bytes text, int db_after);

/* Commands of which replay and replicas run all or none (a transaction, a script): collected by one thread, then appended at once, so that no
 * other worker's command comes between them. MULTI and EXEC are put around more than one. The arguments are copied. */
struct history_group {
    struct buffer text;
    int count;
    int first_db, db;           /* of the first and the last command; -1: none */
};
void history_group_init(struct history_group *group);
void history_group_release(struct history_group *group);
void history_group_clear(struct history_group *group);
void history_group_add(struct history_group *group, int db, const struct bytes *args, int arg_count);
uint64_t history_append_group(struct history *history, const struct history_group *group);    /* empty group: only returns the LSN of the end */

uint64_t history_end(const struct history *history);           /* LSN of the end */

/* --- taking --- */

/* Has later appends go to a new file, with a SELECT of their own. Returns the LSN of the cut. */
uint64_t history_cut(struct history *history);

/* The log's part of the stream begins here, at the LSN that is returned, or ends here. With all partitions locked, or before anything is
 * appended. Ending what has not begun does nothing. */
uint64_t history_attach_log(struct history *history);
void history_detach_log(struct history *history);

/* Takes the log's chunks, in order; NULL: there are none. When they are written they are handed over, in the same order. */
struct history_chunk *history_take(struct history *history);
/* `chunks`: a list in order. They go to the backlog, and are used again. */
void history_hand_over(struct history *history, struct history_chunk *chunks);
/* The same for chunks that were not written, in any order. */
void history_give_back(struct history *history, struct history_chunk *chunks);
/* The log can't write the first of these, a list in order: the next byte is handed over, so that replicas hear something. A command is
 * complete for them only with its last byte. */
void history_trickle(struct history *history, const struct history_chunk *chunks);
/* Without a log: hands over what was appended. */
void history_drain(struct history *history);

/* The n-th run of bytes of a chunk, of history_chunk_runs: what is before a piece, the piece, ..., what is after the last piece. */
struct bytes history_chunk_run(const struct history_chunk *chunk, int n);
static inline int history_chunk_runs(const struct history_chunk *chunk) { return chunk->piece_count * 2 + 1; }

/* --- the backlog --- */

/* Turns the stream on for replicas, or ends that; `options` without `first`. Both with all partitions locked; the caller has made sure that
 * no reader is attached to the backlog that ends. If the stream is off afterwards it gets another ID: what is changed from then on does not count. */
struct backlog_options;
void history_open_backlog(struct history *history, const struct backlog_options *options);
void history_close_backlog(struct history *history);
static inline struct backlog *history_backlog(const struct history *history) { return atomic_load(&history->backlog); }
static inline uint64_t history_handed(const struct history *history) { return atomic_load_explicit(&history->handed, memory_order_acquire); }

/* --- identity --- */

/* A larger offset from outside (a primary, a dump) is refused: what is added to it later still fits into what the log's marks may say. */
#define HISTORY_OFFSET_MAX ((int64_t)1 << 61)

/* Makes a point of the stream `id`, with no second ID; `lsn` is 0. */
void history_point_make(struct history_point *point, const char *id, int64_t offset, int db);
void history_point(struct history *history, struct history_point *point);      /* of its end */
/* The same, for a reader that begins there: what is appended next has a SELECT. Not on a replica, whose stream is its primary's. */
void history_mark(struct history *history, struct history_point *point);
int64_t history_offset_of(struct history *history, uint64_t lsn);
uint64_t history_lsn_of(struct history *history, int64_t offset);

void history_make_id(char id[HISTORY_ID_SIZE]);              /* random hex digits */
/* Begins another stream from here on: a new ID, and the old one up to here (promotion), or no old one. */
void history_new_id(struct history *history, bool keeps_second);
/* Continues another stream from `offset` on, at the present end (a replica, after a full synchronization or at the start); `db` is selected there. */
void history_become(struct history *history, const char *id, int64_t offset, int db);
/* The start of a server: the stream goes on at the point that was recovered, with both IDs. Its `lsn` does not matter. Before anything is appended. */
void history_continue(struct history *history, const struct history_point *point);
/* The stream is a primary's from here on, or this server's own again. */
void history_set_foreign(struct history *history, bool is_foreign);
/* The primary has changed its ID (+CONTINUE with another ID): the old one is the second. */
void history_rename(struct history *history, const char *id);

/* Writes a SELECT of `db` to `out`, which has HISTORY_SELECT_SIZE bytes; returns its size. */
enum { HISTORY_SELECT_SIZE = 64 };
size_t history_select_print(int db, char *out);

#endif
