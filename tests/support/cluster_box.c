#include "support/cluster_box.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "support/certificate.h"
#include "support/redis_process.h"

enum { LIMIT_MS = 60000, TRY_US = 5000 };

/* --- Hooks */

static void facts_hook(void *context, struct bus_facts *facts)
{
    struct cluster_box *box = context;

    *facts = (struct bus_facts){ .offset = box->offset, .link_age_ms = 0, .holds_writes = box->holds > 0 };
}

static bool is_alive_hook(void *context)
{
    struct cluster_box *box = context;

    box->asked += box->hangs;
    return !box->hangs;
}

static void hold_writes_hook(void *context, bool holds)
{
    ((struct cluster_box *)context)->holds += holds ? 1 : -1;
}

static void lead_hook(void *context)
{
    ((struct cluster_box *)context)->leads++;
}

static void follow_hook(void *context, const char *ip, uint16_t port, uint16_t tls_port)
{
    struct cluster_box *box = context;

    CHECK(strcmp(ip, "127.0.0.1") == 0);
    box->follow_port = port != 0 ? port : tls_port;
    box->follows++;
}

static void empty_hook(void *context)
{
    ((struct cluster_box *)context)->empties++;
}

static void say_foreign_hook(void *context, const struct slots *slots)
{
    (void)context;
    (void)slots;
}

static void topology_changed_hook(void *context, const struct topology *topology)
{
    CHECK(topology->count > 0);
    ((struct cluster_box *)context)->topologies++;
}

static void refuse_hook(void *context)
{
    ((struct cluster_box *)context)->refusals++;
}

static void slots_lost_hook(void *context, const struct slots *slots)
{
    ((struct cluster_box *)context)->lost_slots += (int)slots_count(slots);
}

static void deliver_hook(void *context, struct bytes channel, struct bytes text, bool is_shard)
{
    struct cluster_box *box = context;

    snprintf(box->delivered, sizeof(box->delivered), "%s %.*s %.*s", is_shard ? "shard" : "all", (int)channel.size, channel.data,
        text.size > 40 ? 40 : (int)text.size, text.data);
    box->deliveries++;
}

static struct tls_context *hold_tls_hook(void *context)
{
    return tls_context_hold(((struct cluster_box *)context)->certificate->context);
}

/* --- */

/* Keeps the port: a server can still listen on it, but no other program is given it. */
static uint16_t reserve_port(int *fd)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(redis_process_free_port()), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 && bind(*fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    return ntohs(at.sin_port);
}

void cluster_box_init(struct cluster_box *box)
{
    strcpy(box->dir, "/tmp/kelvin-test-XXXXXX");
    CHECK(mkdtemp(box->dir) != NULL);
    snprintf(box->path, sizeof(box->path), "%s/nodes.conf", box->dir);
    box->port = redis_process_free_port();
    box->bus_port = reserve_port(&box->reserved_fd);
    box->log = log_create("/dev/null", LOG_LEVEL_DEBUG, NULL, 0);
}

void cluster_box_start(struct cluster_box *box)
{
    const char *const bind[] = { box->address != NULL ? box->address : "127.0.0.1", NULL };
    const struct cluster_hooks hooks = {
        .context = box, .facts = facts_hook, .is_alive = is_alive_hook, .hold_writes = hold_writes_hook, .lead = lead_hook, .follow = follow_hook,
        .empty = empty_hook, .topology_changed = topology_changed_hook, .say_foreign = say_foreign_hook, .refuse = refuse_hook, .slots_lost = slots_lost_hook,
        .deliver = deliver_hook, .hold_tls = hold_tls_hook,
    };
    struct cluster_config config = {
        .nodes_path = box->path, .bind = bind, .backlog = 100, .log = box->log, .disk = box->disk, .bind_source = box->address,
        .link_buffer_max = box->link_buffer_max,
        .options = {
            .timeout_ms = box->timeout_ms > 0 ? box->timeout_ms : CLUSTER_BOX_TIMEOUT_MS, .primary_ping_ms = 1000, .validity_factor = 10,
            .migration_barrier = 1, .allows_replica_migration = true, .requires_full_coverage = true, .bus_port = box->bus_port,
            .port = box->certificate == NULL ? box->port : 0, .tls_port = box->certificate != NULL ? box->port : 0, .is_tls = box->certificate != NULL,
        },
    };
    struct message message = { "" };

    if (box->announced_ip != NULL)
        strcpy(config.options.ip, box->announced_ip);
    CHECK(cluster_create(&config, &hooks, &box->cluster, &message) == STATUS_OK);
    memcpy(box->id, cluster_lock(box->cluster)->members->myself->id.text, NODE_ID_SIZE);
    CHECK(cluster_unlock(box->cluster) == STATUS_OK);
    if (cluster_start(box->cluster, &message) != STATUS_OK) {
        fprintf(stderr, "%s\n", message.text);
        CHECK(!"the bus starts");
    }
}

