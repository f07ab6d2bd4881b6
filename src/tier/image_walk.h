/* Image walk: all records of a database in an image, which no tier uses. What is live is in the image's tags file: the segments have more.
 *
 * The segments are read from their beginning to their end, each once; what is not live is skipped. It takes 512 KiB of memory for each
 * segment of 64 MiB, but for at most 256 segments at a time: with more of them, the tags file is read several times.
 */
#ifndef KELVIN_TIER_IMAGE_WALK_H
#define KELVIN_TIER_IMAGE_WALK_H

#include "base/bytes.h"
#include "base/message.h"
#include "base/status.h"
#include "store/store.h"

struct tags_file;

struct image_item {
    uint64_t place;
    struct bytes key, record;       /* until the callback returns */
};
/* Any other status than STATUS_OK ends the walk, which returns it. */
typedef enum status image_item_found(void *context, const struct image_item *item);

/* Calls `found` for each live record of the incarnation, in the order of the segments.
 * `tags`: the tags file. `memory`: bytes for the segments that are read at a time; 0: 128 MiB. `store` is not written.
 * STATUS_CORRUPT: a live record is missing or damaged, or there are more records than tags, or the tags file is damaged. `message` says what
 * it is, with the key if the index has it; it is not set when `found` ends the walk. */
enum status image_walk(struct store *store, const struct tags_file *tags, uint32_t incarnation, size_t memory, image_item_found *found,
    void *context, struct message *message);

#endif
