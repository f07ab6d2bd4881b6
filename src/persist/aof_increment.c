#include "persist/aof_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/message.h"
#include "base/mutex.h"
#include "persist/aof_name.h"

enum { COPY_SIZE = 256 << 10 };

static int current_index(const struct aof *aof) REQUIRES(aof->files_lock);
static int current_index(const struct aof *aof)
{
    return aof->manifest.count - (aof->prepared_fd >= 0 ? 2 : 1);
}

/* Creates the next increment, empty. A number whose file exists and is not empty is skipped: that file must not be written to. The name is
 * freed with mem_free. */
static int create_increment(struct aof *aof, uint64_t *seq, char **name) REQUIRES(aof->files_lock);
static int create_increment(struct aof *aof, uint64_t *seq, char **name)
{
    for (;;) {
        struct stat info;
        int fd;

        *seq = aof->next_seq++;
        *name = aof_name_format(".%" PRIu64 ".incr.aof", aof->name, *seq);
        fd = openat(aof->dir_fd, *name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size == 0)
            return fd;
        if (fd >= 0)
            close(fd);
        mem_free(*name);
        *name = NULL;
        if (fd < 0)
            return -1;
    }
}

/* Removes a file of an attempt that failed. If a manifest that names it may be on the disk (`named`), it has to stay until the next
 * manifest is written. */
static void give_up_increment(struct aof *aof, int fd, const char *name, bool named) REQUIRES(aof->files_lock);
static void give_up_increment(struct aof *aof, int fd, const char *name, bool named)
{
    if (fd < 0)
        return;
    close(fd);
    if (named)
        aof_manifest_add(&aof->strays, bytes_of_string(name), 1, AOF_FILE_HISTORY);
    else
        unlinkat(aof->dir_fd, name, 0);
}

/* Makes `next`, which is on the disk, the current manifest; it is empty afterwards. */
static void install_manifest(struct aof *aof, struct aof_manifest *next) REQUIRES(aof->files_lock);
static void install_manifest(struct aof *aof, struct aof_manifest *next)
{
    aof_manifest_release(&aof->manifest);
    aof->manifest = *next;
    aof_manifest_init(next);
    for (int i = 0; i < aof->strays.count; i++)
        unlinkat(aof->dir_fd, aof->strays.files[i].name, 0);
    aof_manifest_release(&aof->strays);
}

/* Copies a stretch of the current file to another file, and compares its sum. STATUS_CORRUPT: it is not what was written. */
static enum status copy_stretch(struct aof *aof, const struct aof_stretch *stretch, uint64_t from, int to) REQUIRES(aof->flush_lock);
static enum status copy_stretch(struct aof *aof, const struct aof_stretch *stretch, uint64_t from, int to)
{
    struct stream_sum sum = { 0 };
    char *block = mem_alloc(COPY_SIZE);
    enum status status = STATUS_OK;
    uint64_t done = 0;

    while (done < stretch->size && status == STATUS_OK) {
        size_t want = stretch->size - done < COPY_SIZE ? (size_t)(stretch->size - done) : COPY_SIZE;

        if (file_pread_all(aof->disk, aof->fd, block, want, from + done) != (ssize_t)want) {
            status = STATUS_CORRUPT;
            break;
        }
        stream_sum_add(&sum, done, bytes_of(block, want));
        status = file_write_all(aof->disk, to, bytes_of(block, want));
        done += want;
    }
    if (status == STATUS_OK && !stream_sum_equal(&sum, &stretch->sum))
        status = STATUS_CORRUPT;
    mem_free(block);
    return status;
}

/* Where the stream is at `durable`. False: the log has not noted it. */
static bool durable_point(const struct aof *aof, struct history_point *point) REQUIRES(aof->flush_lock);
static bool durable_point(const struct aof *aof, struct history_point *point)
{
    *point = (struct history_point){
        .offset = history_offset_of(aof->history, atomic_load(&aof->durable)), .db = aof->durable_db, .identity = aof->durable_identity,
    };
    return aof->durable_identity.id[0] != '\0';
}

/* Writes the new increment's contents: a mark, a SELECT and everything after the last good fsync. *head_size is the size of the first two, *size that
 * of all. */
