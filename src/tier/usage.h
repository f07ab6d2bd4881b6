/* Usage: how many bytes of the disk the store and its images take together. */
#ifndef KELVIN_TIER_USAGE_H
#define KELVIN_TIER_USAGE_H

#include <stdint.h>

/* The files in `store`, and in each directory in `images` (NULL: none), which are images, with their directories. A file with
 * several links counts once. Looks at each file: some milliseconds for a thousand. Files come and go meanwhile: about. */
uint64_t usage_measure(const char *store, const char *images);

#endif
