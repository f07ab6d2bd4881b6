#include "base/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

static void write_text(const struct sockaddr_storage *address, char text[ENDPOINT_SIZE])
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    char host[INET6_ADDRSTRLEN] = "";

    if (address->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(text, ENDPOINT_SIZE, "[%s]:%d", host, ntohs(six->sin6_port));
    } else if (address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(text, ENDPOINT_SIZE, "%s:%d", host, ntohs(four->sin_port));
    } else {
        snprintf(text, ENDPOINT_SIZE, ":0");
    }
}

void endpoint_of_peer(int fd, char text[ENDPOINT_SIZE])
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);

    (void)getpeername(fd, (struct sockaddr *)&address, &size);
    write_text(&address, text);
}

void endpoint_of_self(int fd, char text[ENDPOINT_SIZE])
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof(address);

    (void)getsockname(fd, (struct sockaddr *)&address, &size);
    write_text(&address, text);
}