static enum status fill_increment(struct aof *aof, int fd, uint64_t *head_size, uint64_t *size) REQUIRES(aof->flush_lock);
static enum status fill_increment(struct aof *aof, int fd, uint64_t *head_size, uint64_t *size)
{
    char head[AOF_MARK_SIZE + AOF_LOCAL_SELECT_SIZE];
    struct history_point point;
    size_t mark_size = durable_point(aof, &point) ? aof_mark_print(&point, head) : 0;
    enum status status;

    *head_size = mark_size + aof_print_local_select(aof, aof->durable_db, head + mark_size);
    status = file_write_all(aof->disk, fd, bytes_of(head, *head_size));
    if (status == STATUS_OK)
        status = copy_stretch(aof, &aof->syncing, aof->durable_size, fd);
    if (status == STATUS_OK)
        status = copy_stretch(aof, &aof->unsynced, aof->durable_size + aof->syncing.size, fd);
    if (status == STATUS_OK && (aof->disk->fdatasync(aof->disk->context, fd) != 0
        || aof->disk->fsync(aof->disk->context, aof->dir_fd) != 0))
        status = status_of_errno(errno);
    *size = *head_size + aof->syncing.size + aof->unsynced.size;
    return status;
}

/* The map follows what was copied to the new increment. */
static void move_map(struct aof *aof, int fd, uint64_t seq, uint64_t head_size) REQUIRES(aof->flush_lock);
static void move_map(struct aof *aof, int fd, uint64_t seq, uint64_t head_size)
{
    struct history_point point;
    bool has_point = durable_point(aof, &point);

    aof_map_move(&aof->map, aof->current_seq, aof->durable_size, seq, head_size, has_point ? &point : NULL);
    aof_map_add_file(&aof->map, seq, fd);
}

/* After a failed fsync: the log goes on in a new increment. The old file counts up to its last good fsync, and the manifest says so, in the
 * same rename that names the new one: at no instant is a command in the log twice, or missing. The new manifest is written to another file
 * first; a failure leaves everything as it was, to be tried again with the next number. The flush lock is held during the copying: nothing
 * could be written meanwhile anyway. */
enum status aof_increment_replace(struct aof *aof)
{
    struct aof_manifest next;
    uint64_t seq, prepared_seq = 0, head_size = 0, size = 0;
    char *name = NULL, *prepared_name = NULL;
    int fd, prepared_fd = -1, current = current_index(aof);
    bool replaced = false;
    enum status status;

    aof_manifest_copy(&next, &aof->manifest);
    fd = create_increment(aof, &seq, &name);
    if (fd < 0) {
        status = status_of_errno(errno);
        goto out;
    }
    status = fill_increment(aof, fd, &head_size, &size);
    if (status != STATUS_OK)
        goto out;
    next.files[current].valid_size = aof->durable_size;
    if (aof->prepared_fd >= 0) {
        /* The prepared file has to come after the current one: another one takes its place. */
        prepared_fd = create_increment(aof, &prepared_seq, &prepared_name);
        status = prepared_fd < 0 || aof->disk->fsync(aof->disk->context, aof->dir_fd) != 0 ? status_of_errno(errno) : STATUS_OK;
        if (status != STATUS_OK)
            goto out;
        aof_manifest_remove(&next, current + 1);
    }
    aof_manifest_add(&next, bytes_of_string(name), seq, AOF_FILE_INCREMENT);
    next.files[next.count - 1].first_lsn = aof_durable(aof);
    if (prepared_fd >= 0)
        aof_manifest_add(&next, bytes_of_string(prepared_name), prepared_seq, AOF_FILE_INCREMENT);
    status = aof_manifest_save(&next, aof->dir_fd, aof->manifest_name, aof->disk, &replaced);
    if (status != STATUS_OK)
        goto out;

    /* The old file is truncated for readers that do not know validsize; the manifest is what counts. */
    if (aof->disk->ftruncate(aof->disk->context, aof->fd, (off_t)aof->durable_size) != 0)
        aof_report(aof, "AOF: could not truncate the old increment; the manifest says how much of it counts");
    close(aof->fd);
    aof->fd = fd;
    move_map(aof, fd, seq, head_size);
    aof->current_seq = seq;
    if (prepared_fd >= 0) {
        close(aof->prepared_fd);
        unlinkat(aof->dir_fd, aof->manifest.files[aof->manifest.count - 1].name, 0);
        aof->prepared_fd = prepared_fd;
    }
    install_manifest(aof, &next);
    atomic_fetch_add(&aof->other_size, aof->durable_size);
    atomic_store(&aof->current_size, size);
    aof->durable_size = size;
    aof->durable_db = aof->written_db;
    aof->durable_identity = aof->written_identity;
    aof->syncing = aof->unsynced = (struct aof_stretch){ 0 };
    aof->untrusted = aof->torn = false;
    atomic_store_explicit(&aof->durable, aof_written(aof), memory_order_release);
    fd = prepared_fd = -1;
out:
    give_up_increment(aof, fd, name, replaced);
    give_up_increment(aof, prepared_fd, prepared_name, replaced);
    mem_free(name);
    mem_free(prepared_name);
    aof_manifest_release(&next);
    return status;
}

