/* Store: records on SSD, in the order of their keys' hashes. LevelDB behind an Env of our own.
 *
 *   store key = incarnation u32 | hash u64 | key bytes          (big-endian, so byte order is hash order)
 *   expiry key = 0xffffffff u32 | expire_ms u64 | incarnation u32 | hash u64 | key bytes -> empty value
 *   meta key  = 0x00000000 u32 | name      (version u32, seed 16 bytes, number u64)
 *
 * Incarnations of databases are 1 .. 0xfffffffe.
 *
 * Threads: store_get by any number of threads at once. Everything that writes (store_write, store_reopen,
 * store_snapshot, store_purge) by the writer only; store_compact_span by any one thread. Iterators see the store as it was when
 * they were opened.
 *
 * Errors: a failed write closes the store for writing (STATUS_CLOSED from then on) until store_reopen succeeded.
 * Reads go on all the while: where LevelDB can't be opened because the disk takes nothing, what it has to write then is kept in memory
 * (store_overlay.h).
 *
 * What is believed: every block that is read has its checksum verified, whoever reads it. LevelDB verifies filter and
 * index blocks, the inputs of compactions and the logs only with paranoid_checks, so these are always on: without them a bit
 * turned in a filter makes a record "not found", one in a table lives on under a new checksum after the next compaction, and
 * one in a log drops batches out of the middle. With them a damaged filter costs reads (LevelDB goes without it), and all
 * else is STATUS_CORRUPT. A log that ends in the middle of a batch is no damage: that batch never was.
 * A damaged length in the last 32 KiB of a log can pass for such an end: who knows what number the store must have
 * (a checkpoint) compares it with store_number; store_reopen knows what was in the logs.
 */
#ifndef KELVIN_STORE_STORE_H
#define KELVIN_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/message.h"
#include "base/siphash.h"
#include "base/status.h"

enum { STORE_INCARNATION_FIRST = 1 };

/* Bytes of the largest record with its key. LevelDB counts the sizes of keys and values, and the places in a block, in 32 bits, and does
 * not notice when they wrap: the batch is then corrupt in the log, and the store can't be opened again. A block is its last record
 * with its key and up to `block_size` of others, with their lengths and restart points; 256 MiB are left for all that. */
#define STORE_RECORD_SIZE_MAX 0xf0000000ull

struct store;
struct store_env;       /* the door to the disk; see store/store_env.h */

struct store_options {
    const char *dir;                /* is created; its parent exists */
    struct store_env *env;          /* NULL: the machine's disk */
    size_t write_buffer_size;       /* bytes of one memtable; two may be held. 0: 16 MiB */
    size_t block_cache_size;        /* bytes. 0: 1 MiB */
    size_t block_size;              /* bytes. 0: 8 KiB */
    size_t file_size_max;           /* bytes of a table file. 0: 32 MiB */
    int tables_open_max;            /* tables kept open, at least 64. 0: 10000, but at most half of RLIMIT_NOFILE */
    bool compression;               /* snappy */
    bool is_temporary;              /* see store_number. For a store that no later start opens: its logs are not synced */
    bool without_merging;           /* it is only read, and closed soon: its tables stay as they are. With `env` NULL only */
};

/* Opens or creates. STATUS_LOCKED: somebody has it open, this process or another. STATUS_VERSION: a newer Kelvin wrote it.
 * `message` gets a sentence for the log on failure. The hash seed is created with the store. */
enum status store_open(const struct store_options *options, struct store **store, struct message *message);
void store_close(struct store *store);                  /* NULL is fine; waits for LevelDB's thread */

/* Deletes a store that is not open: LevelDB's files, and the directory if there are no others in it. STATUS_OK if there was
 * none; STATUS_LOCKED if it is open after all. */
enum status store_remove(const char *dir, struct store_env *env);

/* Whether a file of a store, by its name or path, is a table: it never changes, so that a copy of the store may link to it. */
bool store_is_table(const char *path);

struct hash_seed store_seed(const struct store *store);
bool store_is_new(const struct store *store);           /* store_open made it: there was none */

/* The record of a key appended to `record`; STATUS_NOT_FOUND is certain. STATUS_IO, STATUS_CORRUPT otherwise;
 * STATUS_CLOSED when a reopening failed, and the disk can't even be read. */
enum status store_get(struct store *store, uint32_t incarnation, uint64_t hash, struct bytes key, struct buffer *record);

/* A batch: all of it or nothing. Owner: the writer. Order matters: a later operation on a key wins.
 * An expiry before 1970 is kept as 0. */
