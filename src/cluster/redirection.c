#include "cluster/redirection.h"

/* The state of a slot that is not being moved. */
static enum slot_state state_of_owner(const struct topology *topology, int owner)
{
    if (owner < 0)
        return SLOT_UNASSIGNED;
    if (owner == topology->myself)
        return SLOT_OWNED;
    return owner == topology->nodes[topology->myself].master ? SLOT_OF_PRIMARY : SLOT_FOREIGN;
}

static enum slot_state state_of_moving(const struct topology *topology, unsigned slot)
{
    enum slot_state state = state_of_owner(topology, topology->owners[slot]);
    bool moves = topology->moves[slot] >= 0;

    if (state == SLOT_UNASSIGNED)
        return state;
    if (state == SLOT_OWNED && slots_has(&topology->handed_over, slot))
        return topology->handed_epoch != 0 ? SLOT_IN_DOUBT : SLOT_HANDED_OVER;
    if (state == SLOT_OWNED)
        return moves ? SLOT_EXPORTING : SLOT_OWNED;
    if (topology->receipt != 0 && slots_has(&topology->received, slot))
        return SLOT_RECEIVED;
    return moves ? SLOT_IMPORTING : state;
}

void redirection_states(const struct topology *topology, struct slot_states *states)
{
    enum slot_state state = SLOT_UNASSIGNED;
    int owner = -1;

    for (unsigned slot = 0; slot < SLOT_COUNT; slot++) {
        bool moves = topology->moves[slot] >= 0 || slots_has(&topology->handed_over, slot) || slots_has(&topology->received, slot);

        if (topology->owners[slot] != owner) {
            owner = topology->owners[slot];
            state = state_of_owner(topology, owner);
        }
        states->states[slot] = (uint8_t)(moves ? state_of_moving(topology, slot) : state);
    }
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
