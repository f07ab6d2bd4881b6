#include "containers/page_tree.h"

#include "support/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "support/memory_pager.h"
#include "support/scaled.h"

/* Nodes of a few children, so that a few hundred leaves are four levels. */
static const struct page_tree_limits small = { 180, 120, 0 };

enum kind { BY_POSITION, BY_NUMBER, BY_TEXT, KINDS };

struct leaf {
    uint64_t order;             /* of its first element, from which the separator was made */
    uint64_t count;
    uint32_t page;
};

/* A tree beside an array of its leaves. */
struct rig {
    struct memory_pager memory;
    struct page_tree_root root;
    struct page_tree tree;
    struct leaf *leaves;
    size_t count, room;
    enum kind kind;
    struct random random;
    uint64_t missing;
};

static void rig_init(struct rig *rig, enum kind kind, uint64_t seed, struct page_tree_limits limits)
{
    *rig = (struct rig){ .kind = kind };
    memory_pager_init(&rig->memory);
    limits.child_size = kind == BY_POSITION ? PAGE_TREE_CHILD_SIZE(0) : 0;
    rig->tree = (struct page_tree){ &rig->root, &rig->memory.pager, limits };
    random_init(&rig->random, seed);
}

static void rig_release(struct rig *rig)
{
    page_tree_root_release(&rig->root);
    memory_pager_release(&rig->memory);
    mem_free(rig->leaves);
}

/* In the order of the numbers; of texts the end differs in length. */
static struct bytes separator_of(const struct rig *rig, uint64_t order, char room[40])
{
    if (rig->kind == BY_POSITION)
        return BYTES("");
    for (int i = 0; i < 8; i++)
        room[i] = (char)(order >> (56 - 8 * i));
    memset(room + 8, 'x', 32);
    return bytes_of(room, rig->kind == BY_NUMBER ? 8 : 8 + order % 30);
}


static bool was_missing(struct rig *rig, const struct page_tree_path *path, enum page_tree_answer answer)
{
    if (answer != PAGE_TREE_MISSING)
        return false;
    memory_pager_load(&rig->memory, path->missing);
    rig->missing++;
    return true;
}

static enum page_tree_answer seek_rank(struct rig *rig, uint64_t rank, struct page_tree_path *path)
{
    enum page_tree_answer answer;

    while (was_missing(rig, path, answer = page_tree_seek_rank(&rig->tree, rank, path)))
        ;
    return answer;
}

static enum page_tree_answer seek(struct rig *rig, uint64_t order, struct page_tree_path *path)
{
    enum page_tree_answer answer;
    char room[40];

    while (was_missing(rig, path, answer = page_tree_seek(&rig->tree, separator_of(rig, order, room), path)))
        ;
    return answer;
}

static enum page_tree_answer end(struct rig *rig, bool is_last, struct page_tree_path *path)
{
    enum page_tree_answer answer;

    while (was_missing(rig, path, answer = is_last ? page_tree_last(&rig->tree, path) : page_tree_first(&rig->tree, path)))
        ;
    return answer;
}

static enum page_tree_answer step(struct rig *rig, bool is_forward, struct page_tree_path *path)
{
    enum page_tree_answer answer;

    while (was_missing(rig, path, answer = is_forward ? page_tree_next(&rig->tree, path) : page_tree_previous(&rig->tree, path)))
        ;
    return answer;
}

static void assert_at(const struct rig *rig, const struct page_tree_path *path, size_t index)
{
    uint64_t rank = 0;

    assert_true(index < rig->count);
    for (size_t i = 0; i < index; i++)
        rank += rig->leaves[i].count;
    assert_int_equal(path->leaf, rig->leaves[index].page);
    assert_int_equal(path->count, rig->leaves[index].count);
    assert_int_equal(path->rank, rank);
}

