/* AOF: the append-only log, in Redis 7's multi-part files.
 *
 *   appendonlydir/appendonly.aof.manifest      file <name> seq <n> type b|i|h     (a line a file)
 *   appendonlydir/appendonly.aof.<n>.base.rdb  (not written by Kelvin, but taken over from Redis)
 *   appendonlydir/appendonly.aof.<n>.incr.aof  RESP commands, with SELECT where the database changes
 *
 * docs/formats/aof.md has the bytes, README.md the reasons. Positions are log sequence numbers (LSN): bytes appended
 * since the log was opened, monotonic across files; 0 is what the files held at the start.
 *
 * aof_append copies into the tail under a leaf lock, while the caller holds its partitions: file order is execution
 * order. aof_flush writes the tail with write(2), under a lock of its own. The flusher thread syncs: each second
 * (everysec), or as soon as somebody waits (always: one fsync serves all who wait).
 *
 * Failures. A short write is continued: one write(2) moves at most 2 GiB - 4 KiB. A failed write: the file is cut back at once to where
 * its chunk began (whole commands and whole groups), the tail stays in memory and is tried again by the flusher each second; aof_error is set meanwhile (the
 * engine refuses writes with MISCONF, as Redis does) and cleared by the first write that succeeds. The tail's size has
 * no limit of its own: refusing writes while aof_error is set, or while `buffer_size` is over the engine's limit, is
 * what bounds it.
 * A failed fsync: the file is not trusted again; aof_error is set, the log goes on in a new increment that begins with
 * everything since the last good fsync. Those bytes are read back from the file and have to match a sum kept since
 * they were written; if they don't, the log is lost (aof_is_lost): it stays in error, writes stay refused, the data in
 * memory can still be read and saved elsewhere. Nothing counts as written or durable that is not.
 *
 * Threads: everything from aof_append downwards may be called from any thread. Locks, in order: files, flush, then the
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

enum aof_fsync { AOF_FSYNC_ALWAYS, AOF_FSYNC_EVERYSEC, AOF_FSYNC_NO };

struct aof;

struct aof_options {
    const char *dir;            /* appenddirname, in the working directory or absolute; created */
    const char *name;           /* appendfilename: no '/' in it */
    enum aof_fsync fsync;
    bool load_truncated;        /* aof-load-truncated */
    const struct disk *disk;    /* for tests: in place of the system's; or NULL. Outlives the log */
    uint64_t first_lsn;         /* where numbers begin: behind those of a log that was there before; 0 */
    int64_t tick_us;            /* for tests: in place of the second between syncs and between retries; 0: a second */
};

/* Reads the manifest. None: an empty log; but a bare appendonly.aof of before Redis 7 next to the directory is adopted, and files of the
 * log without a manifest, and `<dir>.incomplete` of an interrupted backup or restore, are refused with a message. Creates nothing yet.
 * STATUS_LOCKED: another process has it open. `message` is set whenever the answer is not STATUS_OK. */
enum status aof_open(const struct aof_options *options, struct aof **aof, struct message *message);

/* A file from elsewhere as the base of a log that is empty (aof_is_new): a dump, or an old log. aof_replay reads it where it lies,
 * and aof_start puts it under the manifest as a hard link, a copy where there can be none: until then nothing has changed, and from then
 * on the log is complete. Before aof_replay. */
bool aof_is_new(const struct aof *aof);
void aof_adopt(struct aof *aof, const char *path);
const char *aof_adopted(const struct aof *aof);     /* NULL: none. Until aof_start */

/* Replays base and increments in order: `run` is called for each command, SELECT among them (each file begins in
 * database 0: a SELECT 0 is run before every file but the first). MULTI and EXEC themselves are not passed on; what is
 * between them only when EXEC was found. `progress` (may be NULL) is called about each 50 ms, and at the end, with
 * bytes done of all.
 *
 * The RDB at the head of a base is handed to aof_on_import's function; without one it is STATUS_VERSION with a message unless it holds
 * no keys and no functions. A base of Kelvin's own (aof_base) is passed over, the caller has restored it.
 * A torn tail (half a command, or a MULTI without its EXEC) of the last file that has any bytes is cut off, with a
 * warning in `message` (else ""), if load_truncated (STATUS_OK), else STATUS_TRUNCATED; anywhere else, and for every
 * bad record, it is STATUS_CORRUPT. The message names file and offset. `run` returning false stops with
 * STATUS_INVALID. Call it once, before aof_start. */
typedef bool aof_run(void *context, const struct bytes *args, int arg_count);
typedef void aof_progress(void *context, uint64_t done, uint64_t total);
enum status aof_replay(struct aof *aof, aof_run *run, aof_progress *progress, void *context, struct message *message);

/* Loads the RDB that begins the file, from offset 0, and says how many bytes it has. `progress` is to be called with the bytes done.
 * */
typedef void aof_import_progress(void *context, uint64_t done);
typedef enum status aof_import(void *context, int fd, aof_import_progress *progress, void *progress_context, uint64_t *size,
    struct message *message);
void aof_on_import(struct aof *aof, aof_import *import, void *context);     /* before aof_replay */

/* Before aof_replay, with its context: `ahead` is called for each command, MULTI and EXEC too, some hundred commands before it is
 * run: to begin with what takes long. It is a hint only: a command that is seen may still turn out to be one that never runs. */
