#include "script/library_head.h"

#include "base/mem.h"
#include "script/shebang.h"

bool library_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_')
            return false;
    }
    return name.size > 0;
}

bool library_head_read(struct bytes text, struct library_head *head, struct buffer *error)
{
    struct shebang_library shebang;

    *head = (struct library_head){ .name = NULL };
    if (!shebang_of_library(text, &shebang, error))
        return false;
    if (!library_name_is_valid(bytes_of_string(shebang.name)))
        buffer_append_string(error, "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long");
    else if (!bytes_is(bytes_of_string(shebang.engine), "lua"))
        buffer_append_format(error, "ERR Engine '%s' not found", shebang.engine);
    else
        *head = (struct library_head){ mem_string(bytes_of_string(shebang.name)), shebang.body };
    shebang_library_release(&shebang);
    return head->name != NULL;
}

void library_head_release(struct library_head *head)
{
    mem_free(head->name);
    head->name = NULL;
}
