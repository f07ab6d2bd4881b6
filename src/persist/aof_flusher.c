#include "persist/aof_private.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/message.h"
#include "base/mutex.h"

enum {
    DELAYED_US = 2000000,
    TRICKLE_US = 500000,            /* about each tick of a second */
};

/* The error state. The reason is reported once, not at every attempt. */

static void set_error(struct aof *aof, enum status status, const char *what, int error) REQUIRES(aof->flush_lock);
static void set_error(struct aof *aof, enum status status, const char *what, int error)
{
    struct message message;
    enum status before;

    atomic_store(&aof->error_number, error);
    before = (enum status)atomic_exchange(&aof->error, (int)status);
    if (before == status)
        return;
    message_set(&message, "AOF: %s: %s. Writes are refused until it succeeds", what, strerror(error));
    aof_report(aof, message.text);
}

static void clear_error(struct aof *aof) REQUIRES(aof->flush_lock);
static void clear_error(struct aof *aof)
{
    if (aof->torn || aof->untrusted || atomic_exchange(&aof->error, STATUS_OK) == STATUS_OK)
        return;
    atomic_store(&aof->error_number, 0);
    aof_report(aof, "AOF: the disk accepts writes again");
}

static void set_lost(struct aof *aof, const char *why) REQUIRES(aof->flush_lock);
static void set_lost(struct aof *aof, const char *why)
{
    struct message message;

    if (atomic_exchange(&aof->lost, true))
        return;
    message_set(&message, "AOF: an fsync failed, and what it should have covered %s. The log is lost from "
        "there on and accepts no more writes; the data set is only in memory now: save it elsewhere", why);
    aof_report(aof, message.text);
}

/* Writing */

static void wake_for_cut(struct aof *aof)
{
    mutex_lock(&aof->wake_lock);
    aof->cut_waits = true;
    condition_signal(&aof->wake);
    mutex_unlock(&aof->wake_lock);
}

/* Truncates the file to where the last good write ended, before a reader can see a part of a command, or a write can follow it. */
static bool cut_file_back(struct aof *aof) REQUIRES(aof->flush_lock);
static bool cut_file_back(struct aof *aof)
{
    aof->torn = aof->disk->ftruncate(aof->disk->context, aof->fd, (off_t)atomic_load(&aof->current_size)) != 0;
    return !aof->torn;
}

size_t aof_print_local_select(const struct aof *aof, int db, char *out)
{
    char select[HISTORY_SELECT_SIZE];
    size_t size, before;

    if (db < 0)
        return 0;
    size = history_select_print(db, select);
    before = aof->own_history == NULL ? aof_mark_print_local(size, out) : 0;
    memcpy(out + before, select, size);
    return before + size;
}

/* The head that is written before a chunk counts as bytes of the file, but not of the stream: its mark, and in a primary's stream the
 * SELECT that a new file needs. */
enum { HEAD_SIZE = AOF_MARK_SIZE + AOF_LOCAL_SELECT_SIZE };

static size_t print_head(const struct aof *aof, const struct history_chunk *chunk, char head[HEAD_SIZE]) REQUIRES(aof->flush_lock);
static size_t print_head(const struct aof *aof, const struct history_chunk *chunk, char head[HEAD_SIZE])
{
    bool has_bytes = chunk->end > chunk->start || chunk->piece_count > 0;
    size_t size = chunk->mark != NULL && aof->own_history == NULL ? aof_mark_print(chunk->mark, head) : 0;

    if (has_bytes && aof->written_db < 0)
        size += aof_print_local_select(aof, chunk->db_before, head + size);
    return size;
}

/* A chunk and what was printed before it were written to the end of the file. */
static void note_written(struct aof *aof, const struct history_chunk *chunk, size_t head_size) REQUIRES(aof->flush_lock);
static void note_written(struct aof *aof, const struct history_chunk *chunk, size_t head_size)
{
    uint64_t at = atomic_load(&aof->current_size);

    if (head_size == 0 || aof->own_history != NULL)
        return;
    if (chunk->mark == NULL) {
        aof_map_skip(&aof->map, aof->current_seq, at, at + head_size);
        return;
    }
    aof_map_begin(&aof->map, aof->current_seq, at + head_size, chunk->mark);
    aof->written_identity = chunk->mark->identity;
}

static void count_run(struct aof *aof, struct bytes run) REQUIRES(aof->flush_lock);
static void count_run(struct aof *aof, struct bytes run)
{
    stream_sum_add(&aof->unsynced.sum, aof->unsynced.size, run);
    aof->unsynced.size += run.size;
}

