#include "cluster/members.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* The index of the first node whose ID is not below `id`. */
static unsigned place_of(const struct members *members, const struct node_id *id)
{
    unsigned low = 0, high = members->count;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (node_id_compare(&members->all[middle]->id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct node *members_find(const struct members *members, const struct node_id *id)
{
    unsigned at = place_of(members, id);

    return at < members->count && node_id_equal(&members->all[at]->id, id) ? members->all[at] : NULL;
}

static void insert_node(struct members *members, struct node *node)
{
    unsigned at = place_of(members, &node->id);

    CHECK(at == members->count || !node_id_equal(&members->all[at]->id, &node->id));
    if (members->count == members->room) {
        members->room = members->room * 2 + 8;
        members->all = mem_realloc(members->all, members->room * sizeof(struct node *));
    }
    memmove(members->all + at + 1, members->all + at, (members->count - at) * sizeof(struct node *));
    members->all[at] = node;
    members->count++;
}

static void take_out(struct members *members, const struct node *node)
{
    unsigned at = place_of(members, &node->id);

    CHECK(at < members->count && members->all[at] == node);
    members->count--;
    memmove(members->all + at, members->all + at + 1, (members->count - at) * sizeof(struct node *));
}

struct node *members_add(struct members *members, const struct node_id *id, uint16_t flags, struct random *random)
{
    struct node *node;

    if (members->count == NODES_FILE_COUNT_MAX)
        return NULL;
    node = mem_zalloc(sizeof(*node));
    node->id = *id;
    node->flags = flags;
    node_id_make(random, &node->shard_id);
    insert_node(members, node);
    return node;
}

static void destroy_node(struct node *node)
{
    buffer_release(&node->host_name);
    buffer_release(&node->name);
    mem_free(node->reports);
    mem_free(node);
}

static void leave_master(struct node *node)
{
    if (node->master != NULL && --node->master->replica_count == 0)
        node->master->flags &= (uint16_t)~NODE_MIGRATE_TO;
    node->master = NULL;
}

static void lose_slots(struct members *members, struct node *node)
{
    struct slot_range range;

    for (unsigned at = 0; slots_next(&node->slots, at, &range); at = range.last + 1U) {
        for (unsigned slot = range.first; slot <= range.last; slot++)
            members_bind(members, slot, NULL);
    }
}

/* Removes what another node has of it. */
static void forget_in(struct node *other, const struct node *node)
{
    if (other->master == node)
        leave_master(other);
    for (unsigned i = 0; i < other->report_count; i++) {
        if (other->reports[i].reporter == node)
            other->reports[i--] = other->reports[--other->report_count];
    }
}

void members_remove(struct members *members, struct node *node)
{
    CHECK(node != members->myself);
    take_out(members, node);
    lose_slots(members, node);
    leave_master(node);
    for (unsigned i = 0; i < members->count; i++)
        forget_in(members->all[i], node);
    for (unsigned i = members->move_count; i > 0; i--) {
        if (members->moves[i - 1].other == node)
            members_end_move(members, members->moves[i - 1].slot);
    }
    destroy_node(node);
}

void members_rename(struct members *members, struct node *node, const struct node_id *id)
{
    take_out(members, node);
    node->id = *id;
    insert_node(members, node);
}

/* Ends, also if replicas are in a circle: each node is set once. */
void members_set_shard(struct members *members, struct node *node, const struct node_id *id)
{
    node->shard_id = *id;
    for (unsigned i = 0; i < members->count && node->replica_count > 0; i++) {
        struct node *replica = members->all[i];

        if (replica->master == node && !node_id_equal(&replica->shard_id, id))
            members_set_shard(members, replica, id);
    }
}

void members_set_master(struct members *members, struct node *node, struct node *master)
{
    CHECK(node != master);
    lose_slots(members, node);
    leave_master(node);
    if (node == members->myself) {
        members->conceded = (struct slots){ { 0 } };
        members->move_count = 0;            /* a replica moves no slot, and what is imported would defend it against claims */
    }
    node->flags = (uint16_t)((node->flags & ~(NODE_MASTER | NODE_MIGRATE_TO)) | NODE_REPLICA);
    node->master = master;
    if (master != NULL) {
        master->replica_count++;
        master->flags |= NODE_MIGRATE_TO;
        members_set_shard(members, node, &master->shard_id);
    }
}

void members_set_primary(struct members *members, struct node *node)
{
    if (node->master != NULL && node != members->myself)
        node->flags |= NODE_MIGRATE_TO;     /* replicas may come to it, as to one that had them */
    leave_master(node);
    node->flags = (uint16_t)((node->flags & ~NODE_REPLICA) | NODE_MASTER);
}

void members_bind(struct members *members, unsigned slot, struct node *owner)
{
    struct node *before = members->owners[slot];

    if (owner == NULL && slots_has(&members->conceded, slot))
        owner = members->myself;
    CHECK(owner == NULL || owner->flags & NODE_MASTER);
    slots_remove(&members->unclaimed, slot);
    if (owner == members->myself) {
        slots_remove(&members->conceded, slot);
        slots_remove(&members->unwanted, slot);
    }
    if (before == owner)
        return;
    if (before != NULL) {
        slots_remove(&before->slots, slot);
        before->slot_count--;
    }
    if (owner != NULL) {
        slots_add(&owner->slots, slot);
        owner->slot_count++;
    }
    members->owners[slot] = owner;
}

/* The index of the first move of a slot not below this one. */
static unsigned move_place(const struct members *members, unsigned slot)
{
    unsigned at = 0;

    while (at < members->move_count && members->moves[at].slot < slot)
        at++;
    return at;
}

const struct node_move *members_move_of(const struct members *members, unsigned slot)
{
    unsigned at = move_place(members, slot);

    return at < members->move_count && members->moves[at].slot == slot ? &members->moves[at] : NULL;
}

void members_begin_move(struct members *members, const struct node_move *move)
{
    unsigned at;

    members_end_move(members, move->slot);
    if (move->is_import)
        slots_remove(&members->unwanted, move->slot);
    at = move_place(members, move->slot);
    if (members->move_count == members->move_room) {
        members->move_room = members->move_room * 2 + 4;
        members->moves = mem_realloc(members->moves, members->move_room * sizeof(*members->moves));
    }
    memmove(members->moves + at + 1, members->moves + at, (members->move_count - at) * sizeof(*members->moves));
    members->moves[at] = *move;
    members->move_count++;
}

void members_end_move(struct members *members, unsigned slot)
{
    unsigned at = move_place(members, slot);

    if (at == members->move_count || members->moves[at].slot != slot)
        return;
    members->move_count--;
    memmove(members->moves + at, members->moves + at + 1, (members->move_count - at) * sizeof(*members->moves));
}

void members_set_epoch(struct members *members, struct node *node, uint64_t epoch)
{
    node->config_epoch = epoch;
    if (members->current_epoch < epoch)
        members->current_epoch = epoch;
}

uint64_t node_epoch(const struct node *node)
{
    return node->master != NULL ? node->master->config_epoch : node->config_epoch;
}

unsigned members_voters(const struct members *members)
{
    unsigned count = 0;

    for (unsigned i = 0; i < members->count; i++)
        count += node_is_voter(members->all[i]);
    return count;
}

struct members *members_create(struct random *random)
{
    struct members *members = mem_zalloc(sizeof(*members));
    struct node_id id;

    node_id_make(random, &id);
    members->myself = members_add(members, &id, NODE_MYSELF | NODE_MASTER, random);
    return members;
}

static void load_node(struct members *members, const struct nodes_file_node *from, int64_t now_ms, struct random *random)
{
    struct node *node = members_add(members, &from->id, from->flags, random);

    if (!node_id_is_none(&from->shard_id))
        node->shard_id = from->shard_id;
    memcpy(node->ip, from->ip.data, from->ip.size);
    node->port = from->port;
    node->tls_port = from->tls_port;
    node->bus_port = from->bus_port;
    buffer_append_bytes(&node->host_name, from->host_name);
    buffer_append_bytes(&node->name, from->name);
    node->ping_sent_ms = from->ping_sent_ms != 0 ? now_ms : 0;
    node->pong_ms = from->pong_ms != 0 ? now_ms : 0;
    node->fail_ms = from->flags & NODE_FAIL ? now_ms : 0;
    members_set_epoch(members, node, from->flags & NODE_REPLICA ? 0 : from->config_epoch);
    if (from->flags & NODE_MYSELF)
        members->myself = node;
}

struct members *members_create_from(const struct nodes_file *file, int64_t now_ms, struct random *random)
{
    struct members *members = mem_zalloc(sizeof(*members));

    for (uint32_t i = 0; i < file->node_count; i++)
        load_node(members, &file->nodes[i], now_ms, random);
    members->current_epoch = file->current_epoch;
    members->last_vote_epoch = file->last_vote_epoch;
    members->unwanted = file->unwanted;
    members->handed_over = file->handed_over;
    members->handed_to = file->handed_to;
    members->handed_receipt = file->handed_receipt;
    members->handed_epoch = file->handed_epoch;
    moved_slots_copy(&members->moved, &file->moved);
    for (uint32_t i = 0; i < file->node_count; i++) {
        if (!node_id_is_none(&file->nodes[i].master))
            members_set_master(members, members_find(members, &file->nodes[i].id), members_find(members, &file->nodes[i].master));
    }
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        if (file->owners[slot] != 0)
            members_bind(members, slot, members_find(members, &file->nodes[file->owners[slot] - 1].id));
    }
    for (uint32_t i = 0; i < file->move_count; i++) {
        const struct nodes_file_move *move = &file->moves[i];

        members_begin_move(members, &(struct node_move){ members_find(members, &move->other), move->slot, move->is_import });
    }
    return members;
}

void members_destroy(struct members *members)
{
    if (members == NULL)
        return;
    for (unsigned i = 0; i < members->count; i++)
        destroy_node(members->all[i]);
    mem_free(members->all);
    mem_free(members->moves);
    moved_slots_release(&members->moved);
    mem_free(members);
}

/* A node in a handshake is not: neither as a master, nor as the other end of a move. */
static bool is_written(const struct node *node)
{
    return node != NULL && !(node->flags & NODE_HANDSHAKE);
}

static struct nodes_file_node file_node_of(const struct node *node)
{
    struct nodes_file_node to = {
        .id = node->id, .shard_id = node->shard_id, .ip = bytes_of_string(node->ip), .host_name = buffer_bytes(&node->host_name),
        .name = buffer_bytes(&node->name), .port = node->port, .tls_port = node->tls_port, .bus_port = node->bus_port, .flags = node->flags,
        .is_connected = node->is_connected || node->flags & NODE_MYSELF, .ping_sent_ms = (uint64_t)node->ping_sent_ms,
        .pong_ms = (uint64_t)node->pong_ms, .config_epoch = node_epoch(node),
    };

    if (is_written(node->master))
        to.master = node->master->id;
    return to;
}

static void copy_migrations(const struct members *members, struct nodes_file *file)
{
    file->handed_over = members->handed_over;
    file->handed_to = members->handed_to;
    file->handed_receipt = members->handed_receipt;
    file->handed_epoch = members->handed_epoch;
    moved_slots_copy(&file->moved, &members->moved);
}

void members_write_moves(const struct members *members, struct buffer *out)
{
    struct nodes_file *file = mem_zalloc(sizeof(*file));

    copy_migrations(members, file);
    buffer_append_format(out, " version %llu", (unsigned long long)members->current_epoch);
    nodes_file_write_moves(file, out);
    nodes_file_release(file);
    mem_free(file);
}

void members_write(const struct members *members, struct buffer *out)
{
    struct nodes_file *file = mem_zalloc(sizeof(*file));

    file->current_epoch = members->current_epoch;
    file->last_vote_epoch = members->last_vote_epoch;
    file->nodes = mem_alloc(members->count * sizeof(*file->nodes));
    file->moves = mem_alloc((members->move_count + 1) * sizeof(*file->moves));
    for (unsigned i = 0; i < members->count; i++) {
        const struct node *node = members->all[i];
        struct slot_range range;

        if (!is_written(node))
            continue;
        if (node == members->myself)
            file->myself = file->node_count;
        file->nodes[file->node_count++] = file_node_of(node);
        for (unsigned at = 0; slots_next(&node->slots, at, &range); at = range.last + 1U) {
            for (unsigned slot = range.first; slot <= range.last; slot++)
                file->owners[slot] = (uint16_t)file->node_count;
        }
    }
    for (unsigned i = 0; i < members->move_count; i++) {
        const struct node_move *move = &members->moves[i];

        if (is_written(move->other))
            file->moves[file->move_count++] = (struct nodes_file_move){ move->other->id, move->slot, move->is_import };
    }
    file->unwanted = members->unwanted;
    copy_migrations(members, file);
    nodes_file_write(file, out);
    nodes_file_release(file);
    mem_free(file);
}

static void verify_node(const struct members *members, const struct node *node)
{
    unsigned replicas = 0;

    for (unsigned i = 0; i < members->count; i++)
        replicas += members->all[i]->master == node;
    CHECK(replicas == node->replica_count && node->slot_count == slots_count(&node->slots));
    CHECK(node->config_epoch <= members->current_epoch);
    CHECK(node->master == NULL || (node->flags & NODE_REPLICA && node->slot_count == 0 && members_find(members, &node->master->id) == node->master &&
                                   node_id_equal(&node->shard_id, &node->master->shard_id)));
    CHECK(!(node->flags & NODE_MASTER) || !(node->flags & NODE_REPLICA));
    for (unsigned i = 0; i < node->report_count; i++)
        CHECK(members_find(members, &node->reports[i].reporter->id) == node->reports[i].reporter);
}

void members_verify(const struct members *members)
{
    unsigned bound = 0, owned = 0;

    for (unsigned i = 0; i < members->count; i++) {
        CHECK(i == 0 || node_id_compare(&members->all[i - 1]->id, &members->all[i]->id) < 0);
        verify_node(members, members->all[i]);
        owned += members->all[i]->slot_count;
    }
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        CHECK(members->owners[slot] == NULL || slots_has(&members->owners[slot]->slots, slot));
        CHECK(!slots_has(&members->unclaimed, slot) || members->owners[slot] != NULL);
        CHECK(!slots_has(&members->conceded, slot) || (members->owners[slot] != members->myself && members->myself->flags & NODE_MASTER));
        CHECK(members->owners[slot] == NULL || moved_slots_find(&members->moved, slot) == NULL ||
              node_id_equal(&members->owners[slot]->id, &moved_slots_find(&members->moved, slot)->to));
        bound += members->owners[slot] != NULL;
    }
    CHECK(bound == owned && members->myself->flags & NODE_MYSELF);
    for (unsigned i = 0; i < members->move_count; i++) {
        CHECK(i == 0 || members->moves[i - 1].slot < members->moves[i].slot);
        CHECK(members_find(members, &members->moves[i].other->id) == members->moves[i].other);
    }
}
