/* Redis cluster: some redis-servers with cluster mode, for tests. What can't be done, or does not happen in 60 seconds, fails a CHECK.
 */
#ifndef KELVIN_TESTS_REDIS_CLUSTER_H
#define KELVIN_TESTS_REDIS_CLUSTER_H

#include <stdbool.h>

#include "support/redis_process.h"

enum { REDIS_CLUSTER_MAX = 4 };

struct redis_cluster {
    int count;
    struct redis_process nodes[REDIS_CLUSTER_MAX];
    uint16_t bus_ports[REDIS_CLUSTER_MAX];
};

/* Starts one more; `options` as for redis_process_start. Returns it. */
struct redis_process *redis_cluster_add(struct redis_cluster *cluster, const char *const *options);
void redis_cluster_stop(struct redis_cluster *cluster);

/* Sends a line, which has to return OK. */
void redis_cluster_do(struct redis_process *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Repeats a line until its reply contains `text`. */
void redis_cluster_wait_for(struct redis_process *node, const char *line, const char *text);
/* The same, and sends another line to `node` before, and again every few seconds, whatever it returns: on a busy machine a MEET or a manual failover may
 * come to nothing. */
void redis_cluster_repeat(struct redis_process *node, const char *repeated, struct redis_process *other, const char *line, const char *text);
/* The first node meets all others, by these ports of the bus, until each knows all. */
void redis_cluster_meet(struct redis_cluster *cluster, const uint16_t *bus_ports);
/* Copies the node's ID. */
void redis_cluster_id(struct redis_process *node, char id[41]);
/* The version is that one or a later one; 7.2 is 702. */
bool redis_cluster_is_version(struct redis_process *node, int version);

#endif
