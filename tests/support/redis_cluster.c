#include "support/redis_cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"

enum { LIMIT_MS = 30000, TRY_US = 5000, OPTIONS_MAX = 24, LINE_MAX_SIZE = 200 };

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

void redis_cluster_wait_for(struct redis_process *node, const char *line, const char *text)
{
    int64_t end_ms = clock_mono_us() / 1000 + LIMIT_MS;

    while (strstr(redis_process_run(node, line), text) == NULL) {
        if (clock_mono_us() / 1000 > end_ms)
            fprintf(stderr, "%s: no '%s' in\n%s\n", line, text, node->reply);
        CHECK(clock_mono_us() / 1000 <= end_ms);
        usleep(TRY_US);
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
