/* Backlog: the last bytes of a stream of bytes, by position, for readers at positions of their own.
 *
 *   position    count of bytes since the stream began, u64; the first byte of a backlog has the position `options.first`
 *
 *       begin            memory begin          end
 *         |  spool, on disk   |  ring, in memory |  <- append
 *         ^ the needed position that is furthest back
 *
 * The last `memory_size` bytes are always there, in blocks of `block_size`. Bytes are *needed* from each reader's position on, and from each
 * retained position on. A block that leaves memory and is needed is written to the spool: files without names, of `file_size` bytes. A file
 * that is not needed any more is closed. So there is no spool unless a reader or a retained position is further back than the memory.
 *
 * Each block on disk has a checksum in memory, which is compared when it is read back: if the system could not write a page, and it reads
 * back as zeros, the reader is lost instead of getting wrong bytes.
 *
 * The spool has at most `disk_size` bytes. When it is full, or a write fails, the needed position that is furthest back is given up, then
 * the next one, until there is room or the block is not needed: a retained position is dropped; a reader that has acknowledged less than it has
 * read (see backlog_acknowledge) keeps only what it has not read; another reader is lost: its next read returns BACKLOG_LOST. Of a reader
 * and a retained position at the same position the latter goes first. One further ahead does not go first: that would free no space.
 * So an append never fails and never waits for a reader, but it may write blocks to the disk.
 *
 * Locks: any thread may call any function at any time, except that there is one appender at a time (a lock of the caller's), one thread at a
 * time for each reader, and none during backlog_destroy. The lock inside is a leaf that is held for no I/O and no copying of data. The
 * spool lock is above it: it is held during writes to the disk, by the appender mostly. Only the appender may wait for it, if memory would
 * grow otherwise.
 */
#ifndef KELVIN_STREAM_BACKLOG_H
#define KELVIN_STREAM_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct backlog;
struct backlog_reader;
struct disk;

enum { BACKLOG_BLOCK_SIZE = 256 << 10, BACKLOG_SPOOL_FILE_SIZE = 64 << 20 };

struct backlog_options {
    uint64_t memory_size;       /* bytes that are always kept; up to three blocks more are allocated */
    uint64_t reader_memory;     /* while there are readers, what is needed goes to the spool only when it is further back than this, if that is
                                 * more than memory_size: readers that are slow for a moment do not need the disk. 0 is fine */
    uint64_t disk_size;         /* bound of the spool; 0: no spool */
    uint64_t file_size;         /* of one file of the spool; 0: BACKLOG_SPOOL_FILE_SIZE. Less if disk_size is small, more (up to 1 GiB) if it is large */
    uint64_t block_size;        /* 0: BACKLOG_BLOCK_SIZE; the unit in which memory is freed, and in which the spool is written and read */
    uint64_t first;             /* position of the first byte that will be appended */
    const char *dir;            /* for the spool's files; copied. NULL: no spool */
    const char *name;           /* of the files while they have one: temp-<pid>.<name>; copied. NULL: "backlog". Unique in `dir` */
    const struct disk *disk;    /* NULL: the system's */
    struct closer *closer;      /* of the spool's files; NULL: they are closed in place. Outlives the backlog */
};

struct backlog *backlog_create(const struct backlog_options *options);
void backlog_destroy(struct backlog *backlog);      /* has no readers; NULL is fine. */

/* Any size, 0 too. May write blocks to the spool, a few for each block that is appended. */
void backlog_append(struct backlog *backlog, struct bytes bytes);

/* The oldest position at which a reader can be attached, and the position of the next byte. */
uint64_t backlog_begin(struct backlog *backlog);
uint64_t backlog_end(const struct backlog *backlog);     /* no lock */

/* At least this many bytes can be appended before a needed position is given up because of `disk_size`; UINT64_MAX: there is none. For an
 * appender that should rather stop reading its source. */
uint64_t backlog_room(struct backlog *backlog);

/* --- readers --- */

