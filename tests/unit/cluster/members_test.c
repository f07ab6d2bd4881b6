#include "cluster/members.h"

#include "support/unit.h"

#include <stdio.h>

#include "base/mem.h"
#include "support/cluster_view.h"
#include "support/seed.h"

#define SHARD "1111111111111111111111111111111111111111"

static void what_a_file_says_is_written_again(void **state)
{
    char a[NODE_ID_SIZE + 1] = { 0 }, b[NODE_ID_SIZE + 1] = { 0 }, c[NODE_ID_SIZE + 1] = { 0 };
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct buffer text = { 0 }, out = { 0 };
    struct random random;
    struct members *members;

    memset(a, 'a', NODE_ID_SIZE);
    memset(b, 'b', NODE_ID_SIZE);
    memset(c, 'c', NODE_ID_SIZE);
    buffer_append_format(&text, "%s 10.1.2.3:6380@16380,,tls-port=0,shard-id=" SHARD " slave,fail %s 0 1000 3 disconnected\n", a, b);
    buffer_append_format(&text, "%s 10.1.2.4:6379@16379,host-b,tls-port=6390,nodename=name-b,shard-id=" SHARD " myself,master - 0 0 3 connected 0 5-7 16383"
                         " [5->-%s] [9000-<-%s]\n", b, c, c);
    buffer_append_format(&text, "%s ::1:1@2,,tls-port=0,shard-id=%s master,fail? - 1000 1000 9 disconnected 1-4 9000\n", c, c);
    buffer_append_string(&text, "vars currentEpoch 10 lastVoteEpoch 8\n");
    assert_int_equal(nodes_file_read(buffer_bytes(&text), NODES_FILE_PORT_PLAIN, file, NULL), STATUS_OK);
    random_init(&random, 1);
    members = members_create_from(file, 1000, &random);
    nodes_file_release(file);
    members_verify(members);
    assert_true(cluster_view_node(members, 'a')->master == members->myself);
    assert_int_equal(cluster_view_node(members, 'a')->config_epoch, 0);
    assert_int_equal(node_epoch(cluster_view_node(members, 'a')), 3);
    assert_int_equal(cluster_view_node(members, 'a')->fail_ms, 1000);
    assert_int_equal(members->current_epoch, 10);
    members_write(members, &out);
    assert_true(bytes_equal(buffer_bytes(&text), buffer_bytes(&out)));
    members_destroy(members);
    mem_free(file);
    buffer_release(&text);
    buffer_release(&out);
}

static void a_new_node_is_alone_with_ids_of_its_own(void **state)
{
    struct random random;
    struct members *members, *other;
    struct buffer out = { 0 };
    struct node_id id;

    random_init(&random, seed_new());
    members = members_create(&random);
    other = members_create(&random);
    members_verify(members);
    assert_int_equal(members->count, 1);
    assert_true(node_id_read(node_id_bytes(&members->myself->id), &id));
    assert_false(node_id_equal(&members->myself->id, &members->myself->shard_id));
    assert_false(node_id_equal(&members->myself->id, &other->myself->id));
    members_write(members, &out);
    buffer_append_u8(&out, '\0');
    assert_non_null(strstr(out.data, " myself,master - 0 0 0 connected\nvars currentEpoch 0 lastVoteEpoch 0\n"));
    members_destroy(members);
    members_destroy(other);
    buffer_release(&out);
}

static void files_without_shard_ids_get_those_of_the_masters(void **state)
{
    struct members *members = cluster_view_create("b slave-of-c\na slave-of-c\nc master 3 0-9\n" "d master 1 10");

    assert_true(node_id_equal(&cluster_view_node(members, 'a')->shard_id, &cluster_view_node(members, 'c')->shard_id));
    assert_true(node_id_equal(&cluster_view_node(members, 'b')->shard_id, &cluster_view_node(members, 'c')->shard_id));
    assert_false(node_id_equal(&cluster_view_node(members, 'd')->shard_id, &cluster_view_node(members, 'c')->shard_id));
    assert_int_equal(members_voters(members), 2);
    assert_int_equal(members_majority(members), 2);
    members_destroy(members);
}

