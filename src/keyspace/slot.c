#include "keyspace/slot.h"

#include "base/crc16.h"

/* The tag, or the whole key. */
static struct bytes hashed_part(struct bytes key)
{
    const char *open = key.size > 0 ? memchr(key.data, '{', key.size) : NULL;
    const char *close;

    if (open == NULL)
        return key;
    open++;
    close = memchr(open, '}', key.size - (size_t)(open - key.data));
    return close == NULL || close == open ? key : bytes_of(open, (size_t)(close - open));
}

uint16_t slot_of_key(struct bytes key)
{
    return crc16(hashed_part(key)) % SLOT_COUNT;
}

uint64_t slot_hash(const struct hash_seed *sip, struct bytes key)
{
    return slot_first_hash(slot_of_key(key)) | (hash_bytes(sip, key) & ((1ull << SLOT_SHIFT) - 1));
}
