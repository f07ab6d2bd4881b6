/* Records of an image that was opened as a store, found by the tags file of the image. For tests; failures CHECK. */
#ifndef KELVIN_SUPPORT_IMAGE_RECORDS_H
#define KELVIN_SUPPORT_IMAGE_RECORDS_H

#include "base/buffer.h"
#include "store/store.h"
#include "tier/recordmap.h"

struct image_tag {
    uint32_t incarnation;
    uint64_t tag, place;
};

struct image_records {
    struct store *store;
    struct image_tag *tags;         /* sorted */
    size_t count, capacity;
    unsigned tag_shifts[2];         /* of the maps of keys, and of those of pages */
};

/* `image` is the directory with the tags file; `store` its store, opened by the caller. */
void image_records_open(struct image_records *records, const char *image, struct store *store);
void image_records_close(struct image_records *records);
/* Appends the record of the key. STATUS_NOT_FOUND: no place with its tag has it. */
enum status image_records_get(const struct image_records *records, uint32_t incarnation, uint64_t hash, struct bytes key, struct buffer *record);

#endif
