#include "support/bus_proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"

enum { POLL_MS = 10, PIECE_SIZE = 1 << 16 };

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

void bus_proxy_open(struct bus_proxy *proxy, int count)
{
    *proxy = (struct bus_proxy){ .count = count, .lock = PTHREAD_MUTEX_INITIALIZER };
    for (int i = 0; i < count; i++) {
        struct sockaddr_in at = loopback(0);
        socklen_t size = sizeof(at);

        proxy->listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(bind(proxy->listeners[i], (struct sockaddr *)&at, size) == 0 && listen(proxy->listeners[i], 100) == 0);
        CHECK(getsockname(proxy->listeners[i], (struct sockaddr *)&at, &size) == 0);
        proxy->ports[i] = ntohs(at.sin_port);
    }
}

static void close_link(struct bus_proxy_link *link)
{
    for (int side = 0; side < 2; side++) {
        if (link->fds[side] >= 0)
            close(link->fds[side]);
        link->fds[side] = -1;
    }
}

/* A target that does not accept, because it was killed, is a connection that is closed at once. */
static void accept_link(struct bus_proxy *proxy, int index)
{
    struct sockaddr_in at = loopback(proxy->targets[index]);
    struct bus_proxy_link *link = &proxy->links[proxy->link_count];

    if (proxy->link_count == BUS_PROXY_LINKS_MAX) {             /* enough was recorded */
        int fd = accept4(proxy->listeners[index], NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            close(fd);
        return;
    }
    proxy->link_count++;
    link->fds[0] = accept4(proxy->listeners[index], NULL, NULL, SOCK_CLOEXEC);
    link->fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fds[0] < 0 || connect(link->fds[1], (struct sockaddr *)&at, sizeof(at)) != 0)
        close_link(link);
}

static void forward(struct bus_proxy_link *link, int side)
{
    struct buffer *bytes = &link->bytes[side];
    ssize_t got = recv(link->fds[side], buffer_reserve(bytes, PIECE_SIZE), PIECE_SIZE, 0), sent = 0;

    if (got <= 0) {
        close_link(link);
        return;
    }
    while (sent < got) {
        ssize_t size = send(link->fds[!side], bytes->data + bytes->size + sent, (size_t)(got - sent), MSG_NOSIGNAL);

        if (size <= 0) {
            close_link(link);
            return;
        }
        sent += size;
    }
    bytes->size += (size_t)got;
}

/* True: it goes on. */
static bool run_turn(struct bus_proxy *proxy)
{
    struct pollfd polls[BUS_PROXY_MAX + 2 * BUS_PROXY_LINKS_MAX] = { 0 };
    int link_count = proxy->link_count, count = proxy->count;
    bool is_stopped;

    for (int i = 0; i < count; i++)
        polls[i] = (struct pollfd){ .fd = proxy->listeners[i], .events = POLLIN };
    for (int i = 0; i < 2 * link_count; i++)
        polls[count + i] = (struct pollfd){ .fd = proxy->links[i / 2].fds[i % 2], .events = POLLIN };
    CHECK(poll(polls, (nfds_t)(count + 2 * link_count), POLL_MS) >= 0);
    pthread_mutex_lock(&proxy->lock);
    for (int i = 0; i < 2 * link_count; i++) {
        if (polls[count + i].revents != 0 && proxy->links[i / 2].fds[i % 2] >= 0)
            forward(&proxy->links[i / 2], i % 2);
    }
    for (int i = 0; i < count; i++) {
        if (polls[i].revents != 0)
            accept_link(proxy, i);
    }
    is_stopped = proxy->is_stopped;
    pthread_mutex_unlock(&proxy->lock);
    return !is_stopped;
}

static void *run(void *argument)
{
    while (run_turn(argument))
        ;
    return NULL;
}

void bus_proxy_start(struct bus_proxy *proxy)
{
    CHECK(pthread_create(&proxy->thread, NULL, run, proxy) == 0);
}

void bus_proxy_stop(struct bus_proxy *proxy)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->is_stopped = true;
    pthread_mutex_unlock(&proxy->lock);
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < proxy->count; i++)
        close(proxy->listeners[i]);
    for (int i = 0; i < proxy->link_count; i++)
        close_link(&proxy->links[i]);
}

void bus_proxy_release(struct bus_proxy *proxy)
{
    for (int i = 0; i < 2 * proxy->link_count; i++)
        buffer_release(&proxy->links[i / 2].bytes[i % 2]);
    pthread_mutex_destroy(&proxy->lock);
}
