/* Segments: the records of cold keys, in files of about 64 MiB that are only appended to (a log-structured value store). The place
 * of each record is in the record map (tier/recordmap.h); the order of keys is in the key runs (store/key_runs.h).
 *
 *   place = slot 18 bits | unit 22 bits | kind 3 bits | class 4 bits          (0: not in a segment)
 *   slot: which segment; reused after the segment was removed. unit: where the record begins, in units of SEGMENT_UNIT bytes.
 *   kind: as in the record.
 *   class: the record takes at most 128 << class bytes in the segment; with SEGMENT_CLASS_HUGE it may be of any size.
 *
 * Tails: several segments are written at a time, each with records that are likely to die at about the same time (tier/tail.h), so that a segment
 * dies as a whole, or hardly at all, and little has to be moved.
 *
 * Life of a segment: a tail is written; it is sealed when it has `size_max` bytes, for an image, and around a huge record; settled when
 * its bytes are on the disk, and synced for an image; collected when few of its records are live (tier/collect.h); retired when none is;
 * freed when its last reader is done.
 *
 * Threads: functions without another note are called by the writer only. A place may be pinned under the lock of the partition whose map
 * has it: as long as a map has a place, its segment is not retired.
 *
 * Errors: a failed write stays pending and is tried again by the next segments_write; places do not change. A segment that could not be
 * synced is not settled until its bytes were written again (segments_sync).
 *
 * Missing segments: a file that is not there, or has a damaged head, when the segments are opened. A slot that a map refers to (segments_alive) is
 * not given to another segment as long as it does: reads of such a place are STATUS_CORRUPT, never another key's record.
 */
#ifndef KELVIN_STORE_SEGMENTS_H
#define KELVIN_STORE_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/disk.h"
#include "base/message.h"
#include "base/status.h"
#include "store/segment_record.h"

enum {
    PLACE_CLASS_BITS = 4,
    PLACE_UNIT_BITS = 22,
    PLACE_SLOT_BITS = 18,
    SEGMENT_CLASS_HUGE = 15,
    SEGMENT_TAILS = 10,
};

struct segments;
struct segment;

/* Places without bytes in a segment: no record begins in a segment's head. */
enum {
    PLACE_UNKNOWN = 0,          /* there is none yet */
    PLACE_NOWHERE = 1,          /* only the index has the key: what is in RAM is newer, and the record's bytes were given up (tier/stale.h) */
};

static inline bool place_is_in_segment(uint64_t place)
{
    return place > PLACE_NOWHERE;
}

static inline unsigned place_kind(uint64_t place)
{
    return (unsigned)(place >> PLACE_CLASS_BITS) & ((1u << SEGMENT_KIND_BITS) - 1);
}

/* Bytes from the place on that have the whole record, unless it is huge. */
static inline uint64_t place_size(uint64_t place)
{
    return 128ull << (place & ((1u << PLACE_CLASS_BITS) - 1));
}

static inline uint32_t place_slot(uint64_t place)
{
    return (uint32_t)(place >> (PLACE_UNIT_BITS + SEGMENT_KIND_BITS + PLACE_CLASS_BITS));
}

static inline uint32_t place_unit(uint64_t place)
{
    return (uint32_t)(place >> (SEGMENT_KIND_BITS + PLACE_CLASS_BITS)) & ((1u << PLACE_UNIT_BITS) - 1);
}

/* The place of a record that takes `size` bytes from `offset` on. */
uint64_t place_make(uint32_t slot, uint64_t offset, unsigned kind, uint64_t size);

struct segments_options {
    const char *dir;                /* exists; segments in it are opened, sealed and without live records */
    const struct disk *disk;
    uint64_t size_max;              /* bytes from which on a segment is sealed, at most 64 MiB; 0: 64 MiB */
    uint64_t descriptors_max;       /* with more than this open, no segment gets a second one for direct reads; 0: no limit */
    bool is_lazy;                   /* files are open only while they are read, and nothing is written */
};

enum status segments_open(const struct segments_options *options, struct segments **segments, struct message *message);
void segments_close(struct segments *segments);             /* nothing is pinned. NULL is fine */

/* --- writing --- */

/* Whether segments that are begun from now on are written past the page cache, where the file system can. Then they
 * leave no dirty pages: in a memory cgroup of version 1 a thread that needs a page, and finds only dirty ones whose writing has not begun, sleeps up to
 * 100 ms. And what was written is not cached. */
void segments_prefer_direct(struct segments *segments, bool prefers_direct);
/* Adds a record to what the next segments_write writes, at the end of a tail below SEGMENT_TAILS. Returns its place, which is live. Between two writes
 * a key is put at most once. `dictionary`: the number of the one that the record needs; 0: none. */
uint64_t segments_put(struct segments *segments, unsigned tail, uint32_t incarnation, unsigned kind, struct bytes key, struct bytes value,
    uint32_t dictionary);
