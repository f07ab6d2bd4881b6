/* Preloaded: while the file $KELVIN_THREADS_REFUSED exists no thread can be started, as at a limit of the system (pids.max); if it has names, one in a
 * line, only threads with these names can't. What was refused is appended to a file of the same name with ".log" at its end, a name in a line. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { LIST_SIZE = 512, PATH_SIZE = 4096 };

/* Of a thread that base/thread.c starts: the first field of its context. Threads of libraries have none. */
static const char *name_of(void *(*run)(void *), void *context)
{
    Dl_info found, program;

    if (dladdr((void *)(uintptr_t)run, &found) == 0 || dladdr((void *)getauxval(AT_ENTRY), &program) == 0)
        return "";
    return found.dli_fbase == program.dli_fbase ? *(const char *const *)context : "";
}

static bool is_listed(const char *path, const char *name)
{
    char list[LIST_SIZE] = "\n", line[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size;

    if (fd < 0)
        return false;
    size = read(fd, list + 1, sizeof(list) - 2);
    close(fd);
    snprintf(line, sizeof(line), "\n%s\n", name);
    return size == 0 || (size > 0 && strstr(list, line) != NULL);
}

static void note_refused(const char *path, const char *name)
{
    char log[PATH_SIZE], line[64];
    int fd;

    snprintf(log, sizeof(log), "%s.log", path);
    snprintf(line, sizeof(line), "%s\n", name);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    (void)!write(fd, line, strlen(line));
    close(fd);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))(uintptr_t)dlsym(RTLD_NEXT, "pthread_create");
    const char *path = getenv("KELVIN_THREADS_REFUSED");

    if (path != NULL && is_listed(path, name_of(run, context))) {
        note_refused(path, name_of(run, context));
        return EAGAIN;
    }
    return real(thread, attributes, run, context);
}