/* Writes one chunk. If that fails, the file is truncated to where the chunk began. */
static bool write_chunk(struct aof *aof, struct history_chunk *chunk) REQUIRES(aof->flush_lock);
static bool write_chunk(struct aof *aof, struct history_chunk *chunk)
{
    char text[HEAD_SIZE];
    struct bytes head = bytes_of(text, print_head(aof, chunk, text));
    size_t size = 0;
    int error = 0, runs = history_chunk_runs(chunk);

    if (file_write_all(aof->disk, aof->fd, head) != STATUS_OK)
        error = errno;
    for (int n = 0; n < runs && error == 0; n++) {
        if (file_write_all(aof->disk, aof->fd, history_chunk_run(chunk, n)) != STATUS_OK)
            error = errno;
        size += history_chunk_run(chunk, n).size;
    }
    if (error != 0) {
        cut_file_back(aof);
        set_error(aof, status_of_errno(error), "a write failed", error);
        return false;
    }
    count_run(aof, head);
    for (int n = 0; n < runs; n++)
        count_run(aof, history_chunk_run(chunk, n));
    note_written(aof, chunk, head.size);
    if (size > 0)
        aof->written_db = chunk->db_after;
    atomic_fetch_add(&aof->current_size, head.size + size);
    atomic_fetch_add_explicit(&aof->written, size, memory_order_release);
    return true;
}

/* Writes the tail, up to a cut or a failure. */
static void write_tail(struct aof *aof) REQUIRES(aof->flush_lock);
static void write_tail(struct aof *aof)
{
    struct history_chunk *done = NULL, **done_end = &done, *chunk = aof->is_attached ? history_take(aof->history) : NULL;
    bool progress = false;

    *aof->pending_end = chunk;
    for (; chunk != NULL; chunk = chunk->next)
        aof->pending_end = &chunk->next;
    if (aof->untrusted || (aof->torn && !cut_file_back(aof)))
        return;
    while ((chunk = aof->pending) != NULL) {
        if (chunk->begins_file) {
            wake_for_cut(aof);
            break;
        }
        if (!write_chunk(aof, chunk))
            break;
        progress = true;
        aof->pending = chunk->next;
        chunk->next = NULL;
        *done_end = chunk;
        done_end = &chunk->next;
    }
    if (aof->pending == NULL)
        aof->pending_end = &aof->pending;
    if (progress && (aof->pending == NULL || aof->pending->begins_file))
        clear_error(aof);
    history_hand_over(aof->history, done);
}

bool aof_flush(struct aof *aof, uint64_t lsn)
{
    if (aof_written(aof) >= lsn)
        return true;
    if (aof_error(aof) != STATUS_OK)
        return false;
    mutex_lock(&aof->flush_lock);
    if (aof_written(aof) < lsn && aof_error(aof) == STATUS_OK)
        write_tail(aof);
    mutex_unlock(&aof->flush_lock);
    return aof_written(aof) >= lsn;
}

void aof_request_sync(struct aof *aof, uint64_t lsn)
{
    if (lsn > aof_appended(aof))
        lsn = aof_appended(aof);        /* else the flusher would try without end to reach an LSN that does not exist */
    if (aof_durable(aof) >= lsn)
        return;
    mutex_lock(&aof->wake_lock);
    if (lsn > aof->wanted) {
        aof->wanted = lsn;
        condition_signal(&aof->wake);
    }
    mutex_unlock(&aof->wake_lock);
}

/* The flusher */

static void report_synced(struct aof *aof)
{
    if (aof->synced != NULL)
        aof->synced(aof->synced_context, aof_durable(aof));
}

static bool replace_untrusted(struct aof *aof)
{
    enum status status = STATUS_OK;

    if (atomic_load(&aof->lost))
        return false;
    mutex_lock(&aof->files_lock);
    mutex_lock(&aof->flush_lock);
    if (aof->untrusted) {
        status = aof_increment_replace(aof);
        if (status == STATUS_CORRUPT)
            set_lost(aof, "can't be read back");
        else if (status == STATUS_OK)
            clear_error(aof);
    }
    mutex_unlock(&aof->flush_lock);
    mutex_unlock(&aof->files_lock);
    if (status == STATUS_OK || aof_is_lost(aof))
        report_synced(aof);
    return status == STATUS_OK;
}

/* Syncs what is written. No lock is held during the fsync: other threads go on writing. */
static bool sync_file(struct aof *aof)
{
    struct history_identity target_identity;
    uint64_t target, target_size;
    int64_t started, took;
    int target_db, error = 0;

    mutex_lock(&aof->flush_lock);
    CHECK(!aof->untrusted && aof->syncing.size == 0);
    target = aof_written(aof);
    target_size = atomic_load(&aof->current_size);
    target_db = aof->written_db;
    target_identity = aof->written_identity;
    if (aof->unsynced.size == 0) {          /* marks are bytes, too, which no LSN counts */
        mutex_unlock(&aof->flush_lock);
        return true;
    }
    aof->syncing = aof->unsynced;
    aof->unsynced = (struct aof_stretch){ 0 };
    mutex_unlock(&aof->flush_lock);

    atomic_store(&aof->fsync_pending, 1);
    started = clock_mono_us();
    if (aof->disk->fdatasync(aof->disk->context, aof->fd) != 0)
        error = errno != 0 ? errno : EIO;
    took = clock_mono_us() - started;
    atomic_store(&aof->fsync_pending, 0);
    if (took > DELAYED_US)
        atomic_fetch_add(&aof->delayed_fsync, 1);

    mutex_lock(&aof->flush_lock);
    if (error == 0) {
        aof->durable_size = target_size;
        aof->durable_db = target_db;
        aof->durable_identity = target_identity;
        aof->syncing = (struct aof_stretch){ 0 };
        atomic_store_explicit(&aof->durable, target, memory_order_release);
    } else {
        aof->untrusted = true;
        set_error(aof, status_of_errno(error), "an fsync failed", error);
    }
    mutex_unlock(&aof->flush_lock);
    if (error != 0)
        return replace_untrusted(aof);
    atomic_store(&aof->last_fsync_ms, clock_wall_ms());
    report_synced(aof);
    return true;
}