/* A path to the leaf with that index, from the nearer end. */
static void go_to(struct rig *rig, size_t index, struct page_tree_path *path)
{
    bool is_last = index > rig->count / 2;
    size_t at = is_last ? rig->count - 1 : 0;

    assert_int_equal(end(rig, is_last, path), PAGE_TREE_YES);
    for (; at != index; at += is_last ? (size_t)-1 : 1)
        assert_int_equal(step(rig, !is_last, path), PAGE_TREE_YES);
    assert_at(rig, path, index);
    /* Nodes that were lost on the way: a path that is used for a change was just found. */
    while (page_tree_needs(&rig->tree, path->rank, path->rank, false, &path->missing, 1) > 0)
        memory_pager_load(&rig->memory, path->missing);
}

static void verify(struct rig *rig)
{
    struct page_tree_path path;
    uint64_t count = 0;

    memory_pager_load_all(&rig->memory);
    page_tree_verify(&rig->tree);
    assert_int_equal(rig->root.leaves, rig->count);
    for (size_t i = 0; i < rig->count; i++) {
        assert_int_equal(i == 0 ? page_tree_first(&rig->tree, &path) : page_tree_next(&rig->tree, &path), PAGE_TREE_YES);
        assert_int_equal(path.leaf, rig->leaves[i].page);
        assert_int_equal(path.rank, count);
        count += rig->leaves[i].count;
    }
    assert_int_equal(count, rig->root.count);
    assert_int_equal(rig->memory.count, rig->root.next);        /* no gaps */
    if (rig->count > 0) {
        assert_int_equal(page_tree_next(&rig->tree, &path), PAGE_TREE_NO);
        assert_at(rig, &path, rig->count - 1);
        for (size_t i = rig->count - 1; i-- > 0;) {
            assert_int_equal(page_tree_previous(&rig->tree, &path), PAGE_TREE_YES);
            assert_int_equal(path.leaf, rig->leaves[i].page);
        }
        assert_int_equal(page_tree_previous(&rig->tree, &path), PAGE_TREE_NO);
        assert_at(rig, &path, 0);
    } else {
        assert_int_equal(page_tree_first(&rig->tree, &path), PAGE_TREE_NO);
    }
}

static void insert(struct rig *rig, size_t index, uint64_t count)
{
    uint64_t below = index > 0 ? rig->leaves[index - 1].order : 0, above = index < rig->count ? rig->leaves[index].order : UINT64_MAX;
    struct leaf leaf = { below == above ? below : below + random_below(&rig->random, above - below), count, 0 };
    struct page_tree_path path;
    char room[40];

    if (index == 0 && rig->count > 0)
        go_to(rig, 0, &path);
    if (index > 0) {
        /* As when the leaf before it is split: of elements that belong there. */
        assert_int_equal(seek(rig, leaf.order, &path), PAGE_TREE_YES);
        if (path.leaf != rig->leaves[index - 1].page)
            leaf.order = below;
        go_to(rig, index - 1, &path);
    }
    page_tree_insert(&rig->tree, rig->count > 0 ? &path : NULL, index > 0 || rig->count == 0 ? PAGE_TREE_AFTER : PAGE_TREE_BEFORE,
        separator_of(rig, leaf.order, room), count, 1, &leaf.page)[0] = 'x';
    if (rig->count == rig->room) {
        rig->room = rig->room * 2 + 64;
        rig->leaves = mem_realloc(rig->leaves, rig->room * sizeof(leaf));
    }
    memmove(rig->leaves + index + 1, rig->leaves + index, (rig->count - index) * sizeof(leaf));
    rig->leaves[index] = leaf;
    rig->count++;
}

static void take_out(struct rig *rig, size_t index)
{
    struct page_tree_path path;

    go_to(rig, index, &path);
    page_tree_remove(&rig->tree, &path);
    rig->count--;
    memmove(rig->leaves + index, rig->leaves + index + 1, (rig->count - index) * sizeof(rig->leaves[0]));
}

