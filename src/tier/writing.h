/* Writing: how the writer puts its batch into the store, and what follows when it can't: the states of the tier (enum tier_state).
 *
 * After an error all writing stops (TIER_ERROR). Each second what the store has not written is tried again; when it is writable, the failed batch is written
 * again.
 *
 * When the store has reached tier-max-size, or its disk was full (TIER_FULL), only clean keys are demoted, and removing goes on, until the store is
 * 5 % smaller and the disk has room for the reserve again (tier/reserve.h). A disk that gets full is an error first; the reserve is given up, and
 * then the store can be written again.
 *
 * The log is on the same disk (lifecycle/opening.h), and shares the reserve: it is given up when either can't be written. From then until it is
 * there again nothing that grows is admitted (tier_hooks.disk_is_full), nor demoted, and images are made only if what is dirty fits
 * (tier_image_has_room), so that what was set aside is left to what frees room: deletes in the log, graves, a checkpoint of what is left.
 *
 * Owner: the writer; every function is called by it, unless it says otherwise.
 */
#ifndef KELVIN_TIER_WRITING_H
#define KELVIN_TIER_WRITING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "store/store.h"
#include "tier/batch.h"
#include "tier/reserve.h"
#include "tier/usage.h"

struct tier;
struct tier_options;

struct writing {
    struct batch batch;                 /* what is about to be written */
    size_t buffer_size;                 /* the store's */
    struct reserve reserve;
    _Atomic bool disk_is_full;          /* the reserve was given up, and there is no room for it yet */
    int64_t restore_at_ms;              /* monotonic: the reserve is tried again */
    int64_t retry_at_ms, measure_at_ms, measured_ms;        /* monotonic */
    struct usage_times measured_times;      /* of the directories, just before they were measured */
};

/* `dir`: the store's, kept. */
struct writing *writing_create(const struct tier_options *options, const char *dir);
void writing_destroy(struct writing *writing);

/* Writes the batch. On an error it stays as it is, and the tier is in TIER_ERROR. A batch that failed before stays, too. */
void writing_commit(struct tier *tier);
/* Something else failed to be written. */
void writing_fail(struct tier *tier, enum status status);
/* TIER_ERROR: tries again, once a second. True if it is writable again, and what had failed is written. */
bool writing_recover(struct tier *tier);

/* Measures the store's size on the disk, now and then, if it may have changed. No lock is held: there may be many files. */
void writing_measure(struct tier *tier);
/* Enters or leaves TIER_FULL by the size. */
void writing_check_size(struct tier *tier);
/* The log is on the same disk. If that can't be written for lack of room, the reserve is given up for it, and the tier is full. */
void writing_help_log(struct tier *tier);
/* The size of the write buffer may have been changed by CONFIG SET. */
void writing_retune(struct tier *tier);

#endif
