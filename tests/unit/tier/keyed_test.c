#include "tier/keyed.h"

#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/seed.h"

enum { NODES = 600 };

struct node {
    struct keyed_node node;
    bool in;
    char name[16];
};

/* Few hashes, so that many nodes have the same one. */
static void name_nodes(struct node *nodes, uint64_t hash_count)
{
    for (int i = 0; i < NODES; i++) {
        snprintf(nodes[i].name, sizeof(nodes[i].name), "%d", i);
        nodes[i].node.key = bytes_of(nodes[i].name, i == 0 ? 0 : strlen(nodes[i].name));
        nodes[i].node.hash = hash_count == 0 ? (uint64_t)i * 0x9e3779b97f4a7c15 : (uint64_t)i % hash_count;
        nodes[i].in = false;
    }
}

static void check(const struct keyed *keyed, const struct node *nodes)
{
    size_t count = 0;

    for (int i = 0; i < NODES; i++) {
        struct keyed_node *found = keyed_find(keyed, nodes[i].node.hash, nodes[i].node.key);

        assert_ptr_equal(found, nodes[i].in ? &nodes[i].node : NULL);
        assert_null(keyed_find(keyed, nodes[i].node.hash ^ 1ull << 63, nodes[i].node.key));
        count += nodes[i].in;
    }
    assert_int_equal(keyed->count, count);
}

static void what_was_added_and_not_removed_is_found(void **state)
{
    struct node *nodes = mem_alloc(NODES * sizeof(*nodes));
    struct random random;
    uint64_t seed = seed_new();

    random_init(&random, seed);
    for (uint64_t hash_count = 0; hash_count < 4; hash_count++) {
        struct keyed keyed;

        keyed_init(&keyed);
        name_nodes(nodes, hash_count);
        for (int round = 0; round < 40; round++) {
            uint64_t in_percent = random_below(&random, 101);

            for (int i = 0; i < NODES; i++) {
                bool wanted = random_below(&random, 100) < in_percent;

                if (wanted && !nodes[i].in)
                    keyed_add(&keyed, &nodes[i].node);
                else if (!wanted && nodes[i].in)
                    keyed_remove(&keyed, &nodes[i].node);
                nodes[i].in = wanted;
            }
            check(&keyed, nodes);
        }
        keyed_release(&keyed);
    }
    mem_free(nodes);
}

static void an_emptied_one_holds_no_memory(void **state)
{
    struct node *nodes = mem_alloc(NODES * sizeof(*nodes));
    struct keyed keyed;
    struct keyed_node *node;
    size_t slot = 0, slots, count = 0;

    keyed_init(&keyed);
    assert_null(keyed_find(&keyed, 1, BYTES("x")));
    assert_null(keyed_any(&keyed, &slot));
    name_nodes(nodes, 0);
    for (int i = 0; i < NODES; i++)
        keyed_add(&keyed, &nodes[i].node);
    slots = keyed.slot_count;
    while ((node = keyed_any(&keyed, &slot)) != NULL) {
        keyed_remove(&keyed, node);
        count++;
        if (keyed.slot_count != slots) {
            slots = keyed.slot_count;
            slot = 0;
        }
    }
    assert_int_equal(count, NODES);
    assert_true(keyed.count == 0 && keyed.slot_count == 0 && keyed.slots == NULL);
    mem_free(nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_and_not_removed_is_found),
        cmocka_unit_test(an_emptied_one_holds_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
