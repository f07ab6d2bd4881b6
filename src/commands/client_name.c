#include "commands/client_name.h"

#include "base/mem.h"

bool client_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '!' || name.data[i] > '~')
            return false;
    }
    return true;
}

static size_t size_of(const char *text)
{
    return text == NULL ? 0 : mem_size(text);
}

void client_set_text(struct client *client, char **field, struct bytes text)
{
    client->names_size -= size_of(*field);
    mem_free(*field);
    *field = text.size > 0 ? mem_string(text) : NULL;
    client->names_size += size_of(*field);
}
