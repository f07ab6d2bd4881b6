/* Bus inbox: what threads that must not wait for the cluster's lock ask of it: messages of PUBLISH, and directives that were changed. They are put here under a
 * leaf lock, and taken by the thread of the bus.
 *
 * Messages that wait are bounded by BUS_INBOX_SIZE_MAX: those beyond it are dropped and counted, as those to a node whose link is broken are.
 */
#ifndef KELVIN_CLUSTER_BUS_INBOX_H
#define KELVIN_CLUSTER_BUS_INBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/mutex.h"
#include "cluster/bus.h"

enum { BUS_INBOX_SIZE_MAX = 64 << 20 };

/* Owner: the thread that has taken them. All zero: none. */
struct bus_inbox_list {
    struct buffer messages;             /* read by bus_inbox_next */
    bool has_options, has_queue_max;
    struct bus_options options;         /* its texts are in these */
    struct buffer host_name, name;
    uint64_t queue_max;                 /* cluster-link-sendbuf-limit */
};

struct bus_inbox {
    struct mutex lock;
    struct bus_inbox_list waiting;       /* lock */
    uint64_t dropped;                   /* lock: messages, since the start */
};

void bus_inbox_init(struct bus_inbox *inbox);
void bus_inbox_release(struct bus_inbox *inbox);

/* Any thread, with any locks. */
void bus_inbox_publish(struct bus_inbox *inbox, struct bytes channel, struct bytes text, bool is_shard);
void bus_inbox_set_options(struct bus_inbox *inbox, const struct bus_options *options);       /* copies the texts */
void bus_inbox_set_queue_max(struct bus_inbox *inbox, uint64_t queue_max);

bool bus_inbox_has_any(struct bus_inbox *inbox);
/* Exchanges the list, which is empty, for what waits. False: nothing does. */
bool bus_inbox_take(struct bus_inbox *inbox, struct bus_inbox_list *list);
/* The message at `*at`, from 0 on; false: there are no more. Valid until bus_inbox_clear. */
bool bus_inbox_next(const struct bus_inbox_list *list, size_t *at, struct bytes *channel, struct bytes *text, bool *is_shard);
void bus_inbox_clear(struct bus_inbox_list *list);                /* keeps no memory */

#endif