/* Whether a record of any segment whose bytes are still there, live or dead, may need a dictionary. */
bool segments_may_need(const struct segments *segments, uint32_t dictionary);
/* Takes back the record that was put last, and not written yet. */
void segments_take_back(struct segments *segments, uint64_t place);
/* Bytes that are put and not written. */
size_t segments_pending(const struct segments *segments);
enum status segments_write(struct segments *segments);
/* Seals the tails that have `least` bytes, or a quarter of `size_max`, of which at most `percent` is live: as long as they are tails, this is not collected. */
void segments_seal_dying(struct segments *segments, unsigned percent, uint64_t least);
/* Seals the tails, so that all segments are files that do not change any more after the next segments_write. */
void segments_seal(struct segments *segments);
/* Writes what is pending and syncs all sealed segments. */
enum status segments_sync(struct segments *segments);
/* Waits until the bytes of a segment that was sealed a second ago or longer are on the disk (not durably: that is segments_sync), so that
 * reads of it may be direct. Called now and then; settles at most one that has to be waited for. */
enum status segments_settle(struct segments *segments);

/* --- reading: any thread --- */

/* Memory for direct reads, aligned; kept by a thread between reads. All zero: none. */
struct segment_buffer {
    char *data;
    size_t capacity;
};
void segment_buffer_release(struct segment_buffer *buffer);
/* At least `size` bytes at an aligned address; old contents are lost. */
char *segment_buffer_grow(struct segment_buffer *buffer, size_t size);

/* Under the lock of the partition whose map has the place, or by the writer. The segment stays readable until it is unpinned. */
struct segment *segments_pin(struct segments *segments, uint64_t place);
void segments_unpin(struct segment *segment);

/* Whether the place can be read. STATUS_NOT_FOUND: its bytes are not in the file yet. Its own key is found in RAM as long as that is so: any other
 * key that asks for it has no record. STATUS_CORRUPT: its segment is missing. */
enum status segment_check(const struct segment *segment, uint64_t place);
bool segment_is_lost(const struct segment *segment);        /* it is missing */

/* The bytes to read for a place that was checked: `size` bytes from `offset` on; the record begins `skip` bytes later. For a huge record
 * these are the first bytes only. */
struct segment_span {
    int fd;
    uint64_t offset;
    uint32_t size, skip;
    bool is_direct;             /* the file is open with O_DIRECT: address, offset and size have to be aligned to 4096 or 512 bytes; they are */
};
enum segment_access { SEGMENT_BUFFERED, SEGMENT_DIRECT };       /* direct where it is possible: the segment is settled, the file system can */
void segment_span_of(const struct segment *segment, uint64_t place, enum segment_access access, struct segment_span *span);
/* The same for one read of all records from place `first` to place `last` of a segment; the first begins `skip` bytes later. None is huge. */
void segment_span_between(const struct segment *segment, uint64_t first, uint64_t last, enum segment_access access, struct segment_span *span);
/* Where the record begins in its segment, in bytes. */
static inline uint64_t place_offset(uint64_t place)
{
    return (uint64_t)place_unit(place) * SEGMENT_UNIT;
}
/* Reads what a span has into `data`, which has room for it. `was_cached`: see segments_read. */
enum status segments_read_span(const struct segments *segments, const struct segment_span *span, char *data, struct bytes *read, bool *was_cached);
/* The record's value in what was read for a span. STATUS_NOT_FOUND: the record is another key's. STATUS_TRUNCATED: it is longer, and takes
 * `*size` bytes from its beginning on. */
enum status segment_value(const struct segment *segment, struct bytes read, uint32_t skip, uint32_t incarnation, struct bytes key,
    struct bytes *value, uint64_t *size);
/* Reads the value at a place, with as many reads as it takes; appended to `value`. Returns as segment_check or segment_value, or the read's error.
 * `was_cached`: whether a read through the cache was a hit; NULL: the caller does not want to know. */
enum status segments_read(struct segments *segments, struct segment *segment, uint64_t place, enum segment_access access,
    uint32_t incarnation, struct bytes key, struct segment_buffer *scratch, struct buffer *value, bool *was_cached);

/* --- live records: any thread --- */

/* Returns the weight of a record: about its bytes. */
static inline uint64_t place_weight(uint64_t place)
{
    return 96ull << (place & ((1u << PLACE_CLASS_BITS) - 1));
}
/* The sum over all live records. */
uint64_t segments_live_weight(const struct segments *segments);

/* Maps have places in a slot, with the sum of their weights: only for those that were in a map at the last image, before anything is put. False: the
 * segment is missing. */
bool segments_alive(struct segments *segments, uint32_t slot, uint64_t weight);
/* No map has the place any more. Nothing is done for places without bytes in a segment. */
void segments_dead(struct segments *segments, uint64_t place);

