#include "cluster/managed.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cluster/bus_private.h"
#include "cluster/managed_move.h"

/* --- From one table to the next --- */

static bool follows_the_same(const struct node *was, const struct node *is)
{
    return was->master != NULL && node_id_equal(&was->master->id, &is->master->id) && strcmp(was->master->ip, is->master->ip) == 0 &&
           was->master->port == is->master->port && was->master->tls_port == is->master->tls_port;
}

static void note_lost(struct bus *bus, const struct members *next)
{
    const struct slots *had = &bus->members->myself->slots;
    struct slot_range range;

    for (unsigned at = 0; slots_next(had, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (next->owners[slot] != NULL && next->owners[slot] != next->myself)
                slots_add(&bus->outcome.lost, slot);
        }
    }
}

/* Takes over `next`, but for what migrations have changed and it does not name. Keys of slots that others have now are lost while this node is a primary of the
 * topology: a replica gets its primary's data, and one that was left out may have been left out by mistake. */
static void adopt(struct bus *bus, struct members *next, bool is_member, const struct slots *named)
{
    const struct node *was = bus->members->myself, *is = next->myself;

    managed_carry(bus, next, is_member, named);
    if (is->master != NULL)
        bus->outcome.role = follows_the_same(was, is) ? BUS_ROLE_KEPT : BUS_ROLE_FOLLOW;
    else if (was->master != NULL)
        bus->outcome.role = BUS_ROLE_LEAD;
    else if (is_member)
        note_lost(bus, next);
    members_destroy(bus->members);
    bus->members = next;
    if (bus->outcome.role == BUS_ROLE_LEAD)
        managed_lose_moved(bus);
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    bus_log(bus, "Topology version %" PRIu64 ": this node is a %s with %u slots", next->current_epoch, is->master != NULL ? "replica" : "primary", is->slot_count);
    managed_refresh(bus);
    bus_finish(bus);
}

static void name_shards(struct members *members)
{
    for (unsigned i = members->count; i > 0; i--) {             /* down to the smallest ID */
        struct node *node = members->all[i - 1];

        members_set_shard(members, node->master != NULL ? node->master : node, &node->id);
    }
}

/* The table of the text of a nodes.conf, whose reader refuses what is no table. NULL: the error is *error. */
static struct members *read_table(struct bus *bus, struct bytes text, const char **error)
{
    struct nodes_file *file = mem_alloc(sizeof(*file));
    struct members *members = NULL;
    struct message reason = { "it is empty" };

    if (nodes_file_read(text, NODES_FILE_PORT_PLAIN, file, &reason) == STATUS_OK) {
        members = members_create_from(file, bus->own->real_ms, &bus->own->random);
        nodes_file_release(file);
    } else {
        *error = bus_refuse(bus, "ERR Invalid cluster nodes info: %s", reason.text);
    }
    mem_free(file);
    return members;
}

/* --- SETNODES --- */

/* From the text of SETNODES to that of nodes.conf, line by line. */
struct translation {
    struct bus *bus;
    struct buffer out;
    int64_t version;
    unsigned line;
    bool has_myself;                    /* the text does */
};

static struct bytes take_line(struct bytes *text)
{
    const char *end = memchr(text->data, '\n', text->size);
    struct bytes line = bytes_of(text->data, end != NULL ? (size_t)(end - text->data) : text->size);

    *text = end != NULL ? bytes_of(end + 1, text->size - line.size - 1) : bytes_of(line.data + line.size, 0);
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

static struct bytes take_word(struct bytes *line)
{
    size_t begin = 0, end;
    struct bytes word;

