/* Usage: how many bytes of the disk the store and its images take together. */
#ifndef KELVIN_TIER_USAGE_H
#define KELVIN_TIER_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The files in `store` (their bytes in `own`), and in each directory in `images` (NULL: none), which are images, with their directories. A file with
 * several links counts once. Looks at each file: some milliseconds for a thousand. Files come and go meanwhile: about. */
uint64_t usage_measure(const char *store, const char *images, uint64_t *own);

/* When files were last added to these directories, or removed. A file that grows does not show. */
struct usage_times {
    int64_t store_ns, images_ns;
};
struct usage_times usage_times_of(const char *store, const char *images);

/* Owner: the writer, but for the atomics. */
struct store_size {
    uint64_t own;                       /* bytes of the store's files when they were measured */
    uint64_t segments_then, linked_then;    /* segments_stats.bytes and linked_bytes at that time */
    _Atomic uint64_t linked_at_image, linked_at_base;   /* segments_stats.linked_bytes when the last image, and the base image, were made */
};

struct tier;
/* The size was measured just now: statistics.store_bytes with images, `own` without. */
void usage_note_measured(struct tier *tier, uint64_t own);
/* False: segments have not grown, shrunk or lost a link since. */
bool usage_has_moved(const struct tier *tier);
/* Returns the size that was measured, with what segments have grown by, or shrunk, since. */
uint64_t usage_now(const struct tier *tier);
/* Returns the part of it that the store has, which deleting keys can make less. The rest is in images only. */
uint64_t usage_own(const struct tier *tier);
/* Returns the bytes of files that were removed since the base image was made, and that it still has. */
uint64_t usage_held(const struct tier *tier);
/* Returns segments_stats.linked_bytes. */
uint64_t usage_linked(const struct tier *tier);

#endif
