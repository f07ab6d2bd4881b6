/* A base from elsewhere: a dump, or a log from before Redis 7.
 *
 * It is linked into the log's directory, then the manifest names it together with the first increment, and only then an old log's own
 * name is removed. Until there is a manifest the file is found where it was; from then on the log is complete. In the directory an old log
 * keeps its name, as with Redis, unless that is taken. No name is one that a base has otherwise: without a manifest such a file would be
 * taken for the remains of a lost log.
 */
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
#include "persist/aof_name.h"
#include "persist/aof_private.h"
#include "persist/rdb_reader.h"

enum { COPY_SIZE = 1 << 20 };

bool aof_is_new(const struct aof *aof)
{
    return aof->manifest.count == 0 && aof->adopted == NULL;
}

void aof_adopt(struct aof *aof, const char *path)
{
    CHECK(aof_is_new(aof) && !aof->replayed && !aof->started);
    aof->adopted = mem_string(bytes_of_string(path));
}

const char *aof_adopted(const struct aof *aof)
{
    return aof->adopted;
}

static enum status copy_bytes(struct aof *aof, int from, int to)
{
    char *block = mem_alloc(COPY_SIZE);
    enum status status = STATUS_OK;
    uint64_t offset = 0;
    ssize_t size;

    while (status == STATUS_OK && (size = file_pread_all(aof->disk, from, block, COPY_SIZE, offset)) != 0) {
        status = size < 0 ? status_of_errno(errno) : file_write_all(aof->disk, to, bytes_of(block, (size_t)size));
        offset += (uint64_t)size;
    }
    mem_free(block);
    return status;
}

/* Makes the file available as `name` in the directory, as a link if that is possible. STATUS_LOCKED: there is another file of that name. */
static enum status link_or_copy(struct aof *aof, int fd, const char *name)
{
    struct stat adopted, existing;
    enum status status;
    int to;

    /* The target of a symbolic link, not the link: relative to the directory it may point nowhere. */
    if (linkat(AT_FDCWD, aof->adopted, aof->dir_fd, name, AT_SYMLINK_FOLLOW) == 0)
        return STATUS_OK;
    if (errno == EEXIST) {
        if (fstat(fd, &adopted) == 0 && fstatat(aof->dir_fd, name, &existing, 0) == 0 && adopted.st_ino == existing.st_ino &&
            adopted.st_dev == existing.st_dev)
            return STATUS_OK;           /* an earlier start got this far */
        return STATUS_LOCKED;
    }
    to = openat(aof->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (to < 0)
        return status_of_errno(errno);
    status = copy_bytes(aof, fd, to);
    if (status == STATUS_OK && aof->disk->fdatasync(aof->disk->context, to) != 0)
        status = status_of_errno(errno);
    close(to);
    if (status != STATUS_OK)
        unlinkat(aof->dir_fd, name, 0);
    return status;
}

/* The base's name in the directory; the first choice has seq 0. */
static char *base_name(const struct aof *aof, uint64_t seq, bool is_rdb)
{
    if (seq == 0)
        return mem_string(bytes_of_string(aof->name));
    return aof_name_format(is_rdb ? ".imported.%" PRIu64 ".rdb" : ".imported.%" PRIu64 ".aof", aof->name, seq);
}

enum status aof_adopt_begin(struct aof *aof, struct message *message)
{
    int fd = open(aof->adopted, O_RDONLY | O_CLOEXEC);
    enum status status = STATUS_OK;
    char head[5], *name = NULL;
    bool is_rdb;

    if (fd < 0 || aof->disk->fdatasync(aof->disk->context, fd) != 0) {        /* it may have been copied here just now */
        status = status_of_errno(errno);
        goto out;
    }
    is_rdb = !aof->adopted_moves && pread(fd, head, sizeof(head), 0) == sizeof(head) && rdb_is_one(bytes_of(head, sizeof(head)));
    for (uint64_t seq = aof->adopted_moves ? 0 : 1;; seq++) {
        name = base_name(aof, seq, is_rdb);
        status = link_or_copy(aof, fd, name);
        if (status == STATUS_OK)
            aof_manifest_add(&aof->manifest, bytes_of_string(name), seq > 0 ? seq : 1, AOF_FILE_BASE);
        if (status != STATUS_LOCKED)
            break;
        mem_free(name);
    }
    if (status == STATUS_OK && aof->disk->fsync(aof->disk->context, aof->dir_fd) != 0)
        status = status_of_errno(errno);
out:
    if (status != STATUS_OK)
        message_set(message, "Can't bring %.100s into the AOF directory %.100s: %s", aof->adopted, aof->dir, strerror(errno));
    if (fd >= 0)
        close(fd);
    mem_free(name);
    return status;
}

void aof_adopt_end(struct aof *aof)
{
    if (aof->adopted_moves)
        unlink(aof->adopted);
    mem_free(aof->adopted);
    aof->adopted = NULL;
    aof->adopted_moves = false;
}
