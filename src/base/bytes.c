#include "base/bytes.h"

#include <strings.h>

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);

    if (order != 0)
        return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool bytes_is(struct bytes a, const char *string)
{
    return strlen(string) == a.size && (a.size == 0 || strncasecmp(a.data, string, a.size) == 0);
}
