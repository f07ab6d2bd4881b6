/* String access: what the string and bitmap commands share to read, create and change the string of a key. */
#ifndef KELVIN_COMMANDS_STRING_ACCESS_H
#define KELVIN_COMMANDS_STRING_ACCESS_H

#include "call/key.h"
#include "call/streamed.h"
#include "value/string.h"

/* The bytes of the key's string, empty if it is absent. An integer is printed into `digits`. */
static inline struct bytes string_of(const struct key *key, char digits[TEXT_INT_SIZE])
{
    return key->present ? string_bytes(&key->value, digits) : bytes_of("", 0);
}

/* The hot path of GET: inline bytes go from the entry into the reply. */
static inline void reply_string(struct reply *reply, const struct value *value)
{
    char digits[TEXT_INT_SIZE];

    if (__builtin_expect(value->encoding == STRING_EMBEDDED, 1))
        reply_bulk(reply, value->bytes);
    else if (value->encoding == STRING_BIG)
        reply_bulk_blob(reply, value->object);
    else
        reply_bulk(reply, string_bytes(value, digits));
}

/* Bytes of the longest string that the call may make. What a log or a primary's stream has was allowed where it was written, so a smaller
 * proto-max-bulk-len here does not count; but a damaged or hostile one asks for no more than its commands could have sent. */
static inline uint64_t string_size_max(const struct call *call)
{
    uint64_t max = (uint64_t)call->turn->string_size_max;

    return call->client->caller & TRAIT_OBEYED && max < STREAMED_SIZE_MAX ? STREAMED_SIZE_MAX : max;
}

/* False if a string of `size` bytes would be too long: ERR_VALUE_TOO_LARGE was replied. */
bool string_size_allowed(struct call *call, uint64_t size);

/* Memory for a string of `size` bytes, not zeroed, and the value over it, which must be given to key_replace and stored with
 * key_changed: nothing else would free it. */
char *string_make(struct call *call, size_t size, struct value *value);

/* The key's string, extended to `size_min` bytes with zeros if it is shorter, for changes in place. A large string is not copied
 * and grows like a buffer. Valid until the next change of a key. */
struct string_edit {
    char *data;
    size_t size;
    bool grown;         /* it became longer, or was absent: always a change */
    bool recoded;       /* it was an integer or embedded, and is raw now */
};
struct string_edit string_edit_begin(struct key *key, size_t size_min);

/* Stores it. If nothing changed there is no event, but OBJECT ENCODING is raw afterwards, as in Redis. */
void string_edit_end(struct key *key, const struct string_edit *edit, bool changed, enum event event);

#endif
