/* Fuzz target of cluster/: nodes.conf. The first byte decides: 0, a text as it is; 1, a good file that is damaged.
 *
 * Nothing crashes, and what is accepted is accepted again, and the same, after it was written.
 */
#include "base/check.h"
#include "base/mem.h"
#include "cluster/node_text.h"
#include "cluster/nodes_file.h"
#include "support/fuzz.h"

enum { TEXT_MAX = 20000, NODES_MAX = 6 };

static void check_file(const struct nodes_file *file)
{
    CHECK(file->node_count > 0 && file->nodes[file->myself].flags & NODE_MYSELF && file->move_count <= SLOT_COUNT);
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        CHECK(file->owners[slot] <= file->node_count);
}

static void run_nodes_file(struct bytes text)
{
    struct nodes_file file, again;
    struct buffer first = { 0 }, second = { 0 };
    struct message message = { "" };
    struct bytes copy = fuzz_exact_copy(text);
    enum status status = nodes_file_read(copy, NODES_FILE_PORT_PLAIN, &file, &message);

    if (status == STATUS_OK) {
        check_file(&file);
        nodes_file_write(&file, &first);
        CHECK(nodes_file_read(buffer_bytes(&first), NODES_FILE_PORT_PLAIN, &again, &message) == STATUS_OK);
        CHECK(memcmp(file.owners, again.owners, sizeof(file.owners)) == 0);
        nodes_file_write(&again, &second);
        CHECK(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
        nodes_file_release(&again);
        nodes_file_release(&file);
    } else {
        CHECK(message_is_empty(&message) == (status == STATUS_NOT_FOUND));
    }
    mem_free((void *)copy.data);
    buffer_release(&first);
    buffer_release(&second);
}

static void make_id(uint64_t number, char id[NODE_ID_SIZE + 1])
{
    memset(id, 'a' + (int)number, NODE_ID_SIZE);
    id[NODE_ID_SIZE] = '\0';
}

static void make_node(struct fuzz_input *input, int index, int count, struct buffer *text)
{
    static const char *const roles[] = { "master", "slave", "slave,fail", "master,fail?", "noflags", "master,noaddr", "slave,nofailover" };
    static const char *const addresses[] = { "1.2.3.4:1@2", ":0@0", "1.2.3.4:5", "::1:3@4,host.name", "1.2.3.4:1@2,,tls-port=4,nodename=n",
                                             "1.2.3.4:1@2,,tcp-port=4,tls-port=5" };
    char id[NODE_ID_SIZE + 1], other[NODE_ID_SIZE + 1];
    unsigned slot = (unsigned)index * 2000;

    make_id((uint64_t)index, id);
    make_id(fuzz_below(input, (uint64_t)count), other);
    buffer_append_format(text, "%s %s %s%s %s %u %u %u %s", id, addresses[fuzz_below(input, 6)], index == 0 ? "myself," : "", roles[fuzz_below(input, 7)],
                         fuzz_below(input, 3) == 0 ? other : "-", (unsigned)fuzz_below(input, 3), (unsigned)fuzz_below(input, 1000),
                         (unsigned)fuzz_below(input, 20), fuzz_below(input, 2) == 0 ? "connected" : "disconnected");
    for (uint64_t ranges = fuzz_below(input, 4); ranges > 0; ranges--) {
        buffer_append_format(text, " %u-%u", slot, slot + (unsigned)fuzz_below(input, 100));
        slot += 101;
    }
    for (uint64_t moves = fuzz_below(input, 4); moves > 0 && index == 0; moves--)
        buffer_append_format(text, " [%u-%c-%s]", (unsigned)fuzz_below(input, SLOT_COUNT), fuzz_below(input, 2) == 0 ? '<' : '>', other);
    buffer_append_string(text, fuzz_below(input, 5) == 0 ? "\n\n" : "\n");
}

static void make_nodes_file(struct fuzz_input *input, struct buffer *text)
{
    int count = 1 + (int)fuzz_below(input, NODES_MAX);

    for (int i = 0; i < count; i++)
        make_node(input, i, count, text);
    buffer_append_format(text, "vars currentEpoch %u lastVoteEpoch %u\n", (unsigned)fuzz_below(input, 30), (unsigned)fuzz_below(input, 30));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct bytes telling = BYTES("\n ,:@=-[]<>0123456789abcmv");
    struct fuzz_input input;
    struct buffer text = { 0 };

    fuzz_begin(&input, data, size);
    switch (fuzz_below(&input, 2)) {
    case 0:
        fuzz_rest(&input, &text);
        run_nodes_file(buffer_bytes(&text));
        break;
    case 1:
        make_nodes_file(&input, &text);
        run_nodes_file(buffer_bytes(&text));
        fuzz_damage(&input, &text, telling, 4, TEXT_MAX);
        run_nodes_file(buffer_bytes(&text));
        break;
    }
    buffer_release(&text);
    return 0;
}
