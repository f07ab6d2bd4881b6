#include "cluster/node_id.h"

bool node_id_read(struct bytes text, struct node_id *id)
{
    if (text.size != NODE_ID_SIZE)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!(text.data[i] >= 'a' && text.data[i] <= 'z') && !(text.data[i] >= '0' && text.data[i] <= '9'))
            return false;
    }
    memcpy(id->text, text.data, NODE_ID_SIZE);
    return true;
}

bool node_id_is_none(const struct node_id *id)
{
    static const struct node_id none;

    return node_id_equal(id, &none);
}
