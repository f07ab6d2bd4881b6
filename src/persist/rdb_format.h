/* The numbers of the RDB format that reader and writer share. docs/formats/rdb.md describes the bytes. */
#ifndef KELVIN_PERSIST_RDB_FORMAT_H
#define KELVIN_PERSIST_RDB_FORMAT_H

enum {
    RDB_VERSION_MIN = 1,
    RDB_VERSION_MAX = 12,           /* of Redis 7.4 and 8 */
    RDB_VERSION_CHECKSUM = 5,       /* from this version on a checksum ends the file */
    RDB_HEADER_SIZE = 9,            /* REDIS and four digits */
    RDB_CHECKSUM_SIZE = 8,
};

/* Bytes that may be in the place of a value's type. */
enum rdb_opcode {
    RDB_OPCODE_SLOT_INFO = 244,     /* three lengths */
    RDB_OPCODE_FUNCTION = 245,      /* a string: a library's code */
    RDB_OPCODE_FUNCTION_OLD = 246,  /* of release candidates only */
    RDB_OPCODE_MODULE_AUX = 247,
    RDB_OPCODE_IDLE = 248,          /* a length: seconds */
    RDB_OPCODE_FREQ = 249,          /* a byte */
    RDB_OPCODE_AUX = 250,           /* two strings */
    RDB_OPCODE_RESIZE = 251,        /* two lengths: keys, and keys with an expiry */
    RDB_OPCODE_EXPIRE_MS = 252,     /* u64 */
    RDB_OPCODE_EXPIRE_S = 253,      /* u32 */
    RDB_OPCODE_SELECT = 254,        /* a length */
    RDB_OPCODE_END = 255,
};

enum rdb_type {
    RDB_TYPE_STRING = 0,
    RDB_TYPE_LIST = 1,
    RDB_TYPE_SET = 2,
    RDB_TYPE_ZSET = 3,              /* scores as text */
    RDB_TYPE_HASH = 4,
    RDB_TYPE_ZSET_2 = 5,            /* scores as doubles */
    RDB_TYPE_MODULE = 6,            /* of release candidates only: only the module can find its end */
    RDB_TYPE_MODULE_2 = 7,
    RDB_TYPE_HASH_ZIPMAP = 9,
    RDB_TYPE_LIST_ZIPLIST = 10,
    RDB_TYPE_SET_INTSET = 11,
    RDB_TYPE_ZSET_ZIPLIST = 12,
    RDB_TYPE_HASH_ZIPLIST = 13,
    RDB_TYPE_LIST_QUICKLIST = 14,
    RDB_TYPE_STREAM = 15,
    RDB_TYPE_HASH_LISTPACK = 16,
    RDB_TYPE_ZSET_LISTPACK = 17,
    RDB_TYPE_LIST_QUICKLIST_2 = 18,
    RDB_TYPE_STREAM_2 = 19,         /* the last of version 10 */
    RDB_TYPE_SET_LISTPACK = 20,
    RDB_TYPE_STREAM_3 = 21,         /* the last of version 11 */
    RDB_TYPE_HASH_EXPIRES_OLD = 22, /* fields with times of their own, of release candidates */
    RDB_TYPE_HASH_LISTPACK_EXPIRES_OLD = 23,
    RDB_TYPE_HASH_EXPIRES = 24,
    RDB_TYPE_HASH_LISTPACK_EXPIRES = 25,    /* the last of version 12 */
};

#endif
