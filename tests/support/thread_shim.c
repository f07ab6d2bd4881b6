/* Preloaded: no thread can be started while the file $KELVIN_THREADS_REFUSED exists, as at a limit of the system (pids.max). */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *context)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))(uintptr_t)dlsym(RTLD_NEXT, "pthread_create");
    const char *path = getenv("KELVIN_THREADS_REFUSED");

    if (path != NULL && access(path, F_OK) == 0)
        return EAGAIN;
    return real(thread, attributes, run, context);
}