struct segments_stats {
    uint64_t count, bytes;              /* of files, pending bytes not counted */
    uint64_t live_bytes;                /* estimated by classes */
    uint64_t written_bytes;             /* since the store was opened */
    uint64_t linked_bytes;              /* of files that were removed since then, and had other links: an image still has them */
    uint64_t reads;                     /* by segments_read, begun since the store was opened */
};
void segments_measure(const struct segments *segments, struct segments_stats *stats);         /* any thread */

/* --- garbage collection --- */

/* A suspect segment; or the one with the smallest share of live bytes, if those that can be collected have less than `target_percent` together;
 * or a small one, if there are many of these; NULL: nothing has to be collected. Segments with a lower sequence than `first_sequence` are passed
 * over, unless they are suspect.
 *
 * What collection writes is bounded by what made the garbage: the smallest share is below the target then, so it writes at most
 * target / (100 - target) bytes for each byte that it frees. And merging small ones makes them fewer. A segment with one huge record is never
 * small: writing that record again would make another one like it. */
struct segment *segments_victim(struct segments *segments, unsigned target_percent, uint64_t first_sequence);
/* The one that was begun first, of those that can be collected; NULL: there is none. */
struct segment *segments_oldest(struct segments *segments);
bool segment_is_dead(const struct segment *segment);       /* no live records */
uint64_t segment_live_weight(const struct segment *segment);    /* the sum over its live records */
uint64_t segment_live_bytes(const struct segment *segment); /* about what it takes to write its live records again */
/* A sync of it failed, so it is the next victim: what it has may be lost, and segments_sync fails until its live records were written again. */
bool segment_is_suspect(const struct segment *segment);
/* Not collected again, unless it becomes suspect: a record of it is damaged. Of a suspect segment all records that can be read were
 * written again; it is not synced any more. */
void segment_spare(struct segment *segment);
/* Not collected for a second, and twice as long with each further call: a read of it failed, which may pass. */
void segment_put_off(struct segment *segment);
/* Removes the file. No map has a place in it. */
enum status segments_retire(struct segments *segments, struct segment *segment);
/* Retires all sealed segments without live records, the missing ones too; with the last of these, files with damaged heads are removed: before,
 * the records of missing segments may be found in them. Frees what was retired and has no readers. Only when all places of maps are alive. */
enum status segments_tidy(struct segments *segments);

/* Whether a footer is that of a file with one huge record: nothing else is in it. */
static inline bool segment_footer_is_of_one_huge(const struct segment_footer *footer)
{
    return footer->count == 1 && footer->weight == 96ull << SEGMENT_CLASS_HUGE;
}

/* Every record of a segment in order, marks, uses and the footer not among them. */
struct segment_walk {
    struct segments *segments;
    struct segment *segment;
    int fd;                             /* -1: it could not be opened */
    struct buffer bytes;                /* of the file, from `at` on */
    uint64_t at;
    size_t used;                        /* bytes of `bytes` that were walked over */
    bool is_at_end;
    uint64_t stamp;                     /* of the last record, as far as marks were read; at the end that of the footer, or UINT64_MAX if there is none */
};
void segment_walk_begin(struct segments *segments, struct segment *segment, struct segment_walk *walk);
void segment_walk_end(struct segment_walk *walk);
/* STATUS_NOT_FOUND: the end. STATUS_CORRUPT: some bytes are no record; the walk goes on after them. The record is valid until the next call. */
enum status segment_walk_next(struct segment_walk *walk, uint64_t *place, struct segment_record *record);
/* After STATUS_CORRUPT: where these bytes are, and what was read from there on. */
struct bytes segment_walk_damaged(const struct segment_walk *walk, uint64_t *offset);
/* The next record is the one at `unit`, which is not before what was read so far. What is skipped is not read. */
void segment_walk_seek(struct segment_walk *walk, uint32_t unit);
/* The segments in the order in which they were begun: the one after `segment`; NULL: the first, and after the last. */
struct segment *segments_next(struct segments *segments, const struct segment *segment);
bool segments_have_lost(const struct segments *segments);           /* some that maps refer to are missing; by the writer */

/* --- files --- */

uint32_t segment_slot(const struct segment *segment);
uint64_t segment_sequence(const struct segment *segment);           /* names the file */
uint64_t segment_size(const struct segment *segment);               /* bytes; by the writer */
uint64_t segments_next_sequence(const struct segments *segments);   /* of the next file, or stamp of the next mark; by the writer */
uint64_t segments_damaged_count(const struct segments *segments);   /* files that were left out when it was opened: their heads are damaged */

/* Whether a file, given by its name or path, is a segment. It never changes once it is sealed. */
bool segment_is_file(const char *path);

#ifdef __cplusplus
}
#endif
#endif
