/* Nodes in one process that talk over loopback. */
#include "cluster/cluster.h"

#include "support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/mem.h"
#include "cluster/nodes_store.h"
#include "support/certificate.h"
#include "support/cluster_box.h"
#include "support/faulty_disk.h"

enum { NODES_MAX = 4 };

struct group {
    struct cluster_box nodes[NODES_MAX];
    int count;
};

static struct group *create_group(int count)
{
    struct group *group = mem_zalloc(sizeof(*group));

    group->count = count;
    for (int i = 0; i < count; i++)
        cluster_box_init(&group->nodes[i]);
    return group;
}

static void destroy_group(struct group *group)
{
    for (int i = 0; i < group->count; i++)
        cluster_box_release(&group->nodes[i]);
    mem_free(group);
}

/* The first `primaries` have all slots, and each node meets the first one. */
static void form_cluster(struct group *group, int primaries)
{
    struct cluster_box *nodes = group->nodes;

    for (int i = 0; i < group->count; i++)
        cluster_box_start(&nodes[i]);
    for (int i = 0; i < primaries; i++)
        cluster_box_add_slots(&nodes[i], (unsigned)(SLOT_COUNT * i / primaries), (unsigned)(SLOT_COUNT * (i + 1) / primaries - 1));
    for (int i = 1; i < group->count; i++) {
        cluster_box_meet(&nodes[i], nodes[0].port, nodes[0].bus_port);
        for (int k = 0; k <= i; k++)
            cluster_box_wait_nodes(&nodes[k], " connected", i + 1);
    }
    for (int i = 0; i < group->count; i++)
        cluster_box_wait_info(&nodes[i], "cluster_state:ok");
}

static void check_owner(struct cluster_box *box, unsigned slot, const struct cluster_box *owner)
{
    char id[41];

    cluster_box_owner(box, slot, id);
    assert_string_equal(id, owner->id);
}

static void nodes_that_meet_agree_and_are_there_again_after_a_start(void **state)
{
    struct group *group = create_group(3);

    form_cluster(group, 3);
    for (int i = 0; i < 3; i++) {
        for (unsigned slot = 0; slot < SLOT_COUNT; slot += 97)
            check_owner(&group->nodes[i], slot, &group->nodes[slot * 3 / SLOT_COUNT]);
        assert_true(group->nodes[i].topologies > 0);
        assert_int_equal(group->nodes[i].leads + group->nodes[i].follows + group->nodes[i].lost_slots, 0);
    }
    for (int i = 0; i < 3; i++)
        cluster_box_stop(&group->nodes[i]);
    for (int i = 0; i < 3; i++)
        cluster_box_start(&group->nodes[i]);            /* without MEET: nodes.conf has the addresses */
    for (int i = 0; i < 3; i++) {
        cluster_box_wait_nodes(&group->nodes[i], " connected", 3);
        cluster_box_wait_info(&group->nodes[i], "cluster_state:ok");
        check_owner(&group->nodes[i], 0, &group->nodes[0]);
    }
    destroy_group(group);
}

static void a_replica_takes_over_when_its_primary_stops_which_follows_it_later(void **state)
{
    struct group *group = create_group(4);
    struct cluster_box *nodes = group->nodes, *replica = &nodes[3];

    nodes[0].offset = replica->offset = 100;
    form_cluster(group, 3);
    cluster_box_replicate(replica, nodes[0].id);
    assert_int_equal(replica->follows, 1);
    assert_int_equal(replica->follow_port, nodes[0].port);
    for (int i = 0; i < 3; i++)
        cluster_box_wait_node(&nodes[i], replica->id, "slave");
    cluster_box_stop(&nodes[0]);
    cluster_box_wait_count(&replica->leads, 1);
    for (int i = 1; i < 4; i++) {
        cluster_box_wait_node(&nodes[i], replica->id, " 0-5460");
        cluster_box_wait_info(&nodes[i], "cluster_state:ok");
        check_owner(&nodes[i], 5460, replica);
        cluster_box_wait_node(&nodes[i], nodes[0].id, "master,fail");
    }
    cluster_box_start(&nodes[0]);
    cluster_box_wait_count(&nodes[0].follows, 1);
    assert_int_equal(nodes[0].follow_port, replica->port);
    assert_int_equal(nodes[0].lost_slots, 0);           /* it gets all data from its primary */
    for (int i = 1; i < 4; i++)
        cluster_box_wait_node(&nodes[i], nodes[0].id, " slave ");
    destroy_group(group);
}