static void a_node_that_is_forgotten_leaves_nothing(void **state)
{
    struct members *members = cluster_view_create("a master 1 0-9\nb master 2 20-29\nc slave-of-b");
    struct node *b = cluster_view_node(members, 'b'), *c = cluster_view_node(members, 'c');
    struct node_id id = b->id;

    members_begin_move(members, &(struct node_move){ b, 5, false });
    members_begin_move(members, &(struct node_move){ c, 3, false });
    members_begin_move(members, &(struct node_move){ b, 25, true });
    slots_add(&members->unclaimed, 21);
    members_verify(members);
    members_remove(members, b);
    members_verify(members);
    assert_null(members_find(members, &id));
    assert_null(c->master);
    assert_int_equal(cluster_view_owner(members, 20), '-');
    assert_false(slots_has(&members->unclaimed, 21));
    assert_int_equal(members->move_count, 1);
    assert_non_null(members_move_of(members, 3));
    assert_null(members_move_of(members, 5));
    members_destroy(members);
}

static void a_node_in_a_handshake_is_in_no_file_until_it_has_its_id(void **state)
{
    struct members *members = cluster_view_create("a master 1 0-9");
    struct node_id guess = cluster_view_id('x'), real = cluster_view_id('0');
    struct random random;
    struct node *node;
    struct buffer out = { 0 };

    random_init(&random, 1);
    node = members_add(members, &guess, NODE_HANDSHAKE, &random);
    members_write(members, &out);
    buffer_append_u8(&out, '\0');
    assert_null(strstr(out.data, "xxxx"));
    members_rename(members, node, &real);
    node->flags = NODE_MASTER;
    members_verify(members);
    assert_true(members_find(members, &real) == node);
    assert_null(members_find(members, &guess));
    out.size = 0;
    members_write(members, &out);
    buffer_append_u8(&out, '\0');
    assert_non_null(strstr(out.data, "0000 :0@0"));
    members_destroy(members);
    buffer_release(&out);
}

static void roles_change_with_slots_masters_and_shards(void **state)
{
    struct members *members = cluster_view_create("a master 1 0-9\nb master 2 20-29\nc slave-of-b");
    struct node *a = members->myself, *b = cluster_view_node(members, 'b');

    members_set_master(members, b, a);
    members_verify(members);
    assert_int_equal(b->slot_count, 0);
    assert_int_equal(a->replica_count, 1);
    assert_true(b->flags & NODE_REPLICA && !(b->flags & NODE_MASTER));
    assert_true(node_id_equal(&a->shard_id, &b->shard_id));
    members_set_primary(members, b);
    members_bind(members, 3, b);
    members_verify(members);
    assert_int_equal(a->replica_count, 0);
    assert_int_equal(cluster_view_owner(members, 3), 'b');
    assert_int_equal(a->slot_count, 9);
    members_set_master(members, b, NULL);
    members_verify(members);
    assert_true(b->flags & NODE_REPLICA && b->master == NULL);
    members_destroy(members);
}

static void a_shard_has_one_id_also_through_replicas_of_replicas_and_in_circles(void **state)
{
    struct members *members = cluster_view_create("a slave-of-b\nb slave-of-c\nc slave-of-d\n" "d master 2 20-29\ne slave-of-f\nf slave-of-e");
    struct node_id id = cluster_view_id('9');

    assert_true(node_id_equal(&cluster_view_node(members, 'a')->shard_id, &cluster_view_node(members, 'd')->shard_id));
    members_set_shard(members, cluster_view_node(members, 'd'), &id);
    members_set_shard(members, cluster_view_node(members, 'e'), &id);
    members_verify(members);
    for (unsigned i = 0; i < members->count; i++)
        assert_true(node_id_equal(&members->all[i]->shard_id, &id));
    members_destroy(members);
}

