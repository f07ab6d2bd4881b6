#include "cluster/node_id.h"

#include "base/text.h"

bool node_id_read(struct bytes text, struct node_id *id)
{
    if (text.size != NODE_ID_SIZE)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
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

void node_id_make(struct random *random, struct node_id *id)
{
    uint64_t bytes[(NODE_ID_SIZE / 2 + 7) / 8];

    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        bytes[i] = random_next(random);
    text_of_bytes(bytes, NODE_ID_SIZE / 2, id->text);
}
