/* Nodes of this process in a cluster with redis-servers. Without redis-server all cases are skipped. */
#include "cluster/cluster.h"

#include "support/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "support/certificate.h"
#include "support/cluster_box.h"
#include "support/redis_cluster.h"

enum { TRIES = 6000, REPEAT_TRIES = 700, TRY_US = 10000 };

struct rig {
    struct redis_cluster redis;
    char ids[REDIS_CLUSTER_MAX][41];
    struct cluster_box box;
};

static void add_redis(struct rig *rig, const struct certificate *certificate)
{
    char port[8];

    if (certificate == NULL) {
        redis_cluster_add(&rig->redis, (const char *[]){ "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", NULL });
        return;
    }
    snprintf(port, sizeof(port), "%u", redis_process_free_port());
    redis_cluster_add(&rig->redis, (const char *[]){ "--tls-cluster", "yes", "--tls-port", port, "--tls-cert-file", certificate->cert_file,
                                                     "--tls-key-file", certificate->key_file, "--tls-ca-cert-file", certificate->cert_file, NULL });
}

/* NULL: there is no redis-server. Without a certificate there is no TLS. */
static struct rig *setup(int redis_count, struct certificate *certificate)
{
    struct rig *rig;

    if (!redis_process_is_installed())
        return NULL;
    rig = mem_zalloc(sizeof(*rig));
    for (int i = 0; i < redis_count; i++) {
        add_redis(rig, certificate);
        redis_cluster_id(&rig->redis.nodes[i], rig->ids[i]);
        redis_cluster_do(&rig->redis.nodes[i], "CONFIG SET cluster-node-timeout 3000");
    }
    rig->box.timeout_ms = 3000;
    rig->box.certificate = certificate;
    cluster_box_init(&rig->box);
    cluster_box_start(&rig->box);
    return rig;
}

static void teardown(struct rig *rig)
{
    redis_cluster_stop(&rig->redis);
    cluster_box_release(&rig->box);
    mem_free(rig);
}

/* The redis-servers meet each other, then the first of them meets the node, until all know all. */
static void meet_all(struct rig *rig)
{
    struct redis_process *nodes = rig->redis.nodes;
    int count = rig->redis.count;
    char meet[80], known[40];

    redis_cluster_meet(&rig->redis, rig->redis.bus_ports);
    snprintf(meet, sizeof(meet), "CLUSTER MEET 127.0.0.1 %u %u", rig->box.port, rig->box.bus_port);
    snprintf(known, sizeof(known), "cluster_known_nodes:%d\r", count + 1);
    for (int i = 0; i < count; i++)
        redis_cluster_repeat(&nodes[0], meet, &nodes[i], "CLUSTER INFO", known);
    cluster_box_wait_nodes(&rig->box, " connected", count + 1);
}

static void wait_until_ok(struct rig *rig)
{
    for (int i = 0; i < rig->redis.count; i++) {
        if (rig->redis.nodes[i].pid != 0)
            redis_cluster_wait_for(&rig->redis.nodes[i], "CLUSTER INFO", "cluster_state:ok");
    }
    cluster_box_wait_info(&rig->box, "cluster_state:ok");
}

/* The end of the line of a node in CLUSTER NODES, from its link's state on; "": there is none, or it is not connected. */
static void end_of_line(const char *nodes, const char *id, char end[200])
{
    const char *line = strstr(nodes, id), *at;

    end[0] = '\0';
    while (line != NULL && line != nodes && line[-1] != '\n')
        line = strstr(line + 1, id);
    at = line != NULL ? strstr(line, " connected") : NULL;
    if (at != NULL && at < line + strcspn(line, "\n"))
        snprintf(end, 200, "%.*s", (int)strcspn(at, "\n"), at);
}

/* All nodes are connected to all others, and say the same about who has which slots. */
static bool views_agree(struct rig *rig)
{
    struct buffer own = { 0 };
    char first[200], second[200];
    bool agree = true;

    cluster_box_nodes(&rig->box, &own);
    for (int i = 0; i < rig->redis.count; i++) {
        redis_process_run(&rig->redis.nodes[i], "CLUSTER NODES");
        for (int k = 0; k <= rig->redis.count; k++) {
            const char *id = k == rig->redis.count ? rig->box.id : rig->ids[k];

            end_of_line(own.data, id, first);
            end_of_line(rig->redis.nodes[i].reply, id, second);
            agree = agree && first[0] != '\0' && strcmp(first, second) == 0;
        }
    }
    buffer_release(&own);
    return agree;
}

static void wait_until_views_agree(struct rig *rig)
{
    for (int i = 0; !views_agree(rig); i++) {
        if (i == TRIES)
            fail_msg("the nodes do not agree; the last says:\n%s", rig->redis.nodes[rig->redis.count - 1].reply);
        usleep(TRY_US);
    }
}

static void stop_redis(struct rig *rig, int index)
{
    kill(rig->redis.nodes[index].pid, SIGKILL);
    redis_process_stop(&rig->redis.nodes[index]);
}