    while (begin < line->size && line->data[begin] == ' ')
        begin++;
    for (end = begin; end < line->size && line->data[end] != ' ';)
        end++;
    word = bytes_of(line->data + begin, end - begin);
    *line = bytes_of(line->data + end, line->size - end);
    return word;
}

static void append_node(struct translation *to, const struct node_id *id, struct bytes host, uint16_t port, uint16_t tls_port, const char *flags, const char *master)
{
    bool is_myself = node_id_equal(id, &to->bus->members->myself->id);

    to->has_myself |= is_myself;
    buffer_append_format(&to->out, "%.40s %.*s:0@0,,tcp-port=%u,tls-port=%u %s%s %.40s 0 0 %" PRId64 " connected", id->text, (int)host.size,
        host.data, port, tls_port, is_myself ? "myself," : "", flags, master, to->version);
}

/* As the file has them, but without those that move. */
static bool append_slots(struct translation *to, struct bytes line)
{
    for (struct bytes word = take_word(&line); word.size > 0; word = take_word(&line)) {
        for (size_t i = 0; i < word.size; i++) {
            if (word.data[i] != '-' && (word.data[i] < '0' || word.data[i] > '9'))
                return false;
        }
        buffer_append_string(&to->out, " ");
        buffer_append_bytes(&to->out, word);
    }
    buffer_append_string(&to->out, "\n");
    return true;
}

static bool is_primary_role(struct bytes role) { return bytes_is(role, "master") || bytes_is(role, "master,fail"); }
static bool is_replica_role(struct bytes role) { return bytes_is(role, "slave") || bytes_is(role, "slave,fail"); }

/* NULL, or the reason why the line is refused. */
static const char *translate_line(struct translation *to, struct bytes line)
{
    struct bytes id_text = take_word(&line), host = take_word(&line), port_text = take_word(&line), role = take_word(&line), master_text = take_word(&line);
    bool is_tls = to->bus->options.is_tls, has_failed = role.size > 0 && memchr(role.data, ',', role.size) != NULL;
    struct node_id id, master = { "-" };
    int64_t port;

    if (!node_id_read(id_text, &id))
        return "the node ID is not 40 letters and digits";
    if (host.size == 0 || !node_ip_is_valid(host))
        return "the host is no address or name of at most 45 characters";
    if (!text_to_int(port_text, &port) || port < 1 || port > UINT16_MAX)
        return "the port is not 1 to 65535";
    if (!is_primary_role(role) && !is_replica_role(role))
        return "the role is neither master nor slave";
    if (is_primary_role(role) ? !bytes_is(master_text, "-") : !node_id_read(master_text, &master))
        return "a master has '-' in place of a master, and a slave the ID of its master";
    append_node(to, &id, host, is_tls ? 0 : (uint16_t)port, is_tls ? (uint16_t)port : 0,
        is_primary_role(role) ? has_failed ? "master,fail" : "master" : has_failed ? "slave,fail" : "slave", master.text);
    return append_slots(to, line) ? NULL : "a slot is not a number or a range";
}

static const char *translate(struct translation *to, struct bytes text)
{
    const struct node *myself = to->bus->members->myself;
    const char *reason = NULL;

    while (text.size > 0 && reason == NULL) {
        struct bytes line = take_line(&text), rest = line;

        to->line++;
        if (take_word(&rest).size > 0)
            reason = translate_line(to, line);
    }
    if (reason != NULL)
        return bus_refuse(to->bus, "ERR Invalid cluster nodes info: line %u: %s", to->line, reason);
    if (to->out.size == 0)
        return "ERR Invalid cluster nodes info: there is no node";
    if (!to->has_myself) {
        append_node(to, &myself->id, bytes_of_string(myself->ip), myself->port, myself->tls_port, "master", "-");
        to->has_myself = false;
        buffer_append_string(&to->out, "\n");
    }
    buffer_append_format(&to->out, "vars currentEpoch %" PRId64 " lastVoteEpoch %" PRIu64 "\n", to->version, to->bus->members->last_vote_epoch);
    return NULL;
}

static bool replicas_have_primaries(const struct members *members)
{
    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];

        if (node->master != NULL && node->master->master != NULL)
            return false;
    }
    return true;
}

static const char *replace_table(struct bus *bus, const struct translation *translated, enum managed_force force)
{
    struct slots named = { { 0 } };
    const char *error = NULL;
    struct members *next = read_table(bus, buffer_bytes(&translated->out), &error);

    if (next == NULL)
        return error;
    if (!replicas_have_primaries(next)) {
        members_destroy(next);
        return "ERR Invalid cluster nodes info: the master of a slave is a slave";
    }
    name_shards(next);
    if (force == MANAGED_FORCED)
        slots_add_range(&named, (struct slot_range){ 0, SLOT_COUNT - 1 });
    adopt(bus, next, translated->has_myself, &named);
    return NULL;
}