enum status aof_increment_add(struct aof *aof, int *result, struct message *message)
{
    struct aof_manifest next;
    enum status status = STATUS_OK;
    char *name = NULL;
    uint64_t seq = 0;
    bool replaced = false;
    int fd = create_increment(aof, &seq, &name), error = errno;

    aof_manifest_copy(&next, &aof->manifest);
    if (fd < 0) {
        status = status_of_errno(error);
        goto out;
    }
    aof_manifest_add(&next, bytes_of_string(name), seq, AOF_FILE_INCREMENT);
    /* The name of the file is synced first: a disk may keep the manifest's rename and lose a file that was created before it. */
    if (aof->disk->fdatasync(aof->disk->context, fd) != 0 || aof->disk->fsync(aof->disk->context, aof->dir_fd) != 0)
        status = status_of_errno(errno);
    else
        status = aof_manifest_save(&next, aof->dir_fd, aof->manifest_name, aof->disk, &replaced);
    error = errno;
out:
    if (status == STATUS_OK) {
        install_manifest(aof, &next);
        *result = fd;
    } else {
        message_set(message, "Can't create an AOF increment in %s: %s", aof->dir, strerror(error));
        give_up_increment(aof, fd, name, replaced);
    }
    aof_manifest_release(&next);
    mem_free(name);
    return status;
}

/* The bytes of a directory's files, and of those in `depth` levels of directories below. */
static uint64_t tree_size(int parent_fd, const char *name, int depth)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct stat info;
    uint64_t size = 0;

    if (dir == NULL && fd >= 0)
        close(fd);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || fstatat(fd, entry->d_name, &info, 0) != 0)
            continue;
        if (S_ISREG(info.st_mode))
            size += (uint64_t)info.st_size;
        else if (S_ISDIR(info.st_mode) && depth > 0)
            size += tree_size(fd, entry->d_name, depth - 1);
    }
    if (dir != NULL)
        closedir(dir);
    return size;
}

/* The bytes that count of a file, or of an image; 0 if it can't be read. */
static uint64_t file_size(struct aof *aof, const struct aof_file *file)
{
    struct stat info;

    if (fstatat(aof->dir_fd, file->name, &info, 0) != 0)
        return 0;
    if (S_ISDIR(info.st_mode))
        return tree_size(aof->dir_fd, file->name, 1);
    return (uint64_t)info.st_size < file->valid_size ? (uint64_t)info.st_size : file->valid_size;
}

uint64_t aof_increment_sizes(struct aof *aof)
{
    uint64_t size = 0;
    int current = current_index(aof);

    for (int i = 0; i < aof->manifest.count; i++) {
        uint64_t bytes = i != current ? file_size(aof, &aof->manifest.files[i]) : 0;

        size += bytes;
        if (aof->manifest.files[i].type == AOF_FILE_BASE)
            atomic_store(&aof->image_size, bytes);
    }
    return size;
}

enum status aof_prepare(struct aof *aof, struct message *message)
{
    enum status status;

    message->text[0] = '\0';
    mutex_lock(&aof->files_lock);
    status = aof_error(aof);
    if (status != STATUS_OK) {
        message_set(message, "The AOF accepts no writes at the moment");
    } else if (atomic_load(&aof->cut_state) == AOF_CUT_WAITING) {
        message_set(message, "The AOF's files have not reached the last cut yet");
        status = STATUS_LOCKED;
    } else if (aof->prepared_fd < 0) {
        status = aof_increment_add(aof, &aof->prepared_fd, message);
        if (status == STATUS_OK)
            atomic_store(&aof->cut_state, AOF_CUT_PREPARED);
    }
    mutex_unlock(&aof->files_lock);
    return status;
}