/* Goes on in the next file: the current one is written up to the cut and synced. */
static void switch_file(struct aof *aof)
{
    mutex_lock(&aof->files_lock);
    mutex_lock(&aof->flush_lock);
    CHECK(aof->pending != NULL && aof->pending->begins_file && aof->prepared_fd >= 0);
    CHECK(aof_durable(aof) == aof_written(aof));
    CHECK(atomic_load(&aof->cut_state) == AOF_CUT_WAITING);
    atomic_store(&aof->cut_state, AOF_CUT_NONE);
    aof->pending->begins_file = false;
    close(aof->fd);
    aof->fd = aof->prepared_fd;
    aof->prepared_fd = -1;
    atomic_fetch_add(&aof->other_size, atomic_load(&aof->current_size));
    atomic_store(&aof->current_size, 0);
    aof->durable_size = 0;
    aof->written_db = aof->durable_db = -1;
    aof->durable_identity = aof->written_identity;
    aof->current_seq = aof->manifest.files[aof->manifest.count - 1].seq;
    aof_map_add_file(&aof->map, aof->current_seq, aof->fd);
    aof->manifest.files[aof->manifest.count - 1].first_lsn = aof->switched_lsn = aof_written(aof);
    mutex_lock(&aof->wake_lock);
    aof->cut_waits = false;
    mutex_unlock(&aof->wake_lock);
    mutex_unlock(&aof->flush_lock);
    mutex_unlock(&aof->files_lock);
}

static bool is_cut_waiting(struct aof *aof)
{
    bool waits;

    mutex_lock(&aof->wake_lock);
    waits = aof->cut_waits;
    mutex_unlock(&aof->wake_lock);
    return waits;
}

/* Nothing that the log does not have gets to replicas, but a byte a second: they would take silence for a dead primary, and their links would end
 * with the first full disk. */
static void trickle(struct aof *aof)
{
    int64_t now_us = clock_mono_us();

    mutex_lock(&aof->flush_lock);
    if (now_us - aof->trickled_us >= TRICKLE_US) {
        aof->trickled_us = now_us;
        if (aof->pending == NULL)
            write_tail(aof);
        history_trickle(aof->history, aof->pending);
    }
    mutex_unlock(&aof->flush_lock);
}

/* Makes one round. `due`: a tick has passed, so that what failed is tried again, and everysec syncs. */
static void flusher_round(struct aof *aof, bool due, uint64_t wanted)
{
    uint64_t before = aof_written(aof);
    bool reported = false;
    int mode;

    if (aof_error(aof) != STATUS_OK && !due)
        return;
    if (aof_error(aof) != STATUS_OK)
        trickle(aof);
    if (aof->untrusted && !replace_untrusted(aof))     /* only this thread changes it */
        return;
    for (;;) {
        mutex_lock(&aof->flush_lock);
        write_tail(aof);
        mutex_unlock(&aof->flush_lock);
        if (!is_cut_waiting(aof))
            break;
        if (!sync_file(aof))
            break;
        if (aof_durable(aof) != aof_written(aof))
            continue;       /* bytes from before the cut were written during the fsync, and are not synced */
        switch_file(aof);
        report_synced(aof);
    }
    mode = atomic_load(&aof->fsync);
    if (aof_durable(aof) < aof_written(aof) && !aof->untrusted
        && (wanted > aof_durable(aof) || mode == AOF_FSYNC_ALWAYS || (mode == AOF_FSYNC_EVERYSEC && due)))
        reported = sync_file(aof);
    if (!reported && aof_written(aof) != before)
        report_synced(aof);
}

void aof_flusher_main(void *context)
{
    struct aof *aof = context;
    int64_t next_us = clock_mono_us() + aof->tick_us;
    uint64_t wanted;
    bool stop = false;

    while (!stop) {
        bool due;

        mutex_lock(&aof->wake_lock);
        for (;;) {
            struct timespec until = { next_us / 1000000, next_us % 1000000 * 1000 };
            bool works = aof_error(aof) == STATUS_OK;

            due = clock_mono_us() >= next_us;
            if (due || aof->stop || (works && (aof->wanted > aof_durable(aof) || aof->cut_waits)))
                break;
            condition_wait_until(&aof->wake, &aof->wake_lock, &until);
        }
        wanted = aof->wanted;
        stop = aof->stop;
        mutex_unlock(&aof->wake_lock);
        if (due)
            next_us = clock_mono_us() + aof->tick_us;
        flusher_round(aof, due || stop, stop ? UINT64_MAX : wanted);
        waiting_bump(&aof->waiting);
    }
}

