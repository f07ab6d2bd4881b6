#include "cluster/redirection.h"

static enum slot_state state_of(const struct topology *topology, unsigned slot)
{
    int owner = topology->owners[slot];
    bool moves = topology->moves[slot] >= 0;

    if (owner < 0)
        return SLOT_UNASSIGNED;
    if (owner == topology->myself && slots_has(&topology->handed_over, slot))
        return topology->handed_epoch != 0 ? SLOT_IN_DOUBT : SLOT_HANDED_OVER;
    if (owner == topology->myself)
        return moves ? SLOT_EXPORTING : SLOT_OWNED;
    if (topology->receipt != 0 && slots_has(&topology->received, slot))
        return SLOT_RECEIVED;
    if (moves)
        return SLOT_IMPORTING;
    return owner == topology->nodes[topology->myself].master ? SLOT_OF_PRIMARY : SLOT_FOREIGN;
}

void redirection_states(const struct topology *topology, struct slot_states *states)
{
    for (unsigned slot = 0; slot < SLOT_COUNT; slot++)
        states->states[slot] = (uint8_t)state_of(topology, slot);
    states->receipt = topology->receipt;
}

bool redirection_address(const struct topology *topology, unsigned slot, bool is_move, bool is_tls, enum endpoint_type type, struct buffer *out)
{
    int index = is_move ? topology->moves[slot] : topology->owners[slot];
    const struct topology_node *node;

    if (index < 0 || index == topology->myself)
        return false;
    node = &topology->nodes[index];
    if (type == ENDPOINT_IP)
        buffer_append_string(out, node->ip);
    else if (type == ENDPOINT_HOST_NAME)
        buffer_append_bytes(out, node->host_name.size > 0 ? node->host_name : BYTES("?"));
    buffer_append_format(out, ":%u", topology_port(node, is_tls));
    return true;
}
