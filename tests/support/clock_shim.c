/* Preloaded: the wall clock is ahead by as many milliseconds as the file $KELVIN_CLOCK_OFFSET says (8 bytes, mapped, so that a test changes it
 * while the server runs). If its next 8 bytes are not 0, the clock stands still at that many milliseconds since 1970, plus the offset.
 * The monotonic clock is left alone, as by a jump of the real one. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    _Atomic int64_t offset_ms, still_ms;
};

/* A preloaded library is not passed a context. */
static struct page *page;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("KELVIN_CLOCK_OFFSET");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd >= 0 ? mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (mapped != MAP_FAILED)
        page = mapped;
    if (fd >= 0)
        close(fd);
}

static int64_t offset(void)
{
    return page != NULL ? atomic_load(&page->offset_ms) : 0;
}

static int64_t still(void)
{
    return page != NULL ? atomic_load(&page->still_ms) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, id, now);
    int64_t ns;

    if (result != 0 || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
        return result;
    if (still() != 0)
        *now = (struct timespec){ still() / 1000, still() % 1000 * 1000000 };
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
