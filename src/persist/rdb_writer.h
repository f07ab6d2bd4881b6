/* RDB writer: an RDB file as a stream, through a buffer of fixed size. docs/formats/rdb.md describes the bytes.
 *
 *   rdb_writer_create, rdb_write_aux ..., rdb_write_function ..., then for each database rdb_write_db and its keys, rdb_writer_end, rdb_writer_destroy
 *
 * The version is 10, which Redis 7.0 and newer load. A value of a type that needs more makes it 11 or 12: the header is overwritten at the
 * end, and the checksum is updated, so the file has to be seekable then. For readers that read the file while it grows the version is fixed
 * from the beginning, and a value that needs more is an error.
 *
 * Errors are sticky: after the first one nothing is written any more, and every function returns the same. The caller syncs and names the
 * file. Owner: one thread.
 */
#ifndef KELVIN_PERSIST_RDB_WRITER_H
#define KELVIN_PERSIST_RDB_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/disk.h"
#include "base/status.h"

struct rdb_writer;

struct rdb_writer_options {
    int fd;                     /* at its beginning; the caller keeps it */
    bool without_checksum;      /* rdbchecksum no: the checksum is 0 */
    bool compress;              /* rdbcompression yes: long strings of values as LZF */
    int version;                /* fixed; 0: it depends on the values */
    /* After each write to the file, of 1 MiB at most then: what is below `size` does not change any more, if the version is fixed. False:
     * STATUS_CANCELLED. NULL: none. */
    bool (*wrote)(void *context, uint64_t size);
    void *context;
    const struct disk *disk;    /* for tests: instead of the system's; or NULL */
};

struct rdb_writer *rdb_writer_create(const struct rdb_writer_options *options);
void rdb_writer_destroy(struct rdb_writer *writer);     /* buffered bytes are dropped; NULL is fine */

enum status rdb_write_aux(struct rdb_writer *writer, struct bytes name, struct bytes value);

/* A library of functions, before the first database. */
enum status rdb_write_function(struct rdb_writer *writer, struct bytes code);

/* The database of the keys that follow, and their number, which is a hint for a server that loads them; RDB_COUNT_UNKNOWN: no hint. */
#define RDB_COUNT_UNKNOWN UINT64_MAX
enum status rdb_write_db(struct rdb_writer *writer, uint64_t db, uint64_t key_count, uint64_t expiring_count);

struct rdb_key {
    struct bytes key;
    int64_t expire_ms;          /* -1: never */
    int freq;                   /* LFU: 0 .. 255; -1: not given */
    struct bytes payload;       /* value/codec.h: type and body */
};
/* STATUS_VERSION: the value needs a newer version than the fixed one; nothing was written, and the error is not sticky. */
enum status rdb_write_key(struct rdb_writer *writer, const struct rdb_key *key);
/* More elements of the value of that key, whose payload, with this type, was only its beginning. */
enum status rdb_write_elements(struct rdb_writer *writer, uint8_t type, struct bytes elements);
/* The end of that value, which is not elements and is not compressed. */
enum status rdb_write_end(struct rdb_writer *writer, struct bytes bytes);

/* Writes what is buffered. */
enum status rdb_writer_flush(struct rdb_writer *writer);

/* Writes the end and the checksum, and everything that is buffered. STATUS_INVALID: a newer version is needed, and the file is not
 * seekable. */
enum status rdb_writer_end(struct rdb_writer *writer);

uint64_t rdb_writer_size(const struct rdb_writer *writer);      /* bytes so far, including those buffered */
int rdb_writer_error(const struct rdb_writer *writer);          /* errno of the first failure; 0: none */

#endif
