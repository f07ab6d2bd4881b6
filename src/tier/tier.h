/* Tier: the only room that knows that a value may be cold.
 *
 * Where a key can be, looked up in this order under its partition's lock: its entry (hot), a grave (deleted, but its record is still in the
 * store), the record map (no: certainly absent; maybe: cold, or a false maybe).
 *
 * Threads: workers call tier_load, tier_release and the partitions' watch; readers (tier/reader.h) and the threads of the pool read cold
 * keys; the one writer (tier/writer.c) changes the store. Settings are atomics and may change at any time.
 */
#ifndef KELVIN_TIER_TIER_H
#define KELVIN_TIER_TIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/status.h"
#include "call/client.h"
#include "call/event.h"
#include "keyspace/partition.h"
#include "keyspace/scan_page.h"
#include "keyspace/uses.h"
#include "store/store.h"
#include "tier/drops.h"
#include "tier/ghost.h"
#include "tier/keyed.h"
#include "tier/recordmap.h"
#include "value/value.h"

struct advise_estimate;
struct advise_measures;
struct rulebook;
struct tier;
struct load;
struct key_list;
struct paged_extent;
struct tier_reader;
struct worker;

/* tier-full-policy, in the order of its words: which cold keys are deleted so that the store stays below tier-max-size (tier/shed.h). */
enum tier_full_policy { TIER_FULL_NOEVICTION, TIER_FULL_ALLKEYS_COLDEST, TIER_FULL_VOLATILE_COLDEST, TIER_FULL_VOLATILE_TTL };

/* All in bytes or as said; 0 is off. Any thread sets them, any reads them. */
struct tier_settings {
    _Atomic int64_t memory_max;             /* maxmemory; 0: no limit, nothing is demoted but on request */
    _Atomic int64_t high_percent, low_percent;      /* tier-high-watermark, tier-low-watermark */
    _Atomic int64_t batch_size;             /* tier-batch-size */
    _Atomic int64_t store_size_max;         /* tier-max-size */
    _Atomic int64_t full_policy;            /* enum tier_full_policy */
    _Atomic int64_t space_target;           /* tier-space-target: percent of the segments' bytes that should be live */
    _Atomic int64_t record_size_max;        /* of a big value's record with its key; 0: STORE_RECORD_SIZE_MAX, less for tests only */
    _Atomic int64_t lfu_log_factor, lfu_decay_minutes;
    _Atomic bool enabled;                   /* no: nothing is demoted; what is cold stays readable */
    _Atomic int64_t load_threads;           /* 1 .. 64 */
    _Atomic int64_t advise;                 /* tier-advise: 0: nothing is sampled */
    _Atomic int64_t warmup;                 /* 0: the warm-up pauses */
    _Atomic int64_t warmup_rate;            /* keys a second, or KiB if they are larger; 0: no limit */
    _Atomic int64_t compression;            /* enum packing_codec: of records that are written from now on */
    _Atomic int64_t packed_share;           /* tier-packed-share: percent of memory_max (tier/packed.h) */
    _Atomic int64_t dictionary_after, dictionary_interval_s;    /* tier/training.h; less for tests only */
    _Atomic int64_t write_buffer_size;      /* of the store */
};