static void assert_same(const struct rig *rig, const struct page_tree_path *path, const struct page_tree_path *other)
{
    assert_true(path->leaf == other->leaf && path->count == other->count && path->rank == other->rank);
    for (unsigned level = 0; level <= rig->root.height; level++)
        assert_true(path->steps[level].at == other->steps[level].at && (level == 0 || path->steps[level].node == other->steps[level].node));
}

/* Two searches at once find what each of them finds, or nothing if nodes are missing. */
static void look_for_both(struct rig *rig, uint64_t low, uint64_t high)
{
    struct page_tree_path paths[2], both[2];
    char rooms[2][40];
    bool all = page_tree_seek_both(&rig->tree, separator_of(rig, low, rooms[0]), separator_of(rig, high, rooms[1]), &both[0], &both[1]);
    uint64_t missing = rig->missing;

    assert_int_equal(seek(rig, low, &paths[0]), PAGE_TREE_YES);
    assert_int_equal(seek(rig, high, &paths[1]), PAGE_TREE_YES);
    assert_int_equal(all, rig->missing == missing);
    assert_true(page_tree_seek_both(&rig->tree, separator_of(rig, low, rooms[0]), separator_of(rig, high, rooms[1]), &both[0], &both[1]));
    assert_same(rig, &both[0], &paths[0]);
    assert_same(rig, &both[1], &paths[1]);
}

static void look(struct rig *rig)
{
    uint64_t rank = random_below(&rig->random, rig->root.count + 3), before = 0, order = random_next(&rig->random);
    struct page_tree_path path;
    size_t index = 0;

    if (random_below(&rig->random, 2) == 0 && rig->count > 0)
        order = rig->leaves[random_below(&rig->random, rig->count)].order;
    if (rank >= rig->root.count) {
        assert_int_equal(seek_rank(rig, rank, &path), PAGE_TREE_NO);
    } else {
        assert_int_equal(seek_rank(rig, rank, &path), PAGE_TREE_YES);
        while (before + rig->leaves[index].count <= rank)
            before += rig->leaves[index++].count;
        assert_at(rig, &path, index);
    }
    if (rig->count == 0) {
        assert_int_equal(seek(rig, order, &path), PAGE_TREE_NO);
        assert_false(page_tree_seek_both(&rig->tree, BYTES(""), BYTES(""), &path, &path));
        return;
    }
    look_for_both(rig, order, random_below(&rig->random, 3) > 0 ? order + random_below(&rig->random, UINT64_MAX - order) : order);
    assert_int_equal(seek(rig, order, &path), PAGE_TREE_YES);
    for (index = rig->count - 1; index > 0 && rig->kind != BY_POSITION && rig->leaves[index].order > order; index--)
        ;
    if (path.leaf != rig->leaves[index].page) {
        /* The leaf that was between them is gone. The element is added to the one that was found, and is its first from now on. */
        assert_at(rig, &path, ++index);
        rig->leaves[index].order = order;
    }
    assert_at(rig, &path, index);
}

static uint64_t draw_count(struct rig *rig)
{
    return random_below(&rig->random, 20) == 0 ? 0 : 1 + random_below(&rig->random, 50);
}

/* Where there are separators, what sorts before all leaves belongs to the first one. */
static size_t random_place(struct rig *rig)
{
    size_t first = rig->kind == BY_POSITION || rig->count == 0 ? 0 : 1;

    return first + random_below(&rig->random, rig->count + 1 - first);
}

