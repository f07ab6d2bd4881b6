/* Bus proxy: connections to the bus ports of nodes go through it, and it keeps all bytes of both directions. A node announces the proxy's port instead of
 * its own (cluster-announce-bus-port). For tests; what can't be done fails a CHECK.
 */
#ifndef KELVIN_TESTS_BUS_PROXY_H
#define KELVIN_TESTS_BUS_PROXY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

enum { BUS_PROXY_MAX = 4, BUS_PROXY_LINKS_MAX = 200 };

struct bus_proxy_link {
    int fds[2];                     /* of a connection: the side that connected, the node; -1: closed */
    struct buffer bytes[2];         /* received from it */
};

struct bus_proxy {
    int count;
    int listeners[BUS_PROXY_MAX];
    uint16_t ports[BUS_PROXY_MAX], targets[BUS_PROXY_MAX];
    struct bus_proxy_link links[BUS_PROXY_LINKS_MAX];       /* like link_count: protected by `lock` while it runs */
    int link_count;
    bool is_stopped;
    pthread_mutex_t lock;
    pthread_t thread;
};

/* Listens on `count` free ports; targets are set before it is started, and not changed. */
void bus_proxy_open(struct bus_proxy *proxy, int count);
void bus_proxy_start(struct bus_proxy *proxy);
/* Stops; the bytes stay until it is released. */
void bus_proxy_stop(struct bus_proxy *proxy);
void bus_proxy_release(struct bus_proxy *proxy);

#endif