/* Functions of the rooms above that the tier needs. Called on its own threads. */
struct tier_hooks {
    void *context;
    uint64_t (*memory_used)(void *context);                     /* bytes, all of the process */
    /* Called when what the client waited for is there; any lock may be held. Returns the worker that has to be rung, if possible when no
     * partition is locked: that is a system call, and the first thing that the worker does is to lock the partition. NULL: none. */
    struct worker *(*wake)(void *context, struct client *client);
    /* The key's slot is being received, so that it must not be deleted here. Under the partition's lock. NULL: none is. */
    bool (*is_received)(void *context, uint64_t hash);
    void (*memory_freed)(void *context);                        /* clients that wait for memory may go on */
    /* A cold key is deleted: log it. `event` is EVENT_EXPIRED, EVENT_HEXPIRED of a hash's last field, or EVENT_EVICTED. Under the partition's
     * lock. */
    void (*expired)(void *context, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum event event);
    struct meter *meter;                                        /* counts the memory of the tier's threads; NULL: it is not counted */
    void (*log)(void *context, const char *text);               /* a sentence for the operator, worth a warning */
    void (*notice)(void *context, const char *text);            /* a sentence for the log, not a warning; NULL is fine */
    void (*free_keyspace)(void *context, struct keyspace *keyspace);    /* in the background; only checkpoints need it */
    void (*free_value)(void *context, struct value value);      /* the same; any lock may be held. NULL: at once */
    void (*ring)(void *context, struct worker *worker);         /* of `wake`; any thread */
    /* The disk has room that only a checkpoint can free: files that were removed, and are in the last one. Once in ten seconds at most. False, or NULL:
     * there is no log, so none will be made. */
    bool (*wants_checkpoint)(void *context);
    bool (*log_lacks_room)(void *context);                      /* the log, on the same disk, can't be written: it needs the reserve. NULL: there is none */
    void (*disk_is_full)(void *context, bool is_full);          /* the reserve is about to be given up, and only removing may use it, or there is
                                                                 * no room for it; or it is there again. NULL is fine */
    uint64_t (*busy_us)(void *context);                         /* time that all workers have spent in their turns; NULL: none */
    void (*limits)(void *context, struct value_limits *limits); /* of the encodings, for each value that is loaded; not the seed */
};

struct tier_keyspace {
    struct recordmap *map;
    struct ghost ghost;
    uint32_t age;                   /* the demotion's when uses were halved here last */
    uint64_t to_age;                /* entries whose uses are still to be halved */
    struct keyed graves;            /* struct grave */
    struct grave *waiting_first, *waiting_last;     /* those that are not being applied, by their epoch: in the order in which they were made */
    struct keyed loads;             /* struct load */
    struct drops drops;             /* of a page space */
    struct keyspace *packed;        /* tier/packed.h; NULL: nothing is */
    uint64_t unknown_graves;
    uint64_t counted;               /* number of the count that has looked for unknowns here; see tier_count */
    struct key_list *noted;         /* those that came up since; NULL: none */
};

struct tier_options {
    const char *dir;
    const char *image;              /* a checkpoint's directory to begin with; NULL: empty */
    const char *images;             /* the directory that has the checkpoints: they count in tier-max-size. NULL: none */
    struct store_env *env;          /* NULL: the machine's disk */
    size_t write_buffer_size, block_cache_size;
    int64_t compression;            /* tier_settings.compression at first */
    bool by_slot;                   /* the hashes, unless the image says otherwise: tier_seed */
    bool holds_merges;              /* until tier_release_merges the files of the store's index are not merged, but for what its writes need: the
                                     * replay needs the CPUs */
    uint64_t reserve_size;          /* bytes set aside on the disk (tier/reserve.h); 0: none */
    uint64_t segment_size;          /* bytes of a segment; 0: store_options' default */
    int descriptors_max;            /* files of segments that are kept open; 0: store_options' default */
    int loader_count;               /* at first; see tier_settings */
    struct tier_hooks hooks;
};
/* Opens the store (see tier/working_dir.h) and starts nothing yet. NULL: `message` says why. */
struct tier *tier_open(const struct tier_options *options, struct message *message);
struct key_seed tier_seed(const struct tier *tier);         /* the store's */
struct tier_settings *tier_settings(struct tier *tier);
struct rulebook *tier_rules(struct tier *tier);             /* tier/key_rules.h */
/* Becomes the partitions' watch; starts the writer and the read pool. Returns 0, or the error number: the system gives no thread, and the tier is to be closed. */
int tier_start(struct tier *tier, struct partitions *partitions);
void tier_set_expiry(struct tier *tier, bool on);   /* cold keys expire by the clock: not while replaying, nor on a
                                                     * replica. Off at first */
