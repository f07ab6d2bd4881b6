#include "base/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct addrinfo *of_family(const struct addrinfo *addresses, int family)
{
    while (addresses != NULL && addresses->ai_family != family)
        addresses = addresses->ai_next;
    return addresses;
}

/* Port 0 of the source is any: its other connections are of no concern. */
static bool bind_to_source(const struct dial *dial, int fd, int family)
{
    const struct addrinfo *source = of_family(dial->sources, family);
    int one = 1;

    if (dial->sources == NULL)
        return true;
    if (source == NULL) {
        errno = EAFNOSUPPORT;
        return false;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    return bind(fd, source->ai_addr, source->ai_addrlen) == 0;
}

static bool wait_until_connected(const struct dial *dial, int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (!dial->wait(dial->context, fd)) {
        errno = ECANCELED;
        return false;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return false;
    errno = error;
    return error == 0;
}

static bool connect_to(const struct dial *dial, int fd, const struct addrinfo *address)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!bind_to_source(dial, fd, address->ai_family))
        return false;
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
        return true;
    return errno == EINPROGRESS && wait_until_connected(dial, fd);
}

static void close_kept_errno(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
}

int dial(const struct dial *dial)
{
    errno = EADDRNOTAVAIL;
    for (const struct addrinfo *address = dial->addresses; address != NULL; address = address->ai_next) {
        int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0)
            continue;
        if (connect_to(dial, fd, address))
            return fd;
        close_kept_errno(fd);
    }
    return -1;
}
