/* Store: records on disk, and an index of their keys in the order of their hashes.
 *
 *   store key = incarnation u32 | hash u64 | key bytes          (big-endian, so byte order is hash order)
 *   expiry key = 0xffffffff u32 | expire_ms u64 | incarnation u32 | hash u64 | key bytes
 *
 * Store keys and expiry keys are in sorted runs (store/key_runs.h), the records in segments (store/segments.h); the place of a record is kept by
 * the caller. What a store is (its seed, the number of batches, its runs) is in memory while it is written, and in the file `meta` of an image.
 *
 * Incarnations of databases are 1 .. 0xfffffffe.
 *
 * A store is made by store_open in an empty directory, or in one that store_clone has made from an image. It is temporary: no later start uses
 * it, so only images are synced. An image can be opened as it is to be read (is_read_only).
 *
 * Threads: any number of threads may read at once. Only the writer calls the functions that write (store_write, store_retry,
 * store_snapshot, store_purge, store_flush). An iterator sees the store as it was when the iterator was opened.
 *
 * Errors: a failed write of a run closes the store for writing: further writes return STATUS_CLOSED until store_retry succeeds. Nothing is lost, and
 * reads continue. A failed write of segments is tried again by the next one (segments_write).
 *
 * Checksums: every block of a run that is read is verified, also by merges and iterators. LevelDB verifies index blocks only with paranoid_checks,
 * so that option is always on.
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

/* The largest size of a record and its key together, in bytes: less than 32 bits have, so that a segment's sizes, and the copies of a record while it is
 * packed, do not overflow. */
#define STORE_RECORD_SIZE_MAX 0xf0000000ull

struct store;
struct store_env;       /* its access to the disk; see store/store_env.h */

struct store_options {
    const char *dir;                /* created if it does not exist; its parent must exist */
    struct store_env *env;          /* NULL: an env of its own on the system's disk */
    size_t write_buffer_size;       /* bytes of the index that are kept in memory before they are written to a file; there may be twice as many. 0: 16 MiB */
    size_t block_cache_size;        /* bytes. 0: 1 MiB */
    size_t block_size;              /* bytes. 0: 8 KiB */
    int descriptors_max;            /* files of segments kept open: all are, and as many as this allows a second time, for direct reads. 0: all of these */
    uint64_t segment_size;          /* bytes of a segment. 0: 64 MiB */
    bool by_slot;                   /* a store that is created has hashes by slot */
    bool holds_merges;              /* until store_release_merges files are merged only before their number would slow down reading */
    bool is_read_only;              /* an image, of which nothing is changed: no lock, no thread, and segments are open only while they are read */
    struct store_salvage *salvage;  /* NULL: what is damaged is not opened. Otherwise opens what is left, whatever it is: for kelvin-check. Only with is_read_only */
};
struct store_salvage {
    struct hash_seed seed;          /* if has_seed: for an image that has lost its meta data */
    uint64_t number;
    bool has_seed, by_slot;
    bool is_needed;                 /* set: whether files were left out, or read in part */
};

/* Opens a clone or an image, or creates a store with a new hash seed in a directory that has no files of one. A clone can be opened once: it is out of date
 * from the first write on. STATUS_LOCKED: it is open already, in this process or another. STATUS_VERSION: it was written by a newer Kelvin. On failure
 * `message` is set to a sentence for the log. */
enum status store_open(const struct store_options *options, struct store **store, struct message *message);
void store_close(struct store *store);                  /* NULL is fine; waits for the merge that runs */

/* Ends what store_options.holds_merges has begun. Any thread. */
void store_release_merges(struct store *store);

/* Deletes a store that is not open, of this or an older version, and the directory if it has no other files. STATUS_OK if there was no store;
 * STATUS_LOCKED if it is open. */
enum status store_remove(const char *dir, struct store_env *env);
bool store_is_there(const char *dir);                   /* the directory has a file of a store */

/* Whether another process has the store open. */
bool store_is_locked(const char *dir);

/* Returns whether a file of an image, given by its name or path, is a key run, a segment or a dictionary. These never change, so a copy may be a
 * hard link. */
bool store_is_table(const char *path);

struct hash_seed store_seed(const struct store *store);
bool store_is_by_slot(const struct store *store);       /* the hashes in it are (keyspace/slot.h): store_options.by_slot when it was created */
bool store_is_new(const struct store *store);           /* store_open created it */

/* STATUS_OK: the index has the key. STATUS_NOT_FOUND: it certainly has no record. STATUS_IO, STATUS_CORRUPT: the index can't be read. Any thread. */
enum status store_has(struct store *store, uint32_t incarnation, uint64_t hash, struct bytes key);

/* The disk of its env. */
const struct disk *store_disk(const struct store *store);
/* The segments of the store. They are there as long as the store is open. */
struct segments *store_segments(struct store *store);
/* Its dictionaries, likewise. */
struct dictionaries *store_dictionaries(struct store *store);

/* A batch: its operations are written all or none, in their order; the last operation on a key counts. Owner: the writer.
 * An expiry before 1970 is stored as 0. */