static void a_manual_failover_holds_the_writes_of_the_primary(void **state)
{
    struct group *group = create_group(3);
    struct cluster_box *nodes = group->nodes, *replica = &nodes[2];

    nodes[0].offset = replica->offset = 100;
    form_cluster(group, 2);
    cluster_box_replicate(replica, nodes[0].id);
    cluster_box_wait_node(&nodes[0], replica->id, "slave");
    cluster_box_wait_node(&nodes[1], replica->id, "slave");
    assert_null(bus_failover(cluster_lock(replica->cluster), BUS_FAILOVER_AGREED, clock_wall_ms()));
    assert_int_equal(cluster_unlock(replica->cluster), STATUS_OK);
    cluster_box_wait_count(&replica->leads, 1);
    cluster_box_wait_count(&nodes[0].follows, 1);
    cluster_box_wait_node(&nodes[1], replica->id, " 0-8191");
    while (nodes[0].holds != 0)                         /* it goes on with the next tick at the latest */
        usleep(1000);
    destroy_group(group);
}

static void a_message_is_delivered_by_the_other_nodes(void **state)
{
    struct group *group = create_group(3);
    struct cluster_box *nodes = group->nodes;

    form_cluster(group, 2);
    bus_publish(cluster_lock(nodes[0].cluster), BYTES("news"), BYTES("text"), false);
    assert_int_equal(cluster_unlock(nodes[0].cluster), STATUS_OK);
    for (int i = 1; i < 3; i++) {
        cluster_box_wait_count(&nodes[i].deliveries, 1);
        cluster_lock(nodes[i].cluster);
        assert_string_equal(nodes[i].delivered, "all news text");
        (void)cluster_unlock(nodes[i].cluster);
    }
    assert_int_equal(nodes[0].deliveries, 0);
    destroy_group(group);
}

static void a_node_whose_workers_hang_has_failed_until_they_go_on(void **state)
{
    struct group *group = create_group(3);
    struct cluster_box *nodes = group->nodes;

    form_cluster(group, 3);
    nodes[0].hangs = true;
    for (int i = 1; i < 3; i++)
        cluster_box_wait_node(&nodes[i], nodes[0].id, "master,fail ");
    nodes[0].hangs = false;
    for (int i = 0; i < 3; i++) {
        cluster_box_wait_nodes(&nodes[i], "fail", 0);
        cluster_box_wait_info(&nodes[i], "cluster_state:ok");
    }
    destroy_group(group);
}

static void with_tls_all_is_as_without(void **state)
{
    struct group *group = create_group(3);
    struct certificate certificate;

    certificate_create(&certificate);
    for (int i = 0; i < 3; i++)
        group->nodes[i].certificate = &certificate;
    form_cluster(group, 2);
    cluster_box_replicate(&group->nodes[2], group->nodes[0].id);
    assert_int_equal(group->nodes[2].follow_port, group->nodes[0].port);
    cluster_box_stop(&group->nodes[1]);
    cluster_box_wait_node(&group->nodes[0], group->nodes[1].id, "fail");
    cluster_box_start(&group->nodes[1]);
    cluster_box_wait_node(&group->nodes[0], group->nodes[1].id, "master -");
    destroy_group(group);
    certificate_remove(&certificate);
}

static void changed_options_are_announced_to_the_others(void **state)
{
    struct group *group = create_group(2);
    struct cluster_box *nodes = group->nodes;
    struct bus_options options;

    form_cluster(group, 1);
    options = cluster_lock(nodes[0].cluster)->options;
    assert_int_equal(cluster_unlock(nodes[0].cluster), STATUS_OK);
    options.host_name = BYTES("one.example.com");
    cluster_set_options(nodes[0].cluster, &options);
    cluster_box_wait_node(&nodes[1], nodes[0].id, ",one.example.com ");
    destroy_group(group);
}

static void a_node_that_announces_a_name_is_looked_up(void **state)
{
    struct group *group = create_group(2);
    struct cluster_box *nodes = group->nodes;

    nodes[1].announced_ip = "localhost";
    form_cluster(group, 1);
    cluster_box_wait_node(&nodes[0], nodes[1].id, " localhost:");
    cluster_box_stop(&nodes[1]);
    cluster_box_wait_node(&nodes[0], nodes[1].id, " disconnected");
    cluster_box_start(&nodes[1]);
    cluster_box_wait_node(&nodes[0], nodes[1].id, " connected");
    cluster_box_wait_node(&nodes[0], nodes[1].id, " localhost:");
    destroy_group(group);
}

static void a_node_connects_from_its_source_address(void **state)
{
    struct group *group = create_group(2);
    struct cluster_box *nodes = group->nodes;

    nodes[1].address = "127.0.0.2";         /* the other one takes the address of the connection for the node's */
    form_cluster(group, 1);
    cluster_box_wait_node(&nodes[0], nodes[1].id, " 127.0.0.2:");
    destroy_group(group);
}

/* --- nodes.conf */

