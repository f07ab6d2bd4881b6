#include "base/xxh3.h"

#include <xxhash.h>

uint64_t xxh3(struct bytes bytes)
{
    return XXH3_64bits(bytes.size > 0 ? bytes.data : "", bytes.size);
}
