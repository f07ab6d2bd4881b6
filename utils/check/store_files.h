/* Store files: the files of an image's store, verified without a store: its meta data, and the checksums of its key runs, with the ranges of store
 * keys that damaged blocks may have had. What the other runs have of such a range may be older than what was lost.
 */
#ifndef KELVIN_CHECK_STORE_FILES_H
#define KELVIN_CHECK_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "check.h"

struct store_key_range;

struct store_files {
    struct check *check;
    const char *image;
    const struct dataset_file *dataset;
    char dir[CHECK_PATH_SIZE];          /* the store's */
    bool damaged;
    struct store_key_range *ranges;
    size_t range_count;
    uint64_t checked_bytes;             /* of key runs so far */
};

/* `image` and `dataset` are borrowed until the release. */
void store_files_init(struct store_files *files, struct check *check, const char *image, const struct dataset_file *dataset);
void store_files_release(struct store_files *files);

/* Reports all damage, and sets `damaged`. */
void store_files_check(struct store_files *files);

/* Whether a damaged block may have had the store key. */
bool store_files_may_have_lost(const struct store_files *files, struct bytes key);

#endif
