/* AOF: the append-only log, in Redis 7's multi-part files.
 *
 *   appendonlydir/appendonly.aof.manifest      file <name> seq <n> type b|i|h     (a line per file)
 *   appendonlydir/appendonly.aof.<n>.base.rdb  (not written by Kelvin, but read after a move from Redis)
 *   appendonlydir/appendonly.aof.<n>.incr.aof  RESP commands, with SELECT where the database changes
 *
 * docs/formats/aof.md describes the bytes, README.md the reasons. Positions are the stream's (stream/history.h): log sequence
 * numbers (LSN), bytes appended since the server's start, monotonic across files; 0 is the end of what the files had then.
 *
 * history_append copies into the tail under a leaf lock, while the caller holds its partitions: the order in the file is the order of
 * execution. aof_flush writes the tail with write(2), under a lock of its own. The flusher thread syncs: each second (everysec), or as
 * soon as a client waits (always: one fsync serves all clients that wait).
 *
 * Failures. A short write is continued: one write(2) moves at most 2 GiB - 4 KiB. After a failed write the file is truncated at once to
 * where its chunk began (whole commands and whole groups); the tail stays in memory, and the flusher tries again each second. aof_error is
 * set meanwhile (the engine refuses writes with MISCONF, as Redis does) and cleared by the first write that succeeds. The tail's size has
 * no limit of its own: it is bounded because writes are refused while aof_error is set or while `buffer_size` is over the engine's limit.
 * After a failed fsync the file is not trusted again: aof_error is set, and the log goes on in a new increment that begins with everything
 * since the last good fsync. Those bytes are read back from the file and have to match a sum kept since they were written. If they do not
 * match, the log is lost (aof_is_lost): it stays in error, writes stay refused, and the data in memory can still be read and saved
 * elsewhere. Nothing counts as written or durable that is not.
 *
 * Threads: aof_stream and all functions declared after it may be called from any thread. Locks, in order: files, flush, then the
 * leaves tail and wake.
 */
#ifndef KELVIN_PERSIST_AOF_H
#define KELVIN_PERSIST_AOF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/message.h"
#include "base/status.h"
#include "stream/history.h"

enum aof_fsync { AOF_FSYNC_ALWAYS, AOF_FSYNC_EVERYSEC, AOF_FSYNC_NO };

struct aof;
struct closer;
struct meter;
struct waiting;

struct aof_options {
    const char *dir;            /* appenddirname, relative to the working directory or absolute; created */
    const char *name;           /* appendfilename: no '/' in it */
    enum aof_fsync fsync;
    bool load_truncated;        /* aof-load-truncated */
    const struct disk *disk;    /* for tests: instead of the system's; or NULL. Outlives the log */
    struct meter *meter;        /* counts the memory of the flusher's thread; NULL: it is not counted. Outlives the log */
    struct closer *closer;      /* of increments that are not read any more; NULL: they are closed in place. Outlives the log */
    struct history *history;      /* NULL: one of its own, of which the files have no marks. Outlives the log */
    bool begins_at_cut;         /* the stream has changes that are not the log's until the first aof_cut */
    int64_t tick_us;            /* for tests: instead of the second between syncs and between retries; 0: a second */
};

/* Reads the manifest. If there is none the log is empty, but an appendonly.aof from before Redis 7 next to the directory is adopted (also
 * where Redis has begun to move it, and the manifest names only a file that is not yet there); and
 * files of the log without a manifest, or `<dir>.incomplete` of an interrupted backup or restore, are an error. Creates nothing yet.
 * STATUS_LOCKED: another process has the log open. `message` is set unless STATUS_OK is returned. */
enum status aof_open(const struct aof_options *options, struct aof **aof, struct message *message);

/* Makes a file from elsewhere, a dump or an old log, the base of a log that is empty (aof_is_new). aof_replay reads it where it is;
 * aof_start adds it to the directory and the manifest, as a hard link or, where that is not possible, as a copy. Until then nothing has
 * changed, and from then on the log is complete. To be called before aof_replay. */
bool aof_is_new(const struct aof *aof);
void aof_adopt(struct aof *aof, const char *path);
const char *aof_adopted(const struct aof *aof);     /* NULL: none. Until aof_start */