static void wait_for_line(struct redis_process *node, const char *format, const char *id)
{
    char text[100];

    snprintf(text, sizeof(text), format, id);
    redis_cluster_wait_for(node, "CLUSTER NODES", text);
}

static void a_node_joins_redis_servers_and_all_views_agree(void **state)
{
    struct rig *rig;
    struct redis_process *nodes;
    char line[200];

    rig = setup(3, NULL);
    if (rig == NULL)
        skip();
    nodes = rig->redis.nodes;
    redis_cluster_do(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 4095");
    redis_cluster_do(&nodes[1], "CLUSTER ADDSLOTSRANGE 4096 8191");
    redis_cluster_do(&nodes[2], "CLUSTER ADDSLOTSRANGE 8192 12287");
    cluster_box_add_slots(&rig->box, 12288, 16383);
    meet_all(rig);
    wait_until_ok(rig);
    wait_until_views_agree(rig);
    cluster_box_owner(&rig->box, 4096, line);
    assert_string_equal(line, rig->ids[1]);
    while (rig->box.deliveries == 0) {                          /* what is sent while no link is open is lost */
        redis_process_run(&nodes[0], "PUBLISH news text");
        usleep(TRY_US);
    }
    assert_string_equal(rig->box.delivered, "all news text");
    redis_process_run(&nodes[2], "GET key3");                   /* slot 935 */
    snprintf(line, sizeof(line), "-MOVED 935 127.0.0.1:%u", nodes[0].port);
    assert_string_equal(nodes[2].reply, line);
    redis_process_run(&nodes[2], "GET foo{a}");                 /* slot 15495 */
    snprintf(line, sizeof(line), "-MOVED 15495 127.0.0.1:%u", rig->box.port);
    assert_string_equal(nodes[2].reply, line);
    teardown(rig);
}

static void a_node_joins_redis_servers_with_tls(void **state)
{
    struct certificate certificate;
    struct rig *rig;

    certificate_create(&certificate);
    rig = setup(2, &certificate);
    if (rig == NULL) {
        certificate_remove(&certificate);
        skip();
    }
    redis_cluster_do(&rig->redis.nodes[0], "CLUSTER ADDSLOTSRANGE 0 4095");
    redis_cluster_do(&rig->redis.nodes[1], "CLUSTER ADDSLOTSRANGE 4096 8191");
    cluster_box_add_slots(&rig->box, 8192, 16383);
    meet_all(rig);
    wait_until_ok(rig);
    wait_until_views_agree(rig);
    teardown(rig);
    certificate_remove(&certificate);
}

static void a_failover_of_redis_servers_needs_the_vote_of_the_node(void **state)
{
    struct rig *rig;
    struct redis_process *nodes;

    rig = setup(3, NULL);
    if (rig == NULL)
        skip();
    nodes = rig->redis.nodes;
    redis_cluster_do(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 5460");
    redis_cluster_do(&nodes[1], "CLUSTER ADDSLOTSRANGE 5461 10922");
    cluster_box_add_slots(&rig->box, 10923, 16383);
    meet_all(rig);
    redis_cluster_do(&nodes[2], "CLUSTER REPLICATE %s", rig->ids[0]);
    redis_cluster_wait_for(&nodes[2], "INFO replication", "master_link_status:up");
    cluster_box_wait_node(&rig->box, rig->ids[2], " slave ");
    redis_cluster_wait_for(&nodes[1], "CLUSTER NODES", "slave");
    wait_until_ok(rig);
    stop_redis(rig, 0);
    cluster_box_wait_node(&rig->box, rig->ids[2], " 0-5460");
    cluster_box_wait_node(&rig->box, rig->ids[0], "master,fail");
    redis_cluster_wait_for(&nodes[2], "CLUSTER NODES", "myself,master");
    wait_until_ok(rig);
    assert_int_equal(rig->box.lost_slots, 0);
    teardown(rig);
}

static void the_node_takes_over_from_a_redis_server(void **state)
{
    struct rig *rig;
    struct redis_process *nodes;

    rig = setup(3, NULL);
    if (rig == NULL)
        skip();
    nodes = rig->redis.nodes;
    redis_cluster_do(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 5460");
    redis_cluster_do(&nodes[1], "CLUSTER ADDSLOTSRANGE 5461 10922");
    redis_cluster_do(&nodes[2], "CLUSTER ADDSLOTSRANGE 10923 16383");
    meet_all(rig);
    cluster_box_replicate(&rig->box, rig->ids[0]);
    assert_int_equal(rig->box.follow_port, nodes[0].port);
    for (int i = 0; i < 3; i++)
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", "slave");
    wait_until_ok(rig);
    stop_redis(rig, 0);
    cluster_box_wait_count(&rig->box.leads, 1);
    for (int i = 1; i < 3; i++) {
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", " connected 0-5460");
        redis_cluster_wait_for(&nodes[i], "CLUSTER INFO", "cluster_size:3");
    }
    wait_until_ok(rig);
    wait_for_line(&nodes[1], "%.40s 127.0.0.1", rig->box.id);
    teardown(rig);
}

/* Manual failovers, in both directions: the node takes over from its primary, a redis-server, with all of its history, which is empty; then the redis-server,
 * which can't replicate from a test, takes over by force. */
static void a_node_and_a_redis_server_take_over_from_each_other_on_request(void **state)
{
    struct rig *rig;
    struct redis_process *nodes;

    rig = setup(2, NULL);
    if (rig == NULL)
        skip();
    nodes = rig->redis.nodes;
    redis_cluster_do(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 8191");
    redis_cluster_do(&nodes[1], "CLUSTER ADDSLOTSRANGE 8192 16383");
    meet_all(rig);
    cluster_box_replicate(&rig->box, rig->ids[0]);
    for (int i = 0; i < 2; i++)
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", "slave");
    wait_until_ok(rig);
    for (int i = 0; rig->box.leads == 0; i++) {                 /* again, if one has come to nothing */
        if (i % REPEAT_TRIES == 0) {
            (void)bus_failover(cluster_lock(rig->box.cluster), BUS_FAILOVER_AGREED, clock_wall_ms());
            assert_int_equal(cluster_unlock(rig->box.cluster), STATUS_OK);
        }
        assert_true(i < TRIES);
        usleep(TRY_US);
    }
    redis_cluster_wait_for(&nodes[0], "CLUSTER NODES", "myself,slave");
    wait_for_line(&nodes[1], "slave %s", rig->box.id);
    redis_cluster_repeat(&nodes[0], "CLUSTER FAILOVER FORCE", &nodes[0], "CLUSTER NODES", "myself,master");
    cluster_box_wait_count(&rig->box.follows, 2);
    assert_int_equal(rig->box.follow_port, nodes[0].port);
    wait_for_line(&nodes[1], "slave %s", rig->ids[0]);
    assert_int_equal(rig->box.lost_slots, 0);
    teardown(rig);
}

static void copy_file(const char *from, const char *to)
{
    struct buffer text = { 0 };

    CHECK(file_read_all(disk_system(), AT_FDCWD, from, 1 << 20, &text) == STATUS_OK && text.size > 0);
    CHECK(file_overwrite(disk_system(), AT_FDCWD, to, buffer_bytes(&text)) == STATUS_OK);
    buffer_release(&text);
}

/* The second redis-server is exchanged for a node of this process that starts with its nodes.conf, and that one for a redis-server. */
static void a_node_is_exchanged_in_place_by_its_file(void **state)
{
    struct rig *rig;
    struct redis_process *nodes;
    struct cluster_box *next;
    char path[100], port[8];

    rig = setup(3, NULL);
    if (rig == NULL)
        skip();
    nodes = rig->redis.nodes;
    redis_cluster_do(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 5460");
    redis_cluster_do(&nodes[1], "CLUSTER ADDSLOTSRANGE 5461 10922");
    redis_cluster_do(&nodes[2], "CLUSTER ADDSLOTSRANGE 10923 16383");
    meet_all(rig);
    wait_until_ok(rig);
    redis_cluster_do(&nodes[1], "CLUSTER SAVECONFIG");
    next = mem_zalloc(sizeof(*next));
    next->timeout_ms = 3000;
    cluster_box_init(next);
    snprintf(path, sizeof(path), "%s/nodes.conf", nodes[1].dir);
    copy_file(path, next->path);
    stop_redis(rig, 1);
    for (int i = 0; i < 3; i += 2)
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", "master,fail");
    cluster_box_start(next);
    assert_string_equal(next->id, rig->ids[1]);
    for (int i = 0; i < 3; i += 2) {
        snprintf(path, sizeof(path), "%.40s 127.0.0.1:%u@%u", next->id, next->port, next->bus_port);
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", path);
        redis_cluster_wait_for(&nodes[i], "CLUSTER INFO", "cluster_state:ok");
    }
    cluster_box_wait_info(next, "cluster_state:ok");
    cluster_box_wait_info(&rig->box, "cluster_state:ok");
    cluster_box_wait_nodes(next, " connected", 4);
    cluster_box_stop(next);
    for (int i = 0; i < 3; i += 2)
        redis_cluster_wait_for(&nodes[i], "CLUSTER NODES", "master,fail");
    snprintf(port, sizeof(port), "%u", next->bus_port);
    redis_process_start(&nodes[1], (const char *[]){ "--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--cluster-port", port,
                                                     "--cluster-config-file", next->path, NULL });
    redis_cluster_wait_for(&nodes[1], "CLUSTER MYID", rig->ids[1]);
    wait_until_ok(rig);
    cluster_box_wait_nodes(&rig->box, " connected", 4);
    wait_until_views_agree(rig);
    redis_process_stop(&nodes[1]);
    cluster_box_release(next);
    mem_free(next);
    teardown(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_joins_redis_servers_and_all_views_agree),
        cmocka_unit_test(a_node_joins_redis_servers_with_tls),
        cmocka_unit_test(a_failover_of_redis_servers_needs_the_vote_of_the_node),
        cmocka_unit_test(the_node_takes_over_from_a_redis_server),
        cmocka_unit_test(a_node_and_a_redis_server_take_over_from_each_other_on_request),
        cmocka_unit_test(a_node_is_exchanged_in_place_by_its_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
