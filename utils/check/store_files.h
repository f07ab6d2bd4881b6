/* Store files: the files of an image's store, verified without LevelDB. Which ones there have to be, the checksums of all of them, and the
 * ranges of store keys that damaged blocks may have had. What the other tables have of such a range may be older than what was lost.
 */
#ifndef KELVIN_CHECK_STORE_FILES_H
#define KELVIN_CHECK_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "check.h"
#include "version_file.h"

struct store_key_range;

struct store_files {
    struct check *check;
    const char *image;
    const struct dataset_file *dataset;
    char dir[CHECK_PATH_SIZE];          /* the store's */
    struct version_file version;
    char manifest[64];                  /* the name of the only MANIFEST; "": there is none, or more than one */
    bool damaged, current_is_bad, log_is_cut;
    struct store_key_range *ranges;
    size_t range_count;
    uint64_t checked_bytes;         /* of tables so far */
};

/* `image` and `dataset` are borrowed until the release. */
void store_files_init(struct store_files *files, struct check *check, const char *image, const struct dataset_file *dataset);
void store_files_release(struct store_files *files);

/* Reports all damage, and sets `damaged`, `current_is_bad` and `log_is_cut`. */
void store_files_check(struct store_files *files);

/* Whether a damaged block may have had the store key. */
bool store_files_may_have_lost(const struct store_files *files, struct bytes key);

#endif
