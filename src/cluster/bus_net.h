/* Bus net: the connections of the bus, and the thread that they belong to (`kelvin-bus`): listens, accepts, connects, shakes hands with TLS, reads whole
 * messages, sends, and ticks. Which messages and what they mean is above: it is called with what happens, and gives orders, the actions of bus.h.
 *
 * The port is open to anyone. Connections on which no node of the cluster was recognized are bounded: their number (the oldest one is closed for a new one),
 * the bytes of a message and of all of them, and the time for a message. A peer that does not take its replies is not read from either, so what waits for it
 * is bounded; for messages that this node sends on its own there is the limit of the queue, and the bus closes links without replies.
 *
 * Threads: all belongs to the thread of the net, but for what is said to be for any thread.
 */
#ifndef KELVIN_CLUSTER_BUS_NET_H
#define KELVIN_CLUSTER_BUS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/message.h"
#include "base/status.h"
#include "cluster/bus.h"

struct bus_net;
struct meter;
struct tls_context;

/* Actions that were not carried out yet, in their order. All zero: none. */
struct bus_orders {
    bool closes_all;                    /* first of all each connection is closed, with a report: messages on them were lost */
    struct bus_action *actions;
    unsigned count, room;
    struct buffer bytes;                /* to which SEND refers */
};
void bus_orders_add(struct bus_orders *orders, const struct bus_action *action);
void bus_orders_release(struct bus_orders *orders);

/* All are called on the thread of the net. */
struct bus_net_hooks {
    void *context;
    uint64_t (*accepted)(void *context);                /* the number of a connection that was accepted; 0: it is refused */
    void (*opened)(void *context, uint64_t link);       /* it was ordered, and has been opened */
    void (*closed)(void *context, uint64_t link);       /* opened, accepted or ordered, and not closed by an order */
    size_t (*size_max)(void *context, uint64_t link);   /* of the next message; BUS_STRANGER_SIZE_MAX or less: no node is recognized on it */
    void (*received)(void *context, uint64_t link, const struct bus_message *message, const char *from_ip, const char *own_ip);
    void (*tick)(void *context);                        /* each 100 ms */
    /* Exchanges the orders, which are empty, for those that have come up. False: there are none. */
    bool (*take)(void *context, struct bus_orders *orders);
    struct tls_context *(*hold_tls)(void *context);     /* for a new connection; NULL: it can't be had */
};

struct bus_net_limits {
    uint64_t queue_max;                 /* bytes that wait for one connection; 0: any */
    int64_t timeout_ms;                 /* cluster-node-timeout */
    bool is_tls;
};

/* `source`: the address to connect from; "": any. NULL: the system refuses, and `message` says why. */
struct bus_net *bus_net_create(const struct bus_net_hooks *hooks, const char *source, struct log *log, struct message *message);
void bus_net_destroy(struct bus_net *net);              /* it was stopped, or not started; NULL is fine */
/* `bind`: words of the directive, NULL at the end. All or none of the sockets are there afterwards. */
enum status bus_net_listen(struct bus_net *net, const char *const *bind, uint16_t port, int backlog, struct message *message);
enum status bus_net_start(struct bus_net *net, struct meter *meter, struct message *message);
/* Closes all connections, without a report, and waits for the thread. */
void bus_net_stop(struct bus_net *net);

/* --- Any thread */

void bus_net_set_limits(struct bus_net *net, const struct bus_net_limits *limits);
void bus_net_wake(struct bus_net *net);                 /* there are orders. Between start and stop */

/* Bytes allocated for what waits for a connection, and in use. False: it is gone. */
bool bus_net_queue(struct bus_net *net, uint64_t link, uint64_t *allocated, uint64_t *used);
struct bus_net_totals {
    uint64_t buffer_bytes;              /* allocated for all connections */
    uint64_t link_count;
};
struct bus_net_totals bus_net_totals(struct bus_net *net);
uint64_t bus_net_over_limit(const struct bus_net *net);         /* connections that were closed because of `queue_max`, since the start */

#endif