typedef void aof_ahead(void *context, const struct bytes *args, int arg_count);
void aof_on_ahead(struct aof *aof, aof_ahead *ahead);

/* The name of the base file when it is Kelvin's own (a name that ends in ".base.image"), else NULL. Before aof_start: from then on the
 * flusher's thread may change it. */
const char *aof_base(struct aof *aof);

/* What the log has to say to whoever runs the server: once when writes stop getting through (with the reason), once
 * when they do again, and when the log is lost. From any thread that writes, with locks held: it must not call back.
 * Before aof_start; without one the log is silent. */
typedef void aof_notice(void *context, const char *message);
void aof_on_notice(struct aof *aof, aof_notice *notice, void *context);

/* After the replay: opens the last increment for appending and syncs it, or creates the first (with its directory and
 * manifest synced), and starts the flusher. */
enum status aof_start(struct aof *aof, struct message *message);
/* Flushes, syncs and closes the files, if it was started. What can be asked about the log, and aof_flush, go on to answer; nothing is
 * appended any more. */
void aof_stop(struct aof *aof);
void aof_close(struct aof *aof);            /* aof_stop, and frees it; NULL is fine */

/* Appends a command and returns the LSN behind it. A SELECT is put before it when `db` is not that of the last
 * command. */
uint64_t aof_append(struct aof *aof, int db, const struct bytes *args, int arg_count);

/* The same for a request with large arguments (resp/request.h): they are held until they are written, not copied. */
struct request_large;
uint64_t aof_append_large(struct aof *aof, int db, const struct bytes *args, int arg_count, const struct request_large *large, int large_count);

/* Commands that are replayed all or none (a transaction, a script): collected by one thread, then appended as one, so
 * that no other worker's command comes between. MULTI and EXEC are put around more than one. The arguments are
 * copied. */
struct aof_group {
    struct buffer text;
    int count;
    int first_db, db;           /* of the first and the last command; -1: none */
};
void aof_group_init(struct aof_group *group);
void aof_group_release(struct aof_group *group);
void aof_group_clear(struct aof_group *group);
void aof_group_add(struct aof_group *group, int db, const struct bytes *args, int arg_count);
uint64_t aof_append_group(struct aof *aof, const struct aof_group *group);      /* empty: just the LSN of the tail's end */

/* The tail as a whole is written to the file if `lsn` is not covered yet. Returns whether it is now. Any thread; no
 * partition held. False: the disk does not take it (aof_error), or a cut waits for an fsync; the flusher goes on with
 * it, and aof_on_durable's callback tells when to look at aof_written again. */
bool aof_flush(struct aof *aof, uint64_t lsn);

/* Asks for an fsync that covers `lsn` (under `always`; works under every policy); `aof_durable` tells. What is not
 * written yet the flusher writes first. The callback is called on the flusher's thread after each fsync that
 * succeeded, and after each write by the flusher that others may wait for, and when the log is lost (aof_is_lost: tell
 * them); no lock is held. So: queue the waiter, request, then look at aof_durable once oneself. */
void aof_request_sync(struct aof *aof, uint64_t lsn);
typedef void aof_synced(void *context, uint64_t durable);
void aof_on_durable(struct aof *aof, aof_synced *synced, void *context);    /* before aof_start */

uint64_t aof_appended(struct aof *aof);     /* LSN of the tail's end */
uint64_t aof_written(struct aof *aof);      /* covered by write(2) */
uint64_t aof_durable(struct aof *aof);      /* covered by fsync */
enum status aof_error(struct aof *aof);     /* STATUS_OK, or why writes do not get through */
int aof_error_number(struct aof *aof);      /* its errno, for strerror in MISCONF's text; 0: none */
bool aof_is_lost(struct aof *aof);          /* the error is for good */
void aof_set_fsync(struct aof *aof, enum aof_fsync fsync);

/* A checkpoint's three steps, by one thread at a time.
 * prepare: the next increment is created and synced, with a manifest that names it. No lock held; may be repeated.
 *   STATUS_LOCKED: the files have not reached the last cut yet, see below.
 * cut: with all partitions locked; what is appended from now on goes there. Returns the LSN of the cut. Only after a
 *   prepare, once. The flusher syncs the old file before it writes the first byte of the new one.
 * commit: increments that lie before `lsn` go. `base_name`: the base that replaces them (NULL: there is none), a file
 * or
 *   directory in `dir`, complete and synced; its name ends in ".base.image". STATUS_LOCKED: the flusher has not reached
 *   the cut yet; aof_on_durable's callback is called when it has. */
enum status aof_prepare(struct aof *aof, struct message *message);
uint64_t aof_cut(struct aof *aof);
enum status aof_commit(struct aof *aof, uint64_t lsn, const char *base_name, struct message *message);

struct aof_stats {
    uint64_t current_size, base_size;       /* bytes: all files, the image among them; when last rewritten or loaded */
    uint64_t tail_size;                     /* bytes in increments: what a restart has to replay */
    uint64_t buffer_size;                   /* bytes in the tail, taken by no file yet */
    uint64_t fsync_pending;                 /* 1: an fsync is running */
    uint64_t delayed_fsync;                 /* those that took over 2 s */
    int64_t last_fsync_ms;                  /* wall clock; 0: none yet */
};
struct aof_stats aof_stats(struct aof *aof);

#endif