struct store_batch;
struct store_batch *store_batch_create(void);
void store_batch_destroy(struct store_batch *batch);    /* NULL is fine */
void store_batch_clear(struct store_batch *batch);
/* Key and record are STORE_RECORD_SIZE_MAX bytes at most. */
void store_batch_put(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key, struct bytes record);
void store_batch_delete(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_put_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_delete_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
size_t store_batch_size(const struct store_batch *batch);       /* bytes, about */
uint64_t store_batch_count(const struct store_batch *batch);    /* operations */

/* Writes the batch, not synced. The batch is kept by the caller. On failure the store is closed for writing and the caller keeps the batch for store_reopen. */
enum status store_write(struct store *store, struct store_batch *batch);

/* The number of the last batch that was written (each step of a purge is a batch, too). Any thread.
 * Every batch carries its number into the store; with `is_temporary` only snapshots do: a key that is in every batch makes all of
 * LevelDB's tables overlap at that end, so that what was written in order is merged again and again.
 * Such a store's logs are not synced either, as LevelDB would do that with its mutex held, and all reads wait: after a power cut its last
 * batches may be missing, and others before them. Images are whole: they have copies of the logs, which are synced and compared with
 * what was written. */
uint64_t store_number(const struct store *store);

/* Other sizes from the next store_reopen on (which may be called on a store that is well). By the writer. */
struct store_tuning {
    size_t write_buffer_size, block_cache_size;
    bool compression;
};
void store_tune(struct store *store, const struct store_tuning *tuning);

/* Begins to write the memtable to a table, whatever its size: its memory comes back when that is done. Waits for the one before it. The writer only. */
enum status store_flush(struct store *store);

/* After a failed store_write, store_purge or store_compact: closes LevelDB and opens it again, and finds out whether
 * the batch that failed is in. STATUS_OK: writable again; `*applied` says whether the failed batch is there (then it must
 * not be written again); with `is_temporary` it never does: writing a batch twice does no harm. STATUS_CORRUPT: the store came back
 * without something that was written (another number; with `is_temporary`, a log whose bytes are not those that went there); it stays
 * closed, for reading too, as what it would say may be outdated. Any other failure: try again later; it can be read meanwhile, unless the
 * disk can't.
 * First sees whether the disk takes enough to start LevelDB; if not, answers so and leaves reads as they are.
 * Waits until other threads have closed their iterators, and holds up store_get and store_scan for the while.
 * The writer's own iterators must be closed. */
enum status store_reopen(struct store *store, bool *applied, struct message *message);
bool store_is_writable(const struct store *store);      /* any thread */

/* Iterator over records in hash order, from (incarnation, hash) on, within the incarnation. Owner: one thread,
 * which has no second one open (store_reopen waits for the first while the second waits for store_reopen).
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
/* Goes to another hash of the same incarnation; the next store_next answers from there on. */
void store_seek(struct store_iterator *iterator, uint64_t from_hash);
void store_scan_close(struct store_iterator *iterator); /* NULL is fine */

/* The expiry keys with expire_ms <= until_ms, soonest first, at most `count` of them; `found` is called for each.
 * `from` is a place among them, the caller's: empty is before all, and the call leaves it after the last one found. LevelDB steps
 * over everything that was deleted after the place, so who deletes what was found goes on from there.
 * Expiry keys may be stale: they only nominate (tier rule 10). Counts as an iterator while it runs. */
typedef void store_expiry_found(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
enum status store_expired(struct store *store, struct buffer *from, int64_t until_ms, int count, store_expiry_found *found, void *context);
/* The place before the first expiry key of that time. */
void store_expiry_seek(struct buffer *from, int64_t expire_ms);
/* The soonest expiry that was put since the last call; INT64_MAX if none was. By the writer. */
int64_t store_expiry_soonest(struct store *store);

/* The lowest incarnation of a database, `from` or above, that has records in the store. STATUS_NOT_FOUND: none has. Costs a seek.
 * Counts as an iterator while it runs. */
enum status store_incarnation(struct store *store, uint32_t from, uint32_t *incarnation);

/* A range of the store's keys, both ends included. */
struct store_span {
    uint32_t first_incarnation, last_incarnation;
    uint64_t first_hash, last_hash;
    uint64_t size;                  /* bytes of keys and records that were deleted in it; 0: the range is empty */
};

/* Deletes every record of an incarnation, at most `count` (and some MiB) a call; *done when none is left.
 * By the writer; nothing is put into the incarnation any more. One incarnation after the other: each call goes on where the
 * last one ended. Expiry keys stay until they are due. `deleted` (NULL is fine) is extended to what was deleted. Ask for
 * store_compact_span afterwards when that is much. */
enum status store_purge(struct store *store, uint32_t incarnation, uint64_t count, struct store_span *deleted, bool *done);

/* Gives the room of what was deleted back to the disk. Takes as long as rewriting what is there; others read and write meanwhile,
 * but LevelDB merges nothing else for so long, and stops writes when too much has gathered: rather some short spans than a long one.
 * Any one thread; counts as an iterator while it runs. A failure closes the store for writing. */
enum status store_compact_span(struct store *store, const struct store_span *span);
enum status store_compact(struct store *store, uint32_t incarnation);       /* the same for all of an incarnation */

/* An immutable image of the store in `dir` (must not exist): tables hard-linked, the rest copied and synced.
 * By the writer, between batches. STATUS_CLOSED while closed for writing. STATUS_CORRUPT: with `is_temporary`, a log
 * does not have what was written to it (any more). Nothing is left behind on failure. */
enum status store_snapshot(struct store *store, const char *dir, struct message *message);

/* The same from a directory that is not open, such as an image: recovery builds its working store like this.
 * Files that are not LevelDB's are not copied. `dir` may exist, if there is no file of LevelDB's in it. */
enum status store_clone(const char *from_dir, const char *dir, struct store_env *env, struct message *message);

/* Bytes on disk (files that are there, whether live or about to go), about; cheap enough for each second. Any thread. */
uint64_t store_disk_size(struct store *store);
/* Bytes of memory LevelDB itself says it uses: memtables and block cache. Index and filter blocks of open tables are
 * not among them. Any thread. */
uint64_t store_memory(struct store *store);
/* Whether a full memtable is probably on its way to a table, so that its memory comes back soon. By the writer. */
bool store_is_flushing(struct store *store);
/* Tables at level 0, which LevelDB still has to merge: from 8 on it slows writes down, at 12 it stops them. Any thread. */
int store_level0_count(struct store *store);
/* A table of LevelDB's own statistics for the curious; freed with mem_free. Any thread. */
char *store_stats(struct store *store);

#ifdef __cplusplus
}
#endif
#endif
