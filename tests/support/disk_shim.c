/* A disk that fails, loses power and keeps a journal, below a server without any code for it. Preload it (LD_PRELOAD) and set
 *
 *   KELVIN_DISK_DIR       the directory to which it applies; calls for other paths pass through
 *   KELVIN_DISK_CONTROL   a file of CONTROL_SIZE bytes, mapped and shared with the test, which sets rules in it while the server runs
 *   KELVIN_DISK_JOURNAL   a file to which every change is appended, with its bytes; may be unset
 *
 * A rule has kinds of operations, a pattern for their paths, and an action for some of those that match: the process is killed before,
 * during or after one; it fails; it is delayed. io_uring is refused, so that all reads pass here. tests/support/disk.py is the other half: it sets the rules,
 * reads the journal, and makes from it the states that a power cut could have left.
 *
 * The C library's functions are replaced by system calls, so that almost no symbol has to be looked up, and nothing here allocates (except
 * fopen, which allocates anyway). A change and its entry in the journal happen under one lock, so the journal's order is the disk's. Files that
 * were open before, such as the server's standard output, are left alone.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { RULES = 8, PATTERN_SIZE = 120, PATH_SIZE = 512, FILES = 4096, STREAMS = 64, CONTROL_SIZE = 4096, PIECES_MAX = 64 };

/* Bits, for a rule's mask; the journal has the number of the bit. */
enum kind { OPEN, CREATE, CLOSE, READ, WRITE, SYNC, RENAME, LINK, UNLINK, MKDIR, RMDIR, TRUNCATE, ALLOCATE, SYNC_BEGIN, SYNC_FAILED, START };

enum action { NOTHING, KILL_BEFORE, KILL_MIDDLE, KILL_AFTER, FAIL, SHORT, LATE_FAIL, DELAY };

struct rule {
    _Atomic uint32_t kinds;         /* 0: off. Set last */
    uint32_t action;
    int32_t error;                  /* of FAIL and LATE_FAIL */
    uint32_t delay_us;
    _Atomic uint64_t matched;       /* how many have matched; the first is number 1 */
    uint64_t first, last;           /* the action applies to the matches from first to last */
    char pattern[PATTERN_SIZE];     /* of the path below the directory: `*` is any bytes, `?` one */
};

struct control {
    uint64_t magic;
    _Atomic uint64_t operations;    /* below the directory */
    _Atomic uint64_t records;       /* in the journal */
    _Atomic uint64_t acted;         /* how often a rule did something */
    char last_path[PATTERN_SIZE];   /* where, and */
    uint32_t last_kind, unused;     /* upon what, the last time */
    struct rule rules[RULES];
};
_Static_assert(sizeof(struct rule) == 160 && sizeof(struct control) <= CONTROL_SIZE, "disk.py knows these offsets");

/* Before each journal entry's path, second path and data; little-endian. */
struct record {
    uint32_t kind;
    uint16_t path_size, other_size;
    uint64_t handle;                /* an open file, numbered through the life of a process */
    uint64_t offset;                /* of a write; a truncation's size; bytes of a START's pid */
    uint64_t data_size;
    int64_t time_ns;                /* monotonic */
};

struct file {
    uint64_t handle;                /* 0: not ours */
    char path[PATH_SIZE];
};

/* A preloaded library is not passed a context. */
static struct control *control;
static int journal_fd = -1;
static char root[PATH_MAX];
static size_t root_size;
static struct file files[FILES];
static _Atomic uint64_t handles;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { FILE *stream; int fd; } streams[STREAMS];

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void die(void)
{
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;)
        syscall(SYS_pause);
}

