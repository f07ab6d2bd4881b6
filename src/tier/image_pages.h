/* Image pages: values in pages (value/paged.h), read out of an image that no tier uses. Their roots are met by image_walk; their elements are read afterwards, one
 * value after the other.
 */
#ifndef KELVIN_TIER_IMAGE_PAGES_H
#define KELVIN_TIER_IMAGE_PAGES_H

#include "base/buffer.h"
#include "base/message.h"
#include "base/status.h"
#include "tier/image_walk.h"

/* Copies of the roots' records with their keys. All zero is empty. */
struct image_roots {
    struct image_root *list;
    size_t count, capacity;
    struct buffer text;
};
void image_roots_add(struct image_roots *roots, const struct image_item *item);
void image_roots_release(struct image_roots *roots);

/* Functions that are called for each value: once with its record and the beginning of its payload (value/codec.h: type and number of elements), then with the elements as in a
 * payload of that RDB type, some hundred KiB of whole ones at a time; of a stream with what comes after the nodes. A value that turns out to be damaged in the middle ends the reading. */
struct image_value_found {
    enum status (*begin)(void *context, const struct image_item *item, struct bytes payload);
    enum status (*more)(void *context, const struct image_item *item, uint8_t type, struct bytes elements);
    enum status (*end)(void *context, struct bytes bytes);
    void *context;
    uint64_t *times_dropped;        /* not NULL: times of fields are left out, and the hashes that have some counted */
};
/* All roots are of one database's incarnation. Status and message as of image_walk. */
enum status image_pages_read(struct store *store, const struct tags_file *tags, uint32_t incarnation, const struct image_roots *roots,
    const struct image_value_found *found, struct message *message);

#endif
