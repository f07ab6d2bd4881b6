/* Image keys: how many keys an image holds, by database, from its `dataset` and its `tags`; both are verified, and with them the small files of its
 * store.
 * The tags are read in pieces: they may be large. */
#ifndef KELVIN_PERSIST_IMAGE_KEYS_H
#define KELVIN_PERSIST_IMAGE_KEYS_H

#include <stdint.h>

#include "base/message.h"
#include "base/status.h"

struct image_keys {
    int db_count;
    uint64_t *counts;       /* by database */
};

/* On failure nothing is held. */
enum status image_keys_count(const char *image, struct image_keys *keys, struct message *message);
void image_keys_release(struct image_keys *keys);

#endif
