/* Store: records on disk, and an index of their keys in the order of their hashes.
 *
 *   store key = incarnation u32 | hash u64 | key bytes          (big-endian, so byte order is hash order)
 *   expiry key = 0xffffffff u32 | expire_ms u64 | incarnation u32 | hash u64 | key bytes
 *   meta key  = 0x00000000 u32 | name      (version u32, seed 16 bytes, number u64, runs)
 *
 * Store keys and expiry keys are in sorted runs (store/key_runs.h), the records in segments (store/segments.h); the place of a record is kept by
 * the caller. LevelDB, with an Env of our own, has the meta data, and what images of older versions have: their index, and records that are
 * values of their keys, at place 0.
 *
 * Incarnations of databases are 1 .. 0xfffffffe.
 *
 * Threads: any number of threads may call store_get at once. Only the writer calls the functions that write (store_write, store_reopen,
 * store_snapshot, store_purge, store_compact). An iterator sees the store as it was
 * when the iterator was opened.
 *
 * Errors: a failed write closes the store for writing: further writes return STATUS_CLOSED until store_reopen succeeds. Reads continue
 * meanwhile. LevelDB writes files when it is opened; if the disk accepts no writes, these files are kept in memory (store_overlay.h).
 *
 * Checksums: every block that is read is verified, also by compactions and iterators. LevelDB verifies filter and index blocks, the inputs
 * of compactions and the logs only with paranoid_checks, so that option is always on. Without it, a flipped bit in a filter would turn a
 * record into "not found", one in a table would get a valid checksum by the next compaction, and one in a log would drop batches from the
 * middle of it. With it, a damaged filter only makes reads slower (LevelDB does not use it), and all other damage is STATUS_CORRUPT.
 * A log that ends in the middle of a batch is not damaged: that batch was never completely written. A damaged length in the last 32 KiB of
 * a log can look like such an end. A caller that knows the number that the store must have (a checkpoint does) compares it with
 * store_number; store_reopen compares the logs with what was written to them.
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
#include "store/dictionaries.h"
#include "store/segments.h"

enum { STORE_INCARNATION_FIRST = 1 };

/* The largest size of a record and its key together, in bytes. LevelDB has 32 bits for the sizes of keys and values and for offsets in a
 * block, and does not check for overflow: the batch would be corrupt in the log, and the store could not be opened again. A block has up
 * to `block_size` bytes of records, one further record of any size, and their lengths and restart points; 256 MiB are left for these. */
#define STORE_RECORD_SIZE_MAX 0xf0000000ull

struct store;
struct store_env;       /* its access to the disk; see store/store_env.h */

struct store_options {
    const char *dir;                /* created if it does not exist; its parent must exist */
    struct store_env *env;          /* NULL: an env of its own on the system's disk */
    size_t write_buffer_size;       /* bytes of the index that are kept in memory before they are written to a file; there may be twice as many. 0: 16 MiB */
    size_t block_cache_size;        /* bytes. 0: 1 MiB */
    size_t block_size;              /* bytes. 0: 8 KiB */
    size_t file_size_max;           /* bytes of a table file. 0: 32 MiB */
    int tables_open_max;            /* files kept open: half of it for tables, of which LevelDB keeps at least 64; half for segments, of which
                                     * all are open, and as many as this allows a second time, for direct reads. 0: 10000 tables, but at
                                     * most half of RLIMIT_NOFILE, and all segments */
    uint64_t segment_size;          /* bytes of a segment. 0: 64 MiB */
    bool by_slot;                   /* a store that is created has hashes by slot */
    bool is_temporary;              /* no later start will open it: fewer numbers and syncs, see store_number */
    bool holds_merges;              /* until store_release_merges files are merged only before their number would slow down reading */
    bool without_merging;           /* it is only read, and closed soon: no compactions. Only with `env` NULL */
    struct store_salvage *salvage;  /* NULL: what is damaged is not opened. Otherwise opens what is left, whatever it is: for kelvin-check,
                                     * in a directory of its own */
};
struct store_salvage {
    struct hash_seed seed;          /* if has_seed: for a store that has lost its own */
    bool has_seed, by_slot;
    bool is_needed;                 /* set: whether files were left out, or read in part */
};

/* Opens a store, or creates it with a new hash seed. STATUS_LOCKED: it is open already, in this process or another. STATUS_VERSION: it was
 * written by a newer Kelvin. On failure `message` is set to a sentence for the log. */
enum status store_open(const struct store_options *options, struct store **store, struct message *message);
void store_close(struct store *store);                  /* NULL is fine; waits for LevelDB's thread */