static void random_work_agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(9); seed++) {
        unsigned most = 0;
        struct rig rig;

        rig_init(&rig, (enum kind)(seed % KINDS), seed, small);
        for (int i = 0; i < 3000; i++) {
            bool grows = random_below(&rig.random, 100) < (i / 1000 % 2 == 0 ? 65 : 35);
            uint64_t action = random_below(&rig.random, 10);

            if (seed > 3 && action < 3)
                memory_pager_lose(&rig.memory, &rig.random, 1 + random_below(&rig.random, 4));
            if (action == 9 && rig.count > 0) {
                size_t index = random_below(&rig.random, rig.count);
                struct page_tree_path path;

                go_to(&rig, index, &path);
                rig.leaves[index].count = draw_count(&rig);
                page_tree_set_count(&rig.tree, &path, rig.leaves[index].count);
            } else if (grows || rig.count == 0) {
                insert(&rig, random_place(&rig), draw_count(&rig));
            } else {
                take_out(&rig, random_below(&rig.random, rig.count));
            }
            if (rig.root.height > most)
                most = rig.root.height;
            look(&rig);
            if (i % 100 == 0)
                verify(&rig);
        }
        assert_in_range(most, 2, PAGE_TREE_HEIGHT_MAX);
        assert_true(seed <= 3 ? rig.missing == 0 : rig.missing > 50);
        while (rig.count > 0) {
            take_out(&rig, random_below(&rig.random, rig.count));
            if (rig.count % 20 == 0)
                verify(&rig);
        }
        assert_int_equal(rig.root.height, 0);
        rig_release(&rig);
    }
}

/* A queue: leaves come at one end and go at the other, for ever. */
static void numbers_of_a_queue_are_used_again(void **state)
{
    struct rig rig;

    (void)state;
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        rig_init(&rig, BY_POSITION, 1, small);
        for (int i = 0; i < 10000; i++) {
            insert(&rig, is_backward ? 0 : rig.count, 10);
            if (rig.count > 40)
                take_out(&rig, is_backward ? rig.count - 1 : 0);
        }
        verify(&rig);
        assert_in_range(rig.root.next, 41, 150);
        rig_release(&rig);
    }
}

/* Nodes are small for what they do: bytes for each leaf, and levels. */
static void a_large_tree_is_flat(void **state)
{
    enum { LEAVES = 100000 };
    struct page_tree_path path;
    struct rig rig;
    uint64_t bytes = 0;
    char room[40];

    (void)state;
    rig_init(&rig, BY_NUMBER, 1, PAGE_TREE_LIMITS_DEFAULT);
    for (uint64_t i = 0; i < LEAVES; i++) {
        if (i > 0)
            assert_int_equal(page_tree_last(&rig.tree, &path), PAGE_TREE_YES);
        (void)page_tree_insert(&rig.tree, i > 0 ? &path : NULL, PAGE_TREE_AFTER, separator_of(&rig, i, room), 32, 0, NULL);
    }
    for (uint32_t i = 0; i < rig.memory.capacity; i++)
        bytes += rig.memory.pages[i].size;
    assert_int_equal(rig.root.height, 2);
    assert_in_range(bytes / LEAVES, 19, 22);
    assert_int_equal(page_tree_seek_rank(&rig.tree, 32 * 77777 + 5, &path), PAGE_TREE_YES);
    assert_int_equal(path.rank, 32 * 77777);
    assert_int_equal(page_tree_seek(&rig.tree, separator_of(&rig, 55555, room), &path), PAGE_TREE_YES);
    assert_int_equal(path.rank, 32 * 55555);
    rig_release(&rig);
}

/* Each leaf is inserted after the first one, with the longest separators: halves that never get another child. */
static void a_tree_that_grows_from_its_beginning_is_not_high(void **state)
{
    enum { LEAVES = 100000 };
    char room[PAGE_TREE_SEPARATOR_MAX] = { 0 };
    struct page_tree_path path;
    struct rig rig;

    (void)state;
    rig_init(&rig, BY_NUMBER, 1, PAGE_TREE_LIMITS_DEFAULT);
    for (uint32_t i = LEAVES; i > 0; i--) {
        if (i < LEAVES)
            assert_int_equal(page_tree_first(&rig.tree, &path), PAGE_TREE_YES);
        for (int k = 0; k < 4; k++)
            room[k] = (char)(i >> (24 - 8 * k));
        (void)page_tree_insert(&rig.tree, i < LEAVES ? &path : NULL, PAGE_TREE_AFTER, bytes_of(room, sizeof(room)), 1, 0, NULL);
    }
    assert_in_range(rig.root.height, 3, PAGE_TREE_HEIGHT_MAX - 2);
    page_tree_verify(&rig.tree);
    rig_release(&rig);
}