struct store_batch;
struct store_batch *store_batch_create(void);
void store_batch_destroy(struct store_batch *batch);    /* NULL is fine */
void store_batch_clear(struct store_batch *batch);
/* Puts a record into a segment: returns its place (`kind`, `dictionary`: see store/segments.h), which can be read after store_write. The key must be in the index, or
 * be put there with store_batch_index. A batch that is used like this is used with one store only. */
uint64_t store_batch_append(struct store *store, struct store_batch *batch, unsigned tail, uint32_t incarnation, unsigned kind, struct bytes key,
    struct bytes record, uint32_t dictionary);
void store_batch_index(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_delete(struct store_batch *batch, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_put_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
void store_batch_delete_expiry(struct store_batch *batch, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
size_t store_batch_size(const struct store_batch *batch);       /* bytes, approximately */
uint64_t store_batch_count(const struct store_batch *batch);    /* operations */

/* Writes the batch without syncing it. If that fails, the store has none of it but records in segments, and the caller writes it again. */
enum status store_write(struct store *store, struct store_batch *batch);
/* After a failed store_write, store_flush or store_snapshot: writes the keys that could not be written. STATUS_OK: the store is writable again. Otherwise
 * `message` says why not, and it is tried again later. */
enum status store_retry(struct store *store, struct message *message);
bool store_is_writable(const struct store *store);      /* any thread */

/* The number of the last batch that was written. Any thread. An image has it in its meta data, and the caller has it elsewhere: so an image that was put
 * together of parts is noticed. */
uint64_t store_number(const struct store *store);

/* store_options.write_buffer_size, from the next write on. By the writer. */
void store_set_write_buffer(struct store *store, size_t size);

/* An iterator over the records of one incarnation, in the order of their hashes, starting with `from_hash`. Owner: one thread. Opening one reads nothing, and
 * may be done under a partition's lock.
 * Keep iterators few and short: files that one of them may read are not removed. */
struct store_iterator;
struct store_record {
    uint64_t hash;
    struct bytes key;       /* valid until the next call */
};
struct store_iterator *store_scan(struct store *store, uint32_t incarnation, uint64_t from_hash);
/* STATUS_OK: `record` is set. STATUS_NOT_FOUND: the end of the incarnation. Otherwise an error, which ends the scan. */
enum status store_next(struct store_iterator *iterator, struct store_record *record);
void store_scan_close(struct store_iterator *iterator); /* NULL is fine */

/* Calls `found` for the expiry keys with expire_ms <= until_ms, earliest first, for at most `count` of them.
 * `from` is the position to start at; the caller keeps it between calls. Empty is before all keys; the call sets it to the position after
 * the last key found. Every deleted key from the start on has to be skipped, so a caller that deletes what was found should continue
 * from that position.
 * An expiry key may be outdated: the caller must check the record (tier rule 10). */
typedef void store_expiry_found(void *context, int64_t expire_ms, uint32_t incarnation, uint64_t hash, struct bytes key);
enum status store_expired(struct store *store, struct buffer *from, int64_t until_ms, int count, store_expiry_found *found, void *context);
/* Sets `from` to the position before the first expiry key of that time. */
void store_expiry_seek(struct buffer *from, int64_t expire_ms);
/* The earliest expiry in the batches since the last call; INT64_MAX if there was none. By the writer. */
int64_t store_expiry_soonest(struct store *store);

/* The lowest incarnation >= `from` that has records in the store. STATUS_NOT_FOUND: there is none. Costs one seek. */
enum status store_incarnation(struct store *store, uint32_t from, uint32_t *incarnation);

/* Forgets the keys of an incarnation. They take room until the runs that have them are merged, but runs that have no others are removed at once.
 * By the writer, which must not put records of the incarnation any more. Expiry keys stay until they are due. */
void store_purge(struct store *store, uint32_t incarnation);

/* Writes what is in memory to files. By the writer. On failure the store is closed for writing. */
enum status store_flush(struct store *store);

/* Creates an immutable image of the store in `dir`, which must not exist: hard links to key runs, segments and dictionaries, and the meta data. All of it is
 * synced. The tail of the segments is sealed. Places are the same in the image.
 * By the writer, between batches. STATUS_CLOSED: closed for writing. On failure `dir` is removed. */
enum status store_snapshot(struct store *store, const char *dir, struct message *message);

/* The same from an image, which may be of an older version: recovery creates the store that the server works with like this. Other files are
 * not copied. `dir` may exist if it has no files of a store. STATUS_NOT_FOUND: there is no store in `from_dir`. STATUS_VERSION, STATUS_INVALID: of a
 * version that this Kelvin can't read. */
enum status store_clone(const char *from_dir, const char *dir, struct store_env *env, struct message *message);
/* Gives a copy of an image of an older version, with all its files, meta data of this version, so that it can be opened. Returns as store_clone. */
enum status store_import(const char *dir, struct message *message);

/* The bytes on disk, approximately: of all files, obsolete ones included. Cheap enough to call once per second. Any thread. */
uint64_t store_disk_size(struct store *store);
/* The bytes of memory of the newest keys of the index, which are not in files yet, and of the cache of blocks. Any thread. */
uint64_t store_memory(struct store *store);
/* The same without the cache. Any thread. */
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