static enum status create_again(struct cluster_box *box, struct message *message)
{
    static const char *const bind[] = { NULL };
    const struct cluster_config config = { .nodes_path = box->path, .bind = bind, .log = box->log, .options.timeout_ms = 1000 };
    struct cluster *cluster = NULL;
    enum status status = cluster_create(&config, &(struct cluster_hooks){ 0 }, &cluster, message);

    assert_true(status == STATUS_OK || cluster == NULL);
    cluster_destroy(cluster);
    return status;
}

static void a_file_that_is_damaged_or_in_use_is_refused_and_kept(void **state)
{
    struct group *group = create_group(1);
    struct cluster_box *box = &group->nodes[0];
    struct message message = { "" };
    char wanted[MESSAGE_SIZE];
    int fd;

    cluster_box_start(box);
    assert_int_equal(create_again(box, &message), STATUS_LOCKED);
    assert_non_null(strstr(message.text, "is in use by another process"));
    cluster_box_stop(box);
    fd = open(box->path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "more\n", 5), 5);
    close(fd);
    assert_int_equal(create_again(box, &message), STATUS_CORRUPT);
    snprintf(wanted, sizeof(wanted), "The cluster configuration file %s is damaged: line 3: ", box->path);
    assert_true(strncmp(message.text, wanted, strlen(wanted)) == 0);
    assert_int_equal(create_again(box, &message), STATUS_CORRUPT);
    destroy_group(group);
}

static void what_can_not_be_saved_is_not_done_until_it_can_be(void **state)
{
    struct group *group = create_group(2);
    struct cluster_box *nodes = group->nodes, *failing = &nodes[1];
    struct faulty_disk *disk = faulty_disk_create();
    struct node_id id;
    int topologies;

    failing->disk = faulty_disk_table(disk);
    form_cluster(group, 1);
    assert_true(node_id_read(bytes_of_string(nodes[0].id), &id));
    faulty_disk_set(disk, &(struct disk_faults){ .write_error = 1000 });
    assert_null(bus_replicate(cluster_lock(failing->cluster), &id, false, clock_wall_ms()));
    assert_int_equal(cluster_unlock(failing->cluster), STATUS_IO);
    assert_int_equal(failing->refusals, 1);
    cluster_box_wait_info(failing, "cluster_state:fail");
    topologies = failing->topologies;
    cluster_box_wait_node(&nodes[0], failing->id, "fail");              /* nothing is sent any more */
    assert_int_equal(failing->topologies, topologies);
    assert_int_equal(failing->follows, 0);
    faulty_disk_set(disk, NULL);
    cluster_box_wait_count(&failing->follows, 1);
    cluster_box_wait_node(&nodes[0], failing->id, " slave ");
    assert_int_equal(failing->refusals, 1);
    assert_true(failing->topologies > topologies);
    destroy_group(group);
    faulty_disk_destroy(disk);
}

static void a_change_without_a_promise_does_not_silence_a_node_whose_disk_fails(void **state)
{
    struct group *group = create_group(3);
    struct cluster_box *nodes = group->nodes, *failing = &nodes[1];
    struct faulty_disk *disk = faulty_disk_create();

    failing->disk = faulty_disk_table(disk);
    form_cluster(group, 2);
    faulty_disk_set(disk, &(struct disk_faults){ .write_error = 1000 });
    (void)cluster_lock(failing->cluster);
    assert_int_equal(cluster_save(failing->cluster), STATUS_IO);
    assert_int_equal(cluster_unlock(failing->cluster), STATUS_OK);
    cluster_box_stop(&nodes[2]);                                        /* has no slots: its failure is a change */
    cluster_box_wait_node(failing, nodes[2].id, "fail");
    cluster_box_start(&nodes[2]);
    cluster_box_wait_node(failing, nodes[2].id, "master -");
    cluster_box_wait_nodes(&nodes[0], "fail", 0);
    cluster_box_wait_nodes(&nodes[2], " connected", 3);
    assert_int_equal(failing->refusals, 0);
    faulty_disk_set(disk, NULL);
    destroy_group(group);
    faulty_disk_destroy(disk);
}

static void copy_file(const char *from, const char *to)
{
    struct buffer text = { 0 };

    CHECK(file_read_all(disk_system(), AT_FDCWD, from, 100000, &text) == STATUS_OK);
    CHECK(file_overwrite(disk_system(), AT_FDCWD, to, buffer_bytes(&text)) == STATUS_OK);
    buffer_release(&text);
}