void cluster_box_stop(struct cluster_box *box)
{
    if (box->cluster == NULL)
        return;
    cluster_stop(box->cluster);
    cluster_destroy(box->cluster);
    box->cluster = NULL;
}

void cluster_box_release(struct cluster_box *box)
{
    cluster_box_stop(box);
    unlink(box->path);
    CHECK(rmdir(box->dir) == 0);
    log_destroy(box->log);
    close(box->reserved_fd);
}

/* --- Commands */

static void check_done(const char *error)
{
    if (error != NULL) {
        fprintf(stderr, "%s\n", error);
        CHECK(!"the command succeeds");
    }
}

void cluster_box_meet(struct cluster_box *box, uint16_t port, uint16_t bus_port)
{
    check_done(bus_meet(cluster_lock(box->cluster), "127.0.0.1", port, bus_port, clock_wall_ms()));
    CHECK(cluster_unlock(box->cluster) == STATUS_OK);
}

void cluster_box_add_slots(struct cluster_box *box, unsigned first, unsigned last)
{
    struct slots slots = { 0 };

    slots_add_range(&slots, (struct slot_range){ (uint16_t)first, (uint16_t)last });
    check_done(bus_add_slots(cluster_lock(box->cluster), &slots));
    CHECK(cluster_unlock(box->cluster) == STATUS_OK);
}

void cluster_box_replicate(struct cluster_box *box, const char *master_id)
{
    struct node_id id;
    const char *error = "";

    CHECK(node_id_read(bytes_of_string(master_id), &id));
    for (int64_t begin_ms = clock_mono_us() / 1000; error != NULL && clock_mono_us() / 1000 < begin_ms + LIMIT_MS; usleep(TRY_US)) {
        error = bus_replicate(cluster_lock(box->cluster), &id, false, clock_wall_ms());
        CHECK(cluster_unlock(box->cluster) == STATUS_OK);
    }
    check_done(error);
}

/* --- Waiting */

void cluster_box_nodes(struct cluster_box *box, struct buffer *out)
{
    out->size = 0;
    bus_describe_nodes(cluster_lock(box->cluster), NULL, NODES_FILE_PORT_PLAIN, out);
    (void)cluster_unlock(box->cluster);
    buffer_append_u8(out, 0);
}

static void describe_info(struct cluster_box *box, struct buffer *out)
{
    out->size = 0;
    bus_describe_info(cluster_lock(box->cluster), out);
    (void)cluster_unlock(box->cluster);
    buffer_append_u8(out, 0);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* The lines of replicas have the id of their primary, too. NULL: no line begins so. */
static char *find_line(char *text, const char *begin)
{
    size_t size = strlen(begin);

    while (text != NULL && strncmp(text, begin, size) != 0) {
        text = strchr(text, '\n');
        if (text != NULL)
            text++;
    }
    return text;
}

typedef void describe_function(struct cluster_box *box, struct buffer *out);

/* In the whole text, or in the line that begins with `line`. */
static void wait_for(struct cluster_box *box, describe_function *describe, const char *line, const char *text, int times)
{
    struct buffer out = { 0 };
    int64_t begin_ms = clock_mono_us() / 1000;
    bool found = false;

    for (;;) {
        char *at;

        describe(box, &out);
        at = line != NULL ? find_line(out.data, line) : out.data;
        if (line != NULL && at != NULL && strchr(at, '\n') != NULL)
            *strchr(at, '\n') = '\0';
        found = at != NULL && count_of(at, text) == times;
        if (found || clock_mono_us() / 1000 > begin_ms + LIMIT_MS)
            break;
        usleep(TRY_US);
    }
    if (!found) {
        describe(box, &out);
        fprintf(stderr, "port %u: not %d times '%s' in\n%s\n", box->port, times, text, out.data);
        CHECK(!"it happens in time");
    }
    buffer_release(&out);
}

void cluster_box_wait_nodes(struct cluster_box *box, const char *text, int times)
{
    wait_for(box, cluster_box_nodes, NULL, text, times);
}

void cluster_box_wait_info(struct cluster_box *box, const char *text)
{
    wait_for(box, describe_info, NULL, text, 1);
}

void cluster_box_wait_node(struct cluster_box *box, const char *id, const char *text)
{
    wait_for(box, cluster_box_nodes, id, text, 1);
}

void cluster_box_wait_count(const _Atomic int *count, int wanted)
{
    int64_t begin_ms = clock_mono_us() / 1000;

    while (*count < wanted) {
        CHECK(clock_mono_us() / 1000 < begin_ms + LIMIT_MS);
        usleep(TRY_US);
    }
}

void cluster_box_owner(struct cluster_box *box, unsigned slot, char id[41])
{
    struct topology *topology = cluster_topology(box->cluster);
    int owner = topology->owners[slot];

    memset(id, 0, NODE_ID_SIZE + 1);
    if (owner >= 0)
        memcpy(id, topology->nodes[owner].id.text, NODE_ID_SIZE);
    topology_release(topology);
}
