#include "cluster/nodes_file.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/mem.h"
#include "cluster/node_text.h"
#include "cluster/slots.h"

enum { BUS_PORT_DISTANCE = 10000 };

struct reader {
    struct nodes_file *file;
    enum nodes_file_port port;
    unsigned vars;              /* bit 0: the current epoch was there, bit 1: that of the last vote */
    uint32_t node_room, move_room;
    struct slots moving;
    uint32_t *lines;            /* of each node */
    unsigned line;
    struct message *message;
    enum status status;         /* of what was refused */
};

static bool refuse(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct reader *reader, const char *format, ...)
{
    struct message reason;
    va_list arguments;

    va_start(arguments, format);
    message_set_args(&reason, format, arguments);
    va_end(arguments);
    message_set(reader->message, "line %u: %s", reader->line, reason.text);
    reader->status = STATUS_CORRUPT;
    return false;
}

/* Removes what is before the first `separator` of the text, and the separator; false if there is none. */
static bool take_until(struct bytes *text, char separator, struct bytes *before)
{
    const char *at = text->size > 0 ? memchr(text->data, separator, text->size) : NULL;

    if (at == NULL)
        return false;
    *before = bytes_of(text->data, (size_t)(at - text->data));
    *text = bytes_of(at + 1, text->size - before->size - 1);
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Removes the first word of a line and the blanks before it; false if there is none. */
static bool take_word(struct bytes *line, struct bytes *word)
{
    size_t begin = 0, end;

    while (begin < line->size && is_blank(line->data[begin]))
        begin++;
    for (end = begin; end < line->size && !is_blank(line->data[end]);)
        end++;
    *word = bytes_of(line->data + begin, end - begin);
    *line = bytes_of(line->data + end, line->size - end);
    return word->size > 0;
}

/* Digits only, at most `max`. */
static bool number_of(struct bytes text, uint64_t max, uint64_t *number)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned char)text.data[i] - '0';

        if (digit > 9 || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return text.size > 0;
}

static bool take_number(struct bytes *line, uint64_t max, uint64_t *number)
{
    struct bytes word;

    return take_word(line, &word) && number_of(word, max, number);
}

static bool port_of(struct bytes text, uint16_t *port)
{
    uint64_t number;

    if (!number_of(text, UINT16_MAX, &number))
        return false;
    *port = (uint16_t)number;
    return true;
}

static bool slot_of(struct bytes text, uint16_t *slot)
{
    return port_of(text, slot) && *slot < SLOT_COUNT;
}

/* Returns how many bytes of a word from the file a message shows. */
static int size_shown(struct bytes word)
{
    return word.size < 40 ? (int)word.size : 40;
}

/* "ip:port" or "ip:port@bus-port". */
static bool read_endpoint(struct reader *reader, struct bytes text, struct nodes_file_node *node, uint16_t *port)
{
    const char *colon = text.size > 0 ? memrchr(text.data, ':', text.size) : NULL;
    struct bytes ports, before;

    if (colon == NULL)
        return refuse(reader, "the address has no port");
    node->ip = bytes_of(text.data, (size_t)(colon - text.data));
    ports = bytes_of(colon + 1, text.size - node->ip.size - 1);
    if (!node_ip_is_valid(node->ip))
        return refuse(reader, "the address is no IP address");
    if (take_until(&ports, '@', &before))
        return (port_of(before, port) && port_of(ports, &node->bus_port)) || refuse(reader, "the address has a port that is not 0 to 65535");
    if (!port_of(ports, port) || *port + BUS_PORT_DISTANCE > UINT16_MAX)
        return refuse(reader, "the address has no bus port, and its port is not 0 to %d", UINT16_MAX - BUS_PORT_DISTANCE);
    node->bus_port = (uint16_t)(*port + BUS_PORT_DISTANCE);
    return true;
}

/* "name=value"; the two of them say which ports were there. */
static bool read_field(struct reader *reader, struct bytes field, struct nodes_file_node *node, bool *has_port, bool *has_tls_port)
{
    struct bytes name;
    bool fits;

    if (!take_until(&field, '=', &name))
        return refuse(reader, "a field after the host name has no '='");
    if (bytes_equal(name, BYTES("shard-id"))) {
        fits = node_id_read(field, &node->shard_id);
    } else if (bytes_equal(name, BYTES("nodename"))) {
        node->name = field;
        fits = node_name_is_valid(field);
    } else if (bytes_equal(name, BYTES("tcp-port"))) {
        *has_port = true;
        fits = port_of(field, &node->port);
    } else if (bytes_equal(name, BYTES("tls-port"))) {
        *has_tls_port = true;
        fits = port_of(field, &node->tls_port);
    } else {
        return refuse(reader, "the field '%.*s' is not known", size_shown(name), name.data);
    }
    return fits || refuse(reader, "%.*s is not valid", size_shown(name), name.data);
}

