/* Store: records on SSD, in the order of their keys' hashes. LevelDB behind an Env of our own.
 *
 *   store key = incarnation u32 | hash u64 | key bytes          (big-endian, so byte order is hash order)
 *   expiry key = 0xffffffff u32 | expire_ms u64 | incarnation u32 | hash u64 | key bytes -> empty value
 *   meta key  = 0x00000000 u32 | name
 *
 * Incarnations of databases are 1 .. 0xfffffffe.
 *
 * Threads: store_get by any number of threads at once. Everything that writes (store_write, store_reopen,
 * store_snapshot, store_purge) by the writer only. Iterators see the store as it was when they were opened.
 *
 * Errors: a failed write closes the store for writing (STATUS_CLOSED from then on) until store_reopen succeeded.
 * Reads go on as long as LevelDB can serve them.
 */
#ifndef KELVIN_TIER_STORE_H
#define KELVIN_TIER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STORE_INCARNATION_FIRST = 1 };

struct store;
struct store_env;       /* the door to the disk; see tier/store_env.h */

struct store_options {
    const char *dir;                /* is created; its parent exists */
    struct store_env *env;          /* NULL: the machine's disk */
    size_t write_buffer_size;       /* bytes of one memtable; two may be held. 0: 16 MiB */
    size_t block_cache_size;        /* bytes. 0: 1 MiB */
    size_t block_size;              /* bytes. 0: 8 KiB */
    size_t file_size_max;           /* bytes of a table file. 0: 32 MiB */
    int open_files_max;             /* 0: 10000 */
    bool compression;               /* snappy */
};

/* Opens or creates. STATUS_LOCKED: another process has it. STATUS_VERSION: a newer Kelvin wrote it.
 * `message` (at least 256 bytes) gets a sentence for the log on failure. The hash seed is created with the store. */
enum status store_open(const struct store_options *options, struct store **store, char *message);
void store_close(struct store *store);                  /* NULL is fine; waits for LevelDB's thread */

/* Deletes the directory of a store that is not open. STATUS_OK if there was none. */
enum status store_remove(const char *dir, struct store_env *env);

struct hash_seed store_seed(const struct store *store);

/* The record of a key appended to `record`; STATUS_NOT_FOUND is certain. STATUS_IO, STATUS_CORRUPT otherwise. */
enum status store_get(struct store *store, uint32_t incarnation, uint64_t hash, struct bytes key, struct buffer *record);

/* A batch: all of it or nothing. Owner: the writer. Order matters: a later operation on a key wins. */
struct store_batch;
struct store_batch *store_batch_create(void);
void store_batch_destroy(struct store_batch *batch);
void store_batch_clear(struct store_batch *batch);
void store_batch_put(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key, struct bytes record);
void store_batch_delete(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_put_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_delete_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
size_t store_batch_size(const struct store_batch *batch);       /* bytes, about */
uint64_t store_batch_count(const struct store_batch *batch);    /* operations */

/* Writes the batch, not synced. The batch is kept by the caller and carries the number store_number() + 1 into the
 * store with it. On failure the store is closed for writing and the caller keeps the batch for store_reopen. */
enum status store_write(struct store *store, const struct store_batch *batch);

/* The number of the last batch that was written. */
uint64_t store_number(const struct store *store);

/* After a failed store_write or store_compact: closes LevelDB and opens it again with paranoid checks, and finds out whether
 * the batch that failed is in. STATUS_OK: writable again; `*applied` says whether the failed batch is there (then it must
 * not be written again). STATUS_CORRUPT: the store came back with another number; it stays closed for writing.
 * Blocks store_get for the while; iterators and snapshots of before must be closed first. */
enum status store_reopen(struct store *store, bool *applied, char *message);
bool store_is_writable(const struct store *store);

/* Iterator over records in hash order, from (incarnation, hash) on, within the incarnation. Owner: one thread.
 * Rather few and short-lived: each holds old files. */
struct store_iterator;
struct store_record {
    uint64_t hash;
    struct bytes key;
    struct bytes record;    /* both borrowed until the next call */
};
struct store_iterator *store_scan(struct store *store, uint32_t incarnation, uint64_t from_hash);
/* STATUS_OK: `record` is filled. STATUS_NOT_FOUND: the end of the incarnation. Else an error, which ends the scan. */
enum status store_next(struct store_iterator *iterator, struct store_record *record);
void store_scan_close(struct store_iterator *iterator);

/* The expiry keys with expire_ms <= until_ms, soonest first, at most `count` of them; `found` is called for each.
 * Expiry keys may be stale: they only nominate (tier rule 10). */
typedef void store_expiry_found(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
enum status store_expired(struct store *store, int64_t until_ms, int count, store_expiry_found *found, void *context);

/* Deletes every record of an incarnation in steps of at most `count` deletes; *done when none is left.
 * By the writer. Ask for store_compact afterwards when much was deleted. */
enum status store_purge(struct store *store, uint32_t incarnation, uint64_t count, bool *done);
enum status store_compact(struct store *store, uint32_t incarnation);

/* An immutable image of the store in `dir` (must not exist): tables hard-linked, the rest copied and synced.
 * By the writer, between batches. */
enum status store_snapshot(struct store *store, const char *dir, char *message);

/* Bytes on disk (files that are there, whether live or about to go), about; cheap enough for each second. */
uint64_t store_disk_size(struct store *store);
/* Bytes of memory LevelDB itself says it uses: memtables and block cache. */
uint64_t store_memory(struct store *store);
/* A line of LevelDB's own statistics for the curious; freed with mem_free. */
char *store_stats(struct store *store);

#ifdef __cplusplus
}
#endif
#endif