uint64_t aof_cut(struct aof *aof)
{
    CHECK(atomic_exchange(&aof->cut_state, AOF_CUT_WAITING) == AOF_CUT_PREPARED);
    if (!aof->is_attached)
        aof_attach(aof);
    return history_cut(aof->history);
}

/* Adds the files that do not count any more: what can't be removed now is removed by the next start. Images are found without being
 * named. */
static void add_history(const struct aof_manifest *now, struct aof_manifest *next, uint64_t lsn)
{
    for (int i = 0; i < now->count; i++) {
        const struct aof_file *file = &now->files[i];
        bool begins_later = file->type == AOF_FILE_INCREMENT && !(i + 1 < now->count && now->files[i + 1].first_lsn <= lsn);

        if (!begins_later && !aof_name_is_image(file->name))
            aof_manifest_add(next, bytes_of_string(file->name), file->seq, AOF_FILE_HISTORY);
    }
}

/* Removes the files of type h; those that can't be removed stay named. */
static void remove_history(struct aof *aof) REQUIRES(aof->files_lock);
static void remove_history(struct aof *aof)
{
    for (int i = aof->manifest.count - 1; i >= 0; i--) {
        const struct aof_file *file = &aof->manifest.files[i];

        if (file->type == AOF_FILE_HISTORY && (unlinkat(aof->dir_fd, file->name, 0) == 0 || errno == ENOENT))
            aof_manifest_remove(&aof->manifest, i);
    }
}

static void forget_removed(struct aof *aof) REQUIRES(aof->files_lock);
static void forget_removed(struct aof *aof)
{
    for (int i = 0; i < aof->manifest.count; i++) {
        if (aof->manifest.files[i].type != AOF_FILE_INCREMENT)
            continue;
        aof_map_drop_before(&aof->map, aof->manifest.files[i].seq);
        return;
    }
}

/* The manifest with the new base in front, and with the files before the cut as history. */
static void make_manifest_after(const struct aof *aof, uint64_t lsn, const char *base_name, struct aof_manifest *next)
    REQUIRES(aof->files_lock);
static void make_manifest_after(const struct aof *aof, uint64_t lsn, const char *base_name, struct aof_manifest *next)
{
    const struct aof_manifest *now = &aof->manifest;
    struct aof_file *base = aof_manifest_base(now);

    aof_manifest_init(next);
    if (base_name != NULL)
        aof_manifest_add(next, bytes_of_string(base_name), base == NULL ? 1 : base->seq + 1, AOF_FILE_BASE);
    add_history(now, next, lsn);
    for (int i = 0; i < now->count; i++) {
        const struct aof_file *file = &now->files[i];

        if (file->type != AOF_FILE_INCREMENT || (i + 1 < now->count && now->files[i + 1].first_lsn <= lsn))
            continue;
        aof_manifest_add(next, bytes_of_string(file->name), file->seq, file->type);
        next->files[next->count - 1].valid_size = file->valid_size;
        next->files[next->count - 1].first_lsn = file->first_lsn;
    }
}

enum status aof_commit(struct aof *aof, uint64_t lsn, const char *base_name, struct message *message)
{
    struct aof_manifest next;
    enum status status = STATUS_OK;
    bool replaced;

    CHECK(base_name == NULL || aof_name_is_image(base_name));
    message->text[0] = '\0';
    mutex_lock(&aof->files_lock);
    if (aof->switched_lsn != lsn) {
        mutex_unlock(&aof->files_lock);
        message_set(message, "The AOF's files have not reached the cut yet");
        return STATUS_LOCKED;
    }
    make_manifest_after(aof, lsn, base_name, &next);
    status = aof_manifest_save(&next, aof->dir_fd, aof->manifest_name, aof->disk, &replaced);
    if (status != STATUS_OK) {
        /* The disk may have the old manifest or the new one, and both are complete: all files stay. */
        message_set(message, "Can't write the AOF manifest in %s: %s", aof->dir, strerror(errno));
        aof_manifest_release(&next);
    } else {
        install_manifest(aof, &next);
        forget_removed(aof);
        remove_history(aof);
        atomic_store(&aof->other_size, aof_increment_sizes(aof));
        atomic_store(&aof->base_size, atomic_load(&aof->other_size) + atomic_load(&aof->current_size));
    }
    mutex_unlock(&aof->files_lock);
    return status;
}