/* What a start would read if the process was killed now. */
static bool is_on_disk(const struct cluster_box *box, const char *text)
{
    char next[100], copy[100], copy_next[110];
    struct message message = { "" };
    struct nodes_store *store;
    struct buffer read = { 0 };
    bool found;

    snprintf(next, sizeof(next), "%s.next", box->path);
    snprintf(copy, sizeof(copy), "%s.copy", box->path);
    snprintf(copy_next, sizeof(copy_next), "%s.next", copy);
    copy_file(box->path, copy);
    if (access(next, F_OK) == 0)
        copy_file(next, copy_next);
    CHECK(nodes_store_open(disk_system(), copy, &store, &read, &message) == STATUS_OK);
    nodes_store_close(store);
    unlink(copy);
    unlink(copy_next);
    buffer_append_u8(&read, 0);
    found = strstr(read.data, text) != NULL;
    buffer_release(&read);
    return found;
}

static void a_command_is_written_before_its_reply_and_a_promise_is_synced(void **state)
{
    struct group *group = create_group(2);
    struct cluster_box *nodes = group->nodes, *failing = &nodes[1];
    struct faulty_disk *disk = faulty_disk_create();
    struct slots slots = { { 0 } };
    char wanted[60];
    struct node_id id;

    failing->disk = faulty_disk_table(disk);
    form_cluster(group, 2);
    assert_true(node_id_read(bytes_of_string(nodes[0].id), &id));
    snprintf(wanted, sizeof(wanted), "[5-<-%s]", nodes[0].id);
    faulty_disk_set(disk, &(struct disk_faults){ .sync_error = 1000 });
    assert_null(bus_begin_import(cluster_lock(failing->cluster), 5, &id));
    assert_int_equal(cluster_unlock(failing->cluster), STATUS_OK);
    assert_true(is_on_disk(failing, wanted));
    assert_int_equal(failing->refusals, 0);
    slots_add(&slots, 5);
    assert_null(bus_add_slots(cluster_lock(failing->cluster), &slots));
    assert_int_equal(cluster_unlock(failing->cluster), STATUS_IO);
    assert_int_equal(failing->refusals, 1);
    assert_true(is_on_disk(failing, wanted));
    faulty_disk_set(disk, NULL);
    cluster_box_wait_info(failing, "cluster_state:ok");
    assert_false(is_on_disk(failing, wanted));
    destroy_group(group);
    faulty_disk_destroy(disk);
}

static void a_port_in_use_is_refused_and_can_be_tried_again(void **state)
{
    struct group *group = create_group(1);
    struct cluster_box *box = &group->nodes[0];
    const char *const bind[] = { "127.0.0.1", NULL }, *const none[] = { "-192.0.2.1", NULL };
    struct cluster_config config = { .nodes_path = box->path, .bind = bind, .backlog = 10, .log = box->log, .options = { .timeout_ms = 1000 } };
    struct message message = { "" };
    struct cluster *cluster;
    char path[90];

    cluster_box_start(box);
    snprintf(path, sizeof(path), "%s.other", box->path);
    config.nodes_path = path;
    config.options.bus_port = box->bus_port;
    assert_int_equal(cluster_create(&config, &(struct cluster_hooks){ 0 }, &cluster, &message), STATUS_OK);
    assert_int_equal(cluster_start(cluster, &message), STATUS_INVALID);
    assert_non_null(strstr(message.text, "Address already in use"));
    assert_int_equal(cluster_start(cluster, &message), STATUS_INVALID);
    cluster_destroy(cluster);
    config.bind = none;
    assert_int_equal(cluster_create(&config, &(struct cluster_hooks){ 0 }, &cluster, &message), STATUS_OK);
    assert_int_equal(cluster_start(cluster, &message), STATUS_INVALID);
    assert_non_null(strstr(message.text, "needs an address"));
    cluster_destroy(cluster);
    unlink(path);
    destroy_group(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_meet_agree_and_are_there_again_after_a_start),
        cmocka_unit_test(a_replica_takes_over_when_its_primary_stops_which_follows_it_later),
        cmocka_unit_test(a_manual_failover_holds_the_writes_of_the_primary),
        cmocka_unit_test(a_message_is_delivered_by_the_other_nodes),
        cmocka_unit_test(a_node_whose_workers_hang_has_failed_until_they_go_on),
        cmocka_unit_test(with_tls_all_is_as_without),
        cmocka_unit_test(a_node_that_announces_a_name_is_looked_up),
        cmocka_unit_test(a_node_connects_from_its_source_address),
        cmocka_unit_test(changed_options_are_announced_to_the_others),
        cmocka_unit_test(a_file_that_is_damaged_or_in_use_is_refused_and_kept),
        cmocka_unit_test(what_can_not_be_saved_is_not_done_until_it_can_be),
        cmocka_unit_test(a_change_without_a_promise_does_not_silence_a_node_whose_disk_fails),
        cmocka_unit_test(a_command_is_written_before_its_reply_and_a_promise_is_synced),
        cmocka_unit_test(a_port_in_use_is_refused_and_can_be_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