static bool read_address(struct reader *reader, struct bytes text, struct nodes_file_node *node)
{
    bool has_port = false, has_tls_port = false, has_more;
    struct bytes endpoint = text, field;
    uint16_t port;

    has_more = take_until(&text, ',', &endpoint);
    if (has_more) {
        has_more = take_until(&text, ',', &node->host_name);
        if (!has_more)
            node->host_name = text;
        if (!node_host_name_is_valid(node->host_name))
            return refuse(reader, "the host name is not valid");
    }
    while (has_more) {
        has_more = take_until(&text, ',', &field);
        if (!read_field(reader, has_more ? field : text, node, &has_port, &has_tls_port))
            return false;
    }
    if (!read_endpoint(reader, endpoint, node, &port))
        return false;
    if (!has_port && (has_tls_port || reader->port == NODES_FILE_PORT_PLAIN))
        node->port = port;
    else if (!has_tls_port)
        node->tls_port = port;
    return true;
}

/* Adds a move from the text between its brackets: "slot->-id" or "slot-<-id". */
static bool add_move(struct reader *reader, struct bytes text)
{
    struct nodes_file *file = reader->file;
    struct nodes_file_move move = { 0 };
    struct bytes slot;

    if (!(file->nodes[file->node_count - 1].flags & NODE_MYSELF))
        return refuse(reader, "a slot that moves is on the line of another node");
    if (!take_until(&text, '-', &slot) || !slot_of(slot, &move.slot) || text.size < 2 || (text.data[0] != '>' && text.data[0] != '<') ||
        text.data[1] != '-' || !node_id_read(bytes_of(text.data + 2, text.size - 2), &move.other))
        return refuse(reader, "a slot that moves is not [slot->-id] or [slot-<-id]");
    if (slots_has(&reader->moving, move.slot))
        return refuse(reader, "slot %u moves twice", move.slot);
    slots_add(&reader->moving, move.slot);
    move.is_import = text.data[0] == '<';
    if (file->move_count == reader->move_room) {
        reader->move_room = reader->move_room * 2 + 4;
        file->moves = mem_realloc(file->moves, reader->move_room * sizeof(*file->moves));
    }
    file->moves[file->move_count++] = move;
    return true;
}

static bool read_slot(struct reader *reader, struct bytes word)
{
    struct nodes_file *file = reader->file;
    struct bytes begin = word, end = word;
    uint16_t first, last;

    if (word.data[0] == '[' && word.data[word.size - 1] == ']')
        return add_move(reader, bytes_of(word.data + 1, word.size - 2));
    if (!take_until(&end, '-', &begin))
        begin = end;
    if (!slot_of(begin, &first) || !slot_of(end, &last) || first > last)
        return refuse(reader, "'%.*s' is not a slot or a range of slots", size_shown(word), word.data);
    if (!(file->nodes[file->node_count - 1].flags & NODE_MASTER))
        return refuse(reader, "a node that is no master has slots");
    for (unsigned slot = first; slot <= last; slot++) {
        if (file->owners[slot] != 0)
            return refuse(reader, "slot %u is on line %u, too", slot, (unsigned)reader->lines[file->owners[slot] - 1]);
        file->owners[slot] = (uint16_t)file->node_count;
    }
    return true;
}

/* id:epoch:receipt:slots */
static bool read_handed(struct nodes_file *file, struct bytes text)
{
    struct bytes id, epoch, receipt;

    return take_until(&text, ':', &id) && take_until(&text, ':', &epoch) && take_until(&text, ':', &receipt) && node_id_read(id, &file->handed_to) &&
        number_of(epoch, UINT64_MAX - 1, &file->handed_epoch) && number_of(receipt, UINT64_MAX, &file->handed_receipt) &&
        slots_read(text, &file->handed_over);
}

