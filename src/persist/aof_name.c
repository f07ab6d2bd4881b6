#include "persist/aof_name.h"

#include <string.h>

#include "base/buffer.h"

char *aof_name_format(const char *format, const char *name, uint64_t number)
{
    struct buffer text;

    buffer_init(&text);
    buffer_append_string(&text, name);
    buffer_append_format(&text, format, number);
    buffer_append_u8(&text, 0);
    return text.data;
}

bool aof_name_is_image(const char *name)
{
    size_t size = strlen(name), end_size = sizeof(AOF_NAME_IMAGE_END) - 1;

    return size > end_size && memcmp(name + size - end_size, AOF_NAME_IMAGE_END, end_size) == 0;
}