static void what_a_range_needs_is_named(void **state)
{
    enum { MAX = 4000 };
    static uint32_t numbers[MAX];

    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)scaled(5); seed++) {
        struct rig rig;

        rig_init(&rig, BY_NUMBER, seed, small);
        for (int i = 0; i < 300; i++)
            insert(&rig, rig.count == 0 ? 0 : 1 + random_below(&rig.random, rig.count), 1 + random_below(&rig.random, 9));
        for (int round = 0; round < 30; round++) {
            uint64_t from = random_below(&rig.random, rig.root.count), to = from + random_below(&rig.random, rig.root.count - from), before = 0;
            uint32_t count, rounds = 0, max = round % 2 == 0 ? MAX : 3;

            memory_pager_lose(&rig.memory, &rig.random, 1);
            while ((count = page_tree_needs(&rig.tree, from, to, round % 3 != 0, numbers, max)) > 0) {
                for (uint32_t i = 0; i < count; i++)
                    memory_pager_load(&rig.memory, numbers[i]);
                rounds++;
            }
            if (max == MAX)
                assert_in_range(rounds, rig.root.height, rig.root.height + 1u);         /* a level at a time */
            for (size_t i = 0; i < rig.count; i++) {
                bool is_in = before <= to && before + rig.leaves[i].count > from;

                if (round % 3 != 0)
                    assert_int_equal(!rig.memory.pages[rig.leaves[i].page].is_missing, is_in);
                before += rig.leaves[i].count;
            }
        }
        rig_release(&rig);
    }
}

static void a_root_is_written_and_read(void **state)
{
    struct random random;
    uint32_t refused = 0;

    (void)state;
    random_init(&random, 5);
    for (int leaves = 0; leaves < 300; leaves += 1 + leaves / 3) {
        struct rig rig;
        struct buffer bytes = { 0 };
        struct page_tree_root read;

        rig_init(&rig, BY_TEXT, (uint64_t)leaves, small);
        for (int i = 0; i < leaves; i++)
            insert(&rig, rig.count == 0 ? 0 : 1 + random_below(&random, rig.count), 7);
        for (int i = 0; i < leaves / 3; i++)
            take_out(&rig, random_below(&random, rig.count));
        page_tree_root_write(&rig.root, &bytes);
        page_tree_root_release(&rig.root);
        assert_true(page_tree_root_read(buffer_bytes(&bytes), &rig.root));
        verify(&rig);
        for (int round = 0; round < 500; round++) {
            size_t size = random_below(&random, 5) == 0 ? random_below(&random, bytes.size + 1) : bytes.size;
            char *copy = mem_alloc(size > 0 ? size : 1);

            memcpy(copy, bytes.data, size);
            for (uint64_t changes = random_below(&random, 3); size > 0 && changes > 0; changes--)
                copy[random_below(&random, size)] = (char)random_next(&random);
            if (page_tree_root_read(bytes_of(copy, size), &read))
                assert_true(read.leaves == 0 || read.top.size > 0);
            else
                refused++;
            page_tree_root_release(&read);
            mem_free(copy);
        }
        buffer_release(&bytes);
        rig_release(&rig);
    }
    assert_true(refused > 1000);
}

static bool is_read(const struct page_tree_root *root)
{
    struct page_tree_root read;
    struct buffer bytes = { 0 };
    bool is_sound;

    page_tree_root_write(root, &bytes);
    is_sound = page_tree_root_read(buffer_bytes(&bytes), &read);
    page_tree_root_release(&read);
    buffer_release(&bytes);
    return is_sound;
}

