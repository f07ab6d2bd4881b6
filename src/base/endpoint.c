#include "base/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

/* Returns the port; 0: it is no address. */
static int write_ip(const struct sockaddr_storage *address, char ip[ENDPOINT_IP_SIZE])
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;

    ip[0] = '\0';
    if (address->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, ip, ENDPOINT_IP_SIZE);
        return ntohs(six->sin6_port);
    }
    if (address->ss_family != AF_INET)
        return 0;
    inet_ntop(AF_INET, &four->sin_addr, ip, ENDPOINT_IP_SIZE);
    return ntohs(four->sin_port);
}

static void write_text(const struct sockaddr_storage *address, char text[ENDPOINT_SIZE])
{
    char ip[ENDPOINT_IP_SIZE];
    int port = write_ip(address, ip);

    snprintf(text, ENDPOINT_SIZE, address->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", ip, port);
}

static struct sockaddr_storage peer_of(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);

    (void)getpeername(fd, (struct sockaddr *)&address, &size);
    return address;
}

static struct sockaddr_storage self_of(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);

    (void)getsockname(fd, (struct sockaddr *)&address, &size);
    return address;
}

void endpoint_of_peer(int fd, char text[ENDPOINT_SIZE])
{
    struct sockaddr_storage address = peer_of(fd);

    write_text(&address, text);
}

void endpoint_of_self(int fd, char text[ENDPOINT_SIZE])
{
    struct sockaddr_storage address = self_of(fd);

    write_text(&address, text);
}

void endpoint_ip_of_peer(int fd, char ip[ENDPOINT_IP_SIZE])
{
    struct sockaddr_storage address = peer_of(fd);

    (void)write_ip(&address, ip);
}

void endpoint_ip_of_self(int fd, char ip[ENDPOINT_IP_SIZE])
{
    struct sockaddr_storage address = self_of(fd);

    (void)write_ip(&address, ip);
}