const char *managed_set_nodes(struct bus *bus, struct bytes text, int64_t version, enum managed_force force)
{
    struct translation translation = { .bus = bus, .version = version };
    uint64_t present = bus->members->current_epoch;
    const char *error;

    if (version < 1 || (force == MANAGED_NOT_FORCED && (uint64_t)version < present))
        return bus_refuse(bus, "ERR Invalid cluster version %" PRId64 ": the topology of this node has version %" PRIu64, version, present);
    if (force == MANAGED_NOT_FORCED && (uint64_t)version == present)
        return NULL;
    if (text.size > NODES_FILE_SIZE_MAX)
        return "ERR Invalid cluster nodes info: it is too long";
    error = translate(&translation, text);
    if (error == NULL)
        error = replace_table(bus, &translation, force);
    buffer_release(&translation.out);
    return error;
}

/* --- The others --- */

static struct members *copy_table(struct bus *bus)
{
    struct buffer text = { 0 };
    struct members *members;
    const char *error;

    members_write(bus->members, &text);
    members = read_table(bus, buffer_bytes(&text), &error);
    buffer_release(&text);
    return members;
}

const char *managed_set_slots(struct bus *bus, struct slot_range range, const struct node_id *owner_id, int64_t version)
{
    struct node *owner = members_find(bus->members, owner_id);
    struct slots named = { { 0 } };
    struct members *next;

    if (version < 1 || (uint64_t)version != bus->members->current_epoch + 1)
        return bus_refuse(bus, "ERR Invalid cluster version %" PRId64 ": the next one is %" PRIu64, version, bus->members->current_epoch + 1);
    if (owner == NULL)
        return bus_refuse(bus, "ERR Unknown node %.40s", owner_id->text);
    if (!(owner->flags & NODE_MASTER))
        return "ERR The node is not a master";
    next = copy_table(bus);
    if (next == NULL)
        return bus->own->error.text;
    managed_undo_moves(next);
    slots_add_range(&named, range);
    for (unsigned slot = range.first; slot <= range.last; slot++)
        members_bind(next, slot, members_find(next, owner_id));
    for (unsigned i = 0; i < next->count; i++) {
        if (next->all[i]->flags & NODE_MASTER)
            members_set_epoch(next, next->all[i], (uint64_t)version);
    }
    adopt(bus, next, true, &named);
    return NULL;
}

const char *managed_set_id(struct bus *bus, const struct node_id *id)
{
    struct members *members = bus->members;

    if (node_id_equal(id, &members->myself->id))
        return NULL;
    if (members_find(members, id) != NULL)
        return "ERR The node ID is that of another node of this cluster";
    members_rename(members, members->myself, id);
    name_shards(members);
    bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    return NULL;
}

const char *managed_heartbeat(struct bus *bus, const struct node_id *master_id, int64_t election)
{
    const struct node *myself = bus->members->myself, *master = myself->master != NULL ? myself->master : myself;

    if (!managed_is_initialized(bus))
        return managed_not_initialized;
    if (election < 0 || (uint64_t)election < bus->members->last_vote_epoch)
        return bus_refuse(bus, "ERR election version mismatch: this node knows of %" PRIu64, bus->members->last_vote_epoch);
    if (!node_id_equal(master_id, &master->id))
        return bus_refuse(bus, "ERR master mismatch: that of this node's shard is %.40s", master->id.text);
    if ((uint64_t)election > bus->members->last_vote_epoch) {
        bus->members->last_vote_epoch = (uint64_t)election;
        bus_note(bus, BUS_CHANGE_PROMISE | BUS_CHANGE_MAP);
    }
    return NULL;
}

const char *managed_reset(struct bus *bus, bool is_hard, bool has_keys, int64_t now_ms)
{
    const char *error = bus_reset(bus, is_hard, has_keys, now_ms);

    if (error != NULL)
        return error;
    bus->members->current_epoch = bus->members->last_vote_epoch = bus->members->myself->config_epoch = 0;
    managed_refresh(bus);
    return NULL;
}
