/* Image pages: values in pages (value/paged.h), read out of an image that no tier uses. Their roots are met by image_walk; they are put together afterwards, one
 * after the other.
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

/* Calls `found` for each root: its record, and the value as codec_encode writes it. All are of one database's incarnation. The value is put together in memory. Status and message
 * as of image_walk. */
typedef enum status image_value_found(void *context, const struct image_item *item, struct bytes payload);
enum status image_pages_read(struct store *store, const struct tags_file *tags, uint32_t incarnation, const struct image_roots *roots, image_value_found *found,
    void *context, struct message *message);

#endif
