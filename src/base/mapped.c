#include "base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool mapped_open(const char *path, struct mapped *mapped, struct message *message)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    void *at = NULL;
    bool good = fd >= 0 && fstat(fd, &info) == 0;

    *mapped = (struct mapped){ { "", 0 } };
    if (good && !S_ISREG(info.st_mode)) {
        errno = EISDIR;
        good = false;
    }
    if (good && info.st_size > 0) {
        at = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        good = at != MAP_FAILED;
        if (good)
            mapped->bytes = bytes_of(at, (size_t)info.st_size);
    }
    if (!good)
        message_set(message, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return good;
}

void mapped_forget(struct bytes part)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)part.data & ~(page - 1);

    if (part.size > 0)
        (void)madvise((void *)begin, (uintptr_t)part.data + part.size - begin, MADV_DONTNEED);
}

void mapped_close(struct mapped *mapped)
{
    if (mapped->bytes.size > 0)
        munmap((void *)mapped->bytes.data, mapped->bytes.size);
    *mapped = (struct mapped){ { "", 0 } };
}
