/* Recordmap changes: what has changed in a record map since a file was written that has all of it, its base.
 *
 * A bit for each of the 2^k equal ranges of tags, one or two for each record: a record that is added, moved or removed sets the bit of its range. So the
 * memory is known (a quarter of a byte a record at most), and nothing has to be taken back when an image fails. The changes are what the map has in
 * the ranges whose bit is set, all that has changed since the base.
 *
 *   changes = ranges u64 | range bits u32 | place size u32 | range... | zeros                     (multiple of 8 bytes, in the machine's own byte order)
 *   range   = number minus that of the range before (the first one's plus 1) | record... | 0
 *   record  = 2 * (tag minus the tag before, or the range's first tag) + 1 | place: place size bytes                             (a primary)
 *           | 2 | place: place size bytes | key size | key                                                                       (a twin)
 *
 * Numbers without a size have 7 bits a byte, the lowest first; the top bit says that another byte follows. A range has 2^(range bits) tags.
 */
#ifndef KELVIN_TIER_RECORDMAP_CHANGES_H
#define KELVIN_TIER_RECORDMAP_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/bytes.h"

struct recordmap;

/* The file that has the map as it was when noting began. */
struct recordmap_base {
    uint64_t number;            /* its name; 0: it is not written yet */
    uint64_t size, sum;         /* of its bytes; the sum is its CRC-64 */
    uint64_t spent;             /* bytes of changes that were written since */
};

/* Forgets what has changed, and begins to note. The map has records. */
void recordmap_watch(struct recordmap *map);
void recordmap_unwatch(struct recordmap *map);          /* no base, nothing is noted */
struct recordmap_base *recordmap_base(struct recordmap *map);   /* which the caller sets, all zero before; NULL: the map is not watched */

/* How many ranges have changed, and how many there are, of a map that is watched. */
uint64_t recordmap_changed_count(const struct recordmap *map);
uint64_t recordmap_range_count(const struct recordmap *map);

/* Appends the changes, some hundred ranges a call; it ends with the call that returns false. The buffer may be emptied between calls. The map must not
 * change meanwhile. */
struct recordmap_changes {
    const struct recordmap *map;
    uint64_t next, last;        /* ranges; the last is that of the one before + 1 */
    uint32_t place_size;
    uint64_t size;              /* bytes so far */
    bool is_begun;
};
bool recordmap_changes_write(struct recordmap_changes *changes, struct buffer *out);

/* Changes the map of the base to what it is with the changes. With `watches` it is watched from then on, since the base. Afterwards it has
 * `count_max` records at most. Nothing outside of the bytes is read, whatever they are. NULL, or what is wrong: the map is not to be used then. */
const char *recordmap_changes_load(struct bytes bytes, struct recordmap *map, uint64_t count_max, bool watches);

#endif
