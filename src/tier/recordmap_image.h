/* Recordmap image: a record map as bytes, for files: what it has in memory, so that loading it is copying, not adding each record.
 *
 *   image = head | words of each run u32... | words of each chunk u32... | chunks | twins         (multiples of 8 bytes, in the machine's own byte order)
 *   head  = primaries u64 | bytes of twins u64 | runs u32 | chunks u32 | twins u32 | tag shift u32
 *   twin  = tag u64 | place u64 | key size u64 | key | zeros up to a multiple of 8
 *
 * Runs and chunks are those of tier/tagrun.h and tier/shelf.h. An image has no checksum of its own.
 */
#ifndef KELVIN_TIER_RECORDMAP_IMAGE_H
#define KELVIN_TIER_RECORDMAP_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

struct recordmap;

/* Bytes of the whole image. */
uint64_t recordmap_image_size(const struct recordmap *map);

/* Appends the head, then in each further call some chunks, of 200 KiB at most, and at last the twins. The map must not change meanwhile. */
struct recordmap_image {
    const struct recordmap *map;
    uint32_t chunk;                 /* the next one */
    bool is_begun;
};
bool recordmap_image_write(struct recordmap_image *image, struct buffer *out);     /* false: that was all */

/* Fills an empty map, whose tag shift becomes that of the image. The image is at an address that is a multiple of 8, and a checksum was right; nevertheless nothing outside of it is read, and a
 * map that was loaded can be used, whatever the bytes are. NULL, or what is wrong: the map is empty again then. */
const char *recordmap_image_load(struct bytes image, struct recordmap *map);

#endif