/* Ends what store_options.holds_merges has begun. Any thread. */
void store_release_merges(struct store *store);

/* Deletes a store that is not open: LevelDB's files, and the directory if it has no other files. STATUS_OK if there was no store;
 * STATUS_LOCKED if it is open. */
enum status store_remove(const char *dir, struct store_env *env);

/* Whether another process has the store open. */
bool store_is_locked(const char *dir);

/* Returns whether a file of an image, given by its name or path, is a table, a segment or a dictionary. These never change, so a copy may be a
 * hard link. */
bool store_is_table(const char *path);

struct hash_seed store_seed(const struct store *store);
bool store_is_by_slot(const struct store *store);       /* the hashes in it are (keyspace/slot.h): store_options.by_slot when it was created */
bool store_is_new(const struct store *store);           /* store_open created it */

/* Appends the record of a key to `record`; nothing, if it is in a segment. STATUS_NOT_FOUND: there certainly is none. STATUS_IO, STATUS_CORRUPT: it could not be read.
 * STATUS_CLOSED: store_reopen failed, and the store can't be read either. */
enum status store_get(struct store *store, uint32_t incarnation, uint64_t hash, struct bytes key, struct buffer *record);

/* The disk of its env. */
const struct disk *store_disk(const struct store *store);
/* The segments of the store. They are there as long as the store is open, also while LevelDB is reopened. */
struct segments *store_segments(struct store *store);
/* Its dictionaries, likewise. */
struct dictionaries *store_dictionaries(struct store *store);
/* The same from the place of the record. `segment` is pinned for it, or NULL: then a place that is not 0 is of a segment that is missing,
 * STATUS_CORRUPT. Place 0: in LevelDB. `scratch`, `was_cached`: see segments_read. */
enum status store_get_at(struct store *store, uint64_t place, struct segment *segment, enum segment_access access, uint32_t incarnation,
    uint64_t hash, struct bytes key, struct segment_buffer *scratch, struct buffer *record, bool *was_cached);

/* A batch: its operations are written all or none, in their order; the last operation on a key counts. Owner: the writer.
 * An expiry before 1970 is stored as 0. */
struct store_batch;
struct store_batch *store_batch_create(void);
void store_batch_destroy(struct store_batch *batch);    /* NULL is fine */
void store_batch_clear(struct store_batch *batch);
/* Key and record together have at most STORE_RECORD_SIZE_MAX bytes. */
void store_batch_put(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key, struct bytes record);
/* The same into a segment: returns the record's place (`kind`: see store/segments.h), which can be read after store_write. The key must be
 * in the index with an empty value, or be put there with store_batch_index. A batch that is used like this is used with one store only. */
uint64_t store_batch_append(struct store *store, struct store_batch *batch, uint32_t incarnation, unsigned kind, struct bytes key,
    struct bytes record);
