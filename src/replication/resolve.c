#include "replication/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

struct resolution {
    char *host, *source;                /* immutable */
    char port[8];
    int fd;                             /* an eventfd */
    bool is_name;                       /* of the caller */
    _Atomic int references;             /* the caller's and the thread's */
    _Atomic bool done;                  /* what follows belongs to the thread before it, to the caller after it */
    const char *error;
    struct addrinfo *addresses, *sources;
};

static int look_up(const char *host, const char *port, int flags, struct addrinfo **found)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags };

    return getaddrinfo(host, port, &hints, found);
}

static void finish(struct resolution *resolution, int error)
{
    const uint64_t one = 1;

    resolution->error = error != 0 ? gai_strerror(error) : NULL;
    atomic_store(&resolution->done, true);
    (void)!write(resolution->fd, &one, sizeof(one));
}

/* Adds what is not there yet. */
static void look_up_both(struct resolution *resolution, int flags)
{
    int error = 0;

    if (resolution->addresses == NULL)
        error = look_up(resolution->host, resolution->port, flags, &resolution->addresses);
    if (error == 0 && resolution->source[0] != '\0')
        error = look_up(resolution->source, "0", flags, &resolution->sources);
    if (error == 0 || flags == 0)
        finish(resolution, error);
}

static void *resolve_main(void *context)
{
    struct resolution *resolution = context;

    pthread_setname_np(pthread_self(), "kelvin-resolve");
    look_up_both(resolution, 0);
    resolve_drop(resolution);
    return NULL;
}

static bool start_thread(struct resolution *resolution)
{
    pthread_t thread;

    atomic_fetch_add(&resolution->references, 1);
    errno = pthread_create(&thread, NULL, resolve_main, resolution);
    if (errno != 0) {
        atomic_fetch_sub(&resolution->references, 1);
        return false;
    }
    pthread_detach(thread);
    return true;
}

struct resolution *resolve_start(const char *host, uint16_t port, const char *source)
{
    struct resolution *resolution = mem_zalloc(sizeof(*resolution));

    resolution->references = 1;
    resolution->host = mem_string(bytes_of_string(host));
    resolution->source = mem_string(bytes_of_string(source));
    snprintf(resolution->port, sizeof(resolution->port), "%u", port);
    resolution->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolution->fd >= 0) {
        look_up_both(resolution, AI_NUMERICHOST);
        resolution->is_name = resolution->addresses == NULL;
        if (resolve_is_done(resolution) || start_thread(resolution))
            return resolution;
    }
    resolve_drop(resolution);
    return NULL;
}

void resolve_drop(struct resolution *resolution)
{
    int error = errno;

    if (resolution == NULL || atomic_fetch_sub(&resolution->references, 1) > 1)
        return;
    if (resolution->addresses != NULL)
        freeaddrinfo(resolution->addresses);
    if (resolution->sources != NULL)
        freeaddrinfo(resolution->sources);
    if (resolution->fd >= 0)
        close(resolution->fd);
    mem_free(resolution->host);
    mem_free(resolution->source);
    mem_free(resolution);
    errno = error;
}

int resolve_fd(const struct resolution *resolution) { return resolution->fd; }
bool resolve_is_done(const struct resolution *resolution) { return atomic_load(&resolution->done); }
const char *resolve_error(const struct resolution *resolution) { return resolution->error; }
const struct addrinfo *resolve_addresses(const struct resolution *resolution) { return resolution->addresses; }
const struct addrinfo *resolve_sources(const struct resolution *resolution) { return resolution->sources; }
bool resolve_is_name(const struct resolution *resolution) { return resolution->is_name; }
