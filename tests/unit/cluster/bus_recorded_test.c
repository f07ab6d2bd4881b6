/* Messages that redis-servers send each other, recorded by a proxy on their bus ports. Without redis-server the case is skipped. */
#include "cluster/bus_message.h"

#include "support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/bus_again.h"
#include "support/bus_proxy.h"
#include "support/redis_cluster.h"

enum { NODES = 4, WAIT_TURNS = 12000, TURN_US = 5000 };

struct box {
    struct redis_cluster cluster;
    struct bus_proxy proxy;
    unsigned counts[BUS_TYPE_COUNT], extensions, forgotten, host_names, names;
};

/* The next whole message of what was recorded in one direction; false if there is none. */
static bool next_message(const struct buffer *bytes, size_t *at, struct bytes *message)
{
    uint32_t size;

    if (bytes->size - *at < BUS_PREFIX_SIZE)
        return false;
    assert_int_equal(bus_message_size(bytes_of(bytes->data + *at, BUS_PREFIX_SIZE), BUS_STRANGER_SIZE_MAX, &size), STATUS_OK);
    if (bytes->size - *at < size)
        return false;
    *message = bytes_of(bytes->data + *at, size);
    *at += size;
    return true;
}

static bool has_recorded(struct box *box, uint16_t type)
{
    bool found = false;

    pthread_mutex_lock(&box->proxy.lock);
    for (int i = 0; i < 2 * box->proxy.link_count && !found; i++) {
        struct bytes bytes;
        size_t at = 0;

        while (!found && next_message(&box->proxy.links[i / 2].bytes[i % 2], &at, &bytes)) {
            struct bus_message message;

            found = bus_message_read(bytes, &message) == STATUS_OK && message.type == type;
        }
    }
    pthread_mutex_unlock(&box->proxy.lock);
    return found;
}

/* Sends a line again and again until such a message was recorded. */
static void wait_for(struct box *box, uint16_t type, struct redis_process *node, const char *line)
{
    for (int i = 0; !has_recorded(box, type); i++) {
        redis_process_run(node, line);
        if (i == WAIT_TURNS)
            fail_msg("no %s was sent", bus_type_name(type));
        usleep(TURN_US);
    }
}

static void start_nodes(struct box *box)
{
    bus_proxy_open(&box->proxy, NODES);
    for (int i = 0; i < NODES; i++) {
        char port[8];

        snprintf(port, sizeof(port), "%u", box->proxy.ports[i]);
        redis_cluster_add(&box->cluster, (const char *[]){ "--cluster-announce-bus-port", port, "--cluster-announce-ip", "127.0.0.1",
                                                           "--repl-diskless-sync-delay", "0", i == 0 ? "--cluster-announce-hostname" : NULL,
                                                           "one.example.com", NULL });
        box->proxy.targets[i] = box->cluster.bus_ports[i];
    }
    bus_proxy_start(&box->proxy);
}

/* Two primaries, a replica of the first, and a node that is forgotten. */
static void form_cluster(struct box *box)
{
    struct redis_process *nodes = box->cluster.nodes;
    char id[41], forget[80];

    if (redis_cluster_is_version(&nodes[1], 702))
        redis_cluster_do(&nodes[1], "CONFIG SET cluster-announce-human-nodename second-node");
    redis_cluster_do(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 8191");
    redis_cluster_do(&nodes[1], "CLUSTER ADDSLOTSRANGE 8192 16383");
    redis_cluster_do(&nodes[0], "CLUSTER SET-CONFIG-EPOCH 9");
    redis_cluster_do(&nodes[1], "CLUSTER SET-CONFIG-EPOCH 1");
    redis_cluster_meet(&box->cluster, box->proxy.ports);
    redis_cluster_id(&nodes[3], id);
    snprintf(forget, sizeof(forget), "CLUSTER FORGET %s", id);
    for (int i = 0; i < NODES; i++)
        redis_cluster_wait_for(&nodes[i], "CLUSTER INFO", "cluster_size:2");
    for (int i = 0; i < NODES - 1; i++)
        redis_process_run(&nodes[i], forget);           /* an error where a node's gossip was faster */
    redis_cluster_id(&nodes[0], id);
    redis_cluster_do(&nodes[2], "CLUSTER REPLICATE %s", id);
    redis_cluster_wait_for(&nodes[2], "INFO replication", "master_link_status:up");
    for (int i = 0; i < NODES - 1; i++)
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", "slave");
    for (int i = 0; i < NODES - 1; i++)
        redis_cluster_wait_for(&nodes[i], "CLUSTER INFO", "cluster_state:ok");
}

static void check_messages(struct box *box)
{
    for (int i = 0; i < 2 * box->proxy.link_count; i++) {
        struct bytes bytes;
        size_t at = 0;

        while (next_message(&box->proxy.links[i / 2].bytes[i % 2], &at, &bytes)) {
            struct bus_message message;
            struct buffer again = { 0 };
            struct node_id id;
            uint64_t seconds;
            size_t place = 0;

            assert_int_equal(bus_message_read(bytes, &message), STATUS_OK);
            bus_again_write(&message, &again);
            if (!bytes_equal(bytes, buffer_bytes(&again)))
                fail_msg("a message of type %s was written differently", bus_type_name(message.type));
            box->counts[message.type]++;
            box->extensions += !node_id_is_none(&message.shard_id);
            box->host_names += bytes_equal(message.host_name, BYTES("one.example.com"));
            box->names += bytes_equal(message.name, BYTES("second-node"));
            box->forgotten += bus_message_forgotten(&message, &place, &id, &seconds) && seconds <= 60;
            buffer_release(&again);
        }
    }
}

static void messages_of_redis_servers_are_read_and_written_again_byte_by_byte(void **state)
{
    struct box *box;
    struct redis_process *nodes;
    bool is_new;                /* 7.2 */

    if (!redis_process_is_installed())
        skip();
    box = mem_zalloc(sizeof(*box));
    nodes = box->cluster.nodes;
    start_nodes(box);
    form_cluster(box);
    is_new = redis_cluster_is_version(&nodes[0], 702);
    wait_for(box, BUS_PUBLISH, &nodes[0], "PUBLISH news text");
    wait_for(box, BUS_PUBLISHSHARD, &nodes[0], "SPUBLISH bar text");                    /* slot 5061: goes to its replica */
    /* It claims a slot of a node with a larger epoch. Both commands in one piece: between them a PING would bind the slot again. */
    wait_for(box, BUS_UPDATE, &nodes[1], "CLIENT REPLY SKIP\r\nCLUSTER DELSLOTS 5\r\nCLUSTER ADDSLOTS 5");
    redis_cluster_repeat(&nodes[2], "CLUSTER FAILOVER", &nodes[0], "CLUSTER NODES", "myself,slave");
    redis_cluster_do(&nodes[1], "CONFIG SET cluster-node-timeout 2000");
    redis_cluster_do(&nodes[2], "CONFIG SET cluster-node-timeout 2000");
    kill(nodes[0].pid, SIGKILL);
    wait_for(box, BUS_FAIL, &nodes[1], "PING");
    bus_proxy_stop(&box->proxy);
    check_messages(box);
    for (int type = 0; type < BUS_TYPE_COUNT; type++)
        assert_true(type == BUS_MODULE || box->counts[type] > 0);
    assert_true(box->host_names > 0);
    assert_true(!is_new || (box->extensions > 0 && box->names > 0 && box->forgotten > 0));
    redis_cluster_stop(&box->cluster);
    bus_proxy_release(&box->proxy);
    mem_free(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_redis_servers_are_read_and_written_again_byte_by_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
