#include "persist/aof.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "persist/aof_name.h"
#include "persist/aof_private.h"
#include "persist/aof_replay.h"

enum { TICK_US = 1000000, WRITE_US_MAX = 40000000, LOOK_MS = 1000 };

/* Opening */

static enum status open_directory(struct aof *aof, struct message *message)
{
    aof->dir_fd = open(aof->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (aof->dir_fd < 0) {
        if (errno != ENOENT)
            message_set(message, "Can't open the AOF directory %s: %s", aof->dir, strerror(errno));
        return status_of_errno(errno);
    }
    if (flock(aof->dir_fd, LOCK_EX | LOCK_NB) == 0)
        return STATUS_OK;
    message_set(message, "The AOF directory %s is in use by another process", aof->dir);
    return errno == EWOULDBLOCK ? STATUS_LOCKED : STATUS_IO;
}

/* A log from before Redis 7 is a file next to the directory. Starting empty despite it would look like data loss. */
static void find_old_style_log(struct aof *aof)
{
    char *dir = mem_string(bytes_of_string(aof->dir));
    struct buffer path = { 0 };
    struct stat info;

    buffer_append_string(&path, dirname(dir));
    buffer_append_u8(&path, '/');
    buffer_append_string(&path, aof->name);
    buffer_append_u8(&path, 0);
    if (stat(path.data, &info) == 0 && S_ISREG(info.st_mode)) {
        aof_adopt(aof, path.data);
        aof->adopted_moves = true;
    }
    buffer_release(&path);
    mem_free(dir);
}

/* Redis moves a log from before Redis 7 in two steps: the manifest names it as the only file, then it is renamed into the directory. If
 * that was interrupted between them the manifest is dropped from memory here, and the move begins again. */
static void resume_interrupted_move(struct aof *aof)
{
    struct aof_manifest begun = aof->manifest;
    struct stat info;

    if (begun.count != 1 || begun.files[0].type != AOF_FILE_BASE || strcmp(begun.files[0].name, aof->name) != 0)
        return;
    if (fstatat(aof->dir_fd, aof->name, &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        return;
    aof_manifest_init(&aof->manifest);
    find_old_style_log(aof);
    if (aof->adopted != NULL)
        aof_manifest_release(&begun);
    else
        aof->manifest = begun;
}

/* Whether a file is one of the log's that does not exist without a manifest that names it. An empty increment may: a server was killed
 * between creating and naming it. */
static bool is_orphan(const struct aof *aof, const char *name)
{
    size_t size = strlen(aof->name);
    struct stat info;
    const char *end;

    if (strncmp(name, aof->name, size) != 0 || name[size] != '.' || fstatat(aof->dir_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (strstr(name + size, ".base.") != NULL)
        return true;
    end = strrchr(name + size, '.');
    return end - name > 5 && memcmp(end - 5, ".incr", 5) == 0 && strcmp(end, ".aof") == 0 && info.st_size > 0;
}

/* There is no manifest; there must be no data either. An empty log next to data would look like data loss, and become data loss, as images
 * that no manifest names are removed. */
static enum status refuse_orphans(struct aof *aof, struct message *message)
{
    struct dirent *entry;
    enum status status = STATUS_OK;
    char incomplete[PATH_MAX];
    DIR *list;
    int fd;

    snprintf(incomplete, sizeof(incomplete), "%s.incomplete", aof->dir);
    if (access(incomplete, F_OK) == 0) {
        message_set(message, "'%.120s' was left by an interrupted backup or --restore: repeat that, or remove it",
            incomplete);
        return STATUS_INVALID;
    }
    fd = aof->dir_fd >= 0 ? openat(aof->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    list = fd >= 0 ? fdopendir(fd) : NULL;
    if (list == NULL && fd >= 0)
        close(fd);
    while (list != NULL && status == STATUS_OK && (entry = readdir(list)) != NULL) {
        if (!is_orphan(aof, entry->d_name))
            continue;
        message_set(message, "The AOF directory %.60s has %.100s, but no manifest that names it. kelvin-check --repair may "
            "write one", aof->dir, entry->d_name);
        status = STATUS_CORRUPT;
    }
    if (list != NULL)
        closedir(list);
    return status;
}

void aof_attach(struct aof *aof)
{
    uint64_t lsn = history_attach_log(aof->history);

    atomic_store(&aof->written, lsn);
    atomic_store(&aof->durable, lsn);
    atomic_store(&aof->is_attached, true);
}

static void aof_destroy(struct aof *aof)
{
    history_give_back(aof->history, aof->pending);
    if (aof->own_history != NULL)
        history_release(aof->own_history);
    mem_free(aof->own_history);
    aof_manifest_release(&aof->manifest);
    aof_manifest_release(&aof->strays);
    aof_map_release(&aof->map);
    if (aof->fd >= 0)
        close(aof->fd);
    if (aof->prepared_fd >= 0)
        close(aof->prepared_fd);
    if (aof->dir_fd >= 0)
        close(aof->dir_fd);
    mutex_release(&aof->files_lock);
    mutex_release(&aof->flush_lock);
    mutex_release(&aof->wake_lock);
    condition_release(&aof->wake);
    mem_free(aof->adopted);
    mem_free(aof->dir);
    mem_free(aof->name);
    mem_free(aof->manifest_name);
    mem_free(aof);
}

enum status aof_open(const struct aof_options *options, struct aof **result, struct message *message)
{
    struct aof *aof = mem_zalloc(sizeof(*aof));
    enum status status;

    message->text[0] = '\0';
    aof->dir = mem_string(bytes_of_string(options->dir));
    aof->name = mem_string(bytes_of_string(options->name));
    aof->manifest_name = aof_name_format(".manifest", options->name, 0);
    aof->disk = options->disk != NULL ? options->disk : disk_system();
    aof->load_truncated = options->load_truncated;
    aof->meter = options->meter;
    aof->tick_us = options->tick_us > 0 ? options->tick_us : TICK_US;
    aof->fsync = (int)options->fsync;
    aof->dir_fd = aof->fd = aof->prepared_fd = -1;
    aof->pending_end = &aof->pending;
    aof->switched_lsn = UINT64_MAX;
    aof->written_db = aof->durable_db = -1;
    aof->history = options->history;
    if (aof->history == NULL) {
        aof->history = aof->own_history = mem_alloc(sizeof(*aof->history));
        history_init(aof->history);
    }
    atomic_store(&aof->written, history_end(aof->history));
    atomic_store(&aof->durable, history_end(aof->history));
    aof_manifest_init(&aof->manifest);
    aof_map_init(&aof->map, options->closer);
    mutex_init(&aof->files_lock);
    mutex_init(&aof->flush_lock);
    mutex_init(&aof->wake_lock);
    condition_init(&aof->wake);

    status = open_directory(aof, message);
    if (status == STATUS_OK)
        status = aof_manifest_load(&aof->manifest, aof->dir_fd, aof->manifest_name, message);
    /* A killed server may not have synced the manifest that was just read, and files that it does not name will be removed. */
    if (status == STATUS_OK && aof->disk->fsync(aof->disk->context, aof->dir_fd) != 0) {
        message_set(message, "Can't sync the AOF directory %s: %s", aof->dir, strerror(errno));
        status = STATUS_IO;
    }
    if (status == STATUS_NOT_FOUND)
        status = refuse_orphans(aof, message);
    if (status == STATUS_OK && aof->manifest.count == 0)
        find_old_style_log(aof);
    else if (status == STATUS_OK)
        resume_interrupted_move(aof);
    if (status != STATUS_OK) {
        aof_destroy(aof);
        return status;
    }
    aof->next_seq = aof_manifest_last_seq(&aof->manifest) + 1;
    if (!options->begins_at_cut)
        aof_attach(aof);
    *result = aof;
    return STATUS_OK;
}

void aof_on_notice(struct aof *aof, aof_notice *notice, void *context)
{
    aof->notice = notice;
    aof->notice_context = context;
}

void aof_on_durable(struct aof *aof, aof_synced *synced, void *context)
{
    aof->synced = synced;
    aof->synced_context = context;
}

void aof_on_import(struct aof *aof, aof_import *import, void *context)
{
    aof->import = import;
    aof->import_context = context;
}

void aof_on_ahead(struct aof *aof, aof_ahead *ahead, struct aof_ahead_limits limits)
{
    aof->ahead = ahead;
    aof->ahead_limits = limits;
}

enum status aof_replay(struct aof *aof, aof_run *run, aof_progress *progress, void *context, struct message *message)
{
    struct aof_replay replay = {
        .dir_fd = aof->dir_fd,
        .manifest = &aof->manifest,
        .disk = aof->disk,
        .load_truncated = aof->load_truncated,
        .map = &aof->map,
        .run = run,
        .import = aof->import,
        .import_context = aof->import_context,
        .ahead = aof->ahead,
        .ahead_limits = aof->ahead_limits,
        .progress = progress,
        .context = context,
    };
    struct aof_manifest alone;
    enum status status;

    CHECK(!aof->started);
    aof_manifest_init(&alone);
    if (aof->adopted != NULL) {
        aof_manifest_add(&alone, bytes_of_string(aof->adopted), 1, AOF_FILE_BASE);
        replay.dir_fd = AT_FDCWD;
        replay.manifest = &alone;
        replay.base_may_be_torn = true;
    }
    status = aof_replay_files(&replay, message);
    aof_manifest_release(&alone);
    aof->replayed = status == STATUS_OK;
    return status;
}

void aof_set_base_point(struct aof *aof, const struct history_point *point)
{
    aof_map_begin_at(&aof->map, point);
}

bool aof_recovered(struct aof *aof, struct history_point *point)
{
    return aof_map_end(&aof->map, point);
}

struct aof_past *aof_past(struct aof *aof, int64_t from, int64_t until)
{
    return aof_past_open(&aof->map, from, until);
}

/* The tail is written; the files do not change as nothing is appended, but for what replaces a file after a failed fsync. */
static enum status write_all(struct aof *aof, struct message *message)
{
    int64_t until_us = clock_mono_us() + WRITE_US_MAX;
    uint64_t end = aof_appended(aof);

    while (clock_mono_us() < until_us) {
        uint32_t version = waiting_version(&aof->waiting);

        if (aof_flush(aof, end))
            return STATUS_OK;
        if (aof_error(aof) != STATUS_OK)
            break;
        aof_request_sync(aof, end);
        waiting_wait(&aof->waiting, version, LOOK_MS);
    }
    message_set(message, "The AOF's end can't be written to its file");
    return STATUS_IO;
}

enum status aof_replay_again(struct aof *aof, aof_run *run, aof_progress *progress, void *context, struct message *message)
{
    struct aof_manifest manifest;
    struct aof_replay replay = {
        .dir_fd = aof->dir_fd,
        .manifest = &manifest,
        .disk = aof->disk,
        .run = run,
        .import = aof->import,
        .import_context = aof->import_context,
        .ahead = aof->ahead,
        .ahead_limits = aof->ahead_limits,
        .progress = progress,
        .context = context,
    };
    enum status status = write_all(aof, message);

    CHECK(aof->started);
    if (status != STATUS_OK)
        return status;
    mutex_lock(&aof->files_lock);
    aof_manifest_copy(&manifest, &aof->manifest);
    mutex_unlock(&aof->files_lock);
    status = aof_replay_files(&replay, message);
    aof_manifest_release(&manifest);
    return status;
}

char *aof_base_copy(struct aof *aof)
{
    const char *base;
    char *copy;

    mutex_lock(&aof->files_lock);
    base = aof_base(aof);
    copy = base != NULL ? mem_string(bytes_of_string(base)) : NULL;
    mutex_unlock(&aof->files_lock);
    return copy;
}

const char *aof_base(struct aof *aof)
{
    struct aof_file *base = aof_manifest_base(&aof->manifest);

    return base != NULL && aof_name_is_image(base->name) ? base->name : NULL;
}

/* A file that is empty or was not linked has nothing that the log has not. */
static enum status has_increment(const struct aof *aof, int dir_fd, const char *name) REQUIRES(aof->files_lock);
static enum status has_increment(const struct aof *aof, int dir_fd, const char *name)
{
    struct stat own, other;

    if (fstatat(dir_fd, name, &other, 0) != 0)
        return errno == ENOENT ? STATUS_OK : status_of_errno(errno);
    if (other.st_size == 0)
        return STATUS_OK;
    for (int i = 0; i < aof->manifest.count; i++) {
        if (aof->manifest.files[i].type != AOF_FILE_INCREMENT || strcmp(aof->manifest.files[i].name, name) != 0)
            continue;
        if (fstatat(aof->dir_fd, name, &own, 0) != 0)
            return status_of_errno(errno);
        return own.st_dev == other.st_dev && own.st_ino == other.st_ino ? STATUS_OK : STATUS_NOT_FOUND;
    }
    return STATUS_NOT_FOUND;
}

enum status aof_has_increments_of(struct aof *aof, const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct aof_manifest manifest;
    struct message message;
    enum status status;

    if (dir_fd < 0)
        return status_of_errno(errno);
    status = aof_manifest_load(&manifest, dir_fd, aof->manifest_name, &message);
    if (status == STATUS_OK) {
        mutex_lock(&aof->files_lock);
        for (int i = 0; i < manifest.count && status == STATUS_OK; i++) {
            if (manifest.files[i].type == AOF_FILE_INCREMENT)
                status = has_increment(aof, dir_fd, manifest.files[i].name);
        }
        mutex_unlock(&aof->files_lock);
        aof_manifest_release(&manifest);
    } else if (status == STATUS_NOT_FOUND || status == STATUS_CORRUPT) {
        status = STATUS_OK;
    }
    close(dir_fd);
    return status;
}

/* Starting and stopping */

static enum status create_directory(struct aof *aof, struct message *message)
{
    enum status status = STATUS_OK;

    if (mkdir(aof->dir, 0755) != 0 && errno != EEXIST)
        status = status_of_errno(errno);
    else
        status = directory_sync_parent(aof->disk, aof->dir);
    if (status == STATUS_OK)
        return open_directory(aof, message);
    message_set(message, "Can't create the AOF directory %s: %s", aof->dir, strerror(errno));
    return status;
}

/* Files of type h were left by an earlier checkpoint to be deleted. They are removed first: once no manifest names them, nothing
 * finds them. */
static enum status drop_history(struct aof *aof, struct message *message) REQUIRES(aof->files_lock);
static enum status drop_history(struct aof *aof, struct message *message)
{
    enum status status = STATUS_OK;
    bool replaced, found = false;

    for (int i = aof->manifest.count - 1; i >= 0; i--)
        if (aof->manifest.files[i].type == AOF_FILE_HISTORY) {
            unlinkat(aof->dir_fd, aof->manifest.files[i].name, 0);
            aof_manifest_remove(&aof->manifest, i);
            found = true;
        }
    if (found)
        status = aof_manifest_save(&aof->manifest, aof->dir_fd, aof->manifest_name, aof->disk, &replaced);
    if (status != STATUS_OK)
        message_set(message, "Can't write the AOF manifest in %s: %s", aof->dir, strerror(errno));
    return status;
}

/* Opens the last increment. What a killed server left in the page cache is synced now: clients are about to read it, and under `always`
 * what was read survives a power cut. */
static enum status open_increment(struct aof *aof, struct message *message)
{
    struct aof_file *last = &aof->manifest.files[aof->manifest.count - 1];
    struct stat info;

    aof->fd = openat(aof->dir_fd, last->name, O_RDWR | O_APPEND | O_CLOEXEC);
    if (aof->fd >= 0 && fstat(aof->fd, &info) == 0 && aof->disk->fdatasync(aof->disk->context, aof->fd) == 0) {
        atomic_store(&aof->current_size, (uint64_t)info.st_size);
        return STATUS_OK;
    }
    message_set(message, "Can't open the AOF file %s for writing: %s", last->name, strerror(errno));
    return STATUS_IO;
}

/* Truncates a file to what counts of it, for readers that do not know validsize. The manifest is valid without it, so it may fail. */
static void trim_file(struct aof *aof, const struct aof_file *file)
{
    int fd;

    if (file->valid_size == UINT64_MAX)
        return;
    fd = openat(aof->dir_fd, file->name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || aof->disk->ftruncate(aof->disk->context, fd, (off_t)file->valid_size) != 0)
        aof_report(aof, "AOF: could not truncate an old increment; the manifest says how much of it counts");
    if (fd >= 0)
        close(fd);
}

/* The increments that the stream may be read from. */
static void hold_files(struct aof *aof) REQUIRES(aof->files_lock);
static void hold_files(struct aof *aof)
{
    for (int i = 0; i < aof->manifest.count; i++) {
        const struct aof_file *file = &aof->manifest.files[i];
        int fd = file->type == AOF_FILE_INCREMENT ? openat(aof->dir_fd, file->name, O_RDONLY | O_CLOEXEC) : -1;

        if (fd < 0)
            continue;
        aof_map_add_file(&aof->map, file->seq, fd);
        close(fd);
    }
}

/* Brings the directory in order and opens or creates the increment that is appended to. */
static enum status start_files(struct aof *aof, struct message *message) REQUIRES(aof->files_lock);
static enum status start_files(struct aof *aof, struct message *message)
{
    enum status status = STATUS_OK;
    const struct aof_file *last;

    if (aof->dir_fd < 0)
        status = create_directory(aof, message);
    if (status == STATUS_OK && aof->adopted != NULL)
        status = aof_adopt_begin(aof, message);
    if (status == STATUS_OK)
        status = drop_history(aof, message);
    if (status != STATUS_OK)
        return status;
    aof_manifest_clean(aof->dir_fd, aof->manifest_name);
    for (int i = 0; i < aof->manifest.count; i++) {
        aof->manifest.files[i].first_lsn = 0;
        trim_file(aof, &aof->manifest.files[i]);
    }
    /* A file of which only a part counts can't be appended to. */
    last = aof->manifest.count > 0 ? &aof->manifest.files[aof->manifest.count - 1] : NULL;
    if (last == NULL || last->type != AOF_FILE_INCREMENT || last->valid_size != UINT64_MAX) {
        status = aof_increment_add(aof, &aof->fd, message);
        if (status == STATUS_OK)
            aof->manifest.files[aof->manifest.count - 1].first_lsn = 0;
    } else {
        status = open_increment(aof, message);
    }
    if (status != STATUS_OK)
        return status;
    aof_adopt_end(aof);
    aof->current_seq = aof->manifest.files[aof->manifest.count - 1].seq;
    hold_files(aof);
    aof->durable_size = atomic_load(&aof->current_size);
    atomic_store(&aof->other_size, aof_increment_sizes(aof));
    atomic_store(&aof->base_size, atomic_load(&aof->other_size) + aof->durable_size);
    return STATUS_OK;
}

/* Gives up the log's claim to bytes that could not be written; they are still the stream's. */
static void let_go(struct aof *aof) REQUIRES(aof->flush_lock);
static void let_go(struct aof *aof)
{
    if (aof->is_attached)
        *aof->pending_end = history_take(aof->history);
    history_hand_over(aof->history, aof->pending);
    aof->pending = NULL;
    aof->pending_end = &aof->pending;
}

enum status aof_start(struct aof *aof, struct message *message)
{
    enum status status;
    int error;

    CHECK(!aof->started && (aof->replayed || aof->manifest.count == 0));
    message->text[0] = '\0';
    mutex_lock(&aof->files_lock);
    status = start_files(aof, message);
    mutex_unlock(&aof->files_lock);
    if (status != STATUS_OK)
        return status;
    error = thread_start(&aof->flusher, "kelvin-flusher", aof->meter, aof_flusher_main, aof);
    if (error != 0) {
        message_set(message, "Can't start the AOF's thread: %s", strerror(error));
        return STATUS_IO;
    }
    aof->started = true;
    return STATUS_OK;
}

void aof_stop(struct aof *aof)
{
    if (!aof->started)
        return;
    mutex_lock(&aof->wake_lock);
    aof->stop = true;
    condition_signal(&aof->wake);
    mutex_unlock(&aof->wake_lock);
    thread_join(&aof->flusher);
    aof->started = false;
    mutex_lock(&aof->flush_lock);
    let_go(aof);
    close(aof->fd);
    close(aof->dir_fd);
    aof->fd = aof->dir_fd = -1;
    mutex_unlock(&aof->flush_lock);
}

void aof_close(struct aof *aof)
{
    if (aof == NULL)
        return;
    aof_stop(aof);
    aof_destroy(aof);
}

/* Use */

struct history *aof_history(struct aof *aof) { return aof->history; }
struct waiting *aof_waiting(struct aof *aof) { return &aof->waiting; }
uint64_t aof_appended(struct aof *aof) { return history_end(aof->history); }
uint64_t aof_written(struct aof *aof) { return atomic_load_explicit(&aof->written, memory_order_acquire); }
uint64_t aof_durable(struct aof *aof) { return atomic_load_explicit(&aof->durable, memory_order_acquire); }
enum status aof_error(struct aof *aof) { return (enum status)atomic_load(&aof->error); }
int aof_error_number(struct aof *aof) { return atomic_load(&aof->error_number); }
bool aof_is_lost(struct aof *aof) { return atomic_load(&aof->lost); }

void aof_set_fsync(struct aof *aof, enum aof_fsync fsync)
{
    atomic_store(&aof->fsync, (int)fsync);
    /* Under `always` what was not synced so far has to be, before the first client waits for something new. */
    if (fsync == AOF_FSYNC_ALWAYS)
        aof_request_sync(aof, aof_written(aof));
}

struct aof_stats aof_stats(struct aof *aof)
{
    uint64_t written = aof_written(aof);        /* read first, so that the tail's end is not before it */
    uint64_t other = atomic_load(&aof->other_size), image = atomic_load(&aof->image_size), current = atomic_load(&aof->current_size);

    return (struct aof_stats){
        .current_size = other + current,
        .base_size = atomic_load(&aof->base_size),
        .tail_size = (other > image ? other - image : 0) + current,
        .buffer_size = aof_appended(aof) - written,
        .fsync_pending = atomic_load(&aof->fsync_pending),
        .delayed_fsync = atomic_load(&aof->delayed_fsync),
        .last_fsync_ms = atomic_load(&aof->last_fsync_ms),
    };
}