static void a_root_that_can_not_be_is_refused(void **state)
{
    struct page_tree_root root;
    struct rig rig;

    (void)state;
    rig_init(&rig, BY_POSITION, 1, small);
    for (int i = 0; i < 4; i++)
        insert(&rig, rig.count, 7);
    take_out(&rig, 1);
    assert_int_equal(rig.root.free_count, 1);
    assert_true(is_read(&rig.root));
    for (int i = 0; i < 5; i++) {
        root = rig.root;
        root.leaves += i == 0;
        root.leaves -= i == 1;
        root.count += i == 2;
        if (i == 3)
            root.free[0] = rig.leaves[2].page;          /* in use */
        if (i == 4)
            root.free[root.free_count++] = root.free[0];
        assert_false(is_read(&root));
    }
    rig_release(&rig);
}

/* Nodes that are sound and refer to themselves: what a range needs is still found in a short time. */
static void nodes_in_circles_are_left(void **state)
{
    struct rig rig;
    uint32_t numbers[4], node;
    struct bytes page;

    (void)state;
    rig_init(&rig, BY_POSITION, 1, small);
    for (int i = 0; i < 60; i++)
        insert(&rig, rig.count, 1);
    assert_true(rig.root.height > 0);
    memcpy(&node, rig.root.top.data, sizeof(node));
    page = memory_pager_page(&rig.memory, node);
    for (size_t at = 0; at < page.size; at += 11)                       /* children without separators */
        memcpy(rig.memory.pages[node].data + at, &node, sizeof(node));
    assert_true(page_tree_node_is_sound(page, rig.root.next));
    rig.root.height = PAGE_TREE_HEIGHT_MAX;
    (void)page_tree_needs(&rig.tree, 0, 1 << 20, true, numbers, 4);
    rig_release(&rig);
}

/* As when a leaf is split: the separator is bytes of a page, which moves when a node changes. */
static void a_separator_may_be_part_of_a_page(void **state)
{
    struct page_tree_path path;
    struct rig rig;

    (void)state;
    rig_init(&rig, BY_NUMBER, 1, small);
    for (int i = 0; i < 60; i++)
        insert(&rig, rig.count, 1);
    for (int i = 0; i < 200; i++) {
        struct bytes node;

        assert_int_equal(page_tree_last(&rig.tree, &path), PAGE_TREE_YES);
        node = memory_pager_page(&rig.memory, path.steps[rig.root.height].node);
        /* The separator of the last child, which ends the node. */
        page_tree_insert(&rig.tree, &path, PAGE_TREE_AFTER, bytes_of(node.data + node.size - 8, 8), 1, 1, NULL)[0] = 'x';
    }
    page_tree_verify(&rig.tree);
    rig_release(&rig);
}

static void damaged_nodes_are_refused(void **state)
{
    struct random random;
    uint32_t refused = 0;
    struct rig rig;

    (void)state;
    random_init(&random, 6);
    rig_init(&rig, BY_TEXT, 1, small);
    for (int i = 0; i < 60; i++)
        insert(&rig, rig.count, 7);
    for (uint32_t number = 0; number < rig.root.next; number++) {
        struct bytes node = memory_pager_page(&rig.memory, number);

        if (node.size < 10)
            continue;                   /* a leaf */
        assert_true(page_tree_node_is_sound(node, rig.root.next));
        for (int round = 0; round < 300; round++) {
            size_t size = random_below(&random, 5) == 0 ? random_below(&random, node.size + 1) : node.size;
            char *copy = mem_alloc(size > 0 ? size : 1);

            memcpy(copy, node.data, size);
            for (uint64_t changes = random_below(&random, 3); size > 0 && changes > 0; changes--)
                copy[random_below(&random, size)] = (char)random_next(&random);
            refused += !page_tree_node_is_sound(bytes_of(copy, size), rig.root.next);
            mem_free(copy);
        }
    }
    assert_true(refused > 300);
    rig_release(&rig);
}

