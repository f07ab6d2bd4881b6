#include "cluster/topology.h"

#include "support/unit.h"

#include "base/mem.h"
#include "support/cluster_view.h"

static int place_of(const struct topology *topology, char letter)
{
    struct node_id id = cluster_view_id(letter);

    for (int i = 0; i < topology->count; i++) {
        if (node_id_equal(&topology->nodes[i].id, &id))
            return i;
    }
    return -1;
}

static void a_topology_has_the_nodes_their_masters_and_the_owners(void **state)
{
    struct members *members = cluster_view_create("b master 3 0-99 200\na master 2 16383\nd slave-of-b\nc master 4 100-199\n");
    struct topology *topology;
    int a, b, d;

    strcpy(cluster_view_node(members, 'a')->ip, "10.0.0.1");
    cluster_view_node(members, 'a')->port = 7000;
    buffer_append_string(&cluster_view_node(members, 'a')->host_name, "host-a");
    buffer_append_string(&cluster_view_node(members, 'd')->host_name, "host-d");
    cluster_view_node(members, 'd')->offset = 77;
    topology = topology_create(members, true);
    members_destroy(members);               /* the picture is independent of it */
    a = place_of(topology, 'a');
    b = place_of(topology, 'b');
    d = place_of(topology, 'd');
    assert_int_equal(topology->count, 4);
    assert_true(topology->is_ok);
    assert_int_equal(topology->myself, b);
    for (int i = 1; i < topology->count; i++)
        assert_true(node_id_compare(&topology->nodes[i - 1].id, &topology->nodes[i].id) < 0);
    assert_int_equal(topology->nodes[d].master, b);
    assert_int_equal(topology->nodes[b].master, -1);
    assert_int_equal(topology->nodes[b].slot_count, 101);
    assert_int_equal(topology->nodes[d].offset, 77);
    assert_string_equal(topology->nodes[a].ip, "10.0.0.1");
    assert_int_equal(topology->nodes[a].port, 7000);
    assert_true(bytes_equal(topology->nodes[a].host_name, BYTES("host-a")));
    assert_true(bytes_equal(topology->nodes[d].host_name, BYTES("host-d")));
    assert_int_equal(topology->nodes[b].host_name.size, 0);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        char letter = slot < 100 || slot == 200 ? 'b' : slot < 200 ? 'c' : slot == 16383 ? 'a' : '-';

        assert_int_equal(topology->owners[slot], letter == '-' ? -1 : place_of(topology, letter));
        assert_int_equal(topology->moves[slot], -1);
    }
    topology_release(topology);
}

static void a_node_in_a_handshake_is_left_out_with_its_moves(void **state)
{
    struct members *members = cluster_view_create("a master 3 0-99\nc master 2 100-200\nd slave-of-c\n");
    struct node_id id = cluster_view_id('b');
    struct topology *topology;
    struct random random;

    random_init(&random, 1);
    members_begin_move(members, &(struct node_move){ .other = members_add(members, &id, NODE_MASTER | NODE_HANDSHAKE, &random), .slot = 1 });
    members_begin_move(members, &(struct node_move){ .other = cluster_view_node(members, 'c'), .slot = 2 });
    members_begin_move(members, &(struct node_move){ .other = cluster_view_node(members, 'c'), .slot = 100, .is_import = true });
    topology = topology_create(members, false);
    assert_int_equal(topology->count, 3);
    assert_false(topology->is_ok);
    assert_int_equal(place_of(topology, 'b'), -1);
    assert_int_equal(topology->nodes[place_of(topology, 'd')].master, place_of(topology, 'c'));
    assert_int_equal(topology->moves[1], -1);
    assert_int_equal(topology->moves[2], place_of(topology, 'c'));
    assert_int_equal(topology->moves[100], place_of(topology, 'c'));
    assert_int_equal(topology->owners[2], place_of(topology, 'a'));
    topology_release(topology);
    members_destroy(members);
}

static void a_topology_lives_as_long_as_one_reader_keeps_it(void **state)
{
    struct members *members = cluster_view_create("a master 3 0-99\n");
    struct topology *topology = topology_create(members, true);

    assert_true(topology_keep(topology) == topology);
    topology_release(topology);
    assert_int_equal(topology->count, 1);               /* AddressSanitizer would see it if it had been freed */
    assert_int_equal(topology->references, 1);
    topology_release(topology);
    topology_release(NULL);
    members_destroy(members);
}

static void the_port_is_that_of_tls_for_clients_with_tls_and_where_there_is_no_other(void **state)
{
    const struct topology_node both = { .port = 1, .tls_port = 2 }, plain = { .port = 1 }, tls = { .tls_port = 2 };

    assert_int_equal(topology_port(&both, false), 1);
    assert_int_equal(topology_port(&both, true), 2);
    assert_int_equal(topology_port(&plain, true), 1);
    assert_int_equal(topology_port(&tls, false), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topology_has_the_nodes_their_masters_and_the_owners),
        cmocka_unit_test(a_node_in_a_handshake_is_left_out_with_its_moves),
        cmocka_unit_test(a_topology_lives_as_long_as_one_reader_keeps_it),
        cmocka_unit_test(the_port_is_that_of_tls_for_clients_with_tls_and_where_there_is_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
