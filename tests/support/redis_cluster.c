#include "support/redis_cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

enum { LIMIT_MS = 60000, REPEAT_MS = 7000, TRY_US = 5000, OPTIONS_MAX = 24, LINE_MAX_SIZE = 200 };

struct redis_process *redis_cluster_add(struct redis_cluster *cluster, const char *const *options)
{
    const char *all[OPTIONS_MAX] = { "--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-port" };
    struct redis_process *node = &cluster->nodes[cluster->count];
    char port[8];
    int count = 5;

    CHECK(cluster->count < REDIS_CLUSTER_MAX);
    cluster->bus_ports[cluster->count] = redis_process_free_port();
    snprintf(port, sizeof(port), "%u", cluster->bus_ports[cluster->count]);
    all[count++] = port;
    for (; *options != NULL; options++) {
        CHECK(count < OPTIONS_MAX - 1);
        all[count++] = *options;
    }
    redis_process_start(node, all);
    redis_cluster_wait_for(node, "PING", "PONG");           /* it accepts connections before its bus port does, and a MEET that is lost is not repeated */
    cluster->count++;
    return node;
}

void redis_cluster_stop(struct redis_cluster *cluster)
{
    for (int i = 0; i < cluster->count; i++)
        redis_process_stop(&cluster->nodes[i]);
    cluster->count = 0;
}

void redis_cluster_do(struct redis_process *node, const char *format, ...)
{
    char line[LINE_MAX_SIZE];
    va_list arguments;

    va_start(arguments, format);
    CHECK(vsnprintf(line, sizeof(line), format, arguments) < LINE_MAX_SIZE);
    va_end(arguments);
    if (strcmp(redis_process_run(node, line), "+OK") != 0) {
        fprintf(stderr, "%s: %s\n", line, node->reply);
        CHECK(!"the command succeeds");
    }
}

void redis_cluster_repeat(struct redis_process *node, const char *repeated, struct redis_process *other, const char *line, const char *text)
{
    int64_t begin_ms = clock_mono_us() / 1000, next_ms = begin_ms, now_ms;

    do {
        now_ms = clock_mono_us() / 1000;
        if (node != NULL && now_ms >= next_ms) {
            redis_process_run(node, repeated);
            next_ms = now_ms + REPEAT_MS;
        }
        if (strstr(redis_process_run(other, line), text) != NULL)
            return;
        usleep(TRY_US);
    } while (now_ms < begin_ms + LIMIT_MS);
    fprintf(stderr, "%s: no '%s' in\n%s\n", line, text, other->reply);
    CHECK(!"it happens in time");
}

void redis_cluster_wait_for(struct redis_process *node, const char *line, const char *text)
{
    redis_cluster_repeat(NULL, NULL, node, line, text);
}

void redis_cluster_meet(struct redis_cluster *cluster, const uint16_t *bus_ports)
{
    char meet[LINE_MAX_SIZE], known[40];

    for (int i = 1; i < cluster->count; i++) {
        snprintf(meet, sizeof(meet), "CLUSTER MEET 127.0.0.1 %u %u", cluster->nodes[i].port, bus_ports[i]);
        snprintf(known, sizeof(known), "cluster_known_nodes:%d\r", i + 1);
        for (int k = 0; k <= i; k++)
            redis_cluster_repeat(&cluster->nodes[0], meet, &cluster->nodes[k], "CLUSTER INFO", known);
    }
}

void redis_cluster_id(struct redis_process *node, char id[41])
{
    CHECK(strlen(redis_process_run(node, "CLUSTER MYID")) == 40);
    strcpy(id, node->reply);
}

bool redis_cluster_is_version(struct redis_process *node, int version)
{
    static const char field[] = "redis_version:";
    const char *at = strstr(redis_process_run(node, "INFO server"), field);
    int major, minor;

    CHECK(at != NULL && sscanf(at + strlen(field), "%d.%d", &major, &minor) == 2);
    return major * 100 + minor >= version;
}
