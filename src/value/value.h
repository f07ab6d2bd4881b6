/* Value: what a key contains. Each type has a file; types know no keys, clients or disks.
 *
 * Strings of up to STRING_INLINE_MAX bytes are stored in their key's entry, so a string value is only a view of bytes.
 * All others are a pointer to an object that the value owns.
 *
 * Owner: the lock of the entry's partition; a value that is not in an entry belongs to its creator.
 */
#ifndef KELVIN_VALUE_VALUE_H
#define KELVIN_VALUE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/siphash.h"
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

enum value_encoding {   /* four bits in an entry; the meaning depends on the type */
    VALUE_PAGED = 8,        /* a bit: `object` is a struct paged_value, the elements are in pages (value/paged.h) */

    STRING_INT = 0,         /* `integer` */
    STRING_EMBEDDED = 1,    /* `bytes`; OBJECT ENCODING says embstr up to 44 bytes, then raw */
    STRING_RAW = 2,         /* `bytes`; OBJECT ENCODING says raw: it was changed in place */
    STRING_BIG = 3,         /* `object` is a struct blob; says raw */
    STRING_PAGED = VALUE_PAGED | STRING_BIG,    /* a struct paged_string; says raw */

    HASH_LISTPACK = 0,      /* `object` is a listpack: field, value, field, value ... */
    HASH_TABLE = 1,         /* `object` is a struct dict */
    HASH_LISTPACK_TIMES = 2,    /* fields that expire: field, value, time ..., by time; OBJECT ENCODING says listpackex */
    HASH_TABLE_TIMES = 3,       /* a struct timed_table: a dict, and the times; OBJECT ENCODING says hashtable */
    HASH_PAGED = VALUE_PAGED | HASH_TABLE,      /* a struct paged_value; says hashtable */
    HASH_PAGED_TIMES = VALUE_PAGED | HASH_TABLE_TIMES,      /* a struct paged_times; says hashtable */

    LIST_LISTPACK = 0,      /* `object` is a listpack: its elements */
    LIST_CHUNKS = 1,        /* `object` is a struct chunk_list; says quicklist */
    LIST_PAGED = VALUE_PAGED | LIST_CHUNKS,     /* a struct paged_list; says quicklist */

    ZSET_LISTPACK = 0,      /* `object` is a listpack: member, score, member, score ..., in order */
    ZSET_TREE = 1,          /* `object` is a struct btree; says skiplist */
    ZSET_PAGED = VALUE_PAGED | ZSET_TREE,       /* a struct paged_ordered; says skiplist */

    SET_INTSET = 0,         /* `object` is a struct intset */
    SET_LISTPACK = 1,       /* a listpack: its members */
    SET_TABLE = 2,          /* a struct dict whose values are empty */
    SET_PAGED = VALUE_PAGED | SET_TABLE,        /* says hashtable */

    STREAM_NODES = 0,       /* `object` is a struct stream */
    STREAM_PAGED = VALUE_PAGED | STREAM_NODES,      /* a struct paged_stream */
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

/* The sizes from which the compact encodings are not used (the *-max-listpack-* settings), and the seed of all tables.
 * The seed belongs to the server, is random and is kept with the store: a table that was demoted and loaded again has
 * the same order, so an HSCAN in progress misses nothing. All zero works, but lets clients choose fields that collide. */
struct value_limits {
    size_t hash_listpack_entries_max, hash_listpack_value_max;
    size_t set_intset_entries_max, set_listpack_entries_max, set_listpack_value_max;
    size_t zset_listpack_entries_max, zset_listpack_value_max;
    size_t stream_node_size_max, stream_node_entries_max;       /* 0: no limit. Only for adding entries */
    /* Largest string that decoding unpacks, in bytes, 0: no limit. For what clients send. Listpacks have their own limit. */
    size_t string_unpacked_max;
    int list_fill, list_depth;      /* list-max-listpack-size, list-compress-depth: value/chunk_list.h */
    enum { LIST_BY_SIZE, LIST_KEPT_LISTPACK, LIST_KEPT_CHUNKS } list_kept;      /* the decoded list had this encoding, whatever its size */
    size_t page_threshold;      /* tier-page-threshold: bytes from which a table is kept in pages, 0: never */
    size_t page_size;           /* tier-page-size: bytes of a page's elements, on average */
    struct hash_seed seed;
};

static inline bool value_is_object(const struct value *value)
{
    return value->type != VALUE_STRING || value->encoding >= STRING_BIG;
}

static inline bool value_is_paged(const struct value *value)
{
    return value->encoding & VALUE_PAGED;
}

/* "string", "hash", ... as TYPE returns it; "listpack", "embstr", ... as OBJECT ENCODING returns it. */
const char *value_type_name(uint8_t type);
const char *value_encoding_name(const struct value *value);

/* Frees the object if there is one; of a paged value its root, not the pages. */
void value_free(struct value *value);

/* Bytes of memory outside of the entry, as the allocator counts them (0 for inline strings). For large objects
 * `samples` elements are measured and the rest extrapolated; 0 measures all. */
size_t value_memory(const struct value *value, size_t samples);

/* Bytes that the elements of a value in pages take beside that, if all are in RAM, about; 0 for others. */
size_t value_memory_in_pages(const struct value *value);

/* How much work it is to free the value: 0 for no memory block, 1 for one, the number of elements for a table. Decides
 * about lazy freeing. */
size_t value_free_effort(const struct value *value);

/* A copy that does not change with the original: long strings share their blob until one of them is changed; inline
 * strings are still borrowed. */
struct value value_copy(const struct value *value);

/* Order-independent 20-byte digest for DEBUG DIGEST: equal data has an equal digest, whatever the encoding, in every
 * process. It is not the SHA-1 that Redis computes, and offers no protection against deliberate collisions. */
void value_digest(const struct value *value, uint8_t digest[20]);

#endif