/* With the longest separators, of which five children fit into a node: from the beginning, from the end, and after the last leaf of what was added in order, so that whole paths are full. */
static void no_order_of_insertion_makes_it_high(void **state)
{
    static const struct page_tree_limits narrow = { 620, 420, 0 };
    enum { LEAVES = 20000 };
    char room[PAGE_TREE_SEPARATOR_MAX] = { 0 };

    (void)state;
    for (int order = 0; order < 3; order++) {
        struct page_tree_path path;
        struct rig rig;

        rig_init(&rig, BY_NUMBER, 1, narrow);
        for (uint32_t i = 0; i < LEAVES; i++) {
            uint32_t number = order == 0 ? LEAVES - i : i;
            enum page_tree_answer answer = PAGE_TREE_NO;

            if (order == 2 && i >= LEAVES / 2)
                number = (i * 625 % (LEAVES / 2)) | 1u << 20;        /* beside one that is there, and after those that were put there before */
            if (i > 0 && order == 0)
                answer = page_tree_first(&rig.tree, &path);
            else if (i > 0 && (order == 1 || i < LEAVES / 2))
                answer = page_tree_last(&rig.tree, &path);
            else if (i > 0)
                answer = page_tree_seek_rank(&rig.tree, i * 625 % (LEAVES / 2), &path);
            assert_int_equal(answer, i > 0 ? PAGE_TREE_YES : PAGE_TREE_NO);
            for (int k = 0; k < 4 && order < 2; k++)
                room[k] = (char)(number >> (24 - 8 * k));           /* of order 2 all are equal */
            (void)page_tree_insert(&rig.tree, i > 0 ? &path : NULL, PAGE_TREE_AFTER, bytes_of(room, sizeof(room)), 1, 0, NULL);
        }
        assert_in_range(rig.root.height, 4, 11);
        assert_in_range(rig.root.next, LEAVES, LEAVES * 2);
        page_tree_verify(&rig.tree);
        rig_release(&rig);
    }
}

/* A window over time: many leaves go at once, and as many come; in half of the rigs pages are missing, also free ones and those that have their numbers. */
static void free_pages_are_used_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        uint32_t most = 0;
        struct rig rig;

        rig_init(&rig, BY_POSITION, seed, small);
        for (int cycle = 0; cycle < 30; cycle++) {
            while (rig.count < 1000) {
                uint32_t trunk;

                insert(&rig, rig.count, 1);
                if (!page_tree_has_free(&rig.tree, 1 + rig.count % 50, &trunk))
                    memory_pager_load(&rig.memory, trunk);
            }
            memory_pager_load_all(&rig.memory);
            verify(&rig);
            while (rig.count > 100)
                take_out(&rig, 0);
            if (seed % 2 == 0)
                memory_pager_lose(&rig.memory, &rig.random, 1);
            if (cycle == 3)
                most = rig.root.next;
        }
        assert_in_range(rig.root.next, 1000, most + 100);
        rig_release(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_agrees_with_an_array),
        cmocka_unit_test(numbers_of_a_queue_are_used_again),
        cmocka_unit_test(a_large_tree_is_flat),
        cmocka_unit_test(a_tree_that_grows_from_its_beginning_is_not_high),
        cmocka_unit_test(no_order_of_insertion_makes_it_high),
        cmocka_unit_test(free_pages_are_used_again),
        cmocka_unit_test(what_a_range_needs_is_named),
        cmocka_unit_test(a_root_is_written_and_read),
        cmocka_unit_test(a_root_that_can_not_be_is_refused),
        cmocka_unit_test(nodes_in_circles_are_left),
        cmocka_unit_test(a_separator_may_be_part_of_a_page),
        cmocka_unit_test(damaged_nodes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
