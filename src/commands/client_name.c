#include "commands/client_name.h"

#include "base/mem.h"

bool client_name_accept(struct call *call, struct bytes what, struct bytes name)
{
    if (name.size > CLIENT_NAME_SIZE_MAX) {
        reply_errorf(call, "ERR %.*s cannot have more than %d bytes.", (int)what.size, what.data, CLIENT_NAME_SIZE_MAX);
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            reply_errorf(call, "ERR %.*s cannot contain spaces, newlines or special characters.", (int)what.size, what.data);
            return false;
        }
    }
    return true;
}

static size_t size_of(const char *text)
{
    return text == NULL ? 0 : mem_size(text);
}

void client_set_text(struct client *client, char **field, struct bytes text)
{
    client->names.size -= size_of(*field);
    mem_free(*field);
    *field = text.size > 0 ? mem_string(text) : NULL;
    client->names.size += size_of(*field);
}