static void moves_are_kept_in_the_order_of_slots(void **state)
{
    struct members *members = cluster_view_create("a master 1 0-9\nb master 2 20-29");
    struct node *b = cluster_view_node(members, 'b');

    for (unsigned slot = 9; slot-- > 0;)
        members_begin_move(members, &(struct node_move){ b, (uint16_t)slot, false });
    members_begin_move(members, &(struct node_move){ b, 5, true });
    members_verify(members);
    assert_int_equal(members->move_count, 9);
    assert_true(members_move_of(members, 5)->is_import);
    members_end_move(members, 5);
    members_end_move(members, 5);
    assert_null(members_move_of(members, 5));
    assert_int_equal(members->move_count, 8);
    members_destroy(members);
}

static void a_replica_moves_no_slots(void **state)
{
    struct members *members = cluster_view_create("a master 3 0-9\nb master 4 10-19");

    members_begin_move(members, &(struct node_move){ cluster_view_node(members, 'b'), 12, true });
    members_set_master(members, members->myself, cluster_view_node(members, 'b'));
    assert_int_equal(members->move_count, 0);
    members_verify(members);
    assert_true(cluster_view_node(members, 'b')->flags & NODE_MIGRATE_TO);      /* it has a replica */
    members_set_primary(members, members->myself);
    assert_false(cluster_view_node(members, 'b')->flags & NODE_MIGRATE_TO);
    assert_false(members->myself->flags & NODE_MIGRATE_TO);
    members_destroy(members);
}

static void a_move_from_a_node_in_a_handshake_is_in_no_file(void **state)
{
    struct members *members = cluster_view_create("a master 3 0-9\nb master 4 10-19");
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct node_id unknown = cluster_view_id('c');
    struct buffer out = { 0 };
    struct random random;
    struct node *node;

    random_init(&random, 1);
    node = members_add(members, &unknown, NODE_HANDSHAKE | NODE_MASTER, &random);
    members_begin_move(members, &(struct node_move){ node, 5, false });
    members_begin_move(members, &(struct node_move){ cluster_view_node(members, 'b'), 6, false });
    members_set_master(members, cluster_view_node(members, 'b'), node);
    members_write(members, &out);
    assert_int_equal(nodes_file_read(buffer_bytes(&out), NODES_FILE_PORT_PLAIN, file, NULL), STATUS_OK);
    assert_int_equal(file->move_count, 1);
    assert_int_equal(file->moves[0].slot, 6);
    nodes_file_release(file);
    mem_free(file);
    members_destroy(members);
    buffer_release(&out);
}

static void there_are_not_more_nodes_than_a_file_may_have(void **state)
{
    struct members *members;
    struct random random;
    struct node_id id;

    random_init(&random, 1);
    members = members_create(&random);
    id = members->myself->id;
    for (unsigned number = 1; number <= NODES_FILE_COUNT_MAX; number++) {
        char text[NODE_ID_SIZE + 1];

        snprintf(text, sizeof(text), "%040u", number);
        memcpy(id.text, text, NODE_ID_SIZE);
        assert_int_equal(members_add(members, &id, NODE_MASTER, &random) != NULL, number < NODES_FILE_COUNT_MAX);
    }
    members_destroy(members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_file_says_is_written_again),
        cmocka_unit_test(a_new_node_is_alone_with_ids_of_its_own),
        cmocka_unit_test(files_without_shard_ids_get_those_of_the_masters),
        cmocka_unit_test(a_node_that_is_forgotten_leaves_nothing),
        cmocka_unit_test(a_node_in_a_handshake_is_in_no_file_until_it_has_its_id),
        cmocka_unit_test(roles_change_with_slots_masters_and_shards),
        cmocka_unit_test(a_shard_has_one_id_also_through_replicas_of_replicas_and_in_circles),
        cmocka_unit_test(moves_are_kept_in_the_order_of_slots),
        cmocka_unit_test(a_replica_moves_no_slots),
        cmocka_unit_test(a_move_from_a_node_in_a_handshake_is_in_no_file),
        cmocka_unit_test(there_are_not_more_nodes_than_a_file_may_have),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