void store_batch_index(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_delete(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_put_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_delete_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
size_t store_batch_size(const struct store_batch *batch);       /* bytes, approximately */
uint64_t store_batch_count(const struct store_batch *batch);    /* operations */

/* Writes the batch without syncing it. On failure the store is closed for writing. The batch stays the caller's: after a failure it keeps
 * the batch until store_reopen says whether it was written. */
enum status store_write(struct store *store, struct store_batch *batch);

/* The number of the last batch that was written (each step of a purge is a batch, too). Any thread.
 *
 * Each batch writes its number to the store. With `is_temporary` only snapshots write it: the key of the number is the first of all keys,
 * and if it were in every batch it would be in every table of level 0, so that all of these overlap and records that were written in
 * order would be merged again and again.
 * With `is_temporary` the logs are not synced either, because LevelDB would sync them with its mutex held, while all reads wait. After a
 * power cut, batches may be missing at the end and in the middle. Images are complete: their copies of the logs are synced, and compared
 * with what was written. */
uint64_t store_number(const struct store *store);

/* Options that the next store_reopen applies (it may be called on a store without an error). By the writer. */
struct store_tuning {
    size_t write_buffer_size, block_cache_size;
};
void store_tune(struct store *store, const struct store_tuning *tuning);

/* After a failed store_write, store_purge or store_compact: closes LevelDB, opens it again, and determines whether the failed batch was
 * written.
 * - STATUS_OK: writable again. `*applied` is true if the store has the failed batch, which must not be written again then. With
 *   `is_temporary` it is always false: writing the batch twice does no harm.
 * - STATUS_CORRUPT: something that was written is lost (the store has another number; with `is_temporary`, a log does not have the bytes
 *   that were written to it). The store stays closed, for reading too, because what it has may be outdated.
 * - Any other failure: try again later. The store can be read meanwhile, unless the disk can't be read.
 * It first tests whether the disk has enough space for what LevelDB writes when it is opened. If not, it returns the error without closing
 * LevelDB.
 * Waits until other threads have closed their iterators; store_get and store_scan wait until it is done. The writer's own iterators must
 * be closed. */
enum status store_reopen(struct store *store, bool *applied, struct message *message);
bool store_is_writable(const struct store *store);      /* any thread */

/* An iterator over the records of one incarnation, in the order of their hashes, starting with `from_hash`. Owner: one thread, which must
 * not open a second one (store_reopen would wait for the first, and the second for store_reopen: a deadlock).
 * Keep iterators few and short: files that one of them may read are not removed. */
struct store_iterator;
struct store_record {
    uint64_t hash;
    struct bytes key;
    struct bytes record;    /* empty: in a segment. Key and record are valid until the next call */
};
struct store_iterator *store_scan(struct store *store, uint32_t incarnation, uint64_t from_hash);
/* STATUS_OK: `record` is set. STATUS_NOT_FOUND: the end of the incarnation. Otherwise an error, which ends the scan. */
enum status store_next(struct store_iterator *iterator, struct store_record *record);
void store_scan_close(struct store_iterator *iterator); /* NULL is fine */

/* Calls `found` for the expiry keys with expire_ms <= until_ms, earliest first, for at most `count` of them.
 * `from` is the position to start at; the caller keeps it between calls. Empty is before all keys; the call sets it to the position after
 * the last key found. LevelDB has to skip every deleted key from the start on, so a caller that deletes what was found should continue
 * from that position.
 * An expiry key may be outdated: the caller must check the record (tier rule 10). Counts as an iterator while it runs. */
typedef void store_expiry_found(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
enum status store_expired(struct store *store, struct buffer *from, int64_t until_ms, int count, store_expiry_found *found, void *context);
/* Sets `from` to the position before the first expiry key of that time. */
void store_expiry_seek(struct buffer *from, int64_t expire_ms);
/* The earliest expiry in the batches since the last call; INT64_MAX if there was none. By the writer. */
int64_t store_expiry_soonest(struct store *store);

/* The lowest incarnation >= `from` that has records in the store. STATUS_NOT_FOUND: there is none. Costs one seek. Counts as an iterator
 * while it runs. */
enum status store_incarnation(struct store *store, uint32_t from, uint32_t *incarnation);

/* Forgets the keys of an incarnation; `*done` is set when there is none any more. They take room until the runs that have them are merged, but runs
 * that have no others are removed at once. Keys that LevelDB has are deleted, at most `count` and a few MiB a call: then each call goes on where
 * the last one ended, so finish one incarnation before the next.
 * By the writer, which must not put records of the incarnation any more. Expiry keys stay until they are due. */
enum status store_purge(struct store *store, uint32_t incarnation, uint64_t count, bool *done);

/* Writes what is in memory to files, and has LevelDB merge its tables. By the writer. */
enum status store_compact(struct store *store);

/* Creates an immutable image of the store in `dir`, which must not exist: hard links to tables and segments, synced copies of the other
 * files. The tail of the segments is sealed. Places are the same in the image.
 * By the writer, between batches. STATUS_CLOSED: closed for writing. STATUS_CORRUPT: with `is_temporary`, a log does not have what was
 * written to it. On failure `dir` is removed. */
enum status store_snapshot(struct store *store, const char *dir, struct message *message);

/* The same from a store that is not open, such as an image: recovery creates the store that the server works with like this.
 * Files that are not LevelDB's are not copied. `dir` may exist if it has no files of LevelDB. */
enum status store_clone(const char *from_dir, const char *dir, struct store_env *env, struct message *message);

/* The bytes on disk, approximately: of all files, obsolete ones included. Cheap enough to call once per second. Any thread. */
uint64_t store_disk_size(struct store *store);
/* The bytes of memory of the newest keys of the index, which are not in files yet, of LevelDB's memtables, and of the caches of blocks. Any thread. */
uint64_t store_memory(struct store *store);
/* The same without the caches. By the writer. */
uint64_t store_memtable_memory(struct store *store);
/* Returns whether the newest keys are being written to a file, so that their memory will soon be freed. By the writer. */
bool store_is_flushing(struct store *store);
/* Files of the index beyond those that wait for a merge as they should: the merges don't follow. Any thread. */
int store_waiting_files(struct store *store);
/* The error of the last merge of key runs that failed since the last call. Nothing is lost by it. By the writer. */
enum status store_take_merge_status(struct store *store);

#ifdef __cplusplus
}
#endif
#endif
