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

void client_set_text(char **field, struct bytes text)
{
    mem_free(*field);
    *field = text.size > 0 ? mem_string(text) : NULL;
}