/* After tier_start, when the store was opened from an image and the partitions know their incarnations: loads the record map.
 * `number` is what store_number was when the image was taken. STATUS_CORRUPT: the store has another one, so it lost something. */
enum status tier_restore(struct tier *tier, const char *image, uint64_t number);
/* With tier_options.holds_merges, once: the replay has ended. */
void tier_release_merges(struct tier *tier);
/* After the replay, and after tier_replace: brings back what was hot when the image was made, on a thread of its own (tier/warm.h). */
void tier_warm_up(struct tier *tier, const char *image);
/* Until it does not need the image any more: milliseconds. */
void tier_await_warm_up_file(struct tier *tier);
void tier_stop(struct tier *tier);          /* joins all threads; no other thread uses the tier any more */
void tier_close(struct tier *tier);         /* after tier_stop, before the partitions go; NULL is fine */

/* A key has no entry (the caller looked, and holds its partition's lock). */
enum tier_load_result {
    TIER_ABSENT,        /* it exists nowhere */
    TIER_PROMOTED,      /* it has an entry now, pinned for `client`; handles of its keyspace are not valid any more */
    TIER_WAIT,          /* it may be cold: `client` waits for it; its load is in the reader, or on its way */
    TIER_FAILED,        /* its record can't be read: the client gets an error */
};
/* TO_LOOK: the call needs a fact about the key and not its value (TTL, STRLEN), or is to add no heat: when all clients that waited for the
 * load have been released, the key is cold again, as if it had not been read, unless one of them loads it to use it, another client has used
 * it meanwhile (tier_note_used), the operator has pinned it, or it has changed. */
enum tier_purpose { TIER_TO_USE, TIER_TO_LOOK };
enum tier_load_result tier_load(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, enum tier_purpose purpose,
    struct client *client, struct tier_reader *reader);