static bool read_vars(struct reader *reader, struct bytes line)
{
    struct bytes name, value;
    uint64_t number;

    while (take_word(&line, &name)) {
        if (!take_word(&line, &value))
            return refuse(reader, "a variable has no value");
        if (bytes_is(name, "unwanted") && !slots_read(value, &reader->file->unwanted))
            return refuse(reader, "the unwanted slots are no ranges");
        if (bytes_is(name, "handed") && !read_handed(reader->file, value))
            return refuse(reader, "the slots that are handed over are not a node, an epoch and ranges");
        if (bytes_is(name, "moved") && !moved_slots_read(&reader->file->moved, value))
            return refuse(reader, "the slots that have moved are not two nodes and ranges");
        if (!bytes_is(name, "currentEpoch") && !bytes_is(name, "lastVoteEpoch"))
            continue;                                               /* of a later version */
        if (!number_of(value, UINT64_MAX, &number))
            return refuse(reader, "an epoch is not a number");
        if (bytes_is(name, "currentEpoch")) {
            reader->file->current_epoch = number;
            reader->vars |= 1;
        } else {
            reader->file->last_vote_epoch = number;
            reader->vars |= 2;
        }
    }
    return true;
}

static struct nodes_file_node *add_node(struct reader *reader)
{
    struct nodes_file *file = reader->file;

    if (file->node_count == reader->node_room) {
        reader->node_room = reader->node_room * 2 + 8;
        file->nodes = mem_realloc(file->nodes, reader->node_room * sizeof(*file->nodes));
        reader->lines = mem_realloc(reader->lines, reader->node_room * sizeof(*reader->lines));
    }
    reader->lines[file->node_count] = reader->line;
    file->nodes[file->node_count] = (struct nodes_file_node){ 0 };
    return &file->nodes[file->node_count++];
}

static bool read_roles(struct reader *reader, struct bytes flags, struct bytes master, struct nodes_file_node *node)
{
    struct nodes_file *file = reader->file;

    if (!node_flags_read(flags, &node->flags))
        return refuse(reader, "the flags are not known");
    if (node->flags & NODE_MASTER && node->flags & NODE_REPLICA)
        return refuse(reader, "a node is both master and slave");
    if (node->flags & NODE_HANDSHAKE)
        return refuse(reader, "a node is in a handshake, so that its ID is not known");
    if (!bytes_equal(master, BYTES("-")) && !node_id_read(master, &node->master))
        return refuse(reader, "the master is not a node ID");
    if (!node_id_is_none(&node->master) && !(node->flags & NODE_REPLICA))
        return refuse(reader, "a node that is no slave has a master");
    if (node->flags & NODE_MYSELF) {
        if (file->nodes[file->myself].flags & NODE_MYSELF && file->myself != file->node_count - 1)
            return refuse(reader, "this node ('myself') is on line %u, too", (unsigned)reader->lines[file->myself]);
        file->myself = file->node_count - 1;
    }
    return true;
}

static bool read_node(struct reader *reader, struct bytes id, struct bytes line)
{
    struct bytes address, flags, master, state, slot;
    struct nodes_file_node *node;

    if (reader->file->node_count == NODES_FILE_COUNT_MAX) {
        (void)refuse(reader, "more than %d nodes", NODES_FILE_COUNT_MAX);
        reader->status = STATUS_TOO_LARGE;
        return false;
    }
    node = add_node(reader);
    if (!node_id_read(id, &node->id))
        return refuse(reader, "it begins with neither a node ID nor 'vars'");
    if (!take_word(&line, &address) || !take_word(&line, &flags) || !take_word(&line, &master))
        return refuse(reader, "it ends early");
    if (!read_address(reader, address, node) || !read_roles(reader, flags, master, node))
        return false;
    if (!take_number(&line, UINT64_MAX, &node->ping_sent_ms) || !take_number(&line, UINT64_MAX, &node->pong_ms) ||
        !take_number(&line, UINT64_MAX, &node->config_epoch))
        return refuse(reader, "a time or the epoch is not a number");
    if (!take_word(&line, &state) || !(bytes_equal(state, BYTES("connected")) || bytes_equal(state, BYTES("disconnected"))))
        return refuse(reader, "it says neither connected nor disconnected");
    node->is_connected = state.size == BYTES("connected").size;
    while (take_word(&line, &slot)) {
        if (!read_slot(reader, slot))
            return false;
    }
    return true;
}