/* Replays base and increments in order: `run` is called for each command, including SELECT (each file begins in database 0: a SELECT 0
 * is run before every file except the first), with the number that aof_on_ahead's function has returned for it, 0 if it was not called. MULTI and EXEC themselves are not passed on, and the commands between them only if the EXEC
 * was found. `progress` (may be NULL) is called about each 50 ms, and at the end, with the bytes done and the bytes of all files.
 *
 * An RDB at the head of a base is passed to aof_on_import's function; without one the result is STATUS_VERSION with a message, unless the
 * RDB has no keys and no functions. A base of Kelvin's own (aof_base) is skipped: the caller has restored it.
 * A torn tail (a part of a command, or a MULTI without its EXEC) of the last file that has any bytes is cut off if load_truncated is set:
 * STATUS_OK, with a warning in `message` (else ""). Without load_truncated it is STATUS_TRUNCATED. A torn tail of any other file, and each
 * bad record, is STATUS_CORRUPT. The message names file and offset. If `run` returns false, the replay stops with STATUS_INVALID. To be
 * called once, before aof_start. */
typedef bool aof_run(void *context, const struct bytes *args, int arg_count, uint64_t number);
typedef void aof_progress(void *context, uint64_t done, uint64_t total);
enum status aof_replay(struct aof *aof, aof_run *run, aof_progress *progress, void *context, struct message *message);

/* The same after aof_start, for all that was appended. Nothing is appended meanwhile, and no step of a checkpoint is taken. A torn end is an
 * error. */
enum status aof_replay_again(struct aof *aof, aof_run *run, aof_progress *progress, void *context, struct message *message);

/* Where the replication stream is at the end of what aof_replay has found, as the marks in the increments say, or the base: an image's
 * point is to be set before aof_replay, that of an imported RDB by aof_import. False: nothing says it, as the files are from before that, or another server has appended to them. */
void aof_set_base_point(struct aof *aof, const struct history_point *point);
bool aof_recovered(struct aof *aof, struct history_point *point);

/* Loads the RDB at the beginning of the file, from offset 0, and sets *size to its size in bytes. `progress` is to be called with the
 * bytes done. */
typedef void aof_import_progress(void *context, uint64_t done);
typedef enum status aof_import(void *context, int fd, aof_import_progress *progress, void *progress_context, uint64_t *size,
    struct message *message);
void aof_on_import(struct aof *aof, aof_import *import, void *context);     /* before aof_replay */

/* To be called before aof_replay; `ahead` is called with aof_replay's context for each command, MULTI and EXEC too, as far
 * before it is run as the limits allow, so that loads of its keys can begin. It is a hint only: the command may never be run, or be
 * passed again. Returns a number for it. */
typedef uint64_t aof_ahead(void *context, const struct bytes *args, int arg_count);
struct aof_ahead_limits {
    uint64_t commands, bytes;       /* whichever is less; a command that is larger is read anyway */
};
void aof_on_ahead(struct aof *aof, aof_ahead *ahead, struct aof_ahead_limits limits);

/* The name of the base if it is Kelvin's own (the name ends in ".base.image"), else NULL. To be called before aof_start: from then on the
 * flusher's thread may change it. */
const char *aof_base(struct aof *aof);
/* The same at any time; mem_free. */
char *aof_base_copy(struct aof *aof);
/* Whether all increments in another directory, which was linked from the log's, are still the log's (any thread): STATUS_OK; STATUS_NOT_FOUND: not all;
 * else a file can't be looked at. STATUS_OK as well if there is no manifest yet, or only a part of one: the links were not complete. */
enum status aof_has_increments_of(struct aof *aof, const char *dir);

/* Messages to the operator: one when writes begin to fail (with the reason), one when they succeed again, and one when the log is lost.
 * `notice` is called on any thread that writes, with locks held: it must not call functions of the log. To be set before aof_start;
 * without it the log is silent. */
typedef void aof_notice(void *context, const char *message);
void aof_on_notice(struct aof *aof, aof_notice *notice, void *context);

