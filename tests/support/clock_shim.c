/* Preloaded: the wall clock is ahead by as many milliseconds as the file $KELVIN_CLOCK_OFFSET says (8 bytes, mapped, so that a test changes it
 * while the server runs). The monotonic clock is left alone, as by a jump of the real one. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* A preloaded library is not passed a context. */
static _Atomic int64_t *offset_ms;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("KELVIN_CLOCK_OFFSET");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof(*offset_ms), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (page != MAP_FAILED)
        offset_ms = page;
    if (fd >= 0)
        close(fd);
}

static int64_t offset(void)
{
    return offset_ms != NULL ? atomic_load(offset_ms) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, id, now);
    int64_t ns;

    if (result != 0 || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return result;
    ns = now->tv_nsec + offset() % 1000 * 1000000;
    now->tv_sec += offset() / 1000 + (ns >= 1000000000) - (ns < 0);
    now->tv_nsec = ns - (ns >= 1000000000 ? 1000000000 : 0) + (ns < 0 ? 1000000000 : 0);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){ exact.tv_sec, exact.tv_nsec / 1000 };
    return 0;
}

time_t time(time_t *result)
{
    struct timespec exact;

    clock_gettime(CLOCK_REALTIME, &exact);
    if (result != NULL)
        *result = exact.tv_sec;
    return exact.tv_sec;
}