static bool read_line(struct reader *reader, struct bytes line)
{
    struct bytes word;

    if (!take_word(&line, &word))
        return true;
    return bytes_is(word, "vars") ? read_vars(reader, line) : read_node(reader, word, line);
}

static int compare_ids(const void *a, const void *b)
{
    return node_id_compare(&(*(const struct nodes_file_node *const *)a)->id, &(*(const struct nodes_file_node *const *)b)->id);
}

/* Where `id` is among the sorted nodes; NULL: it is not. */
static const struct nodes_file_node *find(const struct nodes_file_node *const *sorted, uint32_t count, const struct node_id *id)
{
    const struct nodes_file_node wanted = { .id = *id }, *at = &wanted;
    const struct nodes_file_node *const *found = bsearch(&at, sorted, count, sizeof(*sorted), compare_ids);

    return found == NULL ? NULL : *found;
}

/* Verifies what needs all lines: that each node has one, and those that it names have one. */
static bool check_references(struct reader *reader, const struct nodes_file_node *const *sorted)
{
    struct nodes_file *file = reader->file;

    for (uint32_t i = 0; i + 1 < file->node_count; i++) {
        if (node_id_equal(&sorted[i]->id, &sorted[i + 1]->id)) {
            const struct nodes_file_node *later = sorted[i] > sorted[i + 1] ? sorted[i] : sorted[i + 1];

            reader->line = reader->lines[later - file->nodes];
            return refuse(reader, "the node has a line before");
        }
    }
    for (uint32_t i = 0; i < file->node_count; i++) {
        const struct nodes_file_node *node = &file->nodes[i], *master;

        reader->line = reader->lines[i];
        if (node_id_is_none(&node->master))
            continue;
        master = find(sorted, file->node_count, &node->master);
        if (master == NULL || master == node)
            return refuse(reader, "the master has no line of its own");
        if (!node_id_is_none(&node->shard_id) && !node_id_is_none(&master->shard_id) && !node_id_equal(&node->shard_id, &master->shard_id))
            return refuse(reader, "the shard ID is not that of the master");
    }
    reader->line = reader->lines[file->myself];
    for (uint32_t i = 0; i < file->move_count; i++) {
        if (find(sorted, file->node_count, &file->moves[i].other) == NULL)
            return refuse(reader, "the other node of slot %u has no line", file->moves[i].slot);
    }
    return true;
}

static bool check_whole(struct reader *reader)
{
    struct nodes_file *file = reader->file;
    const struct nodes_file_node **sorted;
    bool fits;

    if (file->node_count == 0 || !(file->nodes[file->myself].flags & NODE_MYSELF))
        return refuse(reader, "the file ends, and no line was this node's ('myself')");
    if (reader->vars != 3)
        return refuse(reader, "the file ends, and no line was 'vars currentEpoch n lastVoteEpoch n'");
    sorted = mem_alloc(file->node_count * sizeof(*sorted));
    for (uint32_t i = 0; i < file->node_count; i++)
        sorted[i] = &file->nodes[i];
    qsort(sorted, file->node_count, sizeof(*sorted), compare_ids);
    fits = check_references(reader, sorted);
    mem_free(sorted);
    return fits;
}

/* A current epoch below that of a node can only come of an edited file. */
static void raise_current_epoch(struct nodes_file *file)
{
    for (uint32_t i = 0; i < file->node_count; i++) {
        if (file->nodes[i].config_epoch > file->current_epoch)
            file->current_epoch = file->nodes[i].config_epoch;
    }
}

enum status nodes_file_read(struct bytes text, enum nodes_file_port port, struct nodes_file *file, struct message *message)
{
    struct reader reader = { .file = file, .port = port, .message = message, .status = STATUS_OK };
    struct bytes line;
    bool fits = true;

    *file = (struct nodes_file){ 0 };
    if (text.size == 0)
        return STATUS_NOT_FOUND;
    if (text.size > NODES_FILE_SIZE_MAX) {
        message_set(message, "it has more than %d bytes", NODES_FILE_SIZE_MAX);
        return STATUS_TOO_LARGE;
    }
    while (fits && text.size > 0) {
        reader.line++;
        fits = take_until(&text, '\n', &line) ? read_line(&reader, line) : refuse(&reader, "the file ends in the middle of it");
    }
    if (!fits || !check_whole(&reader))
        nodes_file_release(file);
    else
        raise_current_epoch(file);
    mem_free(reader.lines);
    return reader.status;
}

