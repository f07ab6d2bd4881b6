/* String access: what the string and bitmap commands share to read, create and change the string of a key. */
#ifndef KELVIN_COMMANDS_STRING_ACCESS_H
#define KELVIN_COMMANDS_STRING_ACCESS_H

#include "base/compiler.h"
#include "call/key.h"
#include "call/streamed.h"
#include "value/string.h"

/* The bytes of the key's string, empty if it is absent. An integer is printed into `digits`. One in blocks is copied for the call. */
struct bytes string_of_blocks(const struct key *key);
static inline struct bytes string_of(const struct key *key, char digits[TEXT_INT_SIZE])
{
    if (!key->present)
        return bytes_of("", 0);
    return UNLIKELY(string_is_in_blocks(&key->value)) ? string_of_blocks(key) : string_bytes(&key->value, digits);
}

/* Bytes of a string in blocks, which are within it. */
void reply_part(struct reply *reply, const struct value *value, uint64_t offset, size_t size);

/* The hot path of GET: inline bytes go from the entry into the reply. */
static inline void reply_string(struct reply *reply, const struct value *value)
{
    char digits[TEXT_INT_SIZE];

    if (LIKELY(value->encoding == STRING_EMBEDDED))
        reply_bulk(reply, value->bytes);
    else if (value->encoding == STRING_BIG)
        reply_bulk_blob(reply, value->object);
    else if (UNLIKELY(string_is_in_blocks(value)))
        reply_part(reply, value, 0, string_size(value));
    else
        reply_bulk(reply, string_bytes(value, digits));
}

/* Opens the string that is argument 1, which is used in parts. Otherwise as key_open_as. */
bool string_open_part(struct call *call, enum key_access access, struct key *key);
/* Asks for bytes of the key's string, as far as it has them. False: the handler, which has changed nothing, returns. */
bool string_ask(const struct key *key, uint64_t offset, uint64_t size);
/* Bits of the key's string, which are 0 after its end; the bytes with them are there. `width`: 1 to 64. */
uint64_t string_bits(const struct key *key, uint64_t offset, int width);

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

/* The key's string, for a change of the bytes from `offset` on: it has `size` bytes from there, extended with zeros if it is shorter. A large string is not copied and grows like a buffer.
 * Valid until the next change of a key. */
struct string_edit {
    struct key *key;
    char *data;         /* NULL: it is in blocks */
    size_t size;
    bool grown;         /* it became longer, or was absent: always a change */
    bool recoded;       /* it was an integer or embedded, and is raw now */
};
/* False: bytes that will be changed are not there, or it would be too long, and the error was replied; the handler, which has changed nothing, returns. */
bool string_edit_begin(struct key *key, uint64_t offset, size_t size, struct string_edit *edit);
/* All of it is within the bytes that it has begun with, or was asked for before. */
void string_edit_write(struct string_edit *edit, uint64_t offset, struct bytes bytes);
uint64_t string_edit_bits(const struct string_edit *edit, uint64_t offset, int width);
void string_edit_set_bits(struct string_edit *edit, uint64_t offset, int width, uint64_t value);

/* Stores it. If nothing changed there is no event, but OBJECT ENCODING is raw afterwards, as in Redis. */
void string_edit_end(const struct string_edit *edit, bool changed, enum event event);

#endif