static void note(enum kind kind, uint64_t handle, const char *path, const char *other, uint64_t offset, const void *data, uint64_t size)
{
    struct record record = {
        .kind = (uint32_t)kind,
        .path_size = (uint16_t)strlen(path),
        .other_size = (uint16_t)strlen(other),
        .handle = handle,
        .offset = offset,
        .data_size = size,
        .time_ns = now_ns(),
    };
    struct iovec parts[4] = { { &record, sizeof(record) }, { (void *)(uintptr_t)path, record.path_size },
        { (void *)(uintptr_t)other, record.other_size }, { (void *)(uintptr_t)data, size } };

    if (journal_fd < 0)
        return;
    if (syscall(SYS_writev, journal_fd, parts, 4) != (long)(sizeof(record) + record.path_size + record.other_size + size))
        die();                      /* the journal's own disk is full: nothing that follows would be true */
    control->records++;
}

__attribute__((constructor)) static void start(void)
{
    const char *dir = getenv("KELVIN_DISK_DIR"), *shared = getenv("KELVIN_DISK_CONTROL"), *journal = getenv("KELVIN_DISK_JOURNAL");
    int fd;

    if (dir == NULL || shared == NULL || realpath(dir, root) == NULL)
        return;
    fd = (int)syscall(SYS_openat, AT_FDCWD, shared, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (journal != NULL)
        journal_fd = (int)syscall(SYS_openat, AT_FDCWD, journal, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    root_size = strlen(root);
    control = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (control == MAP_FAILED)
        control = NULL;
    else
        note(START, 0, "", "", (uint64_t)syscall(SYS_getpid), NULL, 0);
}

/* Where a path leads, below the directory; false: elsewhere. Names of links are taken as they are: there are none here. */
static bool below(int dir_fd, const char *path, char *result)
{
    char whole[PATH_MAX * 2], clean[PATH_MAX * 2];
    size_t size = 0;

    if (control == NULL || path == NULL || strlen(path) >= PATH_MAX)
        return false;
    if (path[0] == '/') {
        strcpy(whole, path);
    } else if (dir_fd == AT_FDCWD) {
        if (syscall(SYS_getcwd, whole, PATH_MAX) <= 0)
            return false;
        strcat(whole, "/");
        strcat(whole, path);
    } else if (dir_fd >= 0 && dir_fd < FILES && files[dir_fd].handle != 0) {
        snprintf(whole, sizeof(whole), "%s/%s/%s", root, files[dir_fd].path, path);
    } else {
        return false;
    }
    for (char *save, *part = strtok_r(whole, "/", &save); part != NULL; part = strtok_r(NULL, "/", &save)) {
        if (strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            while (size > 0 && clean[--size] != '/')
                ;
            continue;
        }
        clean[size++] = '/';
        memcpy(clean + size, part, strlen(part));
        size += strlen(part);
    }
    clean[size] = '\0';
    if (strncmp(clean, root, root_size) != 0 || (clean[root_size] != '/' && clean[root_size] != '\0') || size - root_size >= PATH_SIZE)
        return false;
    strcpy(result, clean[root_size] == '/' ? clean + root_size + 1 : "");
    return true;
}

static bool is_ours(int fd)
{
    return fd >= 0 && fd < FILES && files[fd].handle != 0;
}

static bool like(const char *pattern, const char *text)
{
    for (; *pattern != '\0' && *pattern != '*'; pattern++, text++) {
        if (*text == '\0' || (*pattern != '?' && *pattern != *text))
            return false;
    }
    if (*pattern == '\0')
        return *text == '\0';
    while (!like(pattern + 1, text)) {
        if (*text++ == '\0')
            return false;
    }
    return true;
}

struct verdict {
    enum action action;
    int error;
};

/* What is to happen to an operation; waits, or dies, if that is what. */
static struct verdict judge(enum kind kind, const char *path)
{
    struct verdict verdict = { NOTHING, 0 };

    control->operations++;
    for (int i = 0; i < RULES; i++) {
        struct rule *rule = &control->rules[i];
        uint64_t number;

        if (!(rule->kinds & 1u << kind) || !like(rule->pattern, path))
            continue;
        number = ++rule->matched;
        if (number < rule->first || number > rule->last || verdict.action != NOTHING)
            continue;
        if (rule->action == DELAY) {
            struct timespec pause = { rule->delay_us / 1000000, (long)(rule->delay_us % 1000000) * 1000 };

            nanosleep(&pause, NULL);
            continue;
        }
        verdict = (struct verdict){ (enum action)rule->action, rule->error };
        control->acted++;
        control->last_kind = kind;
        snprintf(control->last_path, sizeof(control->last_path), "%s", path);
    }
    if (verdict.action == KILL_BEFORE)
        die();
    return verdict;
}

static bool is_refused(struct verdict verdict)
{
    if (verdict.action == FAIL)
        errno = verdict.error;
    return verdict.action == FAIL;
}

/* After the operation was done: `result` as it is, unless it was to fail late. */
static long done(struct verdict verdict, long result)
{
    if (verdict.action == KILL_AFTER || verdict.action == KILL_MIDDLE)
        die();
    if (verdict.action == LATE_FAIL && result >= 0) {
        errno = verdict.error;
        return -1;
    }
    return result;
}

/* Opening and closing */

static int file_open(int dir_fd, const char *path, int flags, unsigned mode)
{
    char name[PATH_SIZE];
    struct verdict verdict;
    bool creates, existed;
    uint64_t handle;
    int fd;

    if (!below(dir_fd, path, name))
        return (int)syscall(SYS_openat, dir_fd, path, flags, mode);
    creates = flags & O_CREAT;
    verdict = judge(creates ? CREATE : OPEN, name);
    if (is_refused(verdict))
        return -1;
    pthread_mutex_lock(&lock);
    existed = !creates || syscall(SYS_faccessat, dir_fd, path, F_OK) == 0;
    fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
    if (fd >= FILES) {
        syscall(SYS_close, fd);
        errno = EMFILE;
        fd = -1;
    }
    if (fd >= 0) {
        handle = ++handles;
        strcpy(files[fd].path, name);
        files[fd].handle = handle;
        note(existed ? OPEN : CREATE, handle, name, "", 0, NULL, 0);
        if (flags & O_TRUNC && existed)
            note(TRUNCATE, handle, name, "", 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return (int)done(verdict, fd);
}

static unsigned mode_of(int flags, va_list list)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, unsigned) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list list;
    unsigned mode;

    va_start(list, flags);
    mode = mode_of(flags, list);
    va_end(list);
    return file_open(AT_FDCWD, path, flags, mode);
}

int openat(int dir_fd, const char *path, int flags, ...)
{
    va_list list;
    unsigned mode;

    va_start(list, flags);
    mode = mode_of(flags, list);
    va_end(list);
    return file_open(dir_fd, path, flags, mode);
}

int creat(const char *path, mode_t mode) { return file_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags) { return file_open(AT_FDCWD, path, flags, 0); }
int __openat_2(int dir_fd, const char *path, int flags);
int __openat_2(int dir_fd, const char *path, int flags) { return file_open(dir_fd, path, flags, 0); }

int close(int fd)
{
    struct verdict verdict = { NOTHING, 0 };

    if (is_ours(fd)) {
        verdict = judge(CLOSE, files[fd].path);
        files[fd].handle = 0;
    }
    if (is_refused(verdict)) {
        syscall(SYS_close, fd);     /* Linux closes it even so */
        errno = verdict.error;
        return -1;
    }
    return (int)done(verdict, syscall(SYS_close, fd));
}

/* The C library closes such a descriptor by itself, and a connection may get its number next. */
int closedir(DIR *stream)
{
    int (*real)(DIR *) = (int (*)(DIR *))(uintptr_t)dlsym(RTLD_NEXT, "closedir");

    if (is_ours(dirfd(stream)))
        files[dirfd(stream)].handle = 0;
    return real(stream);
}

/* Bytes */

static size_t pieces_size(const struct iovec *pieces, int count)
{
    size_t size = 0;

    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    return size;
}

/* Half of what was wanted, at least one byte of two. */
static int pieces_cut(const struct iovec *pieces, int count, struct iovec *cut)
{
    size_t left = pieces_size(pieces, count) / 2;
    int used = 0;

    for (int i = 0; i < count && i < PIECES_MAX && left > 0; i++) {
        cut[used] = pieces[i];
        if (cut[used].iov_len > left)
            cut[used].iov_len = left;
        left -= cut[used++].iov_len;
    }
    return used;
}

/* `offset` -1: where the file stands. */
static ssize_t file_write(int fd, const struct iovec *pieces, int count, off_t offset)
{
    struct iovec cut[PIECES_MAX];
    struct verdict verdict;
    ssize_t size;

    if (!is_ours(fd))
        return offset < 0 ? syscall(SYS_writev, fd, pieces, count) : syscall(SYS_pwritev, fd, pieces, count, offset, 0);
    verdict = judge(WRITE, files[fd].path);
    if (is_refused(verdict))
        return -1;
    if (verdict.action == SHORT || verdict.action == KILL_MIDDLE) {
        count = pieces_cut(pieces, count, cut);
        pieces = cut;
    }
    pthread_mutex_lock(&lock);
    size = offset < 0 ? syscall(SYS_writev, fd, pieces, count) : syscall(SYS_pwritev, fd, pieces, count, offset, 0);
    if (size > 0) {
        uint64_t at = (uint64_t)(offset < 0 ? syscall(SYS_lseek, fd, 0, SEEK_CUR) - size : offset);
        size_t left = (size_t)size;

        for (int i = 0; i < count && left > 0; i++) {
            size_t part = pieces[i].iov_len < left ? pieces[i].iov_len : left;

            note(WRITE, files[fd].handle, "", "", at, pieces[i].iov_base, part);
            at += part;
            left -= part;
        }
    }
    pthread_mutex_unlock(&lock);
    return done(verdict, size);
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct iovec piece = { (void *)(uintptr_t)data, size };

    return is_ours(fd) ? file_write(fd, &piece, 1, -1) : syscall(SYS_write, fd, data, size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    struct iovec piece = { (void *)(uintptr_t)data, size };

    return file_write(fd, &piece, 1, offset);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) { return file_write(fd, pieces, count, -1); }

static ssize_t file_read(int fd, void *data, size_t size, off_t offset)
{
    struct verdict verdict = { NOTHING, 0 };

    if (is_ours(fd))
        verdict = judge(READ, files[fd].path);
    if (is_refused(verdict))
        return -1;
    if (verdict.action == SHORT && size > 1)
        size /= 2;
    return done(verdict, offset < 0 ? syscall(SYS_read, fd, data, size) : syscall(SYS_pread64, fd, data, size, offset));
}

ssize_t read(int fd, void *data, size_t size) { return file_read(fd, data, size, -1); }
ssize_t pread(int fd, void *data, size_t size, off_t offset) { return file_read(fd, data, size, offset); }
ssize_t __read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __read_chk(int fd, void *data, size_t size, size_t room) { return file_read(fd, data, size < room ? size : room, -1); }
ssize_t __pread_chk(int fd, void *data, size_t size, off_t offset, size_t room);
ssize_t __pread_chk(int fd, void *data, size_t size, off_t offset, size_t room)
{
    return file_read(fd, data, size < room ? size : room, offset);
}

/* Nothing is cached on this disk, and its reads can't be seen in an io_uring: the server reads with threads. */
ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    if (flags & RWF_NOWAIT) {
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_preadv2, fd, parts, count, offset, (long)0, flags);
}

struct io_uring;
int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    (void)entries;
    (void)ring;
    (void)flags;
    return -ENOSYS;
}

int ftruncate(int fd, off_t size)
{
    struct verdict verdict;
    long result;

    if (!is_ours(fd))
        return (int)syscall(SYS_ftruncate, fd, size);
    verdict = judge(TRUNCATE, files[fd].path);
    if (is_refused(verdict))
        return -1;
    pthread_mutex_lock(&lock);
    result = syscall(SYS_ftruncate, fd, size);
    if (result == 0)
        note(TRUNCATE, files[fd].handle, "", "", (uint64_t)size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return (int)done(verdict, result);
}

int truncate(const char *path, off_t size)
{
    int fd = file_open(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0), result, error;

    if (fd < 0)
        return -1;
    result = ftruncate(fd, size);
    error = errno;
    close(fd);
    errno = error;
    return result;
}

/* Room that is set aside shows as zeros in a file that it makes longer: a truncation upwards. */
int fallocate(int fd, int mode, off_t offset, off_t size)
{
    struct verdict verdict;
    struct stat info;
    long result;

    if (!is_ours(fd))
        return (int)syscall(SYS_fallocate, fd, mode, offset, size);
    verdict = judge(ALLOCATE, files[fd].path);
    if (is_refused(verdict))
        return -1;
    pthread_mutex_lock(&lock);
    result = syscall(SYS_fallocate, fd, mode, offset, size);
    if (result == 0 && fstat(fd, &info) == 0)
        note(TRUNCATE, files[fd].handle, "", "", (uint64_t)info.st_size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return (int)done(verdict, result);
}

/* What was written before a sync begins is on the disk when it ends: two entries. */
static int file_sync(int fd, long call)
{
    struct verdict verdict;
    uint64_t handle;
    long result = -1;

    if (!is_ours(fd))
        return (int)syscall(call, fd);
    handle = files[fd].handle;
    pthread_mutex_lock(&lock);
    note(SYNC_BEGIN, handle, files[fd].path, "", 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    verdict = judge(SYNC, files[fd].path);
    if (!is_refused(verdict))
        result = syscall(call, fd);
    pthread_mutex_lock(&lock);
    note(result == 0 ? SYNC : SYNC_FAILED, handle, "", "", 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (result != 0 && verdict.action == FAIL)
        errno = verdict.error;
    return (int)done(verdict, result);
}

int fsync(int fd) { return file_sync(fd, SYS_fsync); }
int fdatasync(int fd) { return file_sync(fd, SYS_fdatasync); }
int sync_file_range(int fd, off_t offset, off_t size, unsigned flags)       /* promises nothing */
{
    return (int)syscall(SYS_sync_file_range, fd, offset, size, flags);
}

/* Names */

static int name_change(enum kind kind, int from_fd, const char *from, int to_fd, const char *to, long call, int flags)
{
    char name[PATH_SIZE], other[PATH_SIZE] = "";
    struct verdict verdict;
    bool ours = below(from_fd, from, name) && (to == NULL || below(to_fd, to, other));
    long result;

    if (!ours)
        return (int)(to != NULL ? syscall(call, from_fd, from, to_fd, to, flags) : syscall(call, from_fd, from, flags));
    verdict = judge(kind, to != NULL ? other : name);
    if (is_refused(verdict))
        return -1;
    pthread_mutex_lock(&lock);
    result = to != NULL ? syscall(call, from_fd, from, to_fd, to, flags) : syscall(call, from_fd, from, flags);
    if (result == 0)
        note(kind, 0, name, other, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return (int)done(verdict, result);
}

int rename(const char *from, const char *to) { return name_change(RENAME, AT_FDCWD, from, AT_FDCWD, to, SYS_renameat2, 0); }
int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return name_change(RENAME, from_fd, from, to_fd, to, SYS_renameat2, 0);
}
int link(const char *from, const char *to) { return name_change(LINK, AT_FDCWD, from, AT_FDCWD, to, SYS_linkat, 0); }
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    return name_change(LINK, from_fd, from, to_fd, to, SYS_linkat, flags);
}
int unlink(const char *path) { return name_change(UNLINK, AT_FDCWD, path, 0, NULL, SYS_unlinkat, 0); }
int unlinkat(int dir_fd, const char *path, int flags)
{
    return name_change(flags & AT_REMOVEDIR ? RMDIR : UNLINK, dir_fd, path, 0, NULL, SYS_unlinkat, flags);
}
int rmdir(const char *path) { return name_change(RMDIR, AT_FDCWD, path, 0, NULL, SYS_unlinkat, AT_REMOVEDIR); }
int remove(const char *path)
{
    int result = unlink(path);

    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}
int mkdir(const char *path, mode_t mode) { return name_change(MKDIR, AT_FDCWD, path, 0, NULL, SYS_mkdirat, (int)mode); }
int mkdirat(int dir_fd, const char *path, mode_t mode) { return name_change(MKDIR, dir_fd, path, 0, NULL, SYS_mkdirat, (int)mode); }

/* Streams: the C library's own do their system calls by themselves, so they are built on the calls above. */

static ssize_t stream_read(void *cookie, char *data, size_t size) { return read((int)(intptr_t)cookie, data, size); }
static ssize_t stream_write(void *cookie, const char *data, size_t size)
{
    ssize_t written = write((int)(intptr_t)cookie, data, size);

    return written < 0 ? 0 : written;       /* 0 says "failed" here */
}
static int stream_seek(void *cookie, off64_t *offset, int whence)
{
    off_t at = lseek((int)(intptr_t)cookie, *offset, whence);

    *offset = at;
    return at < 0 ? -1 : 0;
}
static int stream_close(void *cookie)
{
    int fd = (int)(intptr_t)cookie;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS; i++) {
        if (streams[i].stream != NULL && streams[i].fd == fd)
            streams[i].stream = NULL;
    }
    pthread_mutex_unlock(&lock);
    return close(fd);
}

static FILE *stream_of(int fd, const char *mode)
{
    const cookie_io_functions_t calls = { stream_read, stream_write, stream_seek, stream_close };
    FILE *stream = fopencookie((void *)(intptr_t)fd, mode, calls);

    if (stream == NULL) {
        close(fd);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS; i++) {
        if (streams[i].stream == NULL) {
            streams[i].stream = stream;
            streams[i].fd = fd;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return stream;
}

FILE *fopen(const char *path, const char *mode)
{
    bool both = strchr(mode, '+') != NULL;
    int flags = O_CLOEXEC | (both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY);
    int fd;

    if (mode[0] == 'w')
        flags |= O_CREAT | O_TRUNC;
    else if (mode[0] == 'a')
        flags |= O_CREAT | O_APPEND;
    fd = file_open(AT_FDCWD, path, flags, 0666);
    return fd < 0 ? NULL : stream_of(fd, mode);
}

int fileno(FILE *stream)
{
    int fd = -1;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS && fd < 0; i++) {
        if (streams[i].stream == stream)
            fd = streams[i].fd;
    }
    pthread_mutex_unlock(&lock);
    if (fd < 0)
        fd = stream->_fileno;
    if (fd < 0)
        errno = EBADF;
    return fd;
}

/* The same for callers that use the names with 64-bit offsets. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat64(int dir_fd, const char *path, int flags, ...) __attribute__((alias("openat")));
int creat64(const char *path, mode_t mode) __attribute__((alias("creat")));
ssize_t pread64(int fd, void *data, size_t size, off64_t offset) __attribute__((alias("pread")));
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) __attribute__((alias("pwrite")));
int ftruncate64(int fd, off64_t size) __attribute__((alias("ftruncate")));
int truncate64(const char *path, off64_t size) __attribute__((alias("truncate")));
int fallocate64(int fd, int mode, off64_t offset, off64_t size) __attribute__((alias("fallocate")));
FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));