/* After the replay: opens the last increment for appending and syncs it, or creates the first one (with its directory and manifest
 * synced), and starts the flusher. */
enum status aof_start(struct aof *aof, struct message *message);
/* Flushes, syncs and closes the files, if the log was started. The functions that return its state, and aof_flush, can be called
 * afterwards; nothing may be appended. */
void aof_stop(struct aof *aof);
void aof_close(struct aof *aof);            /* calls aof_stop and frees the log; NULL is fine */

/* The stream that it writes: what is appended to that from aof_open on (begins_at_cut: from the first aof_cut on) is in the log. */
struct history *aof_history(struct aof *aof);

/* Writes the whole tail to the file if `lsn` is not written yet, and returns whether it is written now. Any thread; no partition held.
 * False: the disk refused the write (aof_error), or a cut waits for an fsync. The flusher goes on with it then, and calls aof_on_durable's
 * callback when aof_written should be read again. */
bool aof_flush(struct aof *aof, uint64_t lsn);

/* Asks for an fsync that covers `lsn` (under `always`; works under every policy); aof_durable returns how far it is. The flusher first
 * writes what is not written yet. The callback is called on the flusher's thread, with no lock held: after each fsync that succeeded, after
 * each write by the flusher, for which other threads may wait, and when the log is lost (aof_is_lost: the waiting clients are to be
 * notified). So a caller queues its waiter, calls this, and then reads aof_durable once itself. */
void aof_request_sync(struct aof *aof, uint64_t lsn);
typedef void aof_synced(void *context, uint64_t durable);
void aof_on_durable(struct aof *aof, aof_synced *synced, void *context);    /* before aof_start */

uint64_t aof_appended(struct aof *aof);     /* LSN of the tail's end */
uint64_t aof_written(struct aof *aof);      /* LSN up to which all is written with write(2) */
uint64_t aof_durable(struct aof *aof);      /* LSN up to which all is synced */
enum status aof_error(struct aof *aof);     /* STATUS_OK, or why writes fail */
int aof_error_number(struct aof *aof);      /* the errno of it, for strerror in MISCONF's text; 0: none */
bool aof_is_lost(struct aof *aof);          /* the error is permanent */
void aof_set_fsync(struct aof *aof, enum aof_fsync fsync);

/* A checkpoint's three steps, called by one thread at a time.
 * prepare: creates and syncs the next increment, and a manifest that names it. No lock held; may be repeated. STATUS_LOCKED: the files have
 *   not reached the last cut yet, see commit.
 * cut: with all partitions locked; what is appended from now on goes to that increment. Returns the LSN of the cut. Once after each
 *   prepare. The flusher syncs the old file before it writes the first byte of the new one.
 * commit: removes the increments before `lsn`. `base_name` is the base that replaces them (NULL: there is none), a file or directory in
 *   `dir`, complete and synced; its name ends in ".base.image". STATUS_LOCKED: the flusher has not reached the cut yet; aof_on_durable's
 *   callback is called when it has. */
enum status aof_prepare(struct aof *aof, struct message *message);
uint64_t aof_cut(struct aof *aof);
enum status aof_commit(struct aof *aof, uint64_t lsn, const char *base_name, struct message *message);
/* Changes when the flusher has done what it could: it may have reached a cut. */
struct waiting *aof_waiting(struct aof *aof);

/* Reads the stream from the increments (persist/aof_map.h): [from, until), counted as bytes before; all of it is written. NULL: they do not have it
 * all any more. The files are held until aof_past_close. */
struct aof_past;
struct aof_past *aof_past(struct aof *aof, int64_t from, int64_t until);

struct aof_stats {
    uint64_t current_size, base_size;       /* bytes of all files, including the image: now; when last rewritten or loaded */
    uint64_t tail_size;                     /* bytes in increments: what a restart has to replay */
    uint64_t buffer_size;                   /* bytes in the tail, not written to a file yet */
    uint64_t fsync_pending;                 /* 1: an fsync is running */
    uint64_t delayed_fsync;                 /* those that took over 2 s */
    int64_t last_fsync_ms;                  /* wall clock; 0: none yet */
};
struct aof_stats aof_stats(struct aof *aof);

#endif
