/* Dump image: the image that a dump or a full sync is written from, and what those two have in common.
 *
 * It is a directory in the store's own one, as links work within one mount of a file system only. Its owner removes it (tree_remove).
 */
#ifndef KELVIN_LIFECYCLE_DUMP_IMAGE_H
#define KELVIN_LIFECYCLE_DUMP_IMAGE_H

#include "base/message.h"
#include "base/status.h"
#include "persist/checkpoint.h"
#include "persist/rdb_save.h"

struct engine;

enum { DUMP_IMAGE_PATH_SIZE = 4096 + 64 };

/* At the start, once no other process can use the data directory: removes what a killed process has left. */
void dump_image_clean(struct engine *engine);

/* Takes an image and tells its path: `temp-<pid>` and `end`. As checkpoint_image; `message` says what is wrong with the store if it is in
 * error. */
enum status dump_image_take(struct engine *engine, const struct checkpoint_data *data, const char *end, char path[DUMP_IMAGE_PATH_SIZE],
    struct message *message);

/* Where such an image may be, in tier-dir: `temp-<number>` and `end`. */
void dump_image_path(struct engine *engine, uint64_t number, const char *end, char path[DUMP_IMAGE_PATH_SIZE]);

/* As the configuration says; without a file. */
struct rdb_save_options dump_image_options(struct engine *engine, const char *image);

#endif
