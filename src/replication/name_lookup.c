#include "replication/name_lookup.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"

struct name_lookup {
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

static void finish_lookup(struct name_lookup *lookup, int error)
{
    const uint64_t one = 1;

    lookup->error = error != 0 ? gai_strerror(error) : NULL;
    atomic_store(&lookup->done, true);
    (void)!write(lookup->fd, &one, sizeof(one));
}

/* Adds what is not there yet. */
static void look_up_both(struct name_lookup *lookup, int flags)
{
    int error = 0;

    if (lookup->addresses == NULL)
        error = look_up(lookup->host, lookup->port, flags, &lookup->addresses);
    if (error == 0 && lookup->source[0] != '\0')
        error = look_up(lookup->source, "0", flags, &lookup->sources);
    if (error == 0 || flags == 0)
        finish_lookup(lookup, error);
}

static void name_lookup_main(void *context)
{
    struct name_lookup *lookup = context;

    look_up_both(lookup, 0);
    name_lookup_drop(lookup);
}

static bool start_thread(struct name_lookup *lookup, struct meter *meter)
{
    atomic_fetch_add(&lookup->references, 1);
    errno = thread_start_detached("kelvin-lookup", meter, name_lookup_main, lookup);
    if (errno != 0)
        atomic_fetch_sub(&lookup->references, 1);
    return errno == 0;
}

struct name_lookup *name_lookup_start(const char *host, uint16_t port, const char *source, struct meter *meter)
{
    struct name_lookup *lookup = mem_zalloc(sizeof(*lookup));

    lookup->references = 1;
    lookup->host = mem_string(bytes_of_string(host));
    lookup->source = mem_string(bytes_of_string(source));
    snprintf(lookup->port, sizeof(lookup->port), "%u", port);
    lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->fd >= 0) {
        look_up_both(lookup, AI_NUMERICHOST);
        lookup->is_name = lookup->addresses == NULL;
        if (name_lookup_is_done(lookup) || start_thread(lookup, meter))
            return lookup;
    }
    name_lookup_drop(lookup);
    return NULL;
}

void name_lookup_drop(struct name_lookup *lookup)
{
    int error = errno;

    if (lookup == NULL || atomic_fetch_sub(&lookup->references, 1) > 1)
        return;
    if (lookup->addresses != NULL)
        freeaddrinfo(lookup->addresses);
    if (lookup->sources != NULL)
        freeaddrinfo(lookup->sources);
    if (lookup->fd >= 0)
        close(lookup->fd);
    mem_free(lookup->host);
    mem_free(lookup->source);
    mem_free(lookup);
    errno = error;
}

int name_lookup_fd(const struct name_lookup *lookup) { return lookup->fd; }
bool name_lookup_is_done(const struct name_lookup *lookup) { return atomic_load(&lookup->done); }
const char *name_lookup_error(const struct name_lookup *lookup) { return lookup->error; }
const struct addrinfo *name_lookup_addresses(const struct name_lookup *lookup) { return lookup->addresses; }
const struct addrinfo *name_lookup_sources(const struct name_lookup *lookup) { return lookup->sources; }
bool name_lookup_is_name(const struct name_lookup *lookup) { return lookup->is_name; }
