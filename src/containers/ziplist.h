/* Ziplist and zipmap: the formats of small collections in Redis before the listpack. Read only, from old dumps.
 *
 *   ziplist = size u32 | last element's offset u32 | count u16 | element ... | 0xff
 *   element = size of the one before (u8, or 0xfe and u32) | head | data
 *   zipmap  = count u8 | (size, key, size, unused u8, value, unused bytes) ... | 0xff
 *
 * (little-endian, except for the sizes in a ziplist's heads.) The bytes may come from outside: each step checks what it
 * reads. A reader borrows the bytes.
 */
#ifndef KELVIN_CONTAINERS_ZIPLIST_H
#define KELVIN_CONTAINERS_ZIPLIST_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/text.h"

/* All fields are private. */
struct ziplist_reader {
    struct bytes left;
    size_t count, announced, size_before, last_at, start_at;
};

/* STATUS_CORRUPT if the header is not valid. */
enum status ziplist_read(struct ziplist_reader *reader, struct bytes ziplist);
/* The next element as text; an integer is printed into `digits`. STATUS_NOT_FOUND after the last element, if everything
 * up to the end was valid. */
enum status ziplist_next(struct ziplist_reader *reader, struct bytes *element, char digits[TEXT_INT_SIZE]);

struct zipmap_reader {
    struct bytes left;
    size_t count, announced;
};

enum status zipmap_read(struct zipmap_reader *reader, struct bytes zipmap);
enum status zipmap_next(struct zipmap_reader *reader, struct bytes *key, struct bytes *value);

#endif
