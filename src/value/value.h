/* Value: what a key holds. A type a file; types know nothing of keys, clients or disks.
 *
 * Strings up to STRING_INLINE_MAX bytes live inside their key's entry, so a string value is only a view of bytes.
 * Everything else is one pointer to an object the value owns.
 *
 * Owner: the entry's partition lock; a value not yet put into an entry belongs to whoever made it.
 */
#ifndef KELVIN_VALUE_VALUE_H
#define KELVIN_VALUE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

enum value_type {       /* four bits in an entry */
    VALUE_STRING = 0,
    VALUE_LIST = 1,
    VALUE_SET = 2,
    VALUE_ZSET = 3,
    VALUE_HASH = 4,
    VALUE_STREAM = 5,
    VALUE_TYPE_COUNT
};

enum value_encoding {   /* four bits in an entry; meaning depends on the type */
    STRING_INT = 0,         /* `integer` */
    STRING_EMBEDDED = 1,    /* `bytes`; OBJECT ENCODING says embstr up to 44 bytes, then raw */
    STRING_RAW = 2,         /* `bytes`; says raw: it was changed in place once */
    STRING_BIG = 3,         /* `object` is a struct blob; says raw */

    HASH_LISTPACK = 0,      /* `object` is a listpack: field, value, field, value ... */
    HASH_TABLE = 1,         /* `object` is a struct dict */
    HASH_LISTPACK_TIMES = 2,    /* fields that expire: field, value, time ..., by time; says listpackex */
    HASH_TABLE_TIMES = 3,       /* a struct timed_table: a dict, and the times; says hashtable */

    LIST_LISTPACK = 0,      /* `object` is a listpack: its elements */
    LIST_CHUNKS = 1,        /* `object` is a struct chunk_list; says quicklist */

    ZSET_LISTPACK = 0,      /* `object` is a listpack: member, score, member, score ..., in order */
    ZSET_TREE = 1,          /* `object` is a struct btree; says skiplist */

    SET_INTSET = 0,         /* `object` is a struct intset */
    SET_LISTPACK = 1,       /* a listpack: its members */
    SET_TABLE = 2,          /* a struct dict whose values are empty */

    STREAM_NODES = 0,       /* `object` is a struct stream */
};

enum { STRING_INLINE_MAX = 4096, STRING_EMBSTR_MAX = 44 };

struct value {
    uint8_t type;           /* enum value_type */
    uint8_t encoding;       /* enum value_encoding */
    union {
        int64_t integer;
        struct bytes bytes; /* borrowed: the entry's, or the caller's */
        void *object;       /* owned */
    };
};

/* From which sizes on the compact encodings are left (the *-max-listpack-* settings), and the seed of all tables. The
 * seed is the server's, random and kept with the store: a table that was demoted and comes back has the same order, so an
 * HSCAN that was under way loses nothing. All zero works, but lets outsiders choose colliding fields. */
struct value_limits {
    size_t hash_listpack_entries_max, hash_listpack_value_max;
    size_t set_intset_entries_max, set_listpack_entries_max, set_listpack_value_max;
    size_t zset_listpack_entries_max, zset_listpack_value_max;
    size_t stream_node_size_max, stream_node_entries_max;       /* 0: no limit. Only for what adds entries */
    /* Bytes of a string that decoding unpacks, 0: no limit. For what clients send. What has a listpack's limit keeps to that. */
    size_t string_unpacked_max;
    int list_fill, list_depth;      /* list-max-listpack-size, list-compress-depth: value/chunk_list.h */
    enum { LIST_BY_SIZE, LIST_KEPT_LISTPACK, LIST_KEPT_CHUNKS } list_kept;      /* what is decoded was that, whatever its size */
    struct hash_seed seed;
};

static inline bool value_is_object(const struct value *value)
{
    return value->type != VALUE_STRING || value->encoding == STRING_BIG;
}

/* "string", "hash", ... as TYPE answers; "listpack", "embstr", ... as OBJECT ENCODING answers. */
const char *value_type_name(uint8_t type);
const char *value_encoding_name(const struct value *value);

/* Frees the object if there is one. */
void value_free(struct value *value);

/* Bytes of memory outside of the entry, as the allocator counts them (0 for inline strings). For big objects
 * `samples` elements are looked at and the rest extrapolated; 0 looks at all. */
size_t value_memory(const struct value *value, size_t samples);

/* How much work freeing is: 1 for one block (0 for none), the number of elements for a table. Lazy free goes by it. */
size_t value_effort(const struct value *value);

/* A copy that does not change with the original: long strings share their blob until one of them is changed; inline strings stay borrowed. */
struct value value_copy(const struct value *value);

/* Order-independent 20-byte digest for DEBUG DIGEST: equal data, equal digest, whatever the encoding, in every process.
 * Not the SHA-1 that Redis answers, and not meant to withstand somebody who wants equal digests. */
void value_digest(const struct value *value, uint8_t digest[20]);

#endif
