/* AOF: the append-only log, in Redis 7's multi-part files.
 *
 *   appendonlydir/appendonly.aof.manifest      file <name> seq <n> type b|i|h     (a line a file)
 *   appendonlydir/appendonly.aof.<n>.base.rdb  (not written by Kelvin yet)
 *   appendonlydir/appendonly.aof.<n>.incr.aof  RESP commands, with SELECT where the database changes
 *
 * Positions are log sequence numbers: bytes appended since the log was opened, monotonic across files.
 *
 * aof_append copies into the tail under a leaf lock, while the caller holds its partitions: file order is execution
 * order. aof_flush writes the tail with write(2), under a lock of its own. The flusher thread syncs: each second
 * (everysec), or as soon as somebody waits (always: one fsync serves all who wait).
 *
 * Failures. A short or failed write: the file is cut back to the last whole record at once, the tail stays in memory and
 * is tried again by the flusher each second; aof_error is set meanwhile (writes are refused with MISCONF, as Redis does) and
 * cleared by the first write that succeeds. A failed fsync: the file is not trusted again; aof_error is set, the log goes on
 * in a new increment that begins with everything since the last good fsync.
 */
#ifndef KELVIN_PERSIST_AOF_H
#define KELVIN_PERSIST_AOF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

enum aof_fsync { AOF_FSYNC_ALWAYS, AOF_FSYNC_EVERYSEC, AOF_FSYNC_NO };

struct aof;

struct aof_options {
    const char *dir;            /* appenddirname, in the working directory or absolute; created */
    const char *name;           /* appendfilename */
    enum aof_fsync fsync;
    bool load_truncated;        /* aof-load-truncated */
    /* For tests: NULL, or functions in place of write(2), fdatasync(2) and ftruncate(2). */
    const struct aof_disk *disk;
};

struct aof_disk {
    void *context;
    ssize_t (*write)(void *context, int fd, const void *data, size_t size);
    int (*fdatasync)(void *context, int fd);
    int (*ftruncate)(void *context, int fd, off_t size);
};

/* Reads the manifest (none: an empty log; a bare old-style appendonly.aof next to the directory is refused with a
 * message). Creates nothing yet. `message` has 256 bytes. */
enum status aof_open(const struct aof_options *options, struct aof **aof, char *message);

/* Replays all increments in order: `run` is called for each command, MULTI..EXEC groups only when complete; `progress` about each
 * 50 ms with bytes done of all. A base that is an RDB file is STATUS_VERSION with a message (unless it holds no keys).
 * A torn tail of the last file is cut with a warning in `message` if load_truncated (STATUS_OK), else STATUS_TRUNCATED;
 * a bad record is STATUS_CORRUPT; the message names file and offset. `run` returning false stops with STATUS_INVALID. */
typedef bool aof_run(void *context, const struct bytes *args, int arg_count);
typedef void aof_progress(void *context, uint64_t done, uint64_t total);
enum status aof_replay(struct aof *aof, aof_run *run, aof_progress *progress, void *context, char *message);

/* After the replay: opens the last increment for appending, or creates the first (with its directory and manifest
 * synced), and starts the flusher. */
enum status aof_start(struct aof *aof, char *message);
void aof_close(struct aof *aof);            /* flushes, syncs, stops the flusher; NULL is fine */

/* Appends a command and returns the LSN behind it. A SELECT is put before it when `db` is not that of the last command. */
uint64_t aof_append(struct aof *aof, int db, const struct bytes *args, int arg_count);

/* The tail as a whole is written to the file if `lsn` is not covered yet. Returns whether it is now. Any thread; no partition held. */
bool aof_flush(struct aof *aof, uint64_t lsn);

/* Under `always`: asks for an fsync that covers `lsn`; `aof_durable` tells. The callback (see aof_on_durable) is called on
 * the flusher's thread after each fsync that succeeded. */
void aof_request_sync(struct aof *aof, uint64_t lsn);
typedef void aof_synced(void *context, uint64_t durable);
void aof_on_durable(struct aof *aof, aof_synced *synced, void *context);    /* before aof_start */

uint64_t aof_appended(struct aof *aof);     /* LSN of the tail's end */
uint64_t aof_written(struct aof *aof);      /* covered by write(2) */
uint64_t aof_durable(struct aof *aof);      /* covered by fsync */
enum status aof_error(struct aof *aof);     /* STATUS_OK, or why writes do not get through */
void aof_set_fsync(struct aof *aof, enum aof_fsync fsync);

struct aof_stats {
    uint64_t current_size, base_size;       /* bytes: all files; when last rewritten or loaded */
    uint64_t buffer_size;                   /* bytes in the tail */
    uint64_t fsync_pending, delayed_fsync;
    int64_t last_fsync_ms;                  /* wall clock */
};
struct aof_stats aof_stats(struct aof *aof);

#endif
