/* Image keys: the number of keys in an image, by database, from its `dataset` and its `tags`. Both are verified, and so are the small files
 * of its store. The tags are read in pieces, as they may be large. */
#ifndef KELVIN_PERSIST_IMAGE_KEYS_H
#define KELVIN_PERSIST_IMAGE_KEYS_H

#include <stdint.h>

#include "base/message.h"
#include "base/status.h"

struct image_keys {
    int db_count;
    uint64_t *counts;       /* by database */
};

/* On failure there is nothing to release. */
enum status image_keys_count(const char *image, struct image_keys *keys, struct message *message);
void image_keys_release(struct image_keys *keys);

#endif