/* The same, but no client waits: what comes is not pinned. Nothing happens if it can't be read. */
void tier_load_ahead(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key, struct tier_reader *reader);
/* An entry that is pinned for the clients of a load is used. The partition is locked. */
void tier_note_used(struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* After TIER_FAILED, or STATUS_CORRUPT of tier_load_in_place, for a key that is only to be deleted: it gets an entry with an empty value in the place
 * of its damaged record. False: the record could not be read for another reason. The partition is locked. */
bool tier_is_damaged(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);     /* then tier_discard_damaged succeeds */
bool tier_discard_damaged(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* A key without an entry that is only to be deleted, and may be cold: it gets one with an empty value, and nothing is read. False: it certainly is not
 * there, or it is being loaded. The partition is locked. */
bool tier_discard_unread(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* The reader of a worker's loads (tier/reader.h), which begins them when it is submitted, once a turn. Its descriptor is for the worker's loop. By the
 * worker, or before it runs. */
struct tier_reader *tier_open_reader(struct tier *tier, struct worker *worker, bool without_ring);
uint64_t tier_loads_waiting(struct tier *tier);     /* posted, and not ended */
uint64_t tier_loads_bytes(const struct tier *tier); /* what those will take in RAM, about */

/* For look-ahead: prefetches what an overwrite of a key without an entry will read. It reads what tier_row_at returns, so that that can be fetched
 * before; NULL: nothing. The partition is locked. */
static inline void tier_prefetch(const struct keyspace *keyspace, uint64_t hash)
{
    if (keyspace->tier != NULL)
        recordmap_prefetch(keyspace->tier->map, hash);
}
static inline const char *tier_row_at(const struct keyspace *keyspace, uint64_t hash)
{
    return keyspace->tier == NULL ? NULL : recordmap_row_at(keyspace->tier->map, hash);
}
/* Loads in bulk: keys that will be needed soon, all together, on a thread of the caller (tier/bulk.h). */
struct tier_bulk;
struct tier_wanted {
    uint64_t hash;
    uint32_t key_at, key_size;      /* in the caller's `keys` */
    int db;
};
struct tier_bulk *tier_bulk_create(struct tier *tier, unsigned flight_max);     /* reads at a time, at most READER_DEPTH */
void tier_bulk_destroy(struct tier_bulk *bulk);         /* NULL is fine */
/* Loads those of the keys that are cold, up to about `bytes_max` bytes of records, in the order of the segments. Before each part of them, of
 * `size` bytes, `goes_on` is called; when it returns false, the others stay cold. Others may use the keys meanwhile. No lock is held. */
void tier_bulk_load(struct tier_bulk *bulk, const struct tier_wanted *wanted, size_t count, const char *keys, uint64_t bytes_max,
    bool (*goes_on)(void *context, uint64_t size), void *context);
/* How many records the client waits for or has pinned. Its worker. */
uint64_t tier_pin_count(const struct client *client);
/* The call that waited has run, or its client is gone: unpins what it waited for (tier rule 5: the only place). No
 * partition is locked by the caller. */
void tier_release(struct tier *tier, struct client *client);

/* Tier rule 8: reads the key on this thread and installs it, if it is cold. The partition is locked. STATUS_OK if it is resident
 * or certainly absent afterwards. */
enum status tier_load_in_place(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* Tier rule 9: a latched key is to be changed at once: it gets a copy of its object, and what the writer encodes of the old one is
 * discarded. The partition is locked. */
void tier_unlatch(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);

/* A value in pages was deleted: its pages from `first` to `end - 1`, which all exist, go, resident or not, many of them later (tier/drops.h). Nothing is read: were there
 * no such page, the record of another one could go in its place. `space` is the page space that has them, whose partition is locked. */
void tier_drop_pages(struct tier *tier, struct keyspace *space, uint64_t id, uint32_t first, uint32_t end, int64_t now_ms) REQUIRES(space->partition->lock);
/* The same for all pages of a value whose key has been deleted in a database's keyspace, if it was in pages. */
void tier_drop_value(struct tier *tier, struct keyspace *keyspace, const struct paged_extent *pages) REQUIRES(keyspace->partition->lock);

/* The writer has a big value in a batch, or is encoding one, for a checkpoint also without tier-enabled: that memory is about to become free. Any thread. */
bool tier_holds_big(const struct tier *tier);
/* Whether the writer is about to remove pages of values that were deleted. */
bool tier_drops_pages(const struct tier *tier);

/* The keyspace was taken out by a flush: wakes clients that wait for its keys, and frees the tier's part of it. Its partition is locked. If it has
 * records, the writer purges them later. */
void tier_forget(struct tier *tier, struct keyspace *keyspace);

/* Exact number of keys of a database. Blocks (reads the store if there are unknown records): on a job's thread. `in_unit`: on behalf of a unit, whose
 * changes so far are counted; else the count is of an instant at which no unit is under way, and units wait for that instant only. */
enum status tier_count(struct tier *tier, int db, bool in_unit, uint64_t *count);
/* The same without blocking; false if there are unknowns, or a partition is owned by a unit that is not `as`. */
bool tier_count_now(struct tier *tier, const struct claim *as, int db, uint64_t *count);

/* Keys of a keyspace, hot and cold, whose partition is locked. One that was overwritten while it may be cold counts twice, until the writer has resolved it. */
uint64_t tier_keyspace_count(const struct keyspace *keyspace);

/* The same for the keys of one slot, where hashes are by slot. Keys that have expired and are still there count. `reader` may block. */
enum status tier_slot_count(struct tier *tier, const struct reader *reader, int db, uint16_t slot, uint64_t *count);
/* Without reading the store; false if there are unknowns, or another unit owns the slot's partition and the reader may not block. */
bool tier_slot_count_now(struct partitions *partitions, const struct reader *reader, int db, uint16_t slot, uint64_t *count);

/* Demotes the key whatever its heat, a value in pages with all of them, and waits until its record is written. On a job's thread. */
enum tier_move { TIER_MOVED, TIER_NOT_THERE, TIER_BUSY, TIER_MOVE_FAILED };
enum tier_move tier_demote(struct tier *tier, int db, struct bytes key);
/* Many at once, written together. No key twice. */
void tier_demote_many(struct tier *tier, int db, const struct bytes *keys, size_t count, enum tier_move *results);
enum tier_place { TIER_NOWHERE, TIER_HOT, TIER_COLD, TIER_UNREADABLE };
enum tier_place tier_where(struct tier *tier, int db, struct bytes key);       /* may read the store: a job's thread */

/* One page of SCAN over both tiers; on a job's thread if `cold_too`. Cursors are 48 bits: hash >> 16, 0 begins and ends. */
bool tier_has_cold(struct tier *tier, int db);      /* false is certain at that instant only */
/* The page's status is STATUS_LOCKED if a partition is owned by a unit that is not the reader, and the reader may not block. */
void tier_scan(struct tier *tier, struct partitions *partitions, const struct reader *reader, int db, uint64_t cursor, size_t count,
    struct scan_page *page);

/* The same for one slot, where hashes are by slot: `count` of its keys, or all; also such as have expired and are still there. `tier` may be NULL. */
bool tier_slot_has_cold(struct partitions *partitions, int db, uint16_t slot);
void tier_slot_list(struct tier *tier, struct partitions *partitions, const struct reader *reader, int db, uint16_t slot, size_t count,
    struct scan_page *page);

/* A page of them, from the hash `from` on, about `count`. Returns the last hash that it covers. */
uint64_t tier_slot_page(struct tier *tier, struct partitions *partitions, const struct reader *reader, int db, uint16_t slot, uint64_t from, size_t count,
    struct scan_page *page);

enum tier_state { TIER_OFF, TIER_OK, TIER_FULL, TIER_ERROR, TIER_STATES };
const char *tier_state_name(enum tier_state state);     /* as INFO has it: "off", "ok" ... */
enum { TIER_ERROR_SIZE = 256 };
enum tier_warmup { TIER_WARMUP_IDLE, TIER_WARMUP_RUNNING, TIER_WARMUP_OFF, TIER_WARMUP_DONE };
struct tier_stats {
    enum tier_state state;
    uint64_t hot_keys, cold_keys, hot_pages, cold_pages;
    uint64_t unknown_keys, dirty_keys;          /* of both */
    uint64_t demotions, clean_demotions, promotions, looks, batches;    /* looks: loads that left the key cold */
    uint64_t loads_waiting, load_p50_us, load_p99_us, false_maybes;
    bool reads_by_ring;                     /* workers read cold keys themselves (tier/reader.h) */
    uint64_t ring_reads, ring_batches;      /* reads that they did, and in how many batches */
    uint64_t store_bytes, store_memory, recordmap_bytes, graves;
    uint64_t segments, segment_bytes, segment_live_bytes;       /* files; their bytes; those of live records, about */
    uint64_t segment_written_bytes, collected_bytes;            /* since the start; moved by garbage collection */
    uint64_t packed_records, packing_saved_bytes;   /* since the start: tier-compression (tier/packing.h) */
    double packing_ratio;                   /* of the last values, those that did not get smaller included; 1 if there were none */
    uint64_t dictionaries;
    uint64_t packed_keys, packed_bytes, packed_hits;    /* records in memory, pages included; promotions from there (tier/packed.h) */
    uint64_t unplanned_reads, errors, expired_cold, evicted_cold, resolved;
    uint64_t pinned_keys, rules;            /* names that are pinned; tier/key_rules.h */
    uint64_t hot_bytes, held_bytes;         /* of entries and tables: needed, and held */
    enum tier_warmup warmup;                /* idle: there is nothing to bring back */
    uint64_t warmup_keys, warmup_loaded;    /* hot at the image; of them back, by whatever way */
    int64_t warmup_us;                      /* so far, pauses by tier-warmup not counted */
    uint64_t damaged_records;               /* that keys have, of those that were found since the start */
    char last_error[TIER_ERROR_SIZE];
    int64_t last_error_us;                  /* when it was counted, by the monotonic clock; 0: there was none */
};
void tier_stats(struct tier *tier, struct tier_stats *stats);
/* How long the loads took that a client waited for: counters by microseconds (base/histogram.h). Returns the sum. Takes no lock. */
enum { LOAD_LATENCY_BUCKETS = 128, LOAD_LATENCY_STEP_BITS = 2 };
uint64_t tier_load_latency(const struct tier *tier, uint64_t counts[LOAD_LATENCY_BUCKETS]);
/* Counts of hot keys by heat, decayed to now, or by twice their uses, plus one if they are on probation. Locks each partition in turn. */
enum tier_order { TIER_BY_HEAT, TIER_BY_USES };
void tier_histogram(struct tier *tier, int db, enum tier_order order, uint64_t histogram[256]);
/* Hot keys of all databases and their bytes in RAM by uses, about: some keys of each partition are looked at, 64 at most, and stand for all of its keys. Locks
 * each partition in turn, for 3 to 10 microseconds (mean; sorted sets take longest). */
struct tier_uses {
    double keys[USES_MAX + 1], bytes[USES_MAX + 1];
};
void tier_sample_uses(struct tier *tier, struct tier_uses *uses);
void tier_reset_stats(struct tier *tier);

/* Predictions for other sizes of memory (tier/advise.h). By the first worker's cron, about once a second: is_due says when. The tick turns
 * sampling on or off by tier_settings.advise. It fills in what is not the engine's in `measures`. */
bool tier_advise_is_due(struct tier *tier, int64_t now_us);
void tier_advise_tick(struct tier *tier, struct advise_measures *measures);
void tier_advise_look(struct tier *tier, struct advise_estimate *estimate);     /* any thread */
/* False: the disk is full, and the dirty keys that an image needs would take the room that removing needs. No partition is locked. */
bool tier_image_has_room(struct tier *tier);
/* Returns how many bytes more of the disk an image may take than one that is made now would; below 0: it does not fit. No partition is locked. */
int64_t tier_image_spare(struct tier *tier);

/* True if nothing can be demoted: the store is full or in error, or off, or there is none (NULL). maxmemory-policy decides then. */
bool tier_is_blocked(struct tier *tier);
/* Whether the key may be cold: it has no entry, the caller looked under the lock. Reads nothing, posts nothing. */
bool tier_may_be_cold(struct tier *tier, struct keyspace *keyspace, uint64_t hash, struct bytes key);
/* Bytes that the key will take in RAM when it is loaded, about (if it is compressed, by the mean ratio); of more than 4 MiB only these. 0: it certainly is not cold. Reads nothing. */
uint64_t tier_load_size(struct tier *tier, const struct keyspace *keyspace, uint64_t hash, struct bytes key) REQUIRES(keyspace->partition->lock);
/* Bytes of an average record, about. */
uint64_t tier_record_size(struct tier *tier);
/* Nothing was left to demote when the writer last looked, and memory has not grown by much since: waiting for memory is of no use. */
bool tier_is_stuck(struct tier *tier);
/* Bytes that demotion has freed since the start; whether the writer is at it: memory was over the high mark and is not yet below the low one. */
uint64_t tier_demoted_bytes(const struct tier *tier);
bool tier_is_demoting(const struct tier *tier);
/* Bytes by which the memtables of the store's index will still grow before they are written out and freed (a full one, and a quarter of the
 * next), but no more than what they have taken lately: nothing if only reads keep memory at its mark. Demotion fills them: if they counted only
 * as they grow, the memory that it frees would come in one piece, each time one is written out. */
uint64_t tier_memtable_room(const struct tier *tier);
/* The writer is asked to look at the memory now. */
void tier_nudge(struct tier *tier);

#endif
