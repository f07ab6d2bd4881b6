/* Damage: records that can't be read, as the operator learns of them. Every reader of records reports here: loads, look-ups, bulks and the
 * warm-up, garbage collection. The sentence names key, file and offset; dumps use the same one (tier/image_walk.c).
 *
 * A record that is damaged is logged when it is first found, and remembered until it is overwritten, deleted or moved. After an error of the
 * disk the next read may succeed, so that is not remembered. At most DAMAGE_LINES lines are logged at once, then one in DAMAGE_LINE_MS.
 *
 * Any thread.
 */
#ifndef KELVIN_TIER_DAMAGE_H
#define KELVIN_TIER_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/message.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/segments.h"

struct tier;

enum { DAMAGE_RECORDS_MAX = 4096, DAMAGE_LINES = 20, DAMAGE_LINE_MS = 10000, DAMAGE_KEY_SHOWN = 60 };

/* How many lines may be logged. All zero: as many as at the start. */
struct damage_lines {
    int64_t full_ms;                /* when the allowance is full again; in steps of DAMAGE_LINE_MS a line */
    uint64_t hidden;                /* lines that were not logged since the last one that was */
};
/* `*hidden`: lines that were left out before this one. */
bool damage_lines_take(struct damage_lines *lines, int64_t now_ms, uint64_t *hidden);

struct damaged_record {
    uint64_t hash, place, sequence; /* sequence: of its segment */
    uint32_t incarnation;
};
struct damage {
    struct mutex lock;              /* leaf, for all of these */
    struct damaged_record *records; /* NULL: there was none yet */
    size_t count;
    struct damage_lines lines;
    uint64_t base_sequence;         /* segments from this one on are not in the last checkpoint: the log has what is in them */
    uint64_t image_sequence;        /* the same for the image that was made last. The image's turn */
};
void damage_init(struct damage *damage);
void damage_release(struct damage *damage);
/* Another store takes the place of the one that was read. */
void damage_forget(struct damage *damage);
/* See damage.base_sequence. */
void damage_set_base(struct damage *damage, uint64_t sequence);
uint64_t damage_base(struct damage *damage);

/* A read that failed. */
struct failed_read {
    uint32_t incarnation;
    uint64_t hash, place;
    const struct segment *segment;  /* NULL: with place 0, or the segment is missing */
    struct bytes key;               /* without data: it is looked up in the index. Then the caller holds no lock */
    uint32_t dictionary;            /* the record is whole, but this dictionary, which it needs, can't be used; 0: that is not it */
};
/* Counts it, and sets tier_last_error; logs it if it is the first failed read of this record. STATUS_OK and STATUS_NOT_FOUND are no failures. */
void damage_note(struct tier *tier, const struct failed_read *read, enum status status);
/* Garbage collection has met bytes of a segment that are no record, `data` from `offset` on. If they show which key has its
 * record there, it is reported. Returns whether it was. No lock is held. */
bool damage_note_bytes(struct tier *tier, struct segment *segment, uint64_t offset, struct bytes data);

/* Damaged records that keys have; `newer` of these are in no checkpoint. Locks partitions. */
void damage_count(struct tier *tier, uint64_t *count, uint64_t *newer);

/* The sentence. `keys`: as damage_key has made them; `what`: what is wrong. */
void damage_text(struct message *message, struct bytes keys, const char *what, const struct segment *segment, uint64_t place);
/* Appends a key, in quotes and cut if it is long. */
void damage_key(struct buffer *text, uint32_t incarnation, struct bytes key);

#endif
