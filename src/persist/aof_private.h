/* The struct of the log, which its files share. Only src/persist/aof*.c include this.
 *
 *   aof.c            opening, starting, stopping, state
 *   aof_flusher.c    writes the tail to the file; fsync, errors, the flusher's thread
 *   aof_increment.c  which files there are: a new increment, one that replaces a failed one, a checkpoint's
 */
#ifndef KELVIN_PERSIST_AOF_PRIVATE_H
#define KELVIN_PERSIST_AOF_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/message.h"
#include "base/mutex.h"
#include "base/stream_sum.h"
#include "base/thread.h"
#include "base/waiting.h"
#include "persist/aof.h"
#include "persist/aof_manifest.h"
#include "persist/aof_map.h"
#include "persist/aof_mark.h"
#include "stream/history.h"

/* A part of the current file, which begins where the part before it ends, and the sum of its bytes. */
struct aof_stretch {
    uint64_t size;
    struct stream_sum sum;
};

/* none -> aof_prepare -> prepared -> aof_cut -> waiting -> the flusher reaches the cut -> none */
enum aof_cut_state { AOF_CUT_NONE, AOF_CUT_PREPARED, AOF_CUT_WAITING };

struct aof {
    /* Immutable after start. */
    char *dir, *name, *manifest_name;
    const struct disk *disk;
    bool load_truncated;
    struct meter *meter;            /* immutable; NULL: none */
    int64_t tick_us;
    aof_synced *synced;
    void *synced_context;
    aof_ahead *ahead;
    struct aof_ahead_limits ahead_limits;
    aof_notice *notice;
    void *notice_context;
    int dir_fd;                         /* -1: the directory does not exist yet */
    char *adopted;                      /* path of a base from elsewhere, until the manifest names it; NULL: none */
    bool adopted_moves;                 /* it is an old log, whose own name is removed afterwards */
    aof_import *import;
    void *import_context;
    bool replayed, started;

    struct history *history, *own_history;     /* the second is NULL, or the same */
    _Atomic bool is_attached;               /* the stream's chunks are taken: set when it is opened, or by the first cut */
    struct aof_map map;                     /* has a lock of its own */

    _Atomic uint64_t written, durable;  /* stored under the flush lock */
    _Atomic int error;                  /* enum status; stored under the flush lock */
    _Atomic int error_number;           /* the errno of it; stored before it, cleared after it */
    _Atomic bool lost;
    _Atomic int fsync;                  /* enum aof_fsync */
    _Atomic int cut_state;              /* enum aof_cut_state */
    _Atomic uint64_t other_size, current_size, base_size, image_size;    /* image_size is that of the base, and included in other_size */
    _Atomic uint64_t fsync_pending, delayed_fsync;
    _Atomic int64_t last_fsync_ms;

    /* Files: the list of them. Taken before the flush lock. */
    struct mutex files_lock;
    struct aof_manifest manifest;
    struct aof_manifest strays;         /* files of attempts that failed, which a manifest on the disk may name */
    uint64_t next_seq;                  /* greater than that of any increment so far */
    uint64_t switched_lsn;              /* the last cut that reached the files; UINT64_MAX: none */
    int prepared_fd;                    /* the manifest's last file, still empty; -1: nothing is prepared */

    /* Flush: the current increment. Only the flusher changes fd, and may read it without the lock. */
    struct mutex flush_lock;
    int fd;
    struct history_chunk *pending, **pending_end;   /* taken from the tail, not written yet, in order */
    int64_t trickled_us;                /* when replicas were sent a byte of them */
    uint64_t current_seq;
    int written_db, durable_db;         /* the selected database at `written` and `durable`; -1: the file has none yet */
    struct history_identity written_identity, durable_identity;    /* there; no ID: nothing was marked yet */
    uint64_t durable_size;              /* of the file: where its last good fsync ended */
    struct aof_stretch syncing, unsynced;   /* after it: what the running fsync will cover, and what was written since */
    bool torn;                          /* truncating after a failed write failed: there are bytes after current_size */
    bool untrusted;                     /* an fsync of this file failed */

    /* Wake: what the flusher has to do. A leaf. */
    struct mutex wake_lock;
    struct condition wake;
    uint64_t wanted;                    /* an fsync up to here is asked for */
    bool cut_waits;                     /* pending begins with a chunk of the next file */
    bool stop;
    struct thread flusher;
    struct waiting waiting;         /* a round of the flusher has ended */
};

/* aof_increment.c. Adds a new, empty increment to the manifest; both are synced. */
enum status aof_increment_add(struct aof *aof, int *fd, struct message *message) REQUIRES(aof->files_lock);
/* The log goes on in another increment, as an fsync of this one failed. STATUS_CORRUPT: what was written can't be read back; all other
 * failures may be tried again. */
enum status aof_increment_replace(struct aof *aof) REQUIRES(aof->files_lock, aof->flush_lock);
/* The bytes that count in all files but the current one. */
uint64_t aof_increment_sizes(struct aof *aof) REQUIRES(aof->files_lock);

/* aof.c. From here on the stream's changes are the log's. */
void aof_attach(struct aof *aof);

/* aof_adopt.c. Adds the adopted file to the directory, and to the manifest in memory; aof_increment_add, which is to follow, writes and
 * syncs that. Afterwards aof_adopt_end forgets the file's old place, or removes it (adopted_moves). */
enum status aof_adopt_begin(struct aof *aof, struct message *message) REQUIRES(aof->files_lock);
void aof_adopt_end(struct aof *aof);

/* aof_flusher.c. Prints a SELECT that is this server's own, not the stream's, with its LOCAL line; nothing for -1. */
enum { AOF_LOCAL_SELECT_SIZE = AOF_MARK_LOCAL_SIZE + HISTORY_SELECT_SIZE };
size_t aof_print_local_select(const struct aof *aof, int db, char *out);
void aof_flusher_main(void *aof);

/* Calls aof_on_notice's function. */
static inline void aof_report(struct aof *aof, const char *message)
{
    if (aof->notice != NULL)
        aof->notice(aof->notice_context, message);
}

#endif
