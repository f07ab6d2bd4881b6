/* Fuzz target of cluster/managed: texts of a controller. The first byte decides: 0, a text as it is; 1, a good text that is damaged.
 *
 * Nothing crashes. A text that is refused changes nothing; after one that is accepted the table is sound, and nodes.conf, as it is written, is read again.
 */
#include "base/check.h"
#include "base/mem.h"
#include "cluster/managed.h"
#include "cluster/managed_move.h"
#include "support/cluster_view.h"
#include "support/fuzz.h"

enum { TEXT_MAX = 20000, NODES_MAX = 6, NOW_MS = 1000 };

static struct members *read_again(struct fuzz_input *input, struct bytes text)
{
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct message message = { "" };
    struct members *members;

    CHECK(nodes_file_read(text, NODES_FILE_PORT_PLAIN, file, &message) == STATUS_OK);
    members = members_create_from(file, NOW_MS, &input->random);
    nodes_file_release(file);
    mem_free(file);
    return members;
}

/* The file is the whole state. */
static void check_file(struct fuzz_input *input, const struct bus *bus)
{
    struct buffer first = { 0 }, second = { 0 };
    struct members *again;

    members_write(bus->members, &first);
    again = read_again(input, buffer_bytes(&first));
    members_verify(again);
    for (unsigned i = 0; i < again->count; i++)
        again->all[i]->is_connected = true;             /* managed_refresh */
    members_write(again, &second);
    CHECK(bytes_equal(buffer_bytes(&first), buffer_bytes(&second)));
    members_destroy(again);
    buffer_release(&first);
    buffer_release(&second);
}

static void give_slots(struct fuzz_input *input, struct bus *bus)
{
    struct slot_range range = { .first = (uint16_t)fuzz_below(input, SLOT_COUNT) };
    struct node_id id = cluster_view_id((char)('a' + (int)fuzz_below(input, NODES_MAX)));

    range.last = (uint16_t)(range.first + fuzz_below(input, SLOT_COUNT - range.first));
    if (managed_set_slots(bus, range, &id, (int64_t)bus->members->current_epoch + 1) == NULL)
        CHECK(bus->members->owners[range.last] == members_find(bus->members, &id));
    members_verify(bus->members);
}

/* What migrations leave is of any topology, or of none. */
static void move_slots(struct fuzz_input *input, struct bus *bus)
{
    struct slots slots = { { 0 } };
    struct node_id to = cluster_view_id((char)('a' + (int)fuzz_below(input, NODES_MAX + 1)));
    struct slot_range range = { .first = (uint16_t)fuzz_below(input, 200) };
    struct managed_taken undo;
    struct buffer text = { 0 };
    uint64_t receipt;

    range.last = (uint16_t)(range.first + fuzz_below(input, 100));
    slots_add_range(&slots, range);
    if (bus_hand_over(bus, &slots, &to, 7) == NULL) {
        bus_let_take(bus, bus->members->current_epoch);
        if (fuzz_below(input, 2) == 0)
            managed_end_hand_over(bus);
    }
    if (bus_begin_receipt(bus, &slots, &to, NOW_MS, &receipt) == NULL && managed_take(bus, receipt, bus->members->current_epoch, NOW_MS, &undo) == NULL &&
        fuzz_below(input, 2) == 0)
        managed_untake(bus, &undo);
    members_verify(bus->members);
    members_write_moves(bus->members, &text);
    if (fuzz_below(input, 2) == 0)
        fuzz_damage(input, &text, BYTES(" :,-0123456789abcdemovdhn"), 3, TEXT_MAX);
    (void)managed_hear_moves(bus, buffer_bytes(&text));
    members_verify(bus->members);
    buffer_release(&text);
}

static void run_text(struct fuzz_input *input, struct bytes text)
{
    struct bus_options options = { .timeout_ms = 1000, .is_managed = true, .is_tls = fuzz_below(input, 2) == 0 };
    struct bus *bus = bus_create(cluster_view_create("a master 3 0-99\nb master 3 100-199\nc slave-of-b\n"), &options, 1, NOW_MS);
    struct bytes copy = fuzz_exact_copy(text);
    uint64_t version = bus->members->current_epoch;
    const char *error;

    managed_refresh(bus);
    if (fuzz_below(input, 2) == 0)
        move_slots(input, bus);
    bus_outcome_clear(bus);
    error = managed_set_nodes(bus, copy, 7, MANAGED_NOT_FORCED);
    CHECK(bus->members->current_epoch == (error == NULL ? 7 : version) && bus->outcome.has_promised == (error == NULL));
    members_verify(bus->members);
    check_file(input, bus);
    give_slots(input, bus);
    move_slots(input, bus);
    give_slots(input, bus);
    check_file(input, bus);
    bus_destroy(bus);
    mem_free((void *)copy.data);
}

static void make_node(struct fuzz_input *input, int index, int count, struct buffer *text)
{
    static const char *const hosts[] = { "1.2.3.4", "::1", "host.name", "-", "a,b", "x@1" };
    static const char *const roles[] = { "master", "slave", "slave,fail", "master,fail", "replica" };
    bool is_good = fuzz_below(input, 8) != 0, is_primary = index % 2 == 0;
    struct node_id id = cluster_view_id((char)('a' + index)), other = cluster_view_id((char)('a' + 2 * (int)fuzz_below(input, (uint64_t)(count + 1) / 2)));
    unsigned slot = (unsigned)index * 2000;

    buffer_append_format(text, "%.40s %s %u %s %.40s", id.text, hosts[fuzz_below(input, is_good ? 3 : 6)], 1 + (unsigned)fuzz_below(input, 65535),
        is_good ? is_primary ? "master" : "slave" : roles[fuzz_below(input, 5)], is_primary ? "-" : other.text);
    for (uint64_t ranges = is_primary ? fuzz_below(input, 4) : 0; ranges > 0; ranges--) {
        buffer_append_format(text, " %u-%u", slot, slot + (unsigned)fuzz_below(input, 100));
        slot += 101;
    }
    buffer_append_string(text, fuzz_below(input, 5) == 0 ? "\r\n\n" : "\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input;
    struct buffer text = { 0 };

    fuzz_begin(&input, data, size);
    if (fuzz_below(&input, 2) == 0) {
        fuzz_rest(&input, &text);
        run_text(&input, buffer_bytes(&text));
    } else {
        int count = 1 + (int)fuzz_below(&input, NODES_MAX);

        for (int i = 0; i < count; i++)
            make_node(&input, i, count, &text);
        run_text(&input, buffer_bytes(&text));
        fuzz_damage(&input, &text, BYTES("\n ,:@=-[]<>0123456789abcms"), 4, TEXT_MAX);
        run_text(&input, buffer_bytes(&text));
    }
    buffer_release(&text);
    return 0;
}