/* NULL: the position is before begin or after end. resume: for a replica that returns; drops the last retained position at or
 * before `position`, if there is one: its own. */
struct backlog_reader *backlog_attach(struct backlog *backlog, uint64_t position);
struct backlog_reader *backlog_resume(struct backlog *backlog, uint64_t position);
void backlog_detach(struct backlog_reader *reader);     /* NULL is fine */

/* Copies bytes at the reader's position, at most `max`, none at or after the position `limit`, and moves the reader. BACKLOG_OK: *got of them;
 * 0: there are none for now. There may be more than it got: it reads the disk at most once, and at most one block. BACKLOG_LOST: the reader is lost,
 * for good, and is to be detached. */
enum backlog_result { BACKLOG_OK, BACKLOG_LOST };
enum backlog_result backlog_read(struct backlog_reader *reader, char *to, size_t max, uint64_t limit, size_t *got);

/* The position of the next byte to read. By the reader's thread. */
uint64_t backlog_position(const struct backlog_reader *reader);

/* From the first call on, what the reader has read is kept as well until it is acknowledged, so that it can be retained. The
 * first call should be made right after attach, with the same position. A position that is not after the one before has no effect; one
 * beyond the reader's position counts as that. */
void backlog_acknowledge(struct backlog_reader *reader, uint64_t position);

/* Why a reader is lost. */
enum backlog_loss {
    BACKLOG_NOT_LOST,
    BACKLOG_LOST_NO_DISK,           /* it was not in memory any more, and disk_size is 0 */
    BACKLOG_LOST_BOUND,             /* disk_size is used up */
    BACKLOG_LOST_WRITE,             /* a write to the spool failed */
    BACKLOG_LOST_READ,              /* a read from the spool failed, or the checksum was wrong */
};
struct backlog_loss_reason {
    enum backlog_loss loss;
    int error;                      /* errno of a failed write or read; 0: the checksum */
};
struct backlog_loss_reason backlog_reason(const struct backlog_reader *reader);
const char *backlog_loss_text(enum backlog_loss loss);     /* a phrase for the log */

/* --- retained positions --- */

/* Keeps the bytes from `position` on, as a reader would, until the clock of backlog_expire reaches `until_ms` (INT64_MAX: for good). There
 * are up to BACKLOG_RETAINED_MAX; one more drops the one furthest back. False: the position is not there.
 * leave: detaches the reader, and retains what it has not read or not acknowledged; nothing if it is lost. */
enum { BACKLOG_RETAINED_MAX = 64 };
bool backlog_retain(struct backlog *backlog, uint64_t position, int64_t until_ms);
void backlog_leave(struct backlog_reader *reader, int64_t until_ms);

/* Drops the positions whose time is `now_ms` or earlier, and continues what backlog_resize has begun. Cheap if there is nothing to do; call
 * it each second or so. */
void backlog_expire(struct backlog *backlog, int64_t now_ms);

/* --- settings and statistics --- */

/* Any time. Smaller: what is not needed is freed at once; what is needed is written to the spool by this call and the next appends, a few
 * blocks each. A smaller disk_size gives positions up at once. */
void backlog_resize(struct backlog *backlog, uint64_t memory_size);
void backlog_limit_disk(struct backlog *backlog, uint64_t disk_size);

struct backlog_stats {
    uint64_t begin, end;            /* positions, as of backlog_begin and backlog_end */
    uint64_t memory_begin;          /* position of the first byte that is in memory for sure */
    uint64_t memory_used;           /* bytes allocated: blocks, copies of blocks that readers of the spool hold, administration */
    uint64_t disk_used;             /* bytes in the spool's files */
    int files, readers, retained;
    /* Since creation. */
    uint64_t disk_written, disk_read;                                       /* bytes */
    uint64_t write_errors, read_errors, lost_readers, lost_retained;          /* lost_retained: not those that expired */
};
void backlog_stats(struct backlog *backlog, struct backlog_stats *stats);

#endif
