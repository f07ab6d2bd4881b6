/* RDB reader: an RDB file of any version up to 12 as a stream, part by part. docs/formats/rdb.md describes the bytes.
 *
 *   reader = rdb_reader_create(&source);
 *   while ((status = rdb_read(reader, &part, message)) == STATUS_OK && part.kind != RDB_PART_END) ...
 *
 * In memory are the bytes read ahead (64 KiB and more) and the current part, which is a whole value unless it is split. Nothing in the file is trusted: memory grows with the bytes
 * that the file has, never with what a length claims. Values are decoded by the codec (value/codec.h): here only their end is found, which
 * works for every type of Redis up to 8.0, except values of modules from before the release of 4.0.
 *
 * Owner: one thread.
 */
#ifndef KELVIN_PERSIST_RDB_READER_H
#define KELVIN_PERSIST_RDB_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"

struct rdb_reader;

struct rdb_source {
    /* Like read(2): up to `size` bytes, in order; 0 at the end, -1 with errno. */
    ssize_t (*read)(void *context, void *to, size_t size);
    void *context;
    uint64_t size;              /* bytes of all, if that is known; else UINT64_MAX */
};
struct rdb_reader *rdb_reader_create(const struct rdb_source *source);
/* A regular file from its beginning; the descriptor's offset is neither used nor changed. The caller keeps `fd`. */
struct rdb_reader *rdb_reader_create_file(int fd);
void rdb_reader_destroy(struct rdb_reader *reader);     /* NULL is fine */
/* From here on sets, sorted sets, lists, streams, strings that are not compressed, and hashes (also with times, of type 24), of more than 1 MiB are handed out in several parts, of about 1 MiB each when it is not
 * compressed. Of a stream the last part has what follows the nodes, too. */
void rdb_reader_split(struct rdb_reader *reader);

enum rdb_part_kind {
    RDB_PART_AUX,               /* name, value */
    RDB_PART_DB,                /* db: of the keys that follow */
    RDB_PART_RESIZE,            /* key_count, expiring_count: a hint */
    RDB_PART_KEY,
    RDB_PART_FUNCTION,          /* value: a library's code */
    RDB_PART_END,               /* the checksum was right, or there is none */
};

/* All bytes are borrowed until the next call. */
struct rdb_part {
    enum rdb_part_kind kind;
    uint64_t offset;            /* in the file: where it begins; a key begins with its type */
    struct bytes name, value;   /* of a key: its name */
    uint64_t db;                /* also of a key */
    uint64_t key_count, expiring_count;
    int64_t expire_ms;          /* -1: never. Times before 1970 are 0 */
    int64_t idle_s;             /* -1: not given */
    int freq;                   /* 0 .. 255; -1: not given */
    uint8_t type;               /* enum rdb_type */
    struct bytes payload;       /* type and body, as codec_decode reads it; empty: codec_peek_type does not know the type, and the body was
                                 * skipped */
    bool is_rest, is_last;      /* more elements of the key of the part before, or the last ones; name, db, type as there */
    uint64_t elements;          /* of the whole value, of a list perhaps its chunks, of a stream its nodes, of a string its bytes, if this is the first of its parts; else 0. The file has a byte of each at least, or two of a pair or chunk */
    uint64_t size;              /* of a part: bytes of its payload if nothing in it were compressed */
    uint64_t left;              /* of a part: bytes of the file after it; UINT64_MAX: not known */
};

/* Reads the next part; modules' aux data and slots' sizes are skipped. Not to be called again after the end or a failure. STATUS_CORRUPT,
 * STATUS_TRUNCATED (it ends early), STATUS_VERSION (a newer file, or an unknown type), STATUS_IO: `message` says what is wrong and at which
 * offset. */
enum status rdb_read(struct rdb_reader *reader, struct rdb_part *part, struct message *message);

int rdb_reader_version(const struct rdb_reader *reader);        /* after the first part */
/* Bytes of the file consumed so far: after the end, the size of the RDB, after which something else may follow. */
uint64_t rdb_reader_offset(const struct rdb_reader *reader);

/* Whether these first bytes (five at least) are those of an RDB file. */
bool rdb_is_one(struct bytes head);
/* "list", "hash" ..., or "unknown"; for messages. */
const char *rdb_type_name(uint8_t type);

#endif