void nodes_file_release(struct nodes_file *file)
{
    mem_free(file->nodes);
    mem_free(file->moves);
    moved_slots_release(&file->moved);
    *file = (struct nodes_file){ 0 };
}

/* `within`: the first and the last slot of the node. */
static void write_ranges(const struct nodes_file *file, uint32_t index, struct slot_range within, struct buffer *out)
{
    for (unsigned first = within.first; first <= within.last; first++) {
        unsigned last = first;

        if (file->owners[first] != index + 1)
            continue;
        while (last < within.last && file->owners[last + 1] == index + 1)
            last++;
        if (first == last)
            buffer_append_format(out, " %u", first);
        else
            buffer_append_format(out, " %u-%u", first, last);
        first = last;
    }
}

static void write_node(const struct nodes_file *file, uint32_t index, struct buffer *out)
{
    const struct nodes_file_node *node = &file->nodes[index];

    buffer_append_bytes(out, node_id_bytes(&node->id));
    buffer_append_string(out, " ");
    buffer_append_bytes(out, node->ip);
    buffer_append_format(out, ":%u@%u,", node->port, node->bus_port);
    buffer_append_bytes(out, node->host_name);
    buffer_append_format(out, ",tls-port=%u", node->tls_port);
    if (node->name.size > 0) {
        buffer_append_string(out, ",nodename=");
        buffer_append_bytes(out, node->name);
    }
    if (!node_id_is_none(&node->shard_id))
        buffer_append_format(out, ",shard-id=%.40s", node->shard_id.text);
    buffer_append_string(out, " ");
    node_flags_append(out, node->flags);
    buffer_append_format(out, " %.40s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s", node_id_is_none(&node->master) ? "-" : node->master.text,
                         node->ping_sent_ms, node->pong_ms, node->config_epoch, node->is_connected ? "connected" : "disconnected");
}

void nodes_file_write_moves(const struct nodes_file *file, struct buffer *out)
{
    if (file->handed_epoch != 0) {
        buffer_append_format(out, " handed %.40s:%" PRIu64 ":%" PRIu64 ":", file->handed_to.text, file->handed_epoch, file->handed_receipt);
        slots_write(&file->handed_over, out);
    }
    for (unsigned i = 0; i < file->moved.count; i++) {
        buffer_append_string(out, " moved ");
        moved_set_write(&file->moved.all[i], out);
    }
}

bool nodes_file_read_moves(struct bytes text, struct nodes_file *file)
{
    struct bytes name, value;

    while (take_word(&text, &name)) {
        if (!take_word(&text, &value))
            return false;
        if (bytes_is(name, "handed") ? !read_handed(file, value) : bytes_is(name, "version") ? !number_of(value, UINT64_MAX, &file->current_epoch) :
            !bytes_is(name, "moved") || !moved_slots_read(&file->moved, value))
            return false;
    }
    return true;
}

void nodes_file_write(const struct nodes_file *file, struct buffer *out)
{
    struct slot_range *within = mem_alloc((file->node_count + 1) * sizeof(*within));

    CHECK(file->node_count > 0 && file->node_count <= NODES_FILE_COUNT_MAX && file->myself < file->node_count);
    for (uint32_t i = 0; i <= file->node_count; i++)
        within[i] = (struct slot_range){ SLOT_COUNT, 0 };
    for (uint16_t slot = 0; slot < SLOT_COUNT; slot++) {
        struct slot_range *range = &within[file->owners[slot]];

        if (range->first == SLOT_COUNT)
            range->first = slot;
        range->last = slot;
    }
    for (uint32_t i = 0; i < file->node_count; i++) {
        write_node(file, i, out);
        write_ranges(file, i, within[i + 1], out);
        for (uint32_t k = 0; i == file->myself && k < file->move_count; k++)
            buffer_append_format(out, " [%u-%c-%.40s]", file->moves[k].slot, file->moves[k].is_import ? '<' : '>', file->moves[k].other.text);
        buffer_append_string(out, "\n");
    }
    buffer_append_format(out, "vars currentEpoch %" PRIu64 " lastVoteEpoch %" PRIu64, file->current_epoch, file->last_vote_epoch);
    if (slots_count(&file->unwanted) > 0) {
        buffer_append_string(out, " unwanted ");
        slots_write(&file->unwanted, out);
    }
    nodes_file_write_moves(file, out);
    buffer_append_string(out, "\n");
    mem_free(within);
}
