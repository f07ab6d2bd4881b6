#include "base/sockets.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char *real_address(const char *host)
{
    if (strcmp(host, "*") == 0)
        return "0.0.0.0";
    return strcmp(host, "::*") == 0 ? "::" : host;
}

static int fail_and_close(int fd, struct message *message, const char *what)
{
    int error = errno;

    message_set(message, "%s: %s", what, strerror(error));
    if (fd >= 0)
        close(fd);
    errno = error;
    return -1;
}

static int open_at(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (at->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    return fd;
}

int sockets_listen_tcp(const char *host, int port, int backlog, struct message *message)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    char service[16], what[200];
    int fd, error;

    host = real_address(host);
    hints.ai_family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
    snprintf(service, sizeof(service), "%d", port);
    error = getaddrinfo(host, service, &hints, &found);
    if (error != 0) {
        message_set(message, "Could not create server TCP listening socket %s:%d: %s", host, port, gai_strerror(error));
        errno = EADDRNOTAVAIL;
        return -1;
    }
    fd = open_at(found);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, backlog) != 0) {
        snprintf(what, sizeof(what), "Could not create server TCP listening socket %s:%d: bind", host, port);
        fd = fail_and_close(fd, message, what);
    }
    error = errno;
    freeaddrinfo(found);
    errno = error;
    return fd;
}

/* All of 127.0.0.0/8 belongs to the loopback device. */
static bool is_at(const struct ifaddrs *interface, const struct sockaddr *wanted)
{
    const struct sockaddr_in *ours = (const void *)interface->ifa_addr, *theirs = (const void *)wanted;
    const struct sockaddr_in6 *ours6 = (const void *)interface->ifa_addr, *theirs6 = (const void *)wanted;

    if (interface->ifa_addr == NULL || interface->ifa_addr->sa_family != wanted->sa_family)
        return false;
    if (wanted->sa_family == AF_INET6)
        return IN6_ARE_ADDR_EQUAL(&ours6->sin6_addr, &theirs6->sin6_addr);
    if ((interface->ifa_flags & IFF_LOOPBACK) != 0 && ntohl(theirs->sin_addr.s_addr) >> 24 == 127)
        return true;
    return ours->sin_addr.s_addr == theirs->sin_addr.s_addr;
}

static bool is_any(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr == INADDR_ANY;
}

bool sockets_has_address(const char *host, struct message *message)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    struct ifaddrs *interfaces = NULL;
    bool has;
    int error;

    host = real_address(host);
    hints.ai_family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
    error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0) {
        message_set(message, "bind %.100s: %s", host, gai_strerror(error));
        return false;
    }
    has = is_any(found->ai_addr) || getifaddrs(&interfaces) != 0;       /* without a list there is nothing to say */
    for (const struct ifaddrs *at = interfaces; at != NULL && !has; at = at->ifa_next)
        has = is_at(at, found->ai_addr);
    if (!has)
        message_set(message, "bind %.100s: this machine does not have the address", host);
    freeifaddrs(interfaces);
    freeaddrinfo(found);
    return has;
}

int sockets_listen_unix(const char *path, mode_t mode, int backlog, struct message *message)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd;

    if (strlen(path) >= sizeof(address.sun_path)) {
        message_set(message, "Failed opening Unix socket: the path is too long");
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    unlink(path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, backlog) != 0)
        return fail_and_close(fd, message, "Failed opening Unix socket: bind");
    if (mode != 0 && chmod(path, mode) != 0)
        return fail_and_close(fd, message, "Failed opening Unix socket: its permissions can't be set");
    return fd;
}

void sockets_retire(int fd) { shutdown(fd, SHUT_RDWR); }
bool sockets_revive(int fd, int backlog) { return listen(fd, backlog) == 0; }

bool sockets_is_missing_address(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == EPROTONOSUPPORT || error == ENOPROTOOPT;
}
